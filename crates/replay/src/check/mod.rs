//! The check of a root before a replay: `--check`, `--prepare`, `--clean`.
//!
//! The events of a trace are applied to a simulated file system, which is an overlay of the real
//! one below the root. If a call would not end as recorded, the cause is determined: a file is
//! missing, must not exist, is too small, or cannot be read. A call that failed must fail, and a
//! call that succeeded must succeed. Consequences are not reported: a file has one finding for all
//! its calls, and findings within a missing directory belong to that directory.
//!
//! The check ignores: extended attributes, the entries that listings return, files that are larger
//! than recorded (all bytes that were read exist), and the files that execve(2) reads, because a
//! replay executes no program.

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
pub use clean::{CleanResult, LeftName, Why, clean, reset};
pub use disk::{Disk, DiskEntry, Kind};
pub use fill::Fill;
pub use manifest::{FORMAT, Manifest, NAME};
pub use prepare::{PrepareError, PrepareOptions, PrepareResult, prepare};
pub use report::{CreatedName, Finding, Report, Requirements, UnexplainedCall, What};
pub use walk::Walk;

use crate::names::{Copy, Links, Table};

/// Selection of the files that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The private files of a job, or the files that all jobs share: they are beneath different
    /// roots.
    pub copy: Copy,
    /// Whether jobs may change shared files.
    pub may_write_shared: bool,
}

impl Default for Options {
    /// The private files of a job.
    fn default() -> Self {
        Self {
            copy: Copy::Private,
            may_write_shared: false,
        }
    }
}

/// Reason why a root could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file beneath the root cannot be read.
    #[error(
        "cannot read {path} beneath the root: {source}. Give this process the right to read it, or \
         choose another root"
    )]
    Disk {
        /// Path beneath the root.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Checks all events at once. [`Walk`] accepts them one by one.
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
