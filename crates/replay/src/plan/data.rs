//! What is done for calls that move data, or where an open file stands.

use plimsoll_trace::event::{Event, OpenId, Outcome};
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Effect;

use super::calls::{act, of};
use super::opens::Have;
use super::{Fate, Planner};
use crate::action::{Action, Operation, mark};

const MAP_ANONYMOUS: u64 = 0x20;
const SEEK_SET: u32 = 0;
const SEEK_CUR: u32 = 1;
/// Bytes that readdir of glibc asks for.
const LISTED: u64 = 32 * 1024;

/// How a call finds its place in a file.
struct Moving {
    /// It is told where, and leaves the open file where it stands.
    given: bool,
    /// It may be told; a trace does not say whether it was, but the place.
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
        match self.have(open, event.file) {
            Have::Real => {}
            Have::Ignored => return Fate::Ignore,
            Have::Pipe { .. } => {
                let mut action = of(event, Operation::Wait);
                if self.on_one_core {
                    // A pipe keeps nobody waiting but for its other end, which is ordered, and for
                    // the core.
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
            // The preload recorder does not see how much room readdir gives.
            let least = if operation == Operation::List { LISTED } else { 0 };
            action.length = returned.max(least);
        }
        if operation == Operation::Seek {
            if event.offset.is_none() {
                // It has failed, and nobody knows what it was asked for.
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
                // Not known of those that have failed; any will do.
                action.offset = action.offset.max(0);
            }
            let how = Moving {
                given,
                either,
                writes: !is_read,
            };
            let moves = self.moves(open, action.offset, event.outcome.value(), &how);
            action.marks |= moves;
        }
        Fate::Act(action)
    }

    /// Whether a call goes on where the open file stands, as marks; what it moves is moved. One
    /// that may have been told where is taken for one that goes on if the trace has it just there;
    /// a wrong guess is mended at the next call.
    fn moves(&mut self, open: OpenId, offset: i64, count: Option<i64>, how: &Moving) -> u16 {
        let &Moving {
            given,
            either,
            writes,
        } = how;
        let state = self.opens.get(open);
        if given || either && offset >= 0 && offset != state.position {
            return 0;
        }
        // Who appends goes to the end, wherever it stands.
        let appends = writes && state.appends;
        let mut marks = mark::MOVES;
        if offset >= 0 && !appends && offset != state.position && count.is_some() {
            marks |= mark::RESEEK;
        }
        // Who appends nothing stays where it stood.
        if let Some(count) = count.filter(|&count| count > 0 || !appends) {
            state.position = if offset < 0 { -1 } else { offset + count };
        }
        marks
    }

    /// From where it stands: if that is not here where it was, to where it led.
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
        let have = |planner: &mut Self, open: Option<OpenId>, file| {
            open.map_or(Have::Foreign, |open| planner.have(open, file))
        };
        if self.kind(event.file) == Kind::Directory {
            // It gives nothing, and where it was asked for is not told.
            return Fate::Fold;
        }
        let from = have(self, event.open, event.file);
        let to = have(self, event.open2, event.file2);
        let count = event.outcome.value();
        let mut marks = 0;
        if let (Have::Real, Some(open)) = (from, event.open) {
            marks |= self.moves(open, event.offset.unwrap_or(-1), count, &Moving::of_end(false));
        }
        if let (Have::Real, Some(open)) = (to, event.open2) {
            let of_target = self.moves(open, event.offset2.unwrap_or(-1), count, &Moving::of_end(true));
            if of_target & mark::MOVES != 0 {
                marks |= mark::MOVES2;
            }
            if of_target & mark::RESEEK != 0 {
                marks |= mark::RESEEK2;
            }
        }
        let operation = match (from, to) {
            (Have::Real, Have::Real) if event.call.name.starts_with("sendfile") => Operation::Sendfile,
            (Have::Real, Have::Real) => Operation::CopyRange,
            (Have::Real, _) => Operation::SendOut,
            (_, Have::Real) => Operation::TakeIn,
            (Have::Ignored, _) | (_, Have::Ignored) => return Fate::Ignore,
            _ => Operation::Wait,
        };
        let mut action = of(event, operation);
        action.marks |= marks;
        action.open2 = event.open2;
        if matches!(operation, Operation::SendOut | Operation::TakeIn) {
            // It is a read or a write of what was moved, however much was asked for.
            action.length = count.map_or(action.length, |count| count.max(0).unsigned_abs());
        }
        Fate::Act(action)
    }

    /// One that failed says what the file system could not; it is not asked of another one.
    pub(super) fn clone_range(&mut self, event: &Event) -> Fate {
        let (Some(from), Some(to), Some(_)) = (event.open, event.open2, event.outcome.value()) else {
            return Fate::Fold;
        };
        match (self.have(from, event.file), self.have(to, event.file2)) {
            (Have::Real, Have::Real) => act(event, Operation::Clone),
            (Have::Ignored, _) | (_, Have::Ignored) => Fate::Ignore,
            _ => Fate::Fold,
        }
    }
}
