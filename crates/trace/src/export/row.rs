//! An event as a row of a table: the columns of CSV and Parquet.

use crate::event::{Event, FileId, Outcome, PathId, ThreadId};
use crate::names::{Kind, Names};

/// The columns after that of the number of the event, in their order. A change requires a new
/// version of both formats.
pub(super) const COLUMNS: [&str; 28] = [
    "thread",
    "tid",
    "pid",
    "call",
    "start_ns",
    "duration_ns",
    "cpu_ns",
    "outcome",
    "value",
    "errno",
    "open",
    "open2",
    "file",
    "file_kind",
    "file_name",
    "file2",
    "file2_kind",
    "file2_name",
    "path",
    "path2",
    "offset",
    "offset2",
    "length",
    "flags",
    "mode",
    "other",
    "other_tid",
    "other_pid",
];

/// A file of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    pub id: FileId,
    pub kind: Kind,
    pub name: PathId,
}

/// A thread of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub id: ThreadId,
    pub tid: u32,
    pub pid: u32,
}

/// An event with the table entries of its ids. An entry is None if the event has no such id, or if
/// it is not in the tables.
pub(super) struct Row<'a> {
    pub event: &'a Event,
    pub thread: Option<Thread>,
    pub other: Option<Thread>,
    pub file: Option<File>,
    pub file2: Option<File>,
    pub value: Option<i64>,
    pub errno: Option<u16>,
}

impl<'a> Row<'a> {
    pub fn new(event: &'a Event, names: &Names) -> Self {
        let thread = |id: ThreadId| {
            let entry = names.threads().get(id.index())?;
            Some(Thread {
                id,
                tid: entry.tid,
                pid: entry.pid,
            })
        };
        let file = |id: FileId| {
            let entry = names.files().get(id.index())?;
            Some(File {
                id,
                kind: entry.kind,
                name: entry.path,
            })
        };
        Self {
            event,
            thread: thread(event.thread),
            other: event.other.and_then(thread),
            file: event.file.and_then(file),
            file2: event.file2.and_then(file),
            value: event.outcome.value(),
            errno: match event.outcome {
                Outcome::Failed(errno) => Some(errno),
                _ => None,
            },
        }
    }
}

/// The names of [`Outcome`].
pub(super) const OUTCOMES: [&str; 4] = ["returned", "failed", "restarted", "unknown"];

/// The index of the name in [`OUTCOMES`].
pub(super) fn outcome(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Returned(_) => 0,
        Outcome::Failed(_) => 1,
        Outcome::Restarted => 2,
        Outcome::Unknown => 3,
    }
}

/// The names of [`Kind`].
pub(super) const KINDS: [&str; 8] = [
    "file",
    "directory",
    "link",
    "device",
    "pipe",
    "socket",
    "memory",
    "other",
];

/// The index of the name in [`KINDS`].
pub(super) fn kind(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Link => 2,
        Kind::Device => 3,
        Kind::Pipe => 4,
        Kind::Socket => 5,
        Kind::Memory => 6,
        Kind::Other => 7,
    }
}
