//! Open files: what several descriptors may stand for.

use std::collections::HashMap;

use crate::event::{FileId, OpenId};
use crate::mixed::Mixed;

/// An open file (open(2): "open file description").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// Which file.
    pub file: FileId,
    /// Where the next read or write begins. None where that is not known, and of what has no
    /// offset.
    pub offset: Option<i64>,
    /// Writes go to its end.
    pub appends: bool,
    /// It was there before the trace began, or came from another process, and nothing has told its
    /// name yet.
    pub nameless: bool,
    /// Descriptors that stand for it, in all tables.
    pub held: u32,
}

impl OpenFile {
    pub(super) fn new(file: FileId) -> Self {
        Self {
            file,
            offset: Some(0),
            appends: false,
            nameless: false,
            held: 0,
        }
    }
}

/// The open files that there are. A number is never given out again, so that memory is that of
/// those that are open at one time, and whoever keeps a number of one that is closed cannot take
/// another one for it.
#[derive(Debug, Default)]
pub(super) struct Opens {
    open: HashMap<OpenId, OpenFile, Mixed>,
    next: usize,
    /// Those whose last descriptor has gone, since this was last taken.
    gone: Vec<(OpenId, FileId)>,
}

impl Opens {
    /// One more, with one descriptor. None past four thousand million.
    pub(super) fn add(&mut self, file: OpenFile) -> Option<OpenId> {
        let id = OpenId::new(self.next)?;
        self.next += 1;
        self.open.insert(id, OpenFile { held: 1, ..file });
        Some(id)
    }

    pub(super) fn get(&self, id: OpenId) -> Option<&OpenFile> {
        self.open.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: OpenId) -> Option<&mut OpenFile> {
        self.open.get_mut(&id)
    }

    /// It has one descriptor more.
    pub(super) fn hold(&mut self, id: OpenId) {
        if let Some(file) = self.open.get_mut(&id) {
            file.held += 1;
        }
    }

    /// It has one descriptor less; without any it is closed, and among those that are gone.
    pub(super) fn release(&mut self, id: OpenId) {
        if let Some(file) = self.close(id).filter(|file| file.held == 0) {
            self.gone.push((id, file.file));
        }
    }

    /// The same by its own close, which tells of it. Gives what is left of it.
    pub(super) fn close(&mut self, id: OpenId) -> Option<OpenFile> {
        let file = self.open.get_mut(&id)?;
        file.held -= 1;
        let left = *file;
        if left.held == 0 {
            self.open.remove(&id);
        }
        Some(left)
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    pub(super) fn take_gone(&mut self) -> Vec<(OpenId, FileId)> {
        std::mem::take(&mut self.gone)
    }
}
