//! Selects the action for calls that move data or the offset of an open file.

use plimsoll_trace::event::{Event, OpenId, Outcome};
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Effect;

use super::calls::{act, of};
use super::opens::OpenKind;
use super::{Fate, Planner};
use crate::action::{Action, Operation, mark};

const MAP_ANONYMOUS: u64 = 0x20;
const SEEK_SET: u32 = 0;
const SEEK_CUR: u32 = 1;
/// Size of the buffer of readdir in glibc, bytes.
const LISTED: u64 = 32 * 1024;

/// Use of the offset by a call.
struct Moving {
    /// The offset is an argument, and that of the open file is not used.
    given: bool,
    /// The offset may be an argument. The trace contains the position, but not whether it was an
    /// argument.
    either: bool,
    writes: bool,
}

impl Moving {
    /// One end of a transfer.
    fn of_end(writes: bool) -> Self {
        Self {
            given: false,
            either: true,
            writes,
        }
    }
}

impl Planner<'_> {
    pub(super) fn data(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        let is_read = event.call.effect == Effect::Read;
        match self.open_kind(open, event.file) {
            OpenKind::Real => {}
            OpenKind::Ignored => return Fate::Ignore,
            OpenKind::Pipe { .. } => {
                let mut action = of(event, Operation::Wait);
                if self.on_one_core {
                    // A call on a pipe waits only for the other end, which the order covers, and
                    // for the core.
                    action.marks |= mark::CAUSED;
                }
                return Fate::Act(action);
            }
            _ => {
                let kind = self.kind(event.file);
                let waits = kind == Kind::Pipe || is_read;
                return if waits {
                    act(event, Operation::Wait)
                } else {
                    Fate::Fold
                };
            }
        }
        let operation = match event.call.name {
            "read" => Operation::Read,
            "readv" => Operation::Readv,
            "pread64" | "+read" => Operation::Pread,
            "preadv" => Operation::Preadv,
            "preadv2" => Operation::Preadv2,
            "write" => Operation::Write,
            "writev" => Operation::Writev,
            "pwrite64" | "+write" => Operation::Pwrite,
            "pwritev" => Operation::Pwritev,
            "pwritev2" => Operation::Pwritev2,
            "lseek" | "_llseek" => Operation::Seek,
            "getdents" | "getdents64" => Operation::List,
            _ if event.call.effect == Effect::Map => return self.map(event),
            _ => return Fate::Fold,
        };
        let mut action = of(event, operation);
        if !event.call.is_made() {
            self.threads[event.thread.index()].submits = true;
            action.marks |= mark::HANDED;
        }
        if event.length.is_none() {
            let returned = event.outcome.value().unwrap_or(0).max(0).unsigned_abs();
            // The preload recorder does not record the size of the buffer of readdir.
            let least = if operation == Operation::List { LISTED } else { 0 };
            action.length = returned.max(least);
        }
        if operation == Operation::Seek {
            if event.offset.is_none() {
                // It failed, and its offset is not recorded.
                return Fate::Fold;
            }
            if self.kind(event.file) == Kind::Directory {
                action.marks |= mark::OPAQUE;
            } else {
                self.seek(open, event.outcome.value(), &mut action);
            }
        } else if operation != Operation::List {
            let given = matches!(
                operation,
                Operation::Pread | Operation::Preadv | Operation::Pwrite | Operation::Pwritev
            );
            let either = matches!(operation, Operation::Preadv2 | Operation::Pwritev2);
            if given {
                // The offset of a failed call is unknown. Any offset is suitable.
                action.offset = action.offset.max(0);
            }
            let offset_use = Moving {
                given,
                either,
                writes: !is_read,
            };
            let moves = self.use_offset(open, action.offset, event.outcome.value(), &offset_use);
            action.marks |= moves;
        }
        Fate::Act(action)
    }

    /// Whether a call uses the offset of the open file, as marks; the offset is then advanced. If
    /// the offset may be an argument, the call is assumed to use that of the open file if both are
    /// equal. The next call corrects a wrong assumption.
    fn use_offset(&mut self, open: OpenId, offset: i64, count: Option<i64>, offset_use: &Moving) -> u16 {
        let &Moving {
            given,
            either,
            writes,
        } = offset_use;
        let state = self.opens.get(open);
        if given || either && offset >= 0 && offset != state.position {
            return 0;
        }
        // A call that appends writes at the end, for any offset.
        let appends = writes && state.appends;
        let mut marks = mark::MOVES;
        if offset >= 0 && !appends && offset != state.position && count.is_some() {
            marks |= mark::RESEEK;
        }
        // A call that appends nothing does not move the offset.
        if let Some(count) = count.filter(|&count| count > 0 || !appends) {
            state.position = if offset < 0 { -1 } else { offset + count };
        }
        marks
    }

    /// A seek relative to the current offset becomes a seek to the recorded result, if the offset
    /// differs from the recorded one.
    fn seek(&mut self, open: OpenId, value: Option<i64>, action: &mut Action) {
        let (Some(value), state) = (value, self.opens.get(open)) else {
            return;
        };
        if action.flags == SEEK_CUR && value - action.offset != state.position {
            action.flags = SEEK_SET;
            action.offset = value;
        }
        state.position = value;
    }

    fn map(&self, event: &Event) -> Fate {
        let is_file = event.flags.is_some_and(|flags| flags & MAP_ANONYMOUS == 0);
        let done = matches!(event.outcome, Outcome::Returned(_));
        if self.options.read_maps && is_file && done {
            act(event, Operation::Map)
        } else {
            Fate::Fold
        }
    }

    pub(super) fn transfer(&mut self, event: &Event) -> Fate {
        let open_kind = |planner: &mut Self, open: Option<OpenId>, file| {
            open.map_or(OpenKind::Foreign, |open| planner.open_kind(open, file))
        };
        if self.kind(event.file) == Kind::Directory {
            // It returns nothing, and the trace does not contain the requested offset.
            return Fate::Fold;
        }
        let from = open_kind(self, event.open, event.file);
        let to = open_kind(self, event.open2, event.file2);
        let count = event.outcome.value();
        let mut marks = 0;
        if let (OpenKind::Real, Some(open)) = (from, event.open) {
            marks |= self.use_offset(open, event.offset.unwrap_or(-1), count, &Moving::of_end(false));
        }
        if let (OpenKind::Real, Some(open)) = (to, event.open2) {
            let of_target = self.use_offset(open, event.offset2.unwrap_or(-1), count, &Moving::of_end(true));
            if of_target & mark::MOVES != 0 {
                marks |= mark::MOVES2;
            }
            if of_target & mark::RESEEK != 0 {
                marks |= mark::RESEEK2;
            }
        }
        let operation = match (from, to) {
            (OpenKind::Real, OpenKind::Real) if event.call.name.starts_with("sendfile") => {
                Operation::Sendfile
            }
            (OpenKind::Real, OpenKind::Real) => Operation::CopyRange,
            (OpenKind::Real, _) => Operation::SendOut,
            (_, OpenKind::Real) => Operation::TakeIn,
            (OpenKind::Ignored, _) | (_, OpenKind::Ignored) => return Fate::Ignore,
            _ => Operation::Wait,
        };
        let mut action = of(event, operation);
        action.marks |= marks;
        action.open2 = event.open2;
        if matches!(operation, Operation::SendOut | Operation::TakeIn) {
            // A read or a write of the bytes that were moved, for any requested size.
            action.length = count.map_or(action.length, |count| count.max(0).unsigned_abs());
        }
        Fate::Act(action)
    }

    /// A failed clone shows a limit of the recorded file system. It is not replayed.
    pub(super) fn clone_range(&mut self, event: &Event) -> Fate {
        let (Some(from), Some(to), Some(_)) = (event.open, event.open2, event.outcome.value()) else {
            return Fate::Fold;
        };
        match (self.open_kind(from, event.file), self.open_kind(to, event.file2)) {
            (OpenKind::Real, OpenKind::Real) => act(event, Operation::Clone),
            (OpenKind::Ignored, _) | (_, OpenKind::Ignored) => Fate::Ignore,
            _ => Fate::Fold,
        }
    }
}
