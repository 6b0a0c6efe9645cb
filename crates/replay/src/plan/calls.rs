//! Selects the action for an event.

mod descriptors;
mod names;

use plimsoll_trace::constants::AT_EMPTY_PATH;
use plimsoll_trace::event::{Event, FileId, Futex, OpenId, Outcome, PathId};
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Effect;

use super::opens::OpenKind;
use super::{Fate, Planner, recorded};
use crate::action::{Action, Operation, mark};

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const EFAULT: u16 = 14;
const EINVAL: u16 = 22;
/// Calls that do not follow a link at the end of a name.
const STAYING: [&str; 7] = [
    "lstat",
    "lstat64",
    "oldlstat",
    "lgetxattr",
    "llistxattr",
    "lsetxattr",
    "lremovexattr",
];

impl Planner<'_> {
    pub(super) fn fate(&mut self, event: &Event) -> Fate {
        let effect = event.call.effect;
        let waits = matches!(effect, Effect::Wait | Effect::Lock | Effect::Receive);
        if event.outcome == Outcome::Restarted || waits {
            return Fate::Act(self.wait(event));
        }
        if event.outcome == Outcome::Failed(EFAULT) {
            // The call had an invalid address, which the replay does not pass.
            return Fate::Fold;
        }
        if event.outcome == Outcome::Failed(EINVAL) && event.offset.is_none() && has_offset(effect) {
            // The call may have failed because of its offset, which is not recorded for failed
            // calls.
            return Fate::Fold;
        }
        match effect {
            Effect::Open => self.open(event),
            Effect::Memory => self.memory(event),
            Effect::New | Effect::Pair => self.other(event),
            Effect::Close | Effect::Released => self.close(event),
            Effect::Dup => self.dup(event),
            Effect::Fcntl => self.fcntl(event),
            Effect::Ioctl => self.clone_range(event),
            Effect::Fork if event.other.is_some() => fork(event),
            Effect::Execute | Effect::Exit | Effect::Exited => act(event, Operation::Compute),
            Effect::Read | Effect::Write | Effect::Seek | Effect::List | Effect::Map => self.data(event),
            Effect::Transfer => self.transfer(event),
            Effect::Truncate
            | Effect::Allocate
            | Effect::Sync
            | Effect::Advise
            | Effect::Look
            | Effect::Change
            | Effect::Enter => self.on_file(event),
            Effect::Make | Effect::Link | Effect::Symlink | Effect::Remove | Effect::Rename => {
                self.on_name(event)
            }
            Effect::Mount | Effect::Root => refuse(event),
            Effect::Umask => self.umask(event),
            _ => Fate::Fold,
        }
    }

    /// The replay makes requests of `io_submit` one after the other, so no wait remains for them.
    fn wait(&self, event: &Event) -> Action {
        if event.futex() == Some(Futex::Wakes) {
            // Its duration is kept, and its position in the order is its start.
            return of(event, Operation::Compute);
        }
        let mut action = of(event, Operation::Wait);
        let is_for_requests = matches!(
            event.call.name,
            "io_getevents" | "io_pgetevents" | "io_pgetevents_time64"
        );
        if is_for_requests && self.threads[event.thread.index()].submits {
            action.marks |= mark::HANDED;
        }
        action
    }

    pub(super) fn kind(&self, file: Option<FileId>) -> Kind {
        let entry = file.and_then(|file| self.trace.files().get(file.index()));
        entry.map_or(Kind::File, |entry| entry.kind)
    }

    fn is_here(&self, path: Option<PathId>) -> bool {
        path.is_some_and(|path| self.paths.get(path).is_some())
    }

    /// State of an open file in the replay. A file that occurs for the first time was open before
    /// the trace.
    pub(super) fn open_kind(&mut self, open: OpenId, file: Option<FileId>) -> OpenKind {
        let open_kind = self.opens.get(open).open_kind;
        if open_kind != OpenKind::Unmet {
            return open_kind;
        }
        let entry = file.and_then(|file| self.trace.files().get(file.index()));
        let open_kind = match entry {
            Some(entry) if matches!(entry.kind, Kind::File | Kind::Directory) => {
                if self.is_here(Some(entry.path)) {
                    self.opens.add_open_before(open, entry.path);
                    return OpenKind::Real;
                }
                OpenKind::Ignored
            }
            _ => OpenKind::Foreign,
        };
        self.opens.get(open).open_kind = open_kind;
        open_kind
    }

    /// Calls that have a descriptor or a name as argument.
    fn on_file(&mut self, event: &Event) -> Fate {
        let name = event.call.name;
        let operation = match name {
            "truncate" | "truncate64" | "ftruncate" | "ftruncate64" => Operation::Truncate,
            "fallocate" => Operation::Allocate,
            "fsync" | "+fsync" => Operation::Fsync,
            "fdatasync" | "+fdatasync" => Operation::Fdatasync,
            // Stores to mapped memory are not replayed; other modified data of the file are
            // written.
            "msync" if self.options.read_maps => Operation::Fdatasync,
            "syncfs" | "sync" => Operation::Syncfs,
            "sync_file_range" | "sync_file_range2" => Operation::SyncRange,
            "readahead" => Operation::Readahead,
            "fadvise64" | "fadvise64_64" | "arm_fadvise64_64" => Operation::Advise,
            _ if name.contains("statfs") => Operation::Statfs,
            _ if name.contains("stat") => Operation::Stat,
            "access" | "faccessat" | "faccessat2" => Operation::Access,
            "readlink" | "readlinkat" => Operation::Readlink,
            "getxattr" | "lgetxattr" | "fgetxattr" => Operation::Getxattr,
            "listxattr" | "llistxattr" | "flistxattr" => Operation::Listxattr,
            "setxattr" | "lsetxattr" | "fsetxattr" => Operation::Setxattr,
            "removexattr" | "lremovexattr" | "fremovexattr" => Operation::Removexattr,
            "chdir" => Operation::Enter,
            _ if name.contains("chmod") => Operation::Chmod,
            _ if name.contains("utime") => Operation::Touch,
            _ if event.call.effect == Effect::Change => return self.on_system(event),
            _ => return Fate::Fold,
        };
        if name != "sync" {
            match (event.path, event.open) {
                (Some(path), _) if self.paths.get(path).is_none() => return Fate::Ignore,
                (Some(_), _) => {}
                (None, Some(open)) => match self.open_kind(open, event.file) {
                    OpenKind::Real => {}
                    OpenKind::Ignored => return Fate::Ignore,
                    _ => return Fate::Fold,
                },
                (None, None) => return Fate::Fold,
            }
        }
        let mut action = of(event, operation);
        if matches!(
            operation,
            Operation::Getxattr | Operation::Setxattr | Operation::Removexattr
        ) {
            if event.path2.is_none() {
                // The trace does not contain the name of the attribute.
                return Fate::Fold;
            }
            self.text(event.path2);
        }
        if STAYING.contains(&name) || event.flags.is_some_and(|flags| flags & AT_SYMLINK_NOFOLLOW != 0) {
            action.marks |= mark::STAY;
        }
        if event.flags.is_some_and(|flags| flags & AT_EMPTY_PATH != 0) && event.open.is_some() {
            action.path = None;
        }
        Fate::Act(action)
    }

    /// Changes of ownership and of attributes of the file system, which a replay must not make.
    fn on_system(&self, event: &Event) -> Fate {
        match event.path {
            Some(path) if self.paths.get(path).is_none() => Fate::Ignore,
            _ => refuse(event),
        }
    }
}

