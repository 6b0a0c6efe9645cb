//! The file system beneath the root before a replay, as the simulation reads it.

use std::io;

use serde::{Deserialize, Serialize};

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Unknown whether it is a file or a directory. Never on a disk.
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a FIFO or a socket.
    Other,
}

impl Kind {
    /// The type according to the type bits of a mode; unknown if it has none: inode(7).
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

/// A file on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskEntry {
    /// Type; never unknown.
    pub kind: Kind,
    /// Size, bytes.
    pub size: u64,
    /// Rights of this process, as bits: 4 read, 2 write, 1 search or execute.
    pub allowed: u32,
}

/// The real file system below the root. Each name is read at most once, when the simulation needs
/// it. Paths are relative to the root, without `.`, `..` and symbolic links before the last
/// component: the simulation resolves these itself.
pub trait Disk {
    /// The file at a path, links not followed; none if nothing exists there.
    fn lstat(&self, path: &[u8]) -> io::Result<Option<DiskEntry>>;
    /// Target of a symbolic link.
    fn readlink(&self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// The names in a directory, without `.` and `..`.
    fn list(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>>;
}
