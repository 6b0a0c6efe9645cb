//! Finds the process to watch by its PID, by the name of its program, or by its systemd unit.

use std::fs;
use std::path::Path;

use plimsoll_model::{HostWatch, Watch};

/// Why a process to watch is not found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    /// The watched process of this name has none or several of PID, program and unit.
    #[error("{0}: specify exactly one of pid, process and unit")]
    Ambiguous(String),
    /// No process has this PID.
    #[error("there is no process {0}")]
    NoPid(u32),
    /// No process runs a program of this name.
    #[error("there is no process called {0}")]
    NoProgram(String),
    /// No process belongs to this systemd unit.
    #[error("there is no process of unit {0}")]
    NoUnit(String),
}

/// Finds the root of the process tree that `wanted` describes.
///
/// # Errors
/// [`FindError`].
pub(crate) fn find_in(proc: &Path, wanted: &HostWatch) -> Result<Watch, FindError> {
    let (pid, error) = match (wanted.pid, &wanted.process, &wanted.unit) {
        (Some(pid), None, None) => (
            proc.join(pid.to_string()).exists().then_some(pid),
            FindError::NoPid(pid),
        ),
        (None, Some(name), None) => (
            eldest(proc, |pid| is_called(proc, pid, name)),
            FindError::NoProgram(name.clone()),
        ),
        (None, None, Some(unit)) => (
            eldest(proc, |pid| is_of_unit(proc, pid, unit)),
            FindError::NoUnit(unit.clone()),
        ),
        _ => return Err(FindError::Ambiguous(wanted.name.clone())),
    };
    let pid = pid.ok_or(error)?;
    Ok(Watch {
        name: wanted.name.clone(),
        pid,
        cpus: Vec::new(),
    })
}

/// The matching process that started first: a server starts before its workers.
fn eldest(proc: &Path, is_match: impl Fn(u32) -> bool) -> Option<u32> {
    let entries = fs::read_dir(proc).ok()?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| is_match(pid))
        .min_by_key(|&pid| (start_ticks(proc, pid), pid))
}

/// Compares the first 15 bytes, because the kernel stores only these of a program's name.
fn is_called(proc: &Path, pid: u32, name: &str) -> bool {
    let comm = fs::read(proc.join(format!("{pid}/comm"))).unwrap_or_default();
    comm.trim_ascii_end() == &name.as_bytes()[..name.len().min(15)]
}

fn is_of_unit(proc: &Path, pid: u32, unit: &str) -> bool {
    let name = if unit.contains('.') {
        unit.to_owned()
    } else {
        format!("{unit}.service")
    };
    let groups = fs::read_to_string(proc.join(format!("{pid}/cgroup"))).unwrap_or_default();
    groups
        .lines()
        .any(|line| line.split('/').any(|part| part == name))
}

/// Start time in ticks since boot: field 22 of `/proc/PID/stat`. The fields are counted after the
/// last bracket, because the name may contain spaces and brackets.
fn start_ticks(proc: &Path, pid: u32) -> u64 {
    let stat = fs::read_to_string(proc.join(format!("{pid}/stat"))).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = fields.split_ascii_whitespace().nth(19);
    field.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    fn find(wanted: &HostWatch) -> Result<Watch, FindError> {
        find_in(Path::new("/proc"), wanted)
    }

    fn watch(pid: Option<u32>, process: Option<&str>, unit: Option<&str>) -> HostWatch {
        HostWatch {
            name: "db".into(),
            pid,
            process: process.map(str::to_owned),
            unit: unit.map(str::to_owned),
        }
    }

    #[test]
    fn a_process_is_found_by_its_pid_and_by_its_name() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // `spawn` returns when the child has released the memory of this process. The kernel sets
        // the new name after that. A child that has responded has its new name.
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(
            find(&watch(Some(child.id()), None, None)).unwrap().pid,
            child.id()
        );
        assert!(find(&watch(None, Some("cat"), None)).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        let error = find(&watch(Some(child.id()), None, None))
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is no process"), "{error}");
        assert!(find(&watch(None, Some("no-such-name"), None)).is_err());
        assert_eq!(
            find(&watch(Some(1), Some("init"), None)).unwrap_err(),
            FindError::Ambiguous("db".into())
        );
    }

    #[test]
    fn the_first_process_of_a_name_or_unit_is_the_root() {
        let proc = std::env::temp_dir().join(format!("plimsoll-find-{}", std::process::id()));
        let put = |pid: u32, comm: &str, began: u64, group: &str| {
            let own = proc.join(pid.to_string());
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("comm"), format!("{comm}\n")).unwrap();
            let zeros = "0 ".repeat(18);
            fs::write(own.join("stat"), format!("{pid} (a) b) S {zeros}{began} 0")).unwrap();
            fs::write(own.join("cgroup"), format!("0::/system.slice/{group}\n")).unwrap();
        };
        put(30, "postgres", 500, "postgresql.service");
        put(20, "postgres", 900, "postgresql.service");
        put(10, "prometheus-node", 100, "x.service");
        let pid = |wanted| find_in(&proc, &wanted).map(|watch| watch.pid);
        assert_eq!(pid(watch(None, Some("postgres"), None)), Ok(30));
        assert_eq!(pid(watch(None, None, Some("postgresql"))), Ok(30));
        assert_eq!(pid(watch(None, None, Some("x.service"))), Ok(10));
        assert_eq!(pid(watch(None, Some("prometheus-node-exporter"), None)), Ok(10));
        assert!(pid(watch(None, None, Some("postgres"))).is_err());
        fs::remove_dir_all(&proc).unwrap();
    }
}
