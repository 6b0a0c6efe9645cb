//! The sandbox: a directory that no name leads out of.
//!
//! The kernel resolves names (openat2(2) with `RESOLVE_BENEATH`). Before Linux 5.6, this module
//! resolves them component by component with `O_NOFOLLOW`. Most calls act on the last component in
//! a descriptor of its directory, which is cached (`cache`), so that a link that another process
//! creates in the path is never followed. If the last component is a link that must be followed,
//! the whole name is resolved.
//!
//! The sandbox has two limits. An existing hard link to a file outside is a file inside. And a
//! directory that another process moves out of the root during a replay remains the directory of
//! that replay: its contents are accessed at their new path, and nothing else is reachable through
//! it.

mod act;
mod cache;
mod name;
mod walk;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libc::{c_int, c_uint};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

pub(crate) use act::expect_of_user;
use cache::DirectoryCache;
pub use name::Name;

/// Error of opening the root.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} cannot be the root of a replay: {why}. Use a directory that this process may read and search"
)]
pub struct RootError {
    path: PathBuf,
    why: io::Error,
}

/// Reason why a call was not made or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// The sandbox refused the call.
    Refused(Refusal),
    /// The kernel returned this error.
    Failed(Errno),
}

impl From<Errno> for CallFailure {
    fn from(why: Errno) -> Self {
        Self::Failed(why)
    }
}

impl From<Refusal> for CallFailure {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// Reason why the sandbox refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// The name, or a link in its path, leads out of the root.
    #[error("the name leaves the root")]
    Leaves,
    /// A device, a socket or a pipe: opening it may have any effect.
    #[error("neither a regular file nor a directory")]
    Special,
    /// An extended attribute outside the namespace `user.`.
    #[error("the attribute is not one of a user's")]
    Attribute,
    /// A device node.
    #[error("device nodes are not made")]
    Device,
    /// Ownership, mounts, the root of the process and other properties of the system.
    #[error("what belongs to the system is not changed")]
    System,
}

/// Method of resolving names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolve {
    /// By the kernel: openat2(2), since Linux 5.6.
    Kernel,
    /// Component by component.
    Walk,
}

/// A directory and everything beneath it.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    resolve: Resolve,
    cache: DirectoryCache,
}

/// The directory of the last component of a name.
enum ParentDir<'a> {
    Root(BorrowedFd<'a>),
    Beneath(OwnedFd),
    Kept(Arc<OwnedFd>),
}

impl AsFd for ParentDir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(directory) => *directory,
            Self::Beneath(directory) => directory.as_fd(),
            Self::Kept(directory) => directory.as_fd(),
        }
    }
}

/// `struct open_how` of openat2(2).
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Maximum number of retries of a resolution that a rename has disturbed, before it is done
/// component by component.
const RETRIES: usize = 64;

