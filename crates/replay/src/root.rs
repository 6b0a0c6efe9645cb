//! The sandbox: a directory that no name leads out of.
//!
//! Names are resolved by the kernel (openat2(2) with `RESOLVE_BENEATH`), or, before Linux 5.6, component by component with
//! `O_NOFOLLOW`. What has no descriptor of its own to act on is done to the last component in a descriptor of its directory, so
//! that a link which somebody puts in the way meanwhile is never followed.
//!
//! Two things are beyond it. A hard link to a file outside, made before, is a file inside. And a directory that somebody else
//! moves out of the root while a call is going on is still the directory that the call has begun with.

mod act;
mod name;
mod walk;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use libc::{c_int, c_uint};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

pub(crate) use act::expect_of_user;
pub use name::Name;

/// Why the root cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be the root of a replay: {why}. Give a directory that you may read and search")]
pub struct RootError {
    path: PathBuf,
    why: io::Error,
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// We do not do that.
    Refused(Refusal),
    /// The kernel does not.
    Failed(Errno),
}

impl From<Errno> for Denied {
    fn from(why: Errno) -> Self {
        Self::Failed(why)
    }
}

impl From<Refusal> for Denied {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// What the sandbox keeps from happening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// A name, or a link on its way, leads out of the root.
    #[error("the name leaves the root")]
    Leaves,
    /// A device, a socket, or a pipe: opening it could do anything.
    #[error("neither a regular file nor a directory")]
    Special,
    /// An extended attribute that is not of the kind `user.`.
    #[error("the attribute is not one of a user's")]
    Attribute,
    /// A device node.
    #[error("device nodes are not made")]
    Device,
    /// Ownership, mounts, the root of the process and the like.
    #[error("what belongs to the system is not changed")]
    System,
}

/// How names are resolved.
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
}

/// Where a name's last component stands.
enum Place<'a> {
    Root(BorrowedFd<'a>),
    Beneath(OwnedFd),
}

impl AsFd for Place<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(directory) => *directory,
            Self::Beneath(directory) => directory.as_fd(),
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

/// How often a resolution is begun anew that a rename elsewhere has disturbed, before we walk.
const RETRIES: usize = 64;

impl Root {
    /// The directory of this name, which is the one that may be reached by links; it resolves as well as the kernel can.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let mut root = Self::open_walking(path)?;
        if by_kernel(root.directory.as_fd(), c".", libc::O_PATH | libc::O_CLOEXEC, 0).is_ok() {
            root.resolve = Resolve::Kernel;
        }
        Ok(root)
    }

    /// The same, never by openat2(2).
    pub fn open_walking(path: &Path) -> Result<Self, RootError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = nix::fcntl::open(path, flags, Mode::empty()).map_err(|why| RootError {
            path: path.to_owned(),
            why: why.into(),
        })?;
        Ok(Self {
            directory,
            resolve: Resolve::Walk,
        })
    }

    /// How names are resolved.
    pub fn resolve(&self) -> Resolve {
        self.resolve
    }

    /// Opens a regular file or a directory. `flags` are open(2)'s of this machine, `mode` the permissions of a file that is made;
    /// setuid, setgid and sticky bits are left out. Anything may be opened as a place only (`O_PATH`). The descriptor is closed on
    /// execve, is no controlling terminal, and does not block.
    ///
    /// # Errors
    /// What open(2) says, [`Refusal::Leaves`], [`Refusal::Special`].
    pub fn open_file(&self, name: &Name, flags: c_int, mode: c_uint) -> Result<OwnedFd, Denied> {
        let flags = flags | libc::O_CLOEXEC;
        if flags & libc::O_PATH != 0 {
            let few = libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            return self.reach(name.whole(), flags & few, 0);
        }
        if self.resolve == Resolve::Kernel {
            // Opening a device or a pipe could do something by itself, so what is there is looked at before.
            self.expect_ordinary(name)?;
        }
        // Whoever puts a pipe there meanwhile shall not hold us.
        let flags = flags | libc::O_NOCTTY | libc::O_NONBLOCK;
        let file = self.reach(name.whole(), flags, mode & 0o777)?;
        let found = fstat(&file)?;
        if is_ordinary(found.st_mode) {
            Ok(file)
        } else {
            Err(Refusal::Special.into())
        }
    }

    /// A descriptor of what the name stands for, good for nothing but to say which it is.
    pub(crate) fn locate(&self, name: &Name, follow: bool) -> Result<OwnedFd, Denied> {
        let stay = if follow { 0 } else { libc::O_NOFOLLOW };
        self.reach(name.whole(), libc::O_PATH | libc::O_CLOEXEC | stay, 0)
    }

    /// The directory of the name's last component, which must be one that a directory can have.
    fn place(&self, name: &Name) -> Result<Place<'_>, Denied> {
        if !name.has_last() {
            // Of the root itself, or of `..`: nothing that is done to a directory's entry can be done to it.
            return Err(Errno::EINVAL.into());
        }
        let Some(parent) = name.parent() else {
            return Ok(Place::Root(self.directory.as_fd()));
        };
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        self.reach(parent, flags, 0).map(Place::Beneath)
    }

    fn expect_ordinary(&self, name: &Name) -> Result<(), Denied> {
        // This may look at a file outside; nothing more, since what opens it stays beneath.
        match fstatat(&self.directory, name.whole(), AtFlags::AT_NO_AUTOMOUNT) {
            Ok(found) if !is_ordinary(found.st_mode) => Err(Refusal::Special.into()),
            _ => Ok(()),
        }
    }

    fn reach(&self, path: &CStr, flags: c_int, mode: c_uint) -> Result<OwnedFd, Denied> {
        let directory = self.directory.as_fd();
        if self.resolve == Resolve::Kernel {
            for _ in 0..RETRIES {
                match by_kernel(directory, path, flags, mode) {
                    Err(Errno::EAGAIN) => {}
                    Err(Errno::EXDEV) => return Err(Refusal::Leaves.into()),
                    other => return other.map_err(Denied::Failed),
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

fn by_kernel(directory: BorrowedFd<'_>, path: &CStr, flags: c_int, mode: c_uint) -> Result<OwnedFd, Errno> {
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let how = How {
        flags: u64::from(flags.cast_unsigned()),
        mode: if makes { u64::from(mode) } else { 0 },
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
    };
    // SAFETY: the path ends in a zero, and `how` lives as long as the call and has the size that is told.
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
    // SAFETY: the kernel has just given it to us, and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}
