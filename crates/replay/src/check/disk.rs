//! What lies beneath the root before a replay, as the simulation asks for it.

use std::io;

use serde::{Deserialize, Serialize};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing tells whether it is a file or a directory. Never on a disk.
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a FIFO, a socket.
    Other,
}

impl Kind {
    /// By the type bits of a mode; unknown where it has none: inode(7).
    pub fn of(mode: u32) -> Self {
        match mode & 0o170_000 {
            0 => Self::Unknown,
            0o100_000 => Self::File,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Link,
            _ => Self::Other,
        }
    }
}

/// One name of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskEntry {
    /// What it is; never unknown.
    pub kind: Kind,
    /// Of a file, bytes.
    pub size: u64,
    /// What this process may do with it: 4 read, 2 write, 1 search or execute.
    pub allowed: u32,
}

/// The real file system below the root, asked lazily: each name once. Paths are relative to the
/// root, without `.`, `..` and symbolic links on their way: the simulation resolves them itself.
pub trait Disk {
    /// What a name stands for, links not followed; none where there is nothing.
    fn lstat(&self, path: &[u8]) -> io::Result<Option<DiskEntry>>;
    /// What a symbolic link holds.
    fn readlink(&self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// The names in a directory, without `.` and `..`.
    fn list(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>>;
}
