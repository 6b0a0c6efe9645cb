//! Open files, to which one or more descriptors refer.

use std::collections::HashMap;

use crate::event::{FileId, OpenId};
use crate::hash::BuildMixer;

/// An open file (open(2): "open file description").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// The file.
    pub file: FileId,
    /// The offset of the next read or write. None if it is unknown, or if the file has no offset.
    pub offset: Option<i64>,
    /// Whether writes append (`O_APPEND`).
    pub appends: bool,
    /// Whether the path is unknown: the file was opened before the trace began or by another
    /// process.
    pub nameless: bool,
    /// Number of descriptors that refer to it, in all tables.
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

/// The open files that exist. Ids are not reused: memory is bounded by the number of files that are
/// open at the same time, and the id of a closed file never refers to another one.
#[derive(Debug, Default)]
pub(super) struct Opens {
    open: HashMap<OpenId, OpenFile, BuildMixer>,
    next: usize,
    /// The open files whose last descriptor was closed since this was last taken.
    released: Vec<(OpenId, FileId)>,
}

impl Opens {
    /// Adds an open file with one descriptor. None if the ids are exhausted (2³² − 1).
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

    /// Adds a descriptor to an open file.
    pub(super) fn hold(&mut self, id: OpenId) {
        if let Some(file) = self.open.get_mut(&id) {
            file.held += 1;
        }
    }

    /// Removes a descriptor. Without descriptors the file is closed and added to the released ones.
    pub(super) fn release(&mut self, id: OpenId) {
        if let Some(file) = self.close(id).filter(|file| file.held == 0) {
            self.released.push((id, file.file));
        }
    }

    /// Removes a descriptor by a close, which has an event of its own. Returns the remaining state.
    pub(super) fn close(&mut self, id: OpenId) -> Option<OpenFile> {
        let file = self.open.get_mut(&id)?;
        file.held -= 1;
        let remaining = *file;
        if remaining.held == 0 {
            self.open.remove(&id);
        }
        Some(remaining)
    }

    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    pub(super) fn take_released(&mut self) -> Vec<(OpenId, FileId)> {
        std::mem::take(&mut self.released)
    }
}
