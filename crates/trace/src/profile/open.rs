//! Open files: what the use of a seek and the order of requests are judged by.

use super::quick::Map;
use crate::event::OpenId;

/// One open file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    /// The offset; none where it is not known.
    pub(super) offset: Option<u64>,
    /// Where the last request began and ended.
    pub(super) last: Option<(u64, u64)>,
    /// What the last read has given, until the next write.
    pub(super) last_read: Option<(u64, u64)>,
    /// A seek waits for its use.
    pub(super) has_seek: bool,
    /// `O_DIRECT`.
    pub(super) is_direct: bool,
}

/// What a seek was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seek {
    /// It did not move the offset.
    Still,
    /// It moved it, and the seek before it was without use.
    AfterUseless,
    /// It moved it.
    Moved,
}

impl Open {
    /// As open(2) makes it.
    pub(super) fn new(is_direct: bool) -> Self {
        Self {
            offset: Some(0),
            last: Some((0, 0)),
            is_direct,
            ..Self::default()
        }
    }

    /// The offset was set to `to`.
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

/// All open files that are in use.
#[derive(Debug, Default)]
pub(super) struct Opens(Map<OpenId, Open>);

impl Opens {
    /// This open file. One that is not known was open before the trace, or before what was asked
    /// for of it: the second value says so.
    pub(super) fn used(&mut self, id: OpenId) -> (&mut Open, bool) {
        let mut is_new = false;
        let open = self.0.entry(id).or_insert_with(|| {
            is_new = true;
            Open::default()
        });
        (open, is_new)
    }

    /// It was opened.
    pub(super) fn opened(&mut self, id: OpenId, open: Open) {
        self.0.insert(id, open);
    }

    /// Its last descriptor was closed. Returned as it was then, if it was known.
    pub(super) fn closed(&mut self, id: OpenId) -> Option<Open> {
        self.0.remove(&id)
    }
}