impl Root {
    /// Opens a directory as root; `path` may be a link. Names are resolved by the kernel if it
    /// supports that.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let mut root = Self::open_walking(path)?;
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        if by_kernel(root.directory.as_fd(), c".", flags, 0, 0).is_ok() {
            root.resolve = Resolve::Kernel;
        }
        Ok(root)
    }

    /// As [`Self::open`], but names are resolved component by component.
    pub fn open_walking(path: &Path) -> Result<Self, RootError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = nix::fcntl::open(path, flags, Mode::empty()).map_err(|why| RootError {
            path: path.to_owned(),
            why: why.into(),
        })?;
        Ok(Self {
            directory,
            resolve: Resolve::Walk,
            cache: DirectoryCache::default(),
        })
    }

    /// Clears the cache of directories: other processes may have removed or made directories since
    /// the last use.
    pub fn forget(&self) {
        self.cache.forget();
    }

    /// Method by which names are resolved.
    pub fn resolve(&self) -> Resolve {
        self.resolve
    }

    /// Opens a regular file or a directory. `flags` are those of open(2) on this machine. `mode`
    /// are the permissions of a file that is made, without setuid, setgid and sticky bits. With
    /// `O_PATH`, files of any type may be opened. The descriptor is closed on execve, does not
    /// become the controlling terminal, and does not block.
    ///
    /// # Errors
    /// Errors of open(2), [`Refusal::Leaves`], [`Refusal::Special`].
    pub fn open_file(&self, name: &Name, flags: c_int, mode: c_uint) -> Result<OwnedFd, CallFailure> {
        let flags = flags | libc::O_CLOEXEC;
        if flags & libc::O_PATH != 0 {
            let few = libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            return self.reach(name.whole(), flags & few, 0);
        }
        // If another process replaces the file by a pipe, the open must not block.
        let flags = flags | libc::O_NOCTTY | libc::O_NONBLOCK;
        match self.open_beside(name, flags, mode & 0o777)? {
            Some(file) => Ok(file),
            None => expect_ordinary(self.reach(name.whole(), flags, mode & 0o777)?),
        }
    }

    /// A descriptor (`O_PATH`) that only identifies the file.
    pub(crate) fn locate(&self, name: &Name, follow: bool) -> Result<OwnedFd, CallFailure> {
        let stay = if follow { 0 } else { libc::O_NOFOLLOW };
        self.reach(name.whole(), libc::O_PATH | libc::O_CLOEXEC | stay, 0)
    }

    /// The directory of the last component of a name, which must be a name that a directory can
    /// contain.
    fn parent_dir(&self, name: &Name) -> Result<ParentDir<'_>, CallFailure> {
        if !name.has_last() {
            // The last component is the root itself or `..`. Calls on directory entries are not
            // possible for these.
            return Err(Errno::EINVAL.into());
        }
        let Some(parent) = name.parent() else {
            return Ok(ParentDir::Root(self.directory.as_fd()));
        };
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        if self.resolve == Resolve::Kernel {
            let age = match self.cache.get(parent) {
                Ok(kept) => return Ok(ParentDir::Kept(kept)),
                Err(age) => age,
            };
            let directory = self.directory.as_fd();
            // If the path contains a link, or does not exist, the full resolution below decides.
            if let Ok(directory_fd) = by_kernel(directory, parent, flags, 0, libc::RESOLVE_NO_SYMLINKS) {
                let directory_fd = Arc::new(directory_fd);
                self.cache.keep(parent, &directory_fd, age);
                return Ok(ParentDir::Kept(directory_fd));
            }
        }
        self.reach(parent, flags, 0).map(ParentDir::Beneath)
    }

    /// Opens a file in its directory. None if the whole name must be resolved, because it ends in a
    /// link or has no last component.
    ///
    /// # Errors
    /// As [`Self::open_file`].
    fn open_beside(&self, name: &Name, flags: c_int, mode: c_uint) -> Result<Option<OwnedFd>, CallFailure> {
        let is_nameless = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if self.resolve == Resolve::Walk {
            return Ok(None);
        }
        if !name.has_last() || is_nameless {
            self.expect_ordinary(name)?;
            return Ok(None);
        }
        let parent_dir = self.parent_dir(name)?;
        // Opening a device or a pipe may have an effect, so the type is checked first. If a pipe is
        // created in between, the open does not block. Only the administrator can create a device.
        let look = AtFlags::AT_NO_AUTOMOUNT | AtFlags::AT_SYMLINK_NOFOLLOW;
        let is_there = match fstatat(&parent_dir, name.last(), look) {
            Ok(status) if is_link(status.st_mode) => {
                self.expect_ordinary(name)?;
                return Ok(None);
            }
            Ok(status) if !is_ordinary(status.st_mode) => return Err(Refusal::Special.into()),
            Err(Errno::ENOENT) if flags & libc::O_CREAT == 0 => return Err(Errno::ENOENT.into()),
            status => status.is_ok(),
        };
        let mode = Mode::from_bits_truncate(mode);
        let how = OFlag::from_bits_retain(flags | libc::O_NOFOLLOW);
        match openat(&parent_dir, name.last(), how, mode) {
            // A link was created in between.
            Err(Errno::ELOOP) => Ok(None),
            other if is_there || flags & libc::O_EXCL != 0 => Ok(Some(other?)),
            other => expect_ordinary(other?).map(Some),
        }
    }

    fn expect_ordinary(&self, name: &Name) -> Result<(), CallFailure> {
        // This may read the type of a file outside. The following open stays beneath the root.
        match fstatat(&self.directory, name.whole(), AtFlags::AT_NO_AUTOMOUNT) {
            Ok(status) if !is_ordinary(status.st_mode) => Err(Refusal::Special.into()),
            _ => Ok(()),
        }
    }

    fn reach(&self, path: &CStr, flags: c_int, mode: c_uint) -> Result<OwnedFd, CallFailure> {
        let directory = self.directory.as_fd();
        if self.resolve == Resolve::Kernel {
            for _ in 0..RETRIES {
                match by_kernel(directory, path, flags, mode, 0) {
                    Err(Errno::EAGAIN) => {}
                    Err(Errno::EXDEV) => return Err(Refusal::Leaves.into()),
                    other => return other.map_err(CallFailure::Failed),
                }
            }
        }
        walk::walk(directory, path.to_bytes(), flags, mode)
    }
}

fn is_ordinary(mode: libc::mode_t) -> bool {
    let kind = SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits());
    kind == SFlag::S_IFREG || kind == SFlag::S_IFDIR
}

fn expect_ordinary(file: OwnedFd) -> Result<OwnedFd, CallFailure> {
    let status = fstat(&file)?;
    if is_ordinary(status.st_mode) {
        Ok(file)
    } else {
        Err(Refusal::Special.into())
    }
}

fn is_link(mode: libc::mode_t) -> bool {
    SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) == SFlag::S_IFLNK
}

/// openat2(2); `resolve` is added to the flags that are always set.
fn by_kernel(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    mode: c_uint,
    resolve: u64,
) -> Result<OwnedFd, Errno> {
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let how = How {
        flags: u64::from(flags.cast_unsigned()),
        mode: if makes { u64::from(mode) } else { 0 },
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | resolve,
    };
    // SAFETY: the path ends in a zero. `how` lives as long as the call and has the passed size.
    let number = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            directory.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<How>(),
        )
    };
    let number = Errno::result(number)?;
    // SAFETY: the kernel has just returned the descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}
