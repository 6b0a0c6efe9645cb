//! State of the open files in the replay.

use plimsoll_trace::event::{OpenId, PathId};

/// State of an open file of the trace in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum OpenKind {
    /// No event has used it yet.
    #[default]
    Unmet,
    /// It is open in the replay.
    Real,
    /// Its name is ignored.
    Ignored,
    /// An end of a pipe. Its writers and readers wait for each other, but the pipe itself is not
    /// made.
    Pipe {
        /// Number of the pipe.
        pipe: u32,
        /// Whether it is the end for writing.
        writes: bool,
    },
    /// A named pipe, a socket or a device: not replayed.
    Foreign,
}

/// An open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFile {
    pub(super) open_kind: OpenKind,
    /// Offset before the next call, bytes; -1 if it is unknown.
    pub(super) position: i64,
    pub(super) appends: bool,
    /// Number of additional descriptors of dup.
    pub(super) duplicates: u32,
}

const UNMET: OpenFile = OpenFile {
    open_kind: OpenKind::Unmet,
    position: -1,
    appends: false,
    duplicates: 0,
};

/// All open files, by id.
#[derive(Debug, Default)]
pub(super) struct Opens {
    all: Vec<OpenFile>,
    before: Vec<(OpenId, PathId)>,
    pipes: u32,
}

impl Opens {
    pub(super) fn get(&mut self, id: OpenId) -> &mut OpenFile {
        let index = id.index();
        if index >= self.all.len() {
            self.all.resize(index + 1, UNMET);
        }
        &mut self.all[index]
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add_opened(&mut self, id: OpenId, open_kind: OpenKind, appends: bool) {
        *self.get(id) = OpenFile {
            open_kind,
            position: 0,
            appends,
            ..UNMET
        };
    }

    /// Adds a file that was open before the trace.
    pub(super) fn add_open_before(&mut self, id: OpenId, path: PathId) {
        self.get(id).open_kind = OpenKind::Real;
        self.before.push((id, path));
    }

    pub(super) fn add_pipe(&mut self, ends: [Option<OpenId>; 2]) {
        let pipe = self.pipes;
        self.pipes += 1;
        for (end, writes) in ends.into_iter().zip([false, true]) {
            if let Some(end) = end {
                self.get(end).open_kind = OpenKind::Pipe { pipe, writes };
            }
        }
    }

    pub(super) fn into_before(self) -> Vec<(OpenId, PathId)> {
        self.before
    }
}
