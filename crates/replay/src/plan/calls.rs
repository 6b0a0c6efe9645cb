//! What is done for an event.

use plimsoll_trace::constants::{
    AT_EMPTY_PATH, AT_REMOVEDIR, F_DUPFD, F_DUPFD_CLOEXEC, F_SETFL, O_APPEND, O_CREAT, O_TMPFILE, S_IFMT,
};
use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId};
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Effect;

use super::opens::Have;
use super::{Fate, Planner, recorded};
use crate::action::{Action, Operation, mark};

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const S_IFIFO: u32 = 0o1_0000;
const S_IFREG: u32 = 0o10_0000;
const CLONE_VFORK: u64 = 0x4000;
const MAP_ANONYMOUS: u64 = 0x20;
const SEEK_SET: u32 = 0;
const SEEK_CUR: u32 = 1;
const EFAULT: u16 = 14;
const EINVAL: u16 = 22;
/// Commands of fcntl(2) about locks: `F_SETLK`, `F_SETLKW` and those of open files.
const LOCKS: [u64; 4] = [6, 7, 0x25, 0x26];
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
const USUAL_MASK: u32 = 0o022;

/// How a call finds its place in a file.
struct Moving {
    /// It is told where, and leaves the open file where it stands.
    given: bool,
    /// It may be told; a trace does not say whether it was, but the place.
    either: bool,
    writes: bool,
}

