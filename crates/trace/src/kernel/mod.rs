//! What the kernel knows, followed call by call: processes, their tables of descriptors and working
//! directories, open files with their offsets, files with their names and sizes.
//!
//! A table is shared by the threads that clone(2) has made with `CLONE_FILES`, and copied by fork;
//! an open file, with its offset, is shared by all descriptors that dup, fork and execve have made
//! of one. Numbers are given out again, so that a number says nothing without its table and its
//! time: a descriptor is freed where its close *begins*, as another thread may be given the number
//! before strace has written that the close has ended, and taken where its open ends.

mod blocks;
mod data;
mod descriptors;
mod maps;
mod opens;
mod places;
mod pool;
mod request;
mod spoken;
mod tables;
mod threads;
mod tree;

use std::collections::HashMap;

pub use opens::OpenFile;
pub use request::{CallResult, Part, Request};
pub use threads::Birth;

use crate::event::{Event, FileId, OpenId, Outcome, ThreadId};
use crate::kernel::maps::Maps;
use crate::kernel::opens::Opens;
use crate::kernel::places::Places;
use crate::kernel::pool::Pool;
use crate::kernel::tables::Table;
use crate::kernel::threads::{Room, Threads};
use crate::mixed::Mixed;
use crate::names::Names;
use crate::syscalls::{Argument, Effect};

const EBADF: u16 = 9;
const ENOENT: u16 = 2;
/// What calls on a name say of a file that is there: EACCES, EEXIST, ERANGE, ENODATA.
const THERE: [u16; 4] = [13, 17, 34, 61];

/// All processes of a trace, and their files.
#[derive(Debug, Default)]
pub struct Kernel {
    threads: Threads,
    /// Also of threads that are gone: by their last id.
    ids: HashMap<u32, ThreadId, Mixed>,
    tables: Pool<Table>,
    /// Working directories.
    rooms: Pool<Room>,
    /// Some thread has called chroot(2).
    has_roots: bool,
    opens: Opens,
    places: Places,
    maps: Maps,
    /// Of the last `io_submit`, until they are told.
    blocks: Vec<Event>,
}

/// What a call that goes on has given up when it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlyRelease {
    open: Option<OpenId>,
    file: Option<FileId>,
    /// Descriptors that the open file still has.
    left: u32,
}

impl Kernel {
    /// Nobody is there yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tables that ids stand in.
    pub fn names(&self) -> &Names {
        self.places.names()
    }

    /// The same, for the writer of a trace file.
    pub fn names_mut(&mut self) -> &mut Names {
        self.places.names_mut()
    }

    /// The name that a file has now, or had last.
    ///
    /// # Panics
    /// For a file of another trace.
    pub fn name_of(&self, file: FileId) -> &[u8] {
        self.names().path(self.places.name_of(file))
    }

    /// What is known of an open file; none where it is closed.
    pub fn open_file(&self, id: OpenId) -> Option<&OpenFile> {
        self.opens.get(id)
    }

    /// Whether anything went with the last event: [`Kernel::take_blocks`],
    /// [`Kernel::take_released`].
    pub(crate) fn has_more(&self) -> bool {
        !self.blocks.is_empty() || self.opens.has_gone()
    }

    /// Open files whose last descriptor has gone since this was last asked, by anything but their
    /// own close.
    pub fn take_released(&mut self) -> Vec<(OpenId, FileId)> {
        self.opens.take_gone()
    }

    /// A call begins: what it gives up is given up now.
    pub fn begins(&mut self, asked: &Request<'_>) -> EarlyRelease {
        if asked.effect() != Effect::Close {
            return EarlyRelease::default();
        }
        let Some(found) = asked.descriptor(Argument::Fd) else {
            return EarlyRelease::default();
        };
        // One that nobody knows was open before the trace began, or is not open at all: its end
        // tells.
        let Some(slot) = self.table(asked.pid).take(found.number) else {
            return EarlyRelease::default();
        };
        self.adopt(slot.open, &found);
        let left = self.opens.close(slot.open);
        self.opens.take_gone();
        EarlyRelease {
            open: Some(slot.open),
            file: left.map(|open| open.file),
            left: left.map_or(0, |open| open.held),
        }
    }

