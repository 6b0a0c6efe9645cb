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

impl Planner<'_> {
    pub(super) fn fate(&mut self, event: &Event) -> Fate {
        let effect = event.call.effect;
        let waits = matches!(effect, Effect::Wait | Effect::Lock | Effect::Receive);
        if event.outcome == Outcome::Restarted || waits {
            return Fate::Act(self.wait(event));
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
            Effect::Ioctl => self.clone(event),
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

    /// Requests of `io_submit` are made one after the other, so that there is nothing left to be waited for.
    fn wait(&self, event: &Event) -> Action {
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

    /// Calls that take a descriptor or a name.
    fn on_file(&mut self, event: &Event) -> Fate {
        let name = event.call.name;
        let operation = match name {
            "truncate" | "truncate64" | "ftruncate" | "ftruncate64" => Operation::Truncate,
            "fallocate" => Operation::Allocate,
            "fsync" | "+fsync" => Operation::Fsync,
            "fdatasync" | "+fdatasync" => Operation::Fdatasync,
            // Stores into memory are not made; what else is dirty of the file is written.
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
            if event.path2.is_none() {
                // Which attribute is not in the log.
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
