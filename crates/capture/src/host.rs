//! Facts about this host and its processes that both recorders need.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Reads the current target of a symbolic link, because the recorders do not write the contents of
/// buffers.
pub(crate) fn read_link(path: &[u8]) -> Option<Vec<u8>> {
    let target = std::fs::read_link(OsStr::from_bytes(path)).ok()?;
    Some(target.into_os_string().into_vec())
}

/// The exit status of a program, or the negative number of the signal that ended it.
pub(crate) fn exit_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}
