//! The state of open files, by which useless seeks and the order of requests are determined.

use super::quick::Map;
use crate::event::OpenId;

/// An open file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenFile {
    /// The offset; None if it is unknown.
    pub(super) offset: Option<u64>,
    /// Start and end of the last request, bytes.
    pub(super) last: Option<(u64, u64)>,
    /// Start and end of the last read, until the next write, bytes.
    pub(super) last_read: Option<(u64, u64)>,
    /// Whether the last seek has not been used yet.
    pub(super) has_seek: bool,
    /// Whether it was opened with `O_DIRECT`.
    pub(super) is_direct: bool,
}

/// The result of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seek {
    /// The seek did not move the offset.
    Still,
    /// The seek moved the offset, and the previous seek was useless.
    AfterUseless,
    /// The seek moved the offset.
    Moved,
}

impl OpenFile {
    /// A new open file of open(2).
    pub(super) fn new(is_direct: bool) -> Self {
        Self {
            offset: Some(0),
            last: Some((0, 0)),
            is_direct,
            ..Self::default()
        }
    }

    /// Sets the offset to `to`.
    pub(super) fn seek(&mut self, to: u64) -> Seek {
        if self.offset == Some(to) {
            return Seek::Still;
        }
        self.offset = Some(to);
        if std::mem::replace(&mut self.has_seek, true) {
            Seek::AfterUseless
        } else {
            Seek::Moved
        }
    }
}

/// All open files in use.
#[derive(Debug, Default)]
pub(super) struct Opens(Map<OpenId, OpenFile>);

impl Opens {
    /// The open file with this id. An unknown one was opened before the trace or before the
    /// selection; then the second value is true.
    pub(super) fn find_or_add(&mut self, id: OpenId) -> (&mut OpenFile, bool) {
        let mut is_new = false;
        let open = self.0.entry(id).or_insert_with(|| {
            is_new = true;
            OpenFile::default()
        });
        (open, is_new)
    }

    /// Adds an open file.
    pub(super) fn insert(&mut self, id: OpenId, open: OpenFile) {
        self.0.insert(id, open);
    }

    /// Removes an open file whose last descriptor was closed. Returns its state, if it was known.
    pub(super) fn remove(&mut self, id: OpenId) -> Option<OpenFile> {
        self.0.remove(&id)
    }
}
