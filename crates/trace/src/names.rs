//! The tables of a trace, to which the ids of its events refer. Entries are only added; an entry
//! changes if more becomes known about it.

use std::collections::BTreeSet;

use crate::event::{FileId, PathId, ThreadId};

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file, or a file of unknown kind.
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
    /// eventfd, epoll, and any other descriptor that is not a file.
    Other,
}

impl Kind {
    /// All kinds.
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

/// An entry of the table of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEntry {
    /// The kind of the file.
    pub kind: Kind,
    /// The first path of the file in the trace; `unknown:PID:FD` for a file that was opened before
    /// the trace began and has no known path.
    pub path: PathId,
}

/// An entry of the table of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEntry {
    /// The thread id on the traced host.
    pub tid: u32,
    /// The id of its process, if known.
    pub pid: u32,
    /// The thread that created it; None for the first thread and for threads that existed before
    /// the trace began.
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
    /// All paths, each once, as bytes. They are absolute if the working directory was known: joined
    /// with it, without `.` and empty parts. `..` remains, because it may follow a symbolic link.
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

    /// The bytes of a path; empty if the id is not in the table.
    pub fn path(&self, id: PathId) -> &[u8] {
        self.paths.get(id.index()).map_or(b"", |path| path)
    }

    /// Adds a path. The caller ensures that it is new. None if the table is full.
    pub fn add_path(&mut self, path: &[u8]) -> Option<PathId> {
        let id = PathId::new(self.paths.len())?;
        self.paths.push(path.into());
        Some(id)
    }

    /// Adds a file. None if the table is full.
    pub fn add_file(&mut self, file: FileEntry) -> Option<FileId> {
        let id = FileId::new(self.files.len())?;
        self.files.push(file);
        Some(id)
    }

    /// Adds a thread. None if the table is full.
    pub fn add_thread(&mut self, thread: ThreadEntry) -> Option<ThreadId> {
        let id = ThreadId::new(self.threads.len())?;
        self.threads.push(thread);
        Some(id)
    }

    /// Replaces the entry of a file. An id that is not in the table has no effect.
    pub fn set_file(&mut self, id: FileId, file: FileEntry) {
        if let Some(entry) = self.files.get_mut(id.index()).filter(|entry| **entry != file) {
            *entry = file;
            self.changed_files.insert(id);
        }
    }

    /// Replaces the entry of a thread. An id that is not in the table has no effect.
    pub fn set_thread(&mut self, id: ThreadId, thread: ThreadEntry) {
        if let Some(entry) = self.threads.get_mut(id.index()).filter(|entry| **entry != thread) {
            *entry = thread;
            self.changed_threads.insert(id);
        }
    }

    /// Returns the entries that were changed since the previous call, including new ones that were
    /// changed.
    pub fn take_changed(&mut self) -> (BTreeSet<FileId>, BTreeSet<ThreadId>) {
        (
            std::mem::take(&mut self.changed_files),
            std::mem::take(&mut self.changed_threads),
        )
    }
}
