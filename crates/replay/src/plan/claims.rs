//! The claims of an action: the resources that it uses or changes.

use plimsoll_trace::constants::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, O_CREAT, O_EXCL, O_TMPFILE,
    O_TRUNC, SEEK_END,
};
use plimsoll_trace::event::{Event, Futex, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::syscalls::Effect;

use super::Planner;
use super::calls::is_vfork;
use super::opens::OpenKind;
use crate::action::{Action, Operation, mark};
use crate::order::Claim;

/// End of a range up to the end of the file.
const END: u64 = u64::MAX;
const ENOTEMPTY: u16 = 39;
/// The attributes of a file are claimed as another file, with this number added.
const ATTRIBUTES: u32 = 1 << 31;

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
                self.claim_attributes(event, action);
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
            Effect::Exit | Effect::Exited => {
                self.claims.push(Claim::Returns);
                let end = self.end_of(event.thread);
                self.claims.extend(end);
            }
            Effect::Wait => {
                let claim = self.claim_end(event);
                self.claims.extend(claim);
            }
            Effect::Lock | Effect::Fcntl => {
                let file = event.file.map(|file| Claim::Locks(file.index() as u32));
                self.claims.extend(file);
            }
            Effect::Close | Effect::Released => self.claims.extend(from.map(Claim::Leaves)),
            Effect::Write => self.claim_feed(from, bytes),
            Effect::Read if event.outcome.value().is_some() => self.claim_draw(from, bytes),
            Effect::Transfer if event.outcome.value().is_some() => {
                self.claim_draw(from, bytes);
                self.claim_feed(to, bytes);
            }
            _ => {}
        }
    }

    /// A process ends with its first thread, and its parent may wait for that.
    fn end_of(&self, thread: ThreadId) -> Option<Claim> {
        let thread = self.trace.threads().get(thread.index())?;
        Some(if thread.tid == thread.pid {
            Claim::Departs(self.process(thread.parent?)?)
        } else {
            Claim::Parts(thread.pid)
        })
    }

    /// The claim for the event that ends a wait.
    fn claim_end(&self, event: &Event) -> Option<Claim> {
        if let Some(child) = event.other {
            return Some(Claim::Awaits(child.index() as u32));
        }
        let process = self.process(event.thread)?;
        // Shells wait in this way. The trace does not contain that the signal was SIGCHLD, nor the
        // child.
        if matches!(event.call.name, "rt_sigsuspend" | "pause") {
            return Some(Claim::Heeds(process));
        }
        let futex = event.futex()?;
        let address = event.offset?.cast_unsigned();
        let count = u32::try_from(event.outcome.value()?).ok()?;
        match futex {
            Futex::Sleeps => Some(Claim::Woken { process, address }),
            Futex::Wakes => (count > 0).then_some(Claim::Wakes {
                process,
                address,
                count,
            }),
        }
    }

    fn pipe(&mut self, open: Option<OpenId>) -> Option<u32> {
        match self.opens.get(open?).open_kind {
            OpenKind::Pipe { pipe, .. } => Some(pipe),
            _ => None,
        }
    }

    fn claim_feed(&mut self, pipe: Option<u32>, bytes: u64) {
        if let Some(pipe) = pipe.filter(|_| bytes > 0) {
            self.claims.push(Claim::Feeds { pipe, bytes });
        }
    }

    fn claim_draw(&mut self, pipe: Option<u32>, bytes: u64) {
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
        self.claim_attributes(event, action);
        let open = event.open.filter(|_| done);
        self.claims.extend(open.map(|open| Claim::Makes(number(open))));
        if done && flags & O_TRUNC != 0 {
            let file = event.file.map(|file| file.index() as u32);
            self.claim_write(file, 0, END);
            self.reach.extend(file.map(|file| (file, 0)));
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
        // Whether a directory was empty depends on all names that were made in it.
        let was_full = event.outcome == Outcome::Failed(ENOTEMPTY);
        let done = event.outcome.value().is_some() || was_full;
        let (changes, second) = match action.operation {
            Operation::Mkdir
            | Operation::Mkfifo
            | Operation::Symlink
            | Operation::Unlink
            | Operation::Rmdir => (done, false),
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
        if was_full {
            return;
        }
        if done && action.operation == Operation::Rename {
            // If it is a directory, the names beneath it have moved.
            self.there.clear();
        }
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
            let uses_offset = matches!(
                action.operation,
                Operation::Seek | Operation::List | Operation::Dup | Operation::Close
            );
            let moves = action.has(mark::MOVES) || uses_offset;
            self.claims.push(if action.has(mark::LAST) {
                Claim::Ends(open)
            } else if moves {
                Claim::Moves(open)
            } else {
                Claim::Uses(open)
            });
        }
        if matches!(event.call.effect, Effect::Transfer | Effect::Ioctl)
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
        let file2 = event.file2.map(|file| file.index() as u32);
        let done = event.outcome.value().unwrap_or(0).max(0).unsigned_abs();
        // The action has an offset even if the trace has none: the position of appended data is
        // unknown.
        let (from, to) = range(event.offset.unwrap_or(-1), action.length.max(done));
        match action.operation {
            Operation::Sendfile | Operation::CopyRange => {
                self.claim_read(file, from, to);
                let (from, to) = range(action.offset2, done);
                self.claim_extension(file2, from, to);
            }
            Operation::Clone => {
                let length = if action.length > 0 { action.length } else { END };
                let (from, to) = range(action.offset, length);
                self.claim_read(file, from, to);
                let (from, to) = range(action.offset2, length);
                self.claim_extension(file2, from, to);
            }
            Operation::TakeIn => {
                let (from, to) = range(action.offset2, done);
                self.claim_extension(file2, from, to);
            }
            Operation::Truncate => {
                self.claim_write(file, 0, END);
                if let Some(file) = file.filter(|_| event.outcome.value().is_some()) {
                    self.reach.insert(file, action.length);
                }
            }
            Operation::Fsync | Operation::Fdatasync | Operation::SyncRange => self.claim_read(file, 0, END),
            Operation::Seek if u64::from(action.flags) >= SEEK_END => self.claim_read(file, 0, END),
            Operation::Allocate => self.claim_allocation(event, file, from, to),
            operation if operation.reads() => {
                self.claim_read(file, from, to);
                if let Some(file) = file.filter(|_| done > 0 && to < END) {
                    let reach = self.reach.entry(file).or_default();
                    *reach = from.saturating_add(done).max(*reach);
                }
            }
            // Nothing was written, so the file is not longer.
            operation if operation.writes() && done == 0 => {}
            operation if operation.writes() => {
                let appends = event.open.is_some_and(|open| self.opens.get(open).appends);
                // Appended data follow the last byte of the file.
                let from = if appends { from.saturating_sub(1) } else { from };
                self.claim_extension(file, from, to);
            }
            _ => {}
        }
    }

    fn claim_allocation(&mut self, event: &Event, file: Option<u32>, from: u64, to: u64) {
        let mode = event.flags.unwrap_or(0);
        if event.outcome.value().is_none() {
            // Nothing has changed, but the contents of the file may be the cause.
            self.claim_read(file, 0, END);
        } else if mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE) != 0 {
            // All data after the range are moved, and their size is unknown.
            self.claim_write(file, 0, END);
            if let Some(file) = file {
                self.reach.remove(&file);
            }
        } else if mode & FALLOC_FL_KEEP_SIZE != 0 {
            self.claim_write(file, from, to);
        } else {
            self.claim_extension(file, from, to);
        }
    }

    /// A write, which may make a file longer. If it begins after the end, the bytes between become
    /// readable as well.
    fn claim_extension(&mut self, file: Option<u32>, from: u64, to: u64) {
        // A call that moved no bytes has not made the file longer.
        let Some(number) = file.filter(|_| from < to) else {
            return;
        };
        if to == END {
            return self.claim_write(file, from, to);
        }
        let reach = self.reach.entry(number).or_default();
        let is_longer = to > *reach;
        // The last byte before it depends on the call that gave the file its size.
        let from = if is_longer {
            from.min(reach.saturating_sub(1))
        } else {
            from
        };
        *reach = to.max(*reach);
        self.claim_write(file, from, to);
    }

    fn claim_attributes(&mut self, event: &Event, action: &Action) {
        let attributes = event.file.map(|file| file.index() as u32 | ATTRIBUTES);
        match action.operation {
            Operation::Chmod | Operation::Setxattr | Operation::Removexattr | Operation::Rmdir => {
                self.claim_write(attributes, 0, 1);
            }
            Operation::Rename => {
                // The file that had the name before was removed.
                let replaced = event.file2.map(|file| file.index() as u32 | ATTRIBUTES);
                self.claim_write(replaced, 0, 1);
            }
            // The end of a directory changes when it is removed.
            Operation::Seek if action.has(mark::OPAQUE) || u64::from(action.flags) >= SEEK_END => {
                self.claim_read(attributes, 0, 1);
            }
            Operation::List
            | Operation::Getxattr
            | Operation::Listxattr
            | Operation::Access
            | Operation::Open => {
                self.claim_read(attributes, 0, 1);
            }
            _ => {}
        }
    }

    fn claim_read(&mut self, file: Option<u32>, from: u64, to: u64) {
        if let Some(file) = file.filter(|_| from < to) {
            self.claims.push(Claim::Reads { file, from, to });
        }
    }

    fn claim_write(&mut self, file: Option<u32>, from: u64, to: u64) {
        if let Some(file) = file.filter(|_| from < to) {
            self.claims.push(Claim::Writes { file, from, to });
        }
    }
}

fn number(open: OpenId) -> u32 {
    open.index() as u32
}

/// The range of a call; the whole file if the offset is unknown.
fn range(offset: i64, length: u64) -> (u64, u64) {
    match u64::try_from(offset) {
        Ok(from) => (from, from.saturating_add(length)),
        Err(_) => (0, END),
    }
}
