//! Resolves a name without openat2(2): component by component. Links are only followed here, never
//! by the kernel.
//!
//! The directories of the path stay open, so that `..` is the directory that was visited before,
//! even if it was moved.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_uint};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::{CallFailure, RETRIES, Refusal, is_ordinary};

/// Maximum number of links in one name, as in Linux.
const MAX_LINKS: usize = 40;

struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// The current directories, the innermost last.
    within: Vec<OwnedFd>,
    /// The remaining components, the next one last.
    ahead: Vec<CString>,
    links: usize,
}

/// Opens `path` beneath `root`; `flags` and `mode` are those of open(2).
pub(super) fn walk(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: c_int,
    mode: c_uint,
) -> Result<OwnedFd, CallFailure> {
    let mut walk = Walk {
        root,
        within: Vec::new(),
        ahead: Vec::new(),
        links: 0,
    };
    walk.put_ahead(path)?;
    let mut tries = 0;
    while let Some(part) = walk.ahead.pop() {
        let is_last = walk.ahead.is_empty();
        if matches!(part.as_bytes(), b"." | b"..") {
            if part.as_bytes() == b".." && walk.within.pop().is_none() {
                return Err(Refusal::Leaves.into());
            }
            if is_last {
                return Ok(open(walk.current(), c".", flags, mode)?);
            }
        } else if !is_last {
            walk.step(&part)?;
        } else if let Some(file) = walk.finish(&part, flags, mode)? {
            return Ok(file);
        } else if walk.ahead.is_empty() {
            // Another process replaced the file between two accesses.
            tries += 1;
            if tries > RETRIES {
                return Err(Errno::EAGAIN.into());
            }
            walk.ahead.push(part);
        }
    }
    Err(Errno::ENOENT.into())
}

impl Walk<'_> {
    fn current(&self) -> BorrowedFd<'_> {
        self.within.last().map_or(self.root, AsFd::as_fd)
    }

    fn put_ahead(&mut self, path: &[u8]) -> Result<(), CallFailure> {
        if path.first() == Some(&b'/') {
            return Err(Refusal::Leaves.into());
        }
        let parts = path.split(|&byte| byte == b'/').rev();
        for part in parts.filter(|part| !part.is_empty()) {
            self.ahead.push(CString::new(part).map_err(|_| Errno::EINVAL)?);
        }
        Ok(())
    }

    /// Enters a directory, or follows a link.
    fn step(&mut self, part: &CString) -> Result<(), CallFailure> {
        let file = look(self.current(), part)?;
        match kind(&file)? {
            SFlag::S_IFDIR => {
                self.within.push(file);
                Ok(())
            }
            SFlag::S_IFLNK => self.follow(&file),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Opens the last component. None if components remain.
    fn finish(&mut self, part: &CString, flags: c_int, mode: c_uint) -> Result<Option<OwnedFd>, CallFailure> {
        let makes_new = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let stays = flags & libc::O_NOFOLLOW != 0 || makes_new;
        match look(self.current(), part) {
            Ok(file) => {
                let kind = kind(&file)?;
                if kind == SFlag::S_IFLNK && !stays {
                    self.follow(&file)?;
                    return Ok(None);
                }
                if flags & libc::O_PATH == 0 && kind != SFlag::S_IFLNK && !is_ordinary(kind.bits()) {
                    return Err(Refusal::Special.into());
                }
            }
            Err(Errno::ENOENT) if flags & libc::O_CREAT != 0 => {}
            Err(why) => return Err(why.into()),
        }
        match open(self.current(), part, flags | libc::O_NOFOLLOW, mode) {
            Err(Errno::ELOOP) if !stays => Ok(None),
            // With `O_PATH`, the kernel opens the link itself.
            Ok(file) if !stays && kind(&file)? == SFlag::S_IFLNK => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    fn follow(&mut self, link: &OwnedFd) -> Result<(), CallFailure> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = nix::fcntl::readlinkat(link, c"")?;
        self.put_ahead(std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str()))
    }
}

fn look(directory: BorrowedFd<'_>, part: &CString) -> Result<OwnedFd, Errno> {
    open(directory, part, libc::O_PATH | libc::O_NOFOLLOW, 0)
}

fn kind(file: &OwnedFd) -> Result<SFlag, Errno> {
    Ok(SFlag::from_bits_truncate(fstat(file)?.st_mode) & SFlag::S_IFMT)
}

fn open(
    directory: BorrowedFd<'_>,
    part: &std::ffi::CStr,
    flags: c_int,
    mode: c_uint,
) -> Result<OwnedFd, Errno> {
    let flags = OFlag::from_bits_retain(flags | libc::O_CLOEXEC);
    openat(directory, part, flags, Mode::from_bits_truncate(mode))
}
