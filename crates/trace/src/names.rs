//! The tables of a trace: what the ids of its events stand for. They only grow, but for what is
//! learnt later of an entry.

use std::collections::BTreeSet;

use crate::event::{FileId, PathId, ThreadId};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file, or one of which nothing else is known.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device: `/dev/null`, a terminal.
    Device,
    /// A pipe, with or without a name.
    Pipe,
    /// A socket.
    Socket,
    /// A file in memory without a name: `memfd_create`.
    Memory,
    /// eventfd, epoll and the like; whatever else is no file.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Directory,
        Self::Link,
        Self::Device,
        Self::Pipe,
        Self::Socket,
        Self::Memory,
        Self::Other,
    ];
}

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEntry {
    /// What it is.
    pub kind: Kind,
    /// The name under which it was first met; `unknown:PID:FD` for what was open before the trace
    /// began and has none.
    pub path: PathId,
}

/// One thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEntry {
    /// Its id on the traced host.
    pub tid: u32,
    /// That of its process, as far as it is known.
    pub pid: u32,
    /// Who made it; none for the first one, and for those that were there before the trace.
    pub parent: Option<ThreadId>,
}

/// All tables of a trace.
#[derive(Debug, Clone, Default)]
pub struct Names {
    paths: Vec<Box<[u8]>>,
    files: Vec<FileEntry>,
    threads: Vec<ThreadEntry>,
    changed_files: BTreeSet<FileId>,
    changed_threads: BTreeSet<ThreadId>,
}

impl Names {
    /// All names of files, each once, as bytes: absolute where the working directory was known,
    /// joined with it, without `.` and empty parts; `..` stays, as it may follow a symbolic link.
    pub fn paths(&self) -> &[Box<[u8]>] {
        &self.paths
    }

    /// All files.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// All threads.
    pub fn threads(&self) -> &[ThreadEntry] {
        &self.threads
    }

    /// What is written of a path; empty for an id of another trace.
    pub fn path(&self, id: PathId) -> &[u8] {
        self.paths.get(id.index()).map_or(b"", |path| path)
    }

    /// Adds a name. Whoever adds sees to it that it is not there yet. None where there are too
    /// many.
    pub fn add_path(&mut self, path: &[u8]) -> Option<PathId> {
        let id = PathId::new(self.paths.len())?;
        self.paths.push(path.into());
        Some(id)
    }

    /// Adds a file. None where there are too many.
    pub fn add_file(&mut self, file: FileEntry) -> Option<FileId> {
        let id = FileId::new(self.files.len())?;
        self.files.push(file);
        Some(id)
    }

    /// Adds a thread. None where there are too many.
    pub fn add_thread(&mut self, thread: ThreadEntry) -> Option<ThreadId> {
        let id = ThreadId::new(self.threads.len())?;
        self.threads.push(thread);
        Some(id)
    }

    /// More is known of a file. An id of another trace changes nothing.
    pub fn set_file(&mut self, id: FileId, file: FileEntry) {
        if let Some(entry) = self.files.get_mut(id.index()).filter(|entry| **entry != file) {
            *entry = file;
            self.changed_files.insert(id);
        }
    }

    /// More is known of a thread. An id of another trace changes nothing.
    pub fn set_thread(&mut self, id: ThreadId, thread: ThreadEntry) {
        if let Some(entry) = self.threads.get_mut(id.index()).filter(|entry| **entry != thread) {
            *entry = thread;
            self.changed_threads.insert(id);
        }
    }

    /// Entries that were changed since this was last asked; they may be new ones.
    pub fn take_changed(&mut self) -> (BTreeSet<FileId>, BTreeSet<ThreadId>) {
        (
            std::mem::take(&mut self.changed_files),
            std::mem::take(&mut self.changed_threads),
        )
    }
}
