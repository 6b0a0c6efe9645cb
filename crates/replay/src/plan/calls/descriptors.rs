//! Calls that make, copy and close descriptors.

use plimsoll_trace::constants::{F_DUPFD, F_DUPFD_CLOEXEC, F_SETFL, O_APPEND, O_CREAT, O_TMPFILE};
use plimsoll_trace::event::Event;
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Effect;

use super::{act, of, refuse};
use crate::action::{Action, Operation, mark};
use crate::plan::opens::OpenKind;
use crate::plan::{Fate, Planner};

/// Commands of fcntl(2) for locks: `F_SETLK`, `F_SETLKW`, and those for open files.
const LOCKS: [u64; 4] = [6, 7, 0x25, 0x26];

impl Planner<'_> {
    pub(super) fn open(&mut self, event: &Event) -> Fate {
        let is_here = self.is_here(event.path);
        let kind = self.kind(event.file);
        let is_pipe = kind == Kind::Pipe || event.path.is_some_and(|path| self.pipes.contains(&path));
        let open_kind = match kind {
            _ if !is_here => OpenKind::Ignored,
            Kind::Device | Kind::Socket | Kind::Other => OpenKind::Foreign,
            _ if is_pipe => OpenKind::Foreign,
            _ => OpenKind::Real,
        };
        let flags = event.flags.unwrap_or(0);
        if let Some(open) = event.open {
            self.opens.add_opened(open, open_kind, flags & O_APPEND != 0);
        }
        match open_kind {
            OpenKind::Ignored => Fate::Ignore,
            OpenKind::Foreign if !is_pipe => refuse(event),
            _ => {
                let mut action = of(event, Operation::Open);
                if event.call.name == "creat" {
                    action.flags = 0o1101;
                }
                if is_pipe {
                    action.marks |= mark::PIPE;
                }
                let makes = u64::from(action.flags) & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE;
                let mode = event.mode.filter(|_| makes).unwrap_or(0o666);
                action.mode = mode & !self.mask(event);
                Fate::Act(action)
            }
        }
    }

    pub(super) fn memory(&mut self, event: &Event) -> Fate {
        if let Some(open) = event.open {
            self.opens.add_opened(open, OpenKind::Real, false);
        }
        act(event, Operation::Memory)
    }

    pub(super) fn other(&mut self, event: &Event) -> Fate {
        if event.call.effect == Effect::Pair && self.kind(event.file) == Kind::Pipe {
            self.opens.add_pipe([event.open, event.open2]);
        } else {
            for open in [event.open, event.open2].into_iter().flatten() {
                self.opens.get(open).open_kind = OpenKind::Foreign;
            }
        }
        Fate::Fold
    }

    pub(super) fn close(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        if self.opens.get(open).open_kind == OpenKind::Unmet {
            // It was open before the trace, as stderr may be, and is used by no other call: its
            // file is not needed.
            return Fate::Fold;
        }
        let is_release = event.call.effect == Effect::Released;
        let open_kind = self.open_kind(open, event.file);
        let state = self.opens.get(open);
        let is_last = is_release || event.length.map_or(state.duplicates == 0, |left| left == 0);
        match open_kind {
            OpenKind::Real => {
                let operation = if is_release {
                    Operation::Release
                } else {
                    Operation::Close
                };
                let mut action = of(event, operation);
                if is_last {
                    action.marks |= mark::LAST;
                } else if state.duplicates > 0 {
                    state.duplicates -= 1;
                } else {
                    // A descriptor that fork duplicated; the replay does not have it.
                    return Fate::Fold;
                }
                Fate::Act(action)
            }
            OpenKind::Pipe { writes: true, .. } if is_last => act(event, Operation::Compute),
            OpenKind::Ignored => Fate::Ignore,
            _ => Fate::Fold,
        }
    }

    pub(super) fn dup(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        if self.open_kind(open, event.file) != OpenKind::Real || event.outcome.value().is_none() {
            return Fate::Fold;
        }
        self.opens.get(open).duplicates += 1;
        self.plan.has_duplicates = true;
        act(event, Operation::Dup)
    }

    pub(super) fn fcntl(&mut self, event: &Event) -> Fate {
        match event.flags {
            Some(F_DUPFD | F_DUPFD_CLOEXEC) => self.dup(event),
            Some(command) if LOCKS.contains(&command) => act(event, Operation::Wait),
            Some(F_SETFL) => {
                let Some(open) = event.open.filter(|_| event.mode.is_some()) else {
                    return Fate::Fold;
                };
                if self.open_kind(open, event.file) != OpenKind::Real {
                    return Fate::Fold;
                }
                let flags = event.mode.unwrap_or(0);
                self.opens.get(open).appends = u64::from(flags) & O_APPEND != 0;
                Fate::Act(Action {
                    flags,
                    ..of(event, Operation::SetFlags)
                })
            }
            _ => Fate::Fold,
        }
    }
}
