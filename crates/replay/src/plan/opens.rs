//! Open files, as far as the replay has them.

use plimsoll_trace::event::{OpenId, PathId};

/// What an open file of the trace is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Have {
    /// Not met yet.
    #[default]
    Unmet,
    /// Open.
    Real,
    /// Its name is ignored.
    Ignored,
    /// An end of a pipe, whose writers and readers wait for each other; the pipe itself is not
    /// there.
    Pipe {
        /// Which.
        pipe: u32,
        /// The end that is written to.
        writes: bool,
    },
    /// A pipe with a name, a socket, a device: nothing.
    Foreign,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFile {
    pub(super) have: Have,
    /// Where it stands here before the next call; -1 where that is not known.
    pub(super) position: i64,
    pub(super) appends: bool,
    /// Descriptors that dup has made.
    pub(super) duplicates: u32,
}

const UNMET: OpenFile = OpenFile {
    have: Have::Unmet,
    position: -1,
    appends: false,
    duplicates: 0,
};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Opens {
    all: Vec<OpenFile>,
    before: Vec<(OpenId, PathId)>,
    pipes: u32,
}

impl Opens {
    pub(super) fn get(&mut self, id: OpenId) -> &mut OpenFile {
        let at = id.index();
        if at >= self.all.len() {
            self.all.resize(at + 1, UNMET);
        }
        &mut self.all[at]
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add_opened(&mut self, id: OpenId, have: Have, appends: bool) {
        *self.get(id) = OpenFile {
            have,
            position: 0,
            appends,
            ..UNMET
        };
    }

    /// It was there before the trace.
    pub(super) fn add_open_before(&mut self, id: OpenId, path: PathId) {
        self.get(id).have = Have::Real;
        self.before.push((id, path));
    }

    pub(super) fn add_pipe(&mut self, ends: [Option<OpenId>; 2]) {
        let pipe = self.pipes;
        self.pipes += 1;
        for (end, writes) in ends.into_iter().zip([false, true]) {
            if let Some(end) = end {
                self.get(end).have = Have::Pipe { pipe, writes };
            }
        }
    }

    pub(super) fn into_before(self) -> Vec<(OpenId, PathId)> {
        self.before
    }
}
