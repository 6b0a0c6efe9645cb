//! What an action needs or changes, for the order.

use plimsoll_trace::constants::{O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC, SEEK_END};
use plimsoll_trace::event::{Event, OpenId, PathId};
use plimsoll_trace::syscalls::Effect;

use super::Planner;
use super::calls::is_vfork;
use super::opens::Have;
use crate::action::{Action, Operation, mark};
use crate::order::Claim;

/// To the end of the file, wherever that is.
const END: u64 = u64::MAX;

impl Planner<'_> {
    pub(super) fn claim(&mut self, event: &Event, action: &Action) {
        if self.threads.len() == 1 {
            return;
        }
        match action.operation {
            Operation::Fork => self.claim_fork(event),
            Operation::Wait | Operation::Compute => self.claim_wait(event),
            Operation::Open | Operation::Memory => self.claim_open(event, action),
            Operation::Refuse => {}
            _ => {
                self.claim_names(event, action);
                self.claim_opens(event, action);
                self.claim_bytes(event, action);
            }
        }
    }

    fn claim_fork(&mut self, event: &Event) {
        let Some(child) = event.other.map(|child| child.index() as u32) else {
            return;
        };
        self.claims.push(Claim::Starts(child));
        if is_vfork(event) {
            self.claims.push(Claim::Lends(child));
        }
    }

    fn claim_wait(&mut self, event: &Event) {
        let bytes = event.outcome.value().unwrap_or(0).max(0).unsigned_abs();
        let (from, to) = (self.pipe(event.open), self.pipe(event.open2));
        match event.call.effect {
            Effect::Execute if event.outcome.value().is_some() => self.claims.push(Claim::Returns),
            Effect::Exit | Effect::Exited => self.claims.push(Claim::Returns),
            Effect::Wait => {
                let other = event.other.map(|other| Claim::Awaits(other.index() as u32));
                self.claims.extend(other);
            }
            Effect::Lock | Effect::Fcntl => {
                let file = event.file.map(|file| Claim::Locks(file.index() as u32));
                self.claims.extend(file);
            }
            Effect::Close | Effect::Released => self.claims.extend(from.map(Claim::Leaves)),
            Effect::Write => self.feeds(from, bytes),
            Effect::Read if event.outcome.value().is_some() => self.draws(from, bytes),
            Effect::Transfer if event.outcome.value().is_some() => {
                self.draws(from, bytes);
                self.feeds(to, bytes);
            }
            _ => {}
        }
    }

    fn pipe(&mut self, open: Option<OpenId>) -> Option<u32> {
        match self.opens.get(open?).have {
            Have::Pipe { pipe, .. } => Some(pipe),
            _ => None,
        }
    }

    fn feeds(&mut self, pipe: Option<u32>, bytes: u64) {
        if let Some(pipe) = pipe.filter(|_| bytes > 0) {
            self.claims.push(Claim::Feeds { pipe, bytes });
        }
    }

    fn draws(&mut self, pipe: Option<u32>, bytes: u64) {
        if let Some(pipe) = pipe {
            self.claims.push(Claim::Draws { pipe, bytes });
        }
    }

    fn claim_open(&mut self, event: &Event, action: &Action) {
        let flags = u64::from(action.flags);
        let done = event.outcome.value().is_some();
        if let Some(path) = event.path {
            let named = flags & O_CREAT != 0 && flags & O_TMPFILE != O_TMPFILE;
            let is_there = self.there.get(&path).copied().unwrap_or(false);
            let makes = done && named && (flags & O_EXCL != 0 || !is_there);
            self.claim_name(Some(path), makes);
            if done {
                self.there.insert(path, true);
            }
        }
        let open = event.open.filter(|_| done);
        self.claims.extend(open.map(|open| Claim::Makes(number(open))));
        if done && flags & O_TRUNC != 0 {
            self.writes(event.file.map(|file| file.index() as u32), 0, END);
        }
    }

    fn claim_name(&mut self, path: Option<PathId>, changes: bool) {
        let Some(path) = path else { return };
        let number = path.index() as u32;
        self.claims.push(if changes {
            Claim::Changes(number)
        } else {
            Claim::Names(number)
        });
    }

    fn claim_names(&mut self, event: &Event, action: &Action) {
        let done = event.outcome.value().is_some();
        let (changes, second) = match action.operation {
            Operation::Mkdir | Operation::Mkfifo | Operation::Symlink => (done, false),
            Operation::Unlink | Operation::Rmdir => (done, false),
            Operation::Rename => (done, true),
            Operation::Link => (false, true),
            _ => (false, false),
        };
        self.claim_name(action.path, changes);
        if second {
            self.claim_name(action.path2, done);
        }
        let gone = matches!(
            action.operation,
            Operation::Unlink | Operation::Rmdir | Operation::Rename
        );
        if let Some(path) = action.path.filter(|_| done && (gone || changes)) {
            self.there.insert(path, !gone);
        }
        if let Some(path) = action.path2.filter(|_| done && second) {
            self.there.insert(path, true);
        }
    }

    fn claim_opens(&mut self, event: &Event, action: &Action) {
        if action.path.is_none()
            && let Some(open) = action.open
        {
            let open = number(open);
            let moves =
                action.has(mark::MOVES) || matches!(action.operation, Operation::Seek | Operation::List);
            self.claims.push(if action.has(mark::LAST) {
                Claim::Ends(open)
            } else if moves {
                Claim::Moves(open)
            } else {
                Claim::Uses(open)
            });
        }
        if event.call.effect == Effect::Transfer
            && let Some(open) = action.open2
        {
            let open = number(open);
            self.claims.push(if action.has(mark::MOVES2) {
                Claim::Moves(open)
            } else {
                Claim::Uses(open)
            });
        }
    }

    fn claim_bytes(&mut self, event: &Event, action: &Action) {
        let file = event.file.map(|file| file.index() as u32);
        let done = event.outcome.value().unwrap_or(0).max(0).unsigned_abs();
        let (from, to) = range(action.offset, action.length.max(done));
        match action.operation {
            Operation::Read | Operation::Readv | Operation::Pread | Operation::Preadv => {
                self.reads(file, from, to)
            }
            Operation::Preadv2 | Operation::SendOut | Operation::Map => self.reads(file, from, to),
            Operation::Write | Operation::Writev | Operation::Pwrite | Operation::Pwritev => {
                self.writes(file, from, to);
            }
            Operation::Pwritev2 | Operation::Allocate => self.writes(file, from, to),
            Operation::TakeIn => {
                let (from, to) = range(action.offset2, done);
                self.writes(event.file2.map(|file| file.index() as u32), from, to);
            }
            Operation::Sendfile | Operation::CopyRange => {
                self.reads(file, from, to);
                let (from, to) = range(action.offset2, action.length.max(done));
                self.writes(event.file2.map(|file| file.index() as u32), from, to);
            }
            Operation::Truncate => self.writes(file, 0, END),
            Operation::Fsync | Operation::Fdatasync | Operation::SyncRange => self.reads(file, 0, END),
            Operation::Seek if u64::from(action.flags) >= SEEK_END => self.reads(file, 0, END),
            _ => {}
        }
    }

    fn reads(&mut self, file: Option<u32>, from: u64, to: u64) {
        if let Some(file) = file.filter(|_| from < to) {
            self.claims.push(Claim::Reads { file, from, to });
        }
    }

    fn writes(&mut self, file: Option<u32>, from: u64, to: u64) {
        if let Some(file) = file.filter(|_| from < to) {
            self.claims.push(Claim::Writes { file, from, to });
        }
    }
}

fn number(open: OpenId) -> u32 {
    open.index() as u32
}

/// All of the file where it is not known where.
fn range(offset: i64, length: u64) -> (u64, u64) {
    match u64::try_from(offset) {
        Ok(from) => (from, from.saturating_add(length)),
        Err(_) => (0, END),
    }
}
