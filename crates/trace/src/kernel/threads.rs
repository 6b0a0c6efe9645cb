//! Threads: which exist, what they share, and which program they execute.

use std::cell::Cell;
use std::collections::HashMap;

use crate::constants::{CLONE_FILES, CLONE_FS};
use crate::event::{Event, FileId, ThreadId};
use crate::hash::BuildMixer;
use crate::kernel::tables::Table;
use crate::kernel::{Kernel, Request};
use crate::names::ThreadEntry;
use crate::syscalls::Effect;

#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    /// Index of the table of descriptors.
    table: usize,
    /// Index of its directories.
    directories: usize,
}

/// The directories of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Directories {
    /// The working directory.
    directory: Option<FileId>,
    /// The root directory after chroot(2).
    root: Option<FileId>,
}

/// The existing threads, by id.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: HashMap<u32, Thread, BuildMixer>,
    /// The last thread that was looked up: each call looks up its own thread several times.
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

/// What a new thread shares with its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Birth {
    files: bool,
    directory: bool,
    process: bool,
}

impl Birth {
    /// From the arguments of fork(2) or clone(2).
    pub fn of(request: &Request<'_>) -> Self {
        Self {
            files: request.shares(b"CLONE_FILES"),
            directory: request.shares(b"CLONE_FS"),
            process: request.shares(b"CLONE_THREAD"),
        }
    }

    /// A thread of the same process.
    pub const THREAD: Self = Self {
        files: true,
        directory: true,
        process: true,
    };
    /// A new process.
    pub const PROCESS: Self = Self {
        files: false,
        directory: false,
        process: false,
    };
}

impl Kernel {
    /// Whether this thread is known.
    pub fn knows(&self, pid: u32) -> bool {
        self.threads.knows(pid)
    }

    /// Adds a thread that `parent` makes. A known thread is not changed.
    pub fn add_thread(&mut self, pid: u32, parent: u32, birth: Birth) {
        if self.knows(pid) {
            return;
        }
        let parent_thread = self.thread(parent);
        let table = if birth.files {
            self.tables.share(parent_thread.table);
            parent_thread.table
        } else {
            self.copy_of(parent_thread.table)
        };
        let directories = if birth.directory {
            self.directories.share(parent_thread.directories);
            parent_thread.directories
        } else {
            let copy = *self.directories.get(parent_thread.directories);
            self.directories.add(copy)
        };
        let process = self
            .names()
            .threads()
            .get(parent_thread.id.index())
            .map(|entry| entry.pid);
        let entry = ThreadEntry {
            tid: pid,
            pid: process.filter(|_| birth.process).unwrap_or(pid),
            parent: Some(parent_thread.id),
        };
        if let Some(process) = process.filter(|_| !birth.process) {
            self.maps.copy(process, pid);
        }
        self.insert(entry, table, directories);
    }

    /// Removes a thread. Returns its id if it existed.
    pub fn remove_thread(&mut self, pid: u32) -> Option<ThreadId> {
        let thread = self.threads.remove(pid)?;
        if let Some(table) = self.tables.leave(thread.table) {
            for slot in table.all() {
                self.opens.release(slot.open);
            }
        }
        self.directories.leave(thread.directories);
        self.maps.end(pid);
        Some(thread.id)
    }

    /// Handles the execution of a program by thread `by` of process `pid`: that thread has the id
    /// `pid` from now on, and all others have ended. Returns the id of the thread that had `pid`.
    pub fn replace_thread(&mut self, pid: u32, by: u32) -> Option<ThreadId> {
        let executing = self.threads.remove(by)?;
        let replaced = self.remove_thread(pid);
        if let Some(&entry) = self.names().threads().get(executing.id.index()) {
            self.names_mut()
                .set_thread(executing.id, ThreadEntry { tid: pid, ..entry });
        }
        self.threads.insert(pid, executing);
        self.ids.insert(pid, executing.id);
        replaced
    }

    /// The last thread with this id, also if it has ended.
    pub fn thread_id(&self, pid: u32) -> Option<ThreadId> {
        self.ids.get(&pid).copied()
    }