    /// A call has ended: what it has made is there now. `begun`: what [`Kernel::begins`] has said
    /// of it; `start_ns`: when it began, since the zero of the trace.
    pub fn ends(
        &mut self,
        asked: &Request<'_>,
        done: &CallResult<'_>,
        begun: EarlyRelease,
        start_ns: i64,
    ) -> Event {
        let thread = self.thread(asked.pid).id;
        let mut event = Event::new(thread, asked.known, start_ns, done.outcome);
        event.duration_ns = done.duration_ns;
        event.cpu_ns = done.cpu_ns;
        event.flags = asked.flags();
        event.mode = asked.mode();
        event.length = asked.length();
        if asked.effect() == Effect::Close {
            event.open = begun.open;
            event.file = begun.file;
            event.length = begun.open.map(|_| u64::from(begun.left));
            return event;
        }
        self.finds(asked, &mut event);
        match done.outcome {
            Outcome::Returned(value) => self.succeeds(asked, done, value, &mut event),
            Outcome::Failed(ENOENT) => {
                // Whatever was thought to be there is not. Where there are two names, it may have
                // been either; of `missing/../file`, what stands before `..`.
                event.offset = asked.number(Argument::Offset);
                if let (Some(path), None) = (event.path, event.path2)
                    && !self.places.has_dots(path)
                {
                    self.places.remove(path);
                }
                event.file = event.open.and(event.file);
            }
            Outcome::Failed(error) => {
                event.offset = asked.number(Argument::Offset);
                self.denies(asked, error, &mut event);
            }
            Outcome::Restarted => event.offset = asked.number(Argument::Offset),
            Outcome::Unknown => {
                if asked.effect() == Effect::Exit {
                    self.remove_thread(asked.pid);
                }
            }
        }
        event
    }

    /// A call has failed, and what is there may be why: whoever changes it then changes the same
    /// file.
    fn denies(&mut self, asked: &Request<'_>, error: u16, event: &mut Event) {
        let looks = matches!(asked.effect(), Effect::Open | Effect::Look | Effect::Change);
        if let (Some(path), None) = (event.path, event.file)
            && looks
            && THERE.contains(&error)
        {
            event.file = Some(self.places.met(path, crate::names::Kind::File));
        }
    }

    /// Names and descriptors of the arguments.
    fn finds(&mut self, asked: &Request<'_>, event: &mut Event) {
        self.name(asked, event);
        let is_made = matches!(
            asked.effect(),
            Effect::Open | Effect::New | Effect::Memory | Effect::Fork | Effect::Execute
        );
        if event.outcome == Outcome::Failed(EBADF) || is_made && asked.part(Argument::Path).is_some() {
            return;
        }
        if let Some(found) = asked.descriptor(Argument::Fd) {
            event.open = self.open_of(asked.pid, &found);
        }
        if let Some(found) = asked.descriptor(Argument::Out) {
            event.open2 = self.open_of(asked.pid, &found);
        }
        self.files_of(event);
    }

    /// The files of its open files.
    fn files_of(&self, event: &mut Event) {
        let file = |open: Option<OpenId>| open.and_then(|open| Some(self.opens.get(open)?.file));
        event.file = file(event.open).or(event.file);
        event.file2 = file(event.open2).or(event.file2);
    }

    fn succeeds(&mut self, asked: &Request<'_>, done: &CallResult<'_>, value: i64, event: &mut Event) {
        match asked.effect() {
            Effect::Open | Effect::Memory | Effect::New => self.makes(asked, done, value, event),
            Effect::Pair => self.pair(asked, event),
            Effect::Dup => self.dup(asked, value, asked.is_marked(event.flags), event),
            Effect::Fcntl => self.fcntl(asked, value, event),
            Effect::Ioctl => self.ioctl(asked, event),
            Effect::CloseRange => self.close_range(asked, event),
            Effect::Receive => self.received(asked, event),
            Effect::Fork => self.forks(asked, value, event),
            Effect::Execute => self.executes(asked, event),
            Effect::Unshare => self.unshares(asked),
            Effect::Exit => {
                self.remove_thread(asked.pid);
            }
            Effect::Wait => {
                event.offset = asked.number(Argument::Offset);
                event.other = u32::try_from(value).ok().and_then(|pid| self.waited(asked, pid));
            }
            Effect::Read | Effect::Write => self.data(asked, value, event),
            Effect::Transfer => self.transfer(asked, value, event),
            Effect::Seek => self.seek(asked, value, event),
            Effect::Truncate | Effect::Allocate => self.sized(asked, event),
            Effect::List => self.set_kind(event.file, crate::names::Kind::Directory),
            Effect::Map => self.maps(asked, value, event),
            Effect::Unmap => self.unmaps(asked, event),
            Effect::Remap => self.remaps(asked, value),
            Effect::Sync => self.syncs(asked, event),
            Effect::Advise => event.offset = asked.number(Argument::Offset),
            Effect::Submit => self.submits(asked, value, event),
            Effect::Lock => {}
            Effect::Root if asked.known.name == "chroot" => self.set_root(asked.pid, event),
            _ => self.tree(asked, value, event),
        }
    }
}
