//! Follows the state of the kernel call by call: processes, their tables of descriptors and working
//! directories, open files with their offsets, files with their paths and sizes.
//!
//! A table is shared by threads that clone(2) made with `CLONE_FILES`, and copied by fork. An open
//! file, with its offset, is shared by all descriptors that dup, fork and execve made from one
//! another. Numbers are reused, so a number has a meaning only with its table and a time. A
//! descriptor is released when its close *begins*, because another thread may get the number before
//! strace writes the end of the close. It is added when its open ends.

mod blocks;
mod data;
mod descriptor_path;
mod descriptors;
mod maps;
mod opens;
mod paths;
mod pool;
mod request;
mod tables;
mod threads;
mod tree;

use std::collections::HashMap;

pub use opens::OpenFile;
pub use request::{CallResult, Part, Request};
pub use threads::Birth;

use crate::event::{Event, FileId, OpenId, Outcome, ThreadId};
use crate::hash::BuildMixer;
use crate::kernel::maps::Maps;
use crate::kernel::opens::Opens;
use crate::kernel::paths::Paths;
use crate::kernel::pool::Pool;
use crate::kernel::tables::Table;
use crate::kernel::threads::{Directories, Threads};
use crate::names::Names;
use crate::syscalls::{Argument, Effect};

const EBADF: u16 = 9;
const ENOENT: u16 = 2;
/// Errors of calls on a path that show that the file exists: EACCES, EEXIST, ERANGE, ENODATA.
const EXISTS_ERRORS: [u16; 4] = [13, 17, 34, 61];

/// All processes of a trace, and their files.
#[derive(Debug, Default)]
pub struct Kernel {
    threads: Threads,
    /// The last thread with each id, including threads that have ended.
    ids: HashMap<u32, ThreadId, BuildMixer>,
    tables: Pool<Table>,
    /// Working and root directories.
    directories: Pool<Directories>,
    /// Whether a thread has called chroot(2).
    has_roots: bool,
    opens: Opens,
    paths: Paths,
    maps: Maps,
    /// Events of the last `io_submit` that have not been taken yet.
    blocks: Vec<Event>,
}

/// The descriptor that an unfinished call released when it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlyRelease {
    open: Option<OpenId>,
    file: Option<FileId>,
    /// Number of descriptors that the open file still has.
    left: u32,
}

impl Kernel {
    /// A kernel without threads.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tables to which the ids refer.
    pub fn names(&self) -> &Names {
        self.paths.names()
    }

    /// The tables, for the writer of a trace file.
    pub fn names_mut(&mut self) -> &mut Names {
        self.paths.names_mut()
    }

    /// The current path of a file, or its last one.
    ///
    /// # Panics
    /// If the file is not in the tables.
    pub fn name_of(&self, file: FileId) -> &[u8] {
        self.names().path(self.paths.name_of(file))
    }

    /// An open file; None if it is closed.
    pub fn open_file(&self, id: OpenId) -> Option<&OpenFile> {
        self.opens.get(id)
    }

    /// Whether the last event has implied events: [`Kernel::take_blocks`],
    /// [`Kernel::take_released`].
    pub(crate) fn has_more(&self) -> bool {
        !self.blocks.is_empty() || self.opens.has_released()
    }

    /// Returns the open files whose last descriptor was closed since the previous call, by
    /// something other than their own close.
    pub fn take_released(&mut self) -> Vec<(OpenId, FileId)> {
        self.opens.take_released()
    }

    /// Handles the start of a call: a descriptor that it closes is released.
    pub fn begin_call(&mut self, request: &Request<'_>) -> EarlyRelease {
        if request.effect() != Effect::Close {
            return EarlyRelease::default();
        }
        let Some(found) = request.descriptor(Argument::Fd) else {
            return EarlyRelease::default();
        };
        // An unknown descriptor was open before the trace began, or is not open at all. The end of
        // the call shows which.
        let Some(slot) = self.table(request.pid).take(found.number) else {
            return EarlyRelease::default();
        };
        self.adopt(slot.open, &found);
        let left = self.opens.close(slot.open);
        self.opens.take_released();
        EarlyRelease {
            open: Some(slot.open),
            file: left.map(|open| open.file),
            left: left.map_or(0, |open| open.held),
        }
    }

