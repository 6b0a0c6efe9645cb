//! What a root lacks for a replay, before it begins: `--check`, `--prepare`, `--clean`.
//!
//! The events of a trace are walked over a simulated file system, which is laid over the real one
//! below the root. Where a call would not end as it has, the cause is found: what is missing, must
//! not be there, is too small, cannot be read. What originally failed must fail, and what succeeded
//! must succeed. Consequences are not reported: one finding for a file, however many calls read it,
//! and those of a missing directory count to it.
//!
//! It does not see: extended attributes, the entries that listings return, files that are larger
//! than they were (all that was read is there), and what execve(2) reads, as a replay executes
//! nothing.

mod beneath;
mod clean;
mod disk;
mod evidence;
mod fill;
mod manifest;
mod prepare;
mod report;
mod tree;
mod walk;

use std::io;

use plimsoll_trace::event::Event;
use plimsoll_trace::names::Names;

pub use beneath::Beneath;
pub use clean::{Cleaned, LeftName, Why, clean, reset};
pub use disk::{Disk, DiskEntry, Kind};
pub use fill::Fill;
pub use manifest::{FORMAT, Manifest, NAME};
pub use prepare::{PrepareError, PrepareOptions, Prepared, prepare};
pub use report::{Created, Finding, Need, Report, Unexplained, What};
pub use walk::Walk;

use crate::names::{Copy, Links, Table};

/// Which files of a trace are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A job's own, or those that all jobs share: they lie beneath different roots.
    pub copy: Copy,
    /// Jobs may change what they share.
    pub may_write_shared: bool,
}

impl Default for Options {
    /// A job's own files.
    fn default() -> Self {
        Self {
            copy: Copy::Private,
            may_write_shared: false,
        }
    }
}

/// Why a root could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Something beneath it cannot be looked at.
    #[error(
        "cannot look at {path} beneath the root: {source}. Give this process the right to, or choose another root"
    )]
    Disk {
        /// Beneath the root.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Walks over all events at once: [`Walk`] takes them one by one.
pub fn check<'a, D: Disk>(
    events: impl IntoIterator<Item = &'a Event>,
    names: &Names,
    table: &Table,
    links: &Links,
    disk: &D,
    options: Options,
) -> Result<Report, CheckError> {
    let mut walk = Walk::new(table, names, links, disk, options);
    for event in events {
        walk.event(event);
    }
    walk.end()
}

#[cfg(test)]
mod tests;
