//! What /proc knows of a process that ran before its trace began: its threads, its directory, what
//! it has open and where that stands.
//!
//! Asked just before strace attaches: what the process does in between is not known, so that an
//! offset may be behind until the first seek or read at a given place.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plimsoll_trace::constants::O_CLOEXEC;
use plimsoll_trace::kernel::{Birth, Kernel};

/// Tells `kernel` of a process. What may not be read, of another user's process, stays unknown.
pub(super) fn tell(kernel: &mut Kernel, pid: u32) {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if let Ok(directory) = fs::read_link(process.join("cwd")) {
        kernel.set_directory(pid, directory.as_os_str().as_bytes());
    }
    for number in numbers(&process.join("fd")) {
        let Ok(name) = fs::read_link(process.join(format!("fd/{number}"))) else {
            continue;
        };
        let about = fs::read_to_string(process.join(format!("fdinfo/{number}"))).unwrap_or_default();
        let flags = field(&about, "flags:").and_then(|flags| u64::from_str_radix(flags, 8).ok());
        let flags = flags.unwrap_or(0);
        let is_file = name.is_absolute();
        let offset = field(&about, "pos:").and_then(|offset| offset.parse().ok());
        let (name, offset) = (name.as_os_str().as_bytes(), offset.filter(|_| is_file));
        let marked = flags & O_CLOEXEC != 0;
        kernel.add_open_before(pid, number.cast_signed(), name, offset, flags, marked);
    }
    for tid in numbers(&process.join("task")) {
        kernel.add_thread(tid, pid, Birth::THREAD);
    }
}

/// Names of the entries that are numbers.
fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

fn field<'a>(about: &'a str, name: &str) -> Option<&'a str> {
    about
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.trim()))
}
