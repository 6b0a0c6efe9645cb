//! Imports the logs of a preload recording that was killed: its directory was not removed.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use plimsoll_preload_log::MAGIC;
use plimsoll_trace::header::Footer;
use plimsoll_trace::preload::Log;

use crate::error::{CaptureError, at};
use crate::{output, preload};

/// A remark for the user. [`Display`] formats it as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A recording with the same output was killed. Contains the directory with its logs.
    Abandoned(PathBuf),
    /// A process is still recorded, so the trace does not contain its further calls. Contains its
    /// id.
    StillRecorded(u32),
}

impl Display for Remark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned(directory) => {
                let path = directory.display();
                write!(
                    f,
                    "a recording that was killed has left its logs in {path}: import them with plimsoll trace import {path}, or remove the directory"
                )
            }
            Self::StillRecorded(pid) => write!(
                f,
                "process {pid} is still recorded: the trace does not contain its further calls"
            ),
        }
    }
}

/// The result of [`import`].
#[derive(Debug)]
pub struct ImportSummary {
    /// The footer of the trace file.
    pub footer: Footer,
    /// Remarks for the user.
    pub remarks: Vec<Remark>,
}

/// Finds the logs of the preload recorder among the given paths, which are files, or directories of
/// recordings. None if no path is or contains such a log. Otherwise all files are returned, as a
/// kill may have cut some of them.
///
/// # Errors
/// A directory cannot be read.
pub fn logs(given: &[PathBuf]) -> Result<Option<Vec<PathBuf>>, CaptureError> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let inner = path.join("logs");
            let directory = if inner.is_dir() { inner } else { path.clone() };
            files.extend(files_in(&directory)?);
        } else {
            files.push(path.clone());
        }
    }
    let is_log = |path: &PathBuf| first_bytes(path).is_some_and(|start| start == *MAGIC);
    // A kill may have left a log without its head, so one valid log suffices.
    let has_log = files.iter().any(is_log);
    Ok(has_log.then_some(files))
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    let entries = fs::read_dir(directory).map_err(at("reading", directory))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

fn first_bytes(path: &Path) -> Option<[u8; MAGIC.len()]> {
    let mut start = [0; MAGIC.len()];
    fs::File::open(path).ok()?.read_exact(&mut start).ok()?;
    Some(start)
}

/// Writes the trace file `output` from the logs of [`logs`]. A program that outlives its recorder
/// continues to write; its records until now are imported.
///
/// # Errors
/// A log cannot be read, has another version or is damaged, or the output cannot be written. An
/// existing output is not changed then.
pub fn import(output: &Path, paths: &[PathBuf]) -> Result<ImportSummary, CaptureError> {
    output::check(output, paths.iter().map(PathBuf::as_path))?;
    let read = |path: &PathBuf| fs::read(path).map_err(at("reading", path));
    let bytes = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut parsed = Vec::new();
    for (path, bytes) in paths.iter().zip(&bytes) {
        match Log::parse(bytes) {
            Ok(log) => parsed.push(log),
            // A log that a kill has cut in its head.
            Err(_) if !bytes.starts_with(MAGIC) => {}
            Err(source) => {
                let path = path.clone();
                return Err(CaptureError::Log { path, source });
            }
        }
    }
    let headless = (bytes.len() - parsed.len()) as u64;
    let command = parsed
        .iter()
        .filter_map(|log| Some((log.head.monotonic_ns, log.head.image.as_ref()?)));
    let command = command.min_by_key(|(since, _)| *since);
    let command = command.map_or_else(Vec::new, |(_, image)| preload::words(&image.command));
    let mut alive: Vec<u32> = parsed.iter().map(|log| log.head.pid).collect();
    alive.sort_unstable();
    alive.dedup();
    alive.retain(|&pid| writes_to(pid, paths));
    let footer = output::write(output, |file| {
        preload::convert(parsed, file, command, None, |footer| Footer {
            cut_lines: footer.cut_lines + headless,
            ..footer
        })
    })?;
    let remarks = alive.into_iter().map(Remark::StillRecorded).collect();
    Ok(ImportSummary { footer, remarks })
}

/// Whether the process has mapped one of the logs.
fn writes_to(pid: u32, paths: &[PathBuf]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut names = paths.iter().filter_map(|path| fs::canonicalize(path).ok());
    names.any(|path| maps.lines().any(|line| line.ends_with(&*path.to_string_lossy())))
}

/// Directories next to `output` of recorders that have ended: `.job.trace.4711`.
pub(crate) fn abandoned(output: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (output.parent(), output.file_name()) else {
        return Vec::new();
    };
    let start = format!(".{}.", name.to_string_lossy());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(&start));
            let has_ended = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
            pid.and_then(|pid| pid.parse().ok()).is_some_and(has_ended)
        })
        .map(|entry| entry.path())
        .filter(|path| path.join("logs").is_dir())
        .collect();
    directories.sort();
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_a_killed_recording_are_found_by_name_and_first_bytes() {
        let directory = std::env::temp_dir().join(format!("plimsoll-left-{}", std::process::id()));
        let output = directory.join("job.trace");
        // The maximum process id is 4,194,304. This process exists.
        let ended = directory.join(".job.trace.4999999");
        let names = [
            ".job.trace.4999999",
            ".job.trace.x",
            &format!(".job.trace.{}", std::process::id()),
        ];
        for name in names {
            fs::create_dir_all(directory.join(name).join("logs")).unwrap();
        }
        assert_eq!(abandoned(&output), std::slice::from_ref(&ended));
        assert_eq!(logs(std::slice::from_ref(&ended)).unwrap(), None);
        let [log, cut] = ["1-1-1.calls", "1-2-2.calls"].map(|name| ended.join("logs").join(name));
        fs::write(&log, b"plimcall and more").unwrap();
        fs::write(&cut, b"").unwrap();
        let both = Some(vec![log.clone(), cut]);
        assert_eq!(logs(std::slice::from_ref(&ended)).unwrap(), both);
        assert_eq!(logs(std::slice::from_ref(&log)).unwrap(), Some(vec![log]));
        fs::remove_dir_all(directory).unwrap();
    }
}
