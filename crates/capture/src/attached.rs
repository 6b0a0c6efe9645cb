//! Reads from /proc the state of a process that ran before its trace began: its threads, its
//! directory, its open files and their positions.
//!
//! It is read immediately before strace attaches. The calls in between are unknown, so an offset
//! may be wrong until the first seek, or the first read at an explicit offset.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plimsoll_trace::constants::O_CLOEXEC;
use plimsoll_trace::kernel::{Birth, Kernel};

/// Adds a process to `kernel`. Facts that may not be read, of a process of another user, stay
/// unknown.
pub(crate) fn add_process(kernel: &mut Kernel, pid: u32) {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if let Ok(directory) = fs::read_link(process.join("cwd")) {
        kernel.set_directory(pid, directory.as_os_str().as_bytes());
    }
    for number in numbers(&process.join("fd")) {
        let Ok(name) = fs::read_link(process.join(format!("fd/{number}"))) else {
            continue;
        };
        let fdinfo = fs::read_to_string(process.join(format!("fdinfo/{number}"))).unwrap_or_default();
        let flags = field(&fdinfo, "flags:").and_then(|flags| u64::from_str_radix(flags, 8).ok());
        let flags = flags.unwrap_or(0);
        let is_file = name.is_absolute();
        let offset = field(&fdinfo, "pos:").and_then(|offset| offset.parse().ok());
        let (name, offset) = (name.as_os_str().as_bytes(), offset.filter(|_| is_file));
        let marked = flags & O_CLOEXEC != 0;
        kernel.add_open_before(pid, number.cast_signed(), name, offset, flags, marked);
    }
    for tid in numbers(&process.join("task")) {
        kernel.add_thread(tid, pid, Birth::THREAD);
    }
}

/// The entries of a directory whose names are numbers, in order.
fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn field<'a>(fdinfo: &'a str, name: &str) -> Option<&'a str> {
    fdinfo
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.trim()))
}
