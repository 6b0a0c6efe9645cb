//! The sandbox: a directory that no name leads out of.
//!
//! Names are resolved by the kernel (openat2(2) with `RESOLVE_BENEATH`), or, before Linux 5.6,
//! component by component with `O_NOFOLLOW`. Most is done to the last component in a descriptor of
//! its directory, which is kept (`places`), so that a link which somebody puts in the way meanwhile
//! is never followed; where the last component is a link to be followed, the whole name is
//! resolved.
//!
//! Two things are beyond it. A hard link to a file outside, made before, is a file inside. And a
//! directory that somebody else moves out of the root while a replay goes on is still the directory
//! that the replay has begun with: what was in it is acted on where it is now, and nothing else can
//! be reached through it.

mod act;
mod name;
mod places;
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
pub use name::Name;
use places::Places;

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
    places: Places,
}

/// Where a name's last component stands.
enum Place<'a> {
    Root(BorrowedFd<'a>),
    Beneath(OwnedFd),
    Kept(Arc<OwnedFd>),
}

impl AsFd for Place<'_> {
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

/// How often a resolution is begun anew that a rename elsewhere has disturbed, before we walk.
const RETRIES: usize = 64;

impl Root {
    /// The directory of this name, which is the one that may be reached by links; it resolves as
    /// well as the kernel can.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let mut root = Self::open_walking(path)?;
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        if by_kernel(root.directory.as_fd(), c".", flags, 0, 0).is_ok() {
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
            places: Places::default(),
        })
    }

    /// Others may have removed and made directories since it was last used: all are looked up anew.
    pub fn forget(&self) {
        self.places.forget();
    }

    /// How names are resolved.
    pub fn resolve(&self) -> Resolve {
        self.resolve
    }

    /// Opens a regular file or a directory. `flags` are open(2)'s of this machine, `mode` the
    /// permissions of a file that is made; setuid, setgid and sticky bits are left out. Anything
    /// may be opened as a place only (`O_PATH`). The descriptor is closed on execve, is no
    /// controlling terminal, and does not block.
    ///
    /// # Errors
    /// What open(2) says, [`Refusal::Leaves`], [`Refusal::Special`].
    pub fn open_file(&self, name: &Name, flags: c_int, mode: c_uint) -> Result<OwnedFd, Denied> {
        let flags = flags | libc::O_CLOEXEC;
        if flags & libc::O_PATH != 0 {
            let few = libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            return self.reach(name.whole(), flags & few, 0);
        }
        // Whoever puts a pipe there meanwhile shall not hold us.
        let flags = flags | libc::O_NOCTTY | libc::O_NONBLOCK;
        match self.open_beside(name, flags, mode & 0o777)? {
            Some(file) => Ok(file),
            None => expect_ordinary(self.reach(name.whole(), flags, mode & 0o777)?),
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
            // Of the root itself, or of `..`: nothing that is done to a directory's entry can be
            // done to it.
            return Err(Errno::EINVAL.into());
        }
        let Some(parent) = name.parent() else {
            return Ok(Place::Root(self.directory.as_fd()));
        };
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        if self.resolve == Resolve::Kernel {
            let age = match self.places.get(parent) {
                Ok(kept) => return Ok(Place::Kept(kept)),
                Err(age) => age,
            };
            let directory = self.directory.as_fd();
            // Where a link is on its way, or it is not there at all, the longer way tells.
            if let Ok(found) = by_kernel(directory, parent, flags, 0, libc::RESOLVE_NO_SYMLINKS) {
                let found = Arc::new(found);
                self.places.keep(parent, &found, age);
                return Ok(Place::Kept(found));
            }
        }
        self.reach(parent, flags, 0).map(Place::Beneath)
    }

    /// Opens it in its directory. None where the whole name is to be resolved, as it ends in a
    /// link, or has nothing that is its last component.
    ///
    /// # Errors
    /// Those of [`Self::open_file`].
    fn open_beside(&self, name: &Name, flags: c_int, mode: c_uint) -> Result<Option<OwnedFd>, Denied> {
        let is_nameless = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if self.resolve == Resolve::Walk {
            return Ok(None);
        }
        if !name.has_last() || is_nameless {
            self.expect_ordinary(name)?;
            return Ok(None);
        }
        let place = self.place(name)?;
        // Opening a device or a pipe could do something by itself, so what is there is looked at
        // before. A pipe that comes there meanwhile does not hold us, and a device is made by
        // nobody but the system's administrator.
        let look = AtFlags::AT_NO_AUTOMOUNT | AtFlags::AT_SYMLINK_NOFOLLOW;
        let is_there = match fstatat(&place, name.last(), look) {
            Ok(found) if is_link(found.st_mode) => {
                self.expect_ordinary(name)?;
                return Ok(None);
            }
            Ok(found) if !is_ordinary(found.st_mode) => return Err(Refusal::Special.into()),
            Err(Errno::ENOENT) if flags & libc::O_CREAT == 0 => return Err(Errno::ENOENT.into()),
            found => found.is_ok(),
        };
        let mode = Mode::from_bits_truncate(mode);
        let how = OFlag::from_bits_retain(flags | libc::O_NOFOLLOW);
        match openat(&place, name.last(), how, mode) {
            // A link has come there meanwhile.
            Err(Errno::ELOOP) => Ok(None),
            other if is_there || flags & libc::O_EXCL != 0 => Ok(Some(other?)),
            other => expect_ordinary(other?).map(Some),
        }
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
                match by_kernel(directory, path, flags, mode, 0) {
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

fn expect_ordinary(file: OwnedFd) -> Result<OwnedFd, Denied> {
    let found = fstat(&file)?;
    if is_ordinary(found.st_mode) {
        Ok(file)
    } else {
        Err(Refusal::Special.into())
    }
}

fn is_link(mode: libc::mode_t) -> bool {
    SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) == SFlag::S_IFLNK
}

/// openat2(2); `resolve` is beside what always holds.
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
    // SAFETY: the path ends in a zero, and `how` lives as long as the call and has the size that is
    // told.
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