    /// The thread with this id. An unknown thread existed before the trace began.
    pub(super) fn thread(&mut self, pid: u32) -> Thread {
        if let Some(thread) = self.threads.get(pid) {
            return thread;
        }
        let (table, directories) = (
            self.tables.add(Table::default()),
            self.directories.add(Directories::default()),
        );
        let entry = ThreadEntry {
            tid: pid,
            pid,
            parent: None,
        };
        self.insert(entry, table, directories)
    }

    fn insert(&mut self, entry: ThreadEntry, table: usize, directories: usize) -> Thread {
        let id = self
            .names_mut()
            .add_thread(entry)
            .expect("memory is exhausted before 2^32 threads exist");
        let thread = Thread {
            id,
            table,
            directories,
        };
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

    /// Makes the table of the thread private to it.
    pub(super) fn own_table(&mut self, pid: u32) {
        let thread = self.thread(pid);
        if self.tables.is_shared(thread.table) {
            let table = self.copy_of(thread.table);
            self.tables.leave(thread.table);
            self.threads.insert(pid, Thread { table, ..thread });
        }
    }

    /// The working directory, if known.
    pub(super) fn directory(&mut self, pid: u32) -> Option<FileId> {
        let directories = self.thread(pid).directories;
        self.directories.get(directories).directory
    }

    /// The root directory of the thread, if it is not that of the host.
    pub(super) fn root(&mut self, pid: u32) -> Option<FileId> {
        if !self.has_roots {
            return None;
        }
        let directories = self.thread(pid).directories;
        self.directories.get(directories).root
    }

    /// Handles chroot(2): sets the root directory of the thread.
    pub(super) fn set_root(&mut self, pid: u32, event: &mut Event) {
        let root = event
            .path
            .map(|path| self.paths.find_or_add(path, crate::names::Kind::Directory));
        event.file = root;
        let directories = self.thread(pid).directories;
        self.directories.get(directories).root = root;
        self.has_roots = true;
    }

    /// Sets the working directory of the thread, and of all threads that share it.
    pub(super) fn set_working_directory(&mut self, pid: u32, directory: FileId) {
        let directories = self.thread(pid).directories;
        self.directories.get(directories).directory = Some(directory);
    }

    pub(super) fn fork(&mut self, request: &Request<'_>, child: i64, event: &mut Event) {
        if let Some(child) = u32::try_from(child).ok().filter(|&child| child > 0) {
            self.add_thread(child, request.pid, Birth::of(request));
            event.other = self.thread_id(child);
        }
    }

    pub(super) fn execute(&mut self, request: &Request<'_>, event: &mut Event) {
        if let Some(path) = event.path {
            event.file = Some(self.paths.find_or_add(path, crate::names::Kind::File));
        }
        self.maps.end(request.pid);
        self.own_table(request.pid);
        let closed = self.table(request.pid).sweep();
        for slot in closed {
            self.opens.release(slot.open);
        }
    }

    pub(super) fn unshare(&mut self, request: &Request<'_>) {
        let flags = request.flags().unwrap_or(0);
        if request.call.name != "unshare" {
            return;
        }
        if flags & CLONE_FILES != 0 {
            self.own_table(request.pid);
        }
        let thread = self.thread(request.pid);
        if flags & CLONE_FS != 0 && self.directories.is_shared(thread.directories) {
            let copy = *self.directories.get(thread.directories);
            self.directories.leave(thread.directories);
            let directories = self.directories.add(copy);
            self.threads.insert(
                request.pid,
                Thread {
                    directories,
                    ..thread
                },
            );
        }
    }

    /// The thread for which wait4(2) or waitpid(2) waited.
    pub(super) fn waited_thread(&self, request: &Request<'_>, pid: u32) -> Option<ThreadId> {
        let is_wait = request.effect() == Effect::Wait && matches!(request.call.name, "wait4" | "waitpid");
        self.thread_id(pid).filter(|_| is_wait && pid > 0)
    }
}
