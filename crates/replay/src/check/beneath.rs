//! The root directory of a check. All operations stay beneath it.
//!
//! Paths are those of the simulation: relative, without `.`, `..` and symbolic links before the
//! last component, because the simulation has resolved these. Each path is walked component by
//! component with `O_NOFOLLOW` from the descriptor of the root. A link that another process creates
//! in the path is therefore not followed.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, mkfifoat, symlinkat, unlinkat};

use super::disk::{Disk, DiskEntry, Kind};

/// An open directory. It remains the same directory if it is renamed.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
}

/// Rights of this process on a name: bit and argument of faccessat(2).
const RIGHTS: [(u32, AccessFlags); 3] = [
    (4, AccessFlags::R_OK),
    (2, AccessFlags::W_OK),
    (1, AccessFlags::X_OK),
];

impl Beneath {
    /// Opens the root. `root` itself may be a link; links beneath it are not followed.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(root, flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// The parent directory of a path, and its last component. The root itself has none.
    fn parent(&self, path: &[u8]) -> io::Result<(OwnedFd, CString)> {
        let parts = path.split(|&byte| byte == b'/');
        if parts.clone().any(|part| matches!(part, b"" | b"." | b"..")) {
            return Err(io::Error::from(Errno::EINVAL));
        }
        let mut dir = self.root.try_clone()?;
        let mut parts = parts.peekable();
        while let Some(part) = parts.next() {
            let part = CString::new(part)?;
            if parts.peek().is_none() {
                return Ok((dir, part));
            }
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            dir = openat(&dir, part.as_c_str(), flags, Mode::empty())?;
        }
        Err(io::Error::from(Errno::EINVAL))
    }

    fn open_at(&self, path: &[u8], flags: OFlag, mode: u32) -> io::Result<OwnedFd> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let mode = Mode::from_bits_truncate(mode & 0o777);
        if path.is_empty() {
            return Ok(openat(&self.root, ".", flags, mode)?);
        }
        let (dir, name) = self.parent(path)?;
        Ok(openat(&dir, name.as_c_str(), flags, mode)?)
    }

    /// The result of lstat(2) for a path; none if nothing exists there.
    pub(super) fn stat(&self, path: &[u8]) -> io::Result<Option<FileStat>> {
        let parent = match self.parent(path) {
            Ok(parent) => parent,
            Err(error) => return none_if_absent(error),
        };
        match fstatat(&parent.0, parent.1.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) => none_if_absent(error.into()),
        }
    }

    /// Creates a regular file for reading and writing. It must not exist.
    pub(super) fn create(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_at(path, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL, 0o600)
    }

    /// Opens an existing regular file for writing.
    pub(super) fn write(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let file = self.open_at(path, OFlag::O_WRONLY, 0)?;
        if Kind::of(fstat(&file)?.st_mode) != Kind::File {
            return Err(io::Error::from(Errno::EINVAL));
        }
        Ok(file)
    }

    /// Opens an existing file for reading.
    pub(super) fn read(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_at(path, OFlag::O_RDONLY, 0)
    }

    pub(super) fn make_directory(&self, path: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(mkdirat(&dir, name.as_c_str(), Mode::S_IRWXU)?)
    }

    pub(super) fn make_link(&self, path: &[u8], target: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(symlinkat(OsStr::from_bytes(target), &dir, name.as_c_str())?)
    }

    pub(super) fn make_fifo(&self, path: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(mkfifoat(&dir, name.as_c_str(), Mode::S_IRUSR | Mode::S_IWUSR)?)
    }

    /// Sets the nine permission bits of a file or directory, never other bits.
    pub(super) fn set_mode(&self, path: &[u8], mode: u32) -> io::Result<()> {
        // fchmod(2) does not accept a descriptor of O_PATH, and chmod(2) follows links. The name in
        // /proc denotes the file of the descriptor itself.
        let file = self.open_at(path, OFlag::O_PATH, 0)?;
        if Kind::of(fstat(&file)?.st_mode) == Kind::Link {
            return Err(io::Error::from(Errno::ELOOP));
        }
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode & 0o777);
        std::fs::set_permissions(name, permissions)
    }

    pub(super) fn unlink(&self, path: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(unlinkat(&dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?)
    }

    pub(super) fn remove_directory(&self, path: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(unlinkat(&dir, name.as_c_str(), UnlinkatFlags::RemoveDir)?)
    }

    pub(super) fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        Ok(nix::fcntl::renameat(
            &from.0,
            from.1.as_c_str(),
            &to.0,
            to.1.as_c_str(),
        )?)
    }

    /// Syncs the root, so that created and renamed names survive a crash.
    pub(super) fn sync(&self) -> io::Result<()> {
        let root = self.open_at(b"", OFlag::O_RDONLY | OFlag::O_DIRECTORY, 0)?;
        Ok(nix::unistd::fsync(&root)?)
    }

    /// Free bytes that this process may use.
    pub(super) fn free(&self) -> io::Result<u64> {
        let root = self.open_at(b"", OFlag::O_RDONLY | OFlag::O_DIRECTORY, 0)?;
        let space = nix::sys::statvfs::fstatvfs(&root)?;
        Ok(space.blocks_available().saturating_mul(space.fragment_size()))
    }
}

impl AsFd for Beneath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

impl Disk for Beneath {
    fn lstat(&self, path: &[u8]) -> io::Result<Option<DiskEntry>> {
        let Some(stat) = self.stat(path)? else {
            return Ok(None);
        };
        let (dir, name) = self.parent(path)?;
        let flags = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
        let may = |right| faccessat(&dir, name.as_c_str(), right, flags).is_ok();
        let allowed = RIGHTS.iter().filter(|&&(_, right)| may(right));
        Ok(Some(DiskEntry {
            kind: Kind::of(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            allowed: allowed.map(|(bit, _)| bit).sum(),
        }))
    }

    fn readlink(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = self.parent(path)?;
        Ok(readlinkat(&dir, name.as_c_str())?.into_vec())
    }

    fn list(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let file = self.open_at(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY, 0)?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(file)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// None if `error` says that nothing exists at a path, or that a component above it is not a
/// directory.
fn none_if_absent<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP) => Ok(None),
        _ => Err(error),
    }
}