/// Bytes that readdir of glibc asks for.
const LISTED: u64 = 32 * 1024;

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
    pub(super) fn fate(&mut self, event: &Event) -> Fate {
        let effect = event.call.effect;
        let waits = matches!(effect, Effect::Wait | Effect::Lock | Effect::Receive);
        if event.outcome == Outcome::Restarted || waits {
            return act(event, Operation::Wait);
        }
        if event.outcome == Outcome::Failed(EFAULT) {
            // Of a bad address, which we do not give.
            return Fate::Fold;
        }
        if event.outcome == Outcome::Failed(EINVAL) && event.offset.is_none() && has_offset(effect) {
            // Of a place in the file that is not known of calls that have failed.
            return Fate::Fold;
        }
        match effect {
            Effect::Open => self.open(event),
            Effect::Memory => self.memory(event),
            Effect::New | Effect::Pair => self.other(event),
            Effect::Close | Effect::Released => self.close(event),
            Effect::Dup => self.dup(event),
            Effect::Fcntl => self.fcntl(event),
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

    fn kind(&self, file: Option<FileId>) -> Kind {
        let entry = file.and_then(|file| self.trace.files().get(file.index()));
        entry.map_or(Kind::File, |entry| entry.kind)
    }

    fn is_here(&self, path: Option<PathId>) -> bool {
        path.is_some_and(|path| self.places.get(path).is_some())
    }

    /// What an open file is here. One that is met for the first time was there before the trace.
    pub(super) fn have(&mut self, open: OpenId, file: Option<FileId>) -> Have {
        let have = self.opens.get(open).have;
        if have != Have::Unmet {
            return have;
        }
        let entry = file.and_then(|file| self.trace.files().get(file.index()));
        let have = match entry {
            Some(entry) if matches!(entry.kind, Kind::File | Kind::Directory) => {
                if self.is_here(Some(entry.path)) {
                    self.opens.was_before(open, entry.path);
                    return Have::Real;
                }
                Have::Ignored
            }
            _ => Have::Foreign,
        };
        self.opens.get(open).have = have;
        have
    }

    fn open(&mut self, event: &Event) -> Fate {
        let is_here = self.is_here(event.path);
        let kind = self.kind(event.file);
        let is_pipe = kind == Kind::Pipe || event.path.is_some_and(|path| self.pipes.contains(&path));
        let have = match kind {
            _ if !is_here => Have::Ignored,
            Kind::Device | Kind::Socket | Kind::Other => Have::Foreign,
            _ if is_pipe => Have::Foreign,
            _ => Have::Real,
        };
        let flags = event.flags.unwrap_or(0);
        if let Some(open) = event.open {
            self.opens.is_made(open, have, flags & O_APPEND != 0);
        }
        match have {
            Have::Ignored => Fate::Ignore,
            Have::Foreign if !is_pipe => refuse(event),
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

    fn memory(&mut self, event: &Event) -> Fate {
        if let Some(open) = event.open {
            self.opens.is_made(open, Have::Real, false);
        }
        act(event, Operation::Memory)
    }

    fn other(&mut self, event: &Event) -> Fate {
        if event.call.effect == Effect::Pair && self.kind(event.file) == Kind::Pipe {
            self.opens.add_pipe([event.open, event.open2]);
        } else {
            for open in [event.open, event.open2].into_iter().flatten() {
                self.opens.get(open).have = Have::Foreign;
            }
        }
        Fate::Fold
    }

    fn close(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        let is_release = event.call.effect == Effect::Released;
        let have = self.have(open, event.file);
        let state = self.opens.get(open);
        let is_last = is_release || event.length.map_or(state.duplicates == 0, |left| left == 0);
        match have {
            Have::Real => {
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
                    // A descriptor that fork has made, which we have not.
                    return Fate::Fold;
                }
                Fate::Act(action)
            }
            Have::Pipe { writes: true, .. } if is_last => act(event, Operation::Compute),
            Have::Ignored => Fate::Ignore,
            _ => Fate::Fold,
        }
    }

    fn dup(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        if self.have(open, event.file) != Have::Real || event.outcome.value().is_none() {
            return Fate::Fold;
        }
        self.opens.get(open).duplicates += 1;
        self.plan.has_duplicates = true;
        act(event, Operation::Dup)
    }

    fn fcntl(&mut self, event: &Event) -> Fate {
        match event.flags {
            Some(F_DUPFD | F_DUPFD_CLOEXEC) => self.dup(event),
            Some(command) if LOCKS.contains(&command) => act(event, Operation::Wait),
            Some(F_SETFL) => {
                let Some(open) = event.open.filter(|_| event.mode.is_some()) else {
                    return Fate::Fold;
                };
                if self.have(open, event.file) != Have::Real {
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

    fn data(&mut self, event: &Event) -> Fate {
        let Some(open) = event.open else {
            return Fate::Fold;
        };
        let is_read = event.call.effect == Effect::Read;
        match self.have(open, event.file) {
            Have::Real => {}
            Have::Ignored => return Fate::Ignore,
            Have::Pipe { .. } => return act(event, Operation::Wait),
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
            "pread64" => Operation::Pread,
            "preadv" => Operation::Preadv,
            "preadv2" => Operation::Preadv2,
            "write" => Operation::Write,
            "writev" => Operation::Writev,
            "pwrite64" => Operation::Pwrite,
            "pwritev" => Operation::Pwritev,
            "pwritev2" => Operation::Pwritev2,
            "lseek" | "_llseek" => Operation::Seek,
            "getdents" | "getdents64" => Operation::List,
            _ if event.call.effect == Effect::Map => return self.map(event),
            _ => return Fate::Fold,
        };
        let mut action = of(event, operation);
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

    /// Whether a call goes on where the open file stands, as marks; what it moves is moved. One that may have been told where is
    /// taken for one that goes on if the trace has it just there; a wrong guess is mended at the next call.
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

    fn transfer(&mut self, event: &Event) -> Fate {
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

    /// Calls that take a descriptor or a name.
    fn on_file(&mut self, event: &Event) -> Fate {
        let name = event.call.name;
        let operation = match name {
            "truncate" | "truncate64" | "ftruncate" | "ftruncate64" => Operation::Truncate,
            "fallocate" => Operation::Allocate,
            "fsync" => Operation::Fsync,
            "fdatasync" => Operation::Fdatasync,
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
                (Some(path), _) if self.places.get(path).is_none() => return Fate::Ignore,
                (Some(_), _) => {}
                (None, Some(open)) => match self.have(open, event.file) {
                    Have::Real => {}
                    Have::Ignored => return Fate::Ignore,
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

    /// Ownership and attributes of the file system, which are not ours to change.
    fn on_system(&self, event: &Event) -> Fate {
        match event.path {
            Some(path) if self.places.get(path).is_none() => Fate::Ignore,
            _ => refuse(event),
        }
    }

    fn on_name(&mut self, event: &Event) -> Fate {
        let both = matches!(event.call.effect, Effect::Link | Effect::Rename);
        if event.path.is_none() || both && event.path2.is_none() {
            return Fate::Fold;
        }
        if !self.is_here(event.path) || both && !self.is_here(event.path2) {
            return Fate::Ignore;
        }
        let removes_directory = event.flags.is_some_and(|flags| flags & AT_REMOVEDIR != 0);
        let operation = match event.call.effect {
            Effect::Link => Operation::Link,
            Effect::Rename => Operation::Rename,
            Effect::Symlink => Operation::Symlink,
            Effect::Remove if event.call.name == "rmdir" || removes_directory => Operation::Rmdir,
            Effect::Remove => Operation::Unlink,
            _ if event.call.name.starts_with("mkdir") => Operation::Mkdir,
            _ => match event.mode.map(|mode| mode & S_IFMT) {
                Some(S_IFIFO) => Operation::Mkfifo,
                Some(S_IFREG | 0) => Operation::Open,
                _ => return refuse(event),
            },
        };
        let mut action = of(event, operation);
        action.mode = event.mode.unwrap_or(0o777) & !self.mask(event);
        match operation {
            // mknod(2) of a regular file: it is made, and nobody has it open.
            Operation::Open => action.flags = (O_CREAT | plimsoll_trace::constants::O_EXCL) as u32,
            Operation::Mkfifo => self.pipes.extend(event.path),
            Operation::Symlink => self.text(event.path2),
            _ => {}
        }
        Fate::Act(action)
    }

    fn text(&mut self, path: Option<PathId>) {
        if let Some(path) = path {
            let bytes = self.trace.path(path);
            if let Ok(text) = std::ffi::CString::new(bytes) {
                self.plan.texts.insert(path, text);
            }
        }
    }

    fn umask(&mut self, event: &Event) -> Fate {
        if let (Some(mask), Some(process)) = (event.mode, self.process(event)) {
            self.masks.insert(process, mask & 0o777);
        }
        Fate::Fold
    }

    fn process(&self, event: &Event) -> Option<u32> {
        let entry = self.trace.threads().get(event.thread.index())?;
        Some(entry.pid)
    }

    /// The mask of the event's process: its own, or the nearest ancestor's.
    fn mask(&self, event: &Event) -> u32 {
        let threads = self.trace.threads();
        let mut thread = Some(event.thread);
        // Whoever is made is made later, so parents stand before; nothing else is believed.
        while let Some(entry) = thread.and_then(|thread| threads.get(thread.index())) {
            if let Some(mask) = self.masks.get(&entry.pid) {
                return *mask;
            }
            thread = entry.parent.filter(|parent| Some(*parent) < thread);
        }
        USUAL_MASK
    }
}

fn has_offset(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::Read | Effect::Write | Effect::Transfer | Effect::Seek | Effect::Allocate
    )
}

fn of(event: &Event, operation: Operation) -> Action {
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

fn act(event: &Event, operation: Operation) -> Fate {
    Fate::Act(of(event, operation))
}

/// vfork(2) takes as long as its child does until it executes, which is waited for.
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

/// What failed anyway is not refused: nothing would have been changed.
fn refuse(event: &Event) -> Fate {
    if matches!(event.outcome, Outcome::Returned(_)) {
        act(event, Operation::Refuse)
    } else {
        Fate::Fold
    }
}