    /// Handles the end of a call. `begun` is the result of [`Kernel::begin_call`] for it;
    /// `start_ns` is its start, since the zero of the trace.
    pub fn end_call(
        &mut self,
        request: &Request<'_>,
        result: &CallResult<'_>,
        begun: EarlyRelease,
        start_ns: i64,
    ) -> Event {
        let thread = self.thread(request.pid).id;
        let mut event = Event::new(thread, request.call, start_ns, result.outcome);
        event.duration_ns = result.duration_ns;
        event.cpu_ns = result.cpu_ns;
        event.flags = request.flags();
        event.mode = request.mode();
        event.length = request.length();
        if request.effect() == Effect::Close {
            event.open = begun.open;
            event.file = begun.file;
            event.length = begun.open.map(|_| u64::from(begun.left));
            return event;
        }
        self.resolve(request, &mut event);
        match result.outcome {
            Outcome::Returned(value) => self.succeed(request, result, value, &mut event),
            Outcome::Failed(ENOENT) => {
                // The file does not exist. If the call has two paths, it may be either. For
                // `missing/../file`, it may be the part before `..`.
                event.offset = request.number(Argument::Offset);
                if let (Some(path), None) = (event.path, event.path2)
                    && !self.paths.has_dots(path)
                {
                    self.paths.remove(path);
                }
                event.file = event.open.and(event.file);
            }
            Outcome::Failed(error) => {
                event.offset = request.number(Argument::Offset);
                self.fail(request, error, &mut event);
            }
            Outcome::Restarted => event.offset = request.number(Argument::Offset),
            Outcome::Unknown => {
                if request.effect() == Effect::Exit {
                    self.remove_thread(request.pid);
                }
            }
        }
        event
    }

    /// Handles a failed call whose error shows that the file exists, so that later calls on the
    /// path refer to the same file.
    fn fail(&mut self, request: &Request<'_>, error: u16, event: &mut Event) {
        let needs_file = matches!(request.effect(), Effect::Open | Effect::Look | Effect::Change);
        if let (Some(path), None) = (event.path, event.file)
            && needs_file
            && EXISTS_ERRORS.contains(&error)
        {
            event.file = Some(self.paths.find_or_add(path, crate::names::Kind::File));
        }
    }

    /// Resolves the paths and descriptors of the arguments.
    fn resolve(&mut self, request: &Request<'_>, event: &mut Event) {
        self.resolve_paths(request, event);
        let is_made = matches!(
            request.effect(),
            Effect::Open | Effect::New | Effect::Memory | Effect::Fork | Effect::Execute
        );
        if event.outcome == Outcome::Failed(EBADF) || is_made && request.part(Argument::Path).is_some() {
            return;
        }
        if let Some(found) = request.descriptor(Argument::Fd) {
            event.open = self.open_of(request.pid, &found);
        }
        if let Some(found) = request.descriptor(Argument::Out) {
            event.open2 = self.open_of(request.pid, &found);
        }
        self.files_of(event);
    }

    /// Sets the files of the open files of an event.
    fn files_of(&self, event: &mut Event) {
        let file = |open: Option<OpenId>| open.and_then(|open| Some(self.opens.get(open)?.file));
        event.file = file(event.open).or(event.file);
        event.file2 = file(event.open2).or(event.file2);
    }

    fn succeed(&mut self, request: &Request<'_>, result: &CallResult<'_>, value: i64, event: &mut Event) {
        match request.effect() {
            Effect::Open | Effect::Memory | Effect::New => {
                self.open_descriptor(request, result, value, event);
            }
            Effect::Pair => self.pair(request, event),
            Effect::Dup => self.dup(request, value, request.is_marked(event.flags), event),
            Effect::Fcntl => self.fcntl(request, value, event),
            Effect::Ioctl => self.ioctl(request, event),
            Effect::CloseRange => self.close_range(request, event),
            Effect::Receive => self.receive(request, event),
            Effect::Fork => self.fork(request, value, event),
            Effect::Execute => self.execute(request, event),
            Effect::Unshare => self.unshare(request),
            Effect::Exit => {
                self.remove_thread(request.pid);
            }
            Effect::Wait => {
                event.offset = request.number(Argument::Offset);
                event.other = u32::try_from(value)
                    .ok()
                    .and_then(|pid| self.waited_thread(request, pid));
            }
            Effect::Read | Effect::Write => self.data(request, value, event),
            Effect::Transfer => self.transfer(request, value, event),
            Effect::Seek => self.seek(request, value, event),
            Effect::Truncate | Effect::Allocate => self.resize(request, event),
            Effect::List => self.set_kind(event.file, crate::names::Kind::Directory),
            Effect::Map => self.map(request, value, event),
            Effect::Unmap => self.unmap(request, event),
            Effect::Remap => self.remap(request, value),
            Effect::Sync => self.sync(request, event),
            Effect::Advise => event.offset = request.number(Argument::Offset),
            Effect::Submit => self.submit(request, value, event),
            Effect::Lock => {}
            Effect::Root if request.call.name == "chroot" => self.set_root(request.pid, event),
            _ => self.tree(request, value, event),
        }
    }
}
