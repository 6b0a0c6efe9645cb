//! Threads: which there are, what they share, which program they execute.

use std::cell::Cell;
use std::collections::HashMap;

use crate::constants::{CLONE_FILES, CLONE_FS};
use crate::event::{Event, FileId, ThreadId};
use crate::kernel::tables::Table;
use crate::kernel::{Kernel, Request};
use crate::mixed::Mixed;
use crate::names::ThreadEntry;
use crate::syscalls::Effect;

#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    /// Of descriptors.
    table: usize,
    /// Where its working directory is.
    room: usize,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    /// Its working directory.
    directory: Option<FileId>,
    /// Where its absolute names begin, after chroot(2).
    root: Option<FileId>,
}

/// Those that are there, by their ids.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: HashMap<u32, Thread, Mixed>,
    /// The one that was asked for last: each call asks several times for its own.
    last: Cell<Option<(u32, Thread)>>,
}

impl Threads {
    fn get(&self, pid: u32) -> Option<Thread> {
        if let Some((_, thread)) = self.last.get().filter(|&(last, _)| last == pid) {
            return Some(thread);
        }
        let thread = *self.all.get(&pid)?;
        self.last.set(Some((pid, thread)));
        Some(thread)
    }

    fn insert(&mut self, pid: u32, thread: Thread) {
        self.last.set(None);
        self.all.insert(pid, thread);
    }

    fn remove(&mut self, pid: u32) -> Option<Thread> {
        self.last.set(None);
        self.all.remove(&pid)
    }

    fn knows(&self, pid: u32) -> bool {
        self.get(pid).is_some()
    }
}

/// What a new thread has in common with its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Birth {
    files: bool,
    directory: bool,
    process: bool,
}

impl Birth {
    /// As fork(2) or clone(2) was asked for it.
    pub fn of(asked: &Request<'_>) -> Self {
        Self {
            files: asked.shares(b"CLONE_FILES"),
            directory: asked.shares(b"CLONE_FS"),
            process: asked.shares(b"CLONE_THREAD"),
        }
    }

    /// A thread of the same process.
    pub const THREAD: Self = Self {
        files: true,
        directory: true,
        process: true,
    };
    /// A process.
    pub const PROCESS: Self = Self {
        files: false,
        directory: false,
        process: false,
    };
}

impl Kernel {
    /// Whether this thread has been seen.
    pub fn knows(&self, pid: u32) -> bool {
        self.threads.knows(pid)
    }

    /// A thread that `parent` makes. One that is known already stays.
    pub fn add_thread(&mut self, pid: u32, parent: u32, birth: Birth) {
        if self.knows(pid) {
            return;
        }
        let mother = self.thread(parent);
        let table = if birth.files {
            self.tables.share(mother.table);
            mother.table
        } else {
            self.copy_of(mother.table)
        };
        let room = if birth.directory {
            self.rooms.share(mother.room);
            mother.room
        } else {
            let directory = *self.rooms.get(mother.room);
            self.rooms.add(directory)
        };
        let process = self
            .names()
            .threads()
            .get(mother.id.index())
            .map(|entry| entry.pid);
        let entry = ThreadEntry {
            tid: pid,
            pid: process.filter(|_| birth.process).unwrap_or(pid),
            parent: Some(mother.id),
        };
        if let Some(process) = process.filter(|_| !birth.process) {
            self.maps.copy(process, pid);
        }
        self.insert(entry, table, room);
    }

    /// The thread is gone. Gives its id where it was there.
    pub fn remove_thread(&mut self, pid: u32) -> Option<ThreadId> {
        let thread = self.threads.remove(pid)?;
        if let Some(table) = self.tables.leave(thread.table) {
            for slot in table.all() {
                self.opens.release(slot.open);
            }
        }
        self.rooms.leave(thread.room);
        self.maps.end(pid);
        Some(thread.id)
    }

    /// Thread `by` of process `pid` executes a program: it has that id from now on, and all others
    /// are gone. Gives the id of the thread that had it.
    pub fn replace_thread(&mut self, pid: u32, by: u32) -> Option<ThreadId> {
        let executing = self.threads.remove(by)?;
        let gone = self.remove_thread(pid);
        if let Some(&entry) = self.names().threads().get(executing.id.index()) {
            self.names_mut()
                .set_thread(executing.id, ThreadEntry { tid: pid, ..entry });
        }
        self.threads.insert(pid, executing);
        self.ids.insert(pid, executing.id);
        gone
    }