fn has_offset(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::Read | Effect::Write | Effect::Transfer | Effect::Seek | Effect::Allocate
    )
}

pub(super) fn of(event: &Event, operation: Operation) -> Action {
    Action {
        offset: event.offset.unwrap_or(-1),
        offset2: event.offset2.unwrap_or(-1),
        length: event.length.unwrap_or(0),
        open: event.open,
        open2: event.open2,
        path: event.path,
        path2: if operation == Operation::Fork {
            event.other.and_then(|thread| PathId::new(thread.index()))
        } else {
            event.path2
        },
        flags: event.flags.unwrap_or(0) as u32,
        mode: event.mode.unwrap_or(0),
        ..Action::new(operation, recorded(event.outcome))
    }
}

pub(super) fn act(event: &Event, operation: Operation) -> Fate {
    Fate::Act(of(event, operation))
}

/// vfork(2) lasts until its child executes a program, which the replay waits for.
fn fork(event: &Event) -> Fate {
    let mut action = of(event, Operation::Fork);
    if is_vfork(event) {
        action.marks |= mark::CAUSED;
    }
    Fate::Act(action)
}

pub(super) fn is_vfork(event: &Event) -> bool {
    event.call.name == "vfork" || event.flags.is_some_and(|flags| flags & CLONE_VFORK != 0)
}

/// A failed call is not refused: it changed nothing.
fn refuse(event: &Event) -> Fate {
    if matches!(event.outcome, Outcome::Returned(_)) {
        // The number of the call, for the report.
        Fate::Act(Action {
            length: event.call.index() as u64 + 1,
            ..of(event, Operation::Refuse)
        })
    } else {
        Fate::Fold
    }
}
