//! Removal of the groups of processes that have ended without removing them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::group::remove;
use crate::hierarchy::hierarchies_of;

/// How long the removal of one group is tried.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);
const PREFIX: &str = "plimsoll-";

/// The name of a group of this process: with its PID, when it was started, and the namespace of the
/// PID, so that it is not taken for a group of another process.
pub(crate) fn own_name(number: u32) -> io::Result<String> {
    let pid = std::process::id();
    let started = started_at(pid)?;
    let namespace = pid_namespace()?;
    Ok(format!("{PREFIX}{pid}-{started}-{namespace}-{number}"))
}

/// Whether this is the name of a group that Plimsoll has created.
pub(crate) fn is_ours(name: &str) -> bool {
    parse(name).is_some()
}

/// Removes the groups whose process has ended, and kills what still runs in them: their guard was
/// killed. Returns the numbers of removed groups, and of those that could not be removed.
pub fn sweep() -> (usize, usize) {
    let mut counts = (0, 0);
    let (Ok(hierarchies), Ok(namespace)) = (hierarchies_of("self"), pid_namespace()) else {
        return counts;
    };
    for hierarchy in hierarchies {
        let above = hierarchy
            .own
            .ancestors()
            .take_while(|path| path.starts_with(&hierarchy.root));
        for parent in above {
            for name in names_in(parent) {
                let Some((pid, started, of)) = parse(&name) else {
                    continue;
                };
                if of != namespace || started_at(pid).is_ok_and(|now| now == started) {
                    continue;
                }
                if remove(&parent.join(&name), REMOVAL_TIMEOUT) {
                    counts.0 += 1;
                } else {
                    counts.1 += 1;
                }
            }
        }
    }
    counts
}

/// PID, start time and PID namespace in the name of a group.
fn parse(name: &str) -> Option<(u32, u64, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let found = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    );
    let _number: u32 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(found)
}

/// When a process was started, in ticks since boot.
fn started_at(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    text.rsplit(')')
        .next()
        .and_then(|rest| rest.split_ascii_whitespace().nth(19)?.parse().ok())
        .ok_or_else(|| io::Error::other("no start time"))
}

/// The number of the PID namespace of this process.
fn pid_namespace() -> io::Result<u64> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    link.to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .map_err(io::Error::other)
}

fn names_in(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_states_its_process() {
        let name = own_name(3).unwrap();
        let (pid, started, namespace) = parse(&name).unwrap();
        assert_eq!(pid, std::process::id());
        assert_eq!(started, started_at(pid).unwrap());
        assert_eq!(namespace, pid_namespace().unwrap());
        for other in [
            "plimsoll",
            "plimsoll-1-2-3",
            "plimsoll-1-2-3-4-5",
            "plimsoll-a-2-3-4",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
