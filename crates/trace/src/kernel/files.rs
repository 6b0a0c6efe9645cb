//! Open files: what several descriptors may stand for.

use std::collections::HashMap;

/// Which open file, of all that a trace has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64);

/// What has been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// By a name.
    File,
    /// A socket, a pipe, and whatever else is no file.
    Other,
    /// It came from another process.
    Received,
    /// It was open before the trace began.
    Unknown {
        /// Of the thread that was seen to use it first.
        pid: u32,
        /// By this number.
        number: i32,
    },
}

/// An open file (open(2): "open file description").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// What it is.
    pub thing: Thing,
    /// Writes go to its end.
    pub appends: bool,
    /// Descriptors that stand for it, in all tables.
    pub held: u32,
}

impl OpenFile {
    pub(super) fn new(thing: Thing, appends: bool) -> Self {
        Self {
            thing,
            appends,
            held: 0,
        }
    }
}

/// The open files that there are. A number is never given out again, so that memory is that of those that are open at one time,
/// and whoever keeps a number of one that is closed cannot take another one for it.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: HashMap<FileId, OpenFile>,
    next: u64,
}

impl Files {
    /// One more, with one descriptor.
    pub(super) fn add(&mut self, file: OpenFile) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        self.open.insert(id, OpenFile { held: 1, ..file });
        id
    }

    pub(super) fn get(&self, id: FileId) -> Option<&OpenFile> {
        self.open.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut OpenFile> {
        self.open.get_mut(&id)
    }

    /// It has one descriptor more.
    pub(super) fn hold(&mut self, id: FileId) {
        if let Some(file) = self.open.get_mut(&id) {
            file.held += 1;
        }
    }

    /// It has one descriptor less; without any it is closed.
    pub(super) fn release(&mut self, id: FileId) {
        if let Some(file) = self.open.get_mut(&id) {
            file.held -= 1;
            if file.held == 0 {
                self.open.remove(&id);
            }
        }
    }
}