    /// The thread of this id, also one that is gone; of several, the last one.
    pub fn thread_id(&self, pid: u32) -> Option<ThreadId> {
        self.ids.get(&pid).copied()
    }

    /// One that nobody has seen yet was there before the trace began.
    pub(super) fn thread(&mut self, pid: u32) -> Thread {
        if let Some(thread) = self.threads.get(pid) {
            return thread;
        }
        let (table, room) = (self.tables.add(Table::default()), self.rooms.add(Room::default()));
        let entry = ThreadEntry {
            tid: pid,
            pid,
            parent: None,
        };
        self.insert(entry, table, room)
    }

    fn insert(&mut self, entry: ThreadEntry, table: usize, room: usize) -> Thread {
        let id = self
            .names_mut()
            .add_thread(entry)
            .expect("memory ends before four thousand million threads are there");
        let thread = Thread { id, table, room };
        self.threads.insert(entry.tid, thread);
        self.ids.insert(entry.tid, id);
        thread
    }

    pub(super) fn table(&mut self, pid: u32) -> &mut Table {
        let table = self.thread(pid).table;
        self.tables.get(table)
    }

    fn copy_of(&mut self, table: usize) -> usize {
        let copy = self.tables.get(table).clone();
        for slot in copy.all() {
            self.opens.hold(slot.open);
        }
        self.tables.add(copy)
    }

    /// From now on the thread has a table of its own.
    pub(super) fn own_table(&mut self, pid: u32) {
        let thread = self.thread(pid);
        if self.tables.is_shared(thread.table) {
            let table = self.copy_of(thread.table);
            self.tables.leave(thread.table);
            self.threads.insert(pid, Thread { table, ..thread });
        }
    }

    /// The working directory, as far as it is known.
    pub(super) fn directory(&mut self, pid: u32) -> Option<FileId> {
        let room = self.thread(pid).room;
        self.rooms.get(room).directory
    }

    /// The directory that its absolute names begin at, where that is not the root of the host.
    pub(super) fn root(&mut self, pid: u32) -> Option<FileId> {
        if !self.has_roots {
            return None;
        }
        let room = self.thread(pid).room;
        self.rooms.get(room).root
    }

    /// chroot(2): absolute names begin elsewhere from now on.
    pub(super) fn set_root(&mut self, pid: u32, event: &mut Event) {
        let root = event
            .path
            .map(|path| self.places.met(path, crate::names::Kind::Directory));
        event.file = root;
        let place = self.thread(pid).room;
        self.rooms.get(place).root = root;
        self.has_roots = true;
    }

    /// The thread, and all that share this with it, are in another directory.
    pub(super) fn enters(&mut self, pid: u32, directory: FileId) {
        let room = self.thread(pid).room;
        self.rooms.get(room).directory = Some(directory);
    }

    pub(super) fn forks(&mut self, asked: &Request<'_>, child: i64, event: &mut Event) {
        if let Some(child) = u32::try_from(child).ok().filter(|&child| child > 0) {
            self.add_thread(child, asked.pid, Birth::of(asked));
            event.other = self.thread_id(child);
        }
    }

    pub(super) fn executes(&mut self, asked: &Request<'_>, event: &mut Event) {
        if let Some(path) = event.path {
            event.file = Some(self.places.met(path, crate::names::Kind::File));
        }
        self.maps.end(asked.pid);
        self.own_table(asked.pid);
        let closed = self.table(asked.pid).sweep();
        for slot in closed {
            self.opens.release(slot.open);
        }
    }

    pub(super) fn unshares(&mut self, asked: &Request<'_>) {
        let flags = asked.flags().unwrap_or(0);
        if asked.known.name != "unshare" {
            return;
        }
        if flags & CLONE_FILES != 0 {
            self.own_table(asked.pid);
        }
        let thread = self.thread(asked.pid);
        if flags & CLONE_FS != 0 && self.rooms.is_shared(thread.room) {
            let directory = *self.rooms.get(thread.room);
            self.rooms.leave(thread.room);
            let room = self.rooms.add(directory);
            self.threads.insert(asked.pid, Thread { room, ..thread });
        }
    }

    /// Whom wait4(2) and its like have waited for.
    pub(super) fn waited(&self, asked: &Request<'_>, pid: u32) -> Option<ThreadId> {
        let is_wait = asked.effect() == Effect::Wait && matches!(asked.known.name, "wait4" | "waitpid");
        self.thread_id(pid).filter(|_| is_wait && pid > 0)
    }
}
