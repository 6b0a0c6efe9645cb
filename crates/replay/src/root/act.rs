//! What is done to names: each beneath the root, each with what the sandbox refuses left out.
//!
//! All of them return what the call of the same name does, and fail as it does or by a [`Refusal`].

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_uint};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat, mknodat};
use nix::unistd::{LinkatFlags, UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::{Denied, Name, Refusal, Root, is_link};

/// Directories that one inside the other is searched for the root before we give up: more than a
/// name can have components.
const DEEPEST: usize = 4096;

impl Root {
    /// mkdir(2); setgid and sticky bits are left out.
    pub fn mkdir(&self, name: &Name, mode: c_uint) -> Result<(), Denied> {
        if !name.has_last() {
            return Err(Errno::EEXIST.into());
        }
        Ok(mkdirat(self.place(name)?, name.last(), permissions(mode))?)
    }

    /// mkfifo(3).
    pub fn mkfifo(&self, name: &Name, mode: c_uint) -> Result<(), Denied> {
        let place = self.place(name)?;
        Ok(mknodat(place, name.last(), SFlag::S_IFIFO, permissions(mode), 0)?)
    }

    /// unlink(2).
    pub fn unlink(&self, name: &Name) -> Result<(), Denied> {
        Ok(unlinkat(
            self.place(name)?,
            name.last(),
            UnlinkatFlags::NoRemoveDir,
        )?)
    }

    /// rmdir(2).
    pub fn rmdir(&self, name: &Name) -> Result<(), Denied> {
        unlinkat(self.place(name)?, name.last(), UnlinkatFlags::RemoveDir)?;
        self.places.forget();
        Ok(())
    }

    /// renameat2(2). `RENAME_WHITEOUT`, which leaves a device node behind, is refused.
    pub fn rename(&self, from: &Name, to: &Name, flags: c_uint) -> Result<(), Denied> {
        if flags & libc::RENAME_WHITEOUT != 0 {
            return Err(Refusal::Device.into());
        }
        let (old, new) = (self.place(from)?, self.place(to)?);
        // SAFETY: both names end in a zero and live as long as the call.
        let done = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                old.as_fd().as_raw_fd(),
                from.last().as_ptr(),
                new.as_fd().as_raw_fd(),
                to.last().as_ptr(),
                flags,
            )
        };
        Errno::result(done)?;
        self.places.forget();
        Ok(())
    }

    /// linkat(2).
    pub fn link(&self, from: &Name, to: &Name, follow: bool) -> Result<(), Denied> {
        if follow {
            let file = self.locate(from, true)?;
            let new = self.place(to)?;
            let flags = LinkatFlags::AT_SYMLINK_FOLLOW;
            let here = nix::fcntl::AT_FDCWD;
            return Ok(linkat(
                here,
                by_number(file.as_raw_fd()).name(),
                new,
                to.last(),
                flags,
            )?);
        }
        let old = self.place(from)?;
        let new = match self.place(to) {
            Ok(new) => new,
            // The kernel would have missed the file before it had looked where the link is to be.
            Err(why) => return Err(self.stat(from, false).err().unwrap_or(why)),
        };
        Ok(linkat(old, from.last(), new, to.last(), LinkatFlags::empty())?)
    }

    /// linkat(2) of an open file, by its number: `AT_EMPTY_PATH` would take a privilege.
    pub fn link_file(&self, file: RawFd, to: &Name) -> Result<(), Denied> {
        let new = self.place(to)?;
        let here = nix::fcntl::AT_FDCWD;
        let flags = LinkatFlags::AT_SYMLINK_FOLLOW;
        Ok(linkat(here, by_number(file).name(), new, to.last(), flags)?)
    }

    /// symlink(2) to `target` as it is written, where that stays beneath the root if no other link
    /// is on its way.
    pub fn symlink(&self, target: &CStr, name: &Name) -> Result<(), Denied> {
        let place = self.place(name)?;
        if !stays(target.to_bytes(), self.depth(place.as_fd())?) {
            return Err(Refusal::Leaves.into());
        }
        Ok(symlinkat(target, place, name.last())?)
    }

    /// symlink(2) to a name that begins at the root, written so that it begins where the link is.
    pub fn symlink_beneath(&self, target: &Name, name: &Name) -> Result<(), Denied> {
        let place = self.place(name)?;
        let mut text = b"../".repeat(self.depth(place.as_fd())?);
        text.extend_from_slice(target.whole().to_bytes());
        let text = CString::new(text).map_err(|_| Errno::EINVAL)?;
        if !stays(target.whole().to_bytes(), 0) {
            return Err(Refusal::Leaves.into());
        }
        Ok(symlinkat(text.as_c_str(), place, name.last())?)
    }

    /// readlink(2).
    pub fn readlink(&self, name: &Name, into: &mut [u8]) -> Result<usize, Denied> {
        let place = self.place(name)?;
        // SAFETY: the name ends in a zero; the kernel writes no more than it is told there is room
        // for.
        let got = unsafe {
            libc::readlinkat(
                place.as_fd().as_raw_fd(),
                name.last().as_ptr(),
                into.as_mut_ptr().cast(),
                into.len(),
            )
        };
        Ok(Errno::result(got)? as usize)
    }

    /// stat(2), or lstat(2) where links are not followed.
    pub fn stat(&self, name: &Name, follow: bool) -> Result<FileStat, Denied> {
        if let Some(found) = self
            .beside(name)?
            .filter(|found| !follow || !is_link(found.st_mode))
        {
            return Ok(found);
        }
        Ok(fstat(self.locate(name, follow)?)?)
    }

    /// access(2): `mode` is of `R_OK`, `W_OK`, `X_OK`.
    pub fn access(&self, name: &Name, mode: c_int, follow: bool) -> Result<(), Denied> {
        if self.beside(name)?.is_some_and(|found| !is_link(found.st_mode)) {
            let place = self.place(name)?;
            let stay = libc::AT_SYMLINK_NOFOLLOW;
            // SAFETY: the name ends in a zero.
            let asked =
                unsafe { libc::faccessat(place.as_fd().as_raw_fd(), name.last().as_ptr(), mode, stay) };
            return done(asked);
        }
        let file = self.locate(name, follow)?;
        // SAFETY: the name ends in a zero.
        done(unsafe { libc::access(by_number(file.as_raw_fd()).name().as_ptr(), mode) })
    }

    /// What is known of the last component, a link too; none where there is no such component.
    fn beside(&self, name: &Name) -> Result<Option<FileStat>, Denied> {
        if !name.has_last() {
            return Ok(None);
        }
        let place = self.place(name)?;
        Ok(Some(fstatat(place, name.last(), AtFlags::AT_SYMLINK_NOFOLLOW)?))
    }

    /// chmod(2); setuid, setgid and sticky bits are left out.
    pub fn chmod(&self, name: &Name, mode: c_uint, follow: bool) -> Result<(), Denied> {
        let file = self.locate(name, follow)?;
        // SAFETY: the name ends in a zero.
        done(unsafe { libc::chmod(by_number(file.as_raw_fd()).name().as_ptr(), mode & 0o777) })
    }

    /// utimensat(2) to the present time.
    pub fn touch(&self, name: &Name, follow: bool) -> Result<(), Denied> {
        if !follow && name.has_last() {
            let place = self.place(name)?;
            return touch_at(place.as_fd().as_raw_fd(), name.last(), libc::AT_SYMLINK_NOFOLLOW);
        }
        let file = self.locate(name, follow)?;
        touch_at(libc::AT_FDCWD, by_number(file.as_raw_fd()).name(), 0)
    }

    /// truncate(2) of a regular file.
    pub fn truncate(&self, name: &Name, size: i64) -> Result<(), Denied> {
        let file = self.open_file(name, libc::O_WRONLY, 0)?;
        Ok(nix::unistd::ftruncate(file, size)?)
    }

    /// statfs(2).
    pub fn statfs(&self, name: &Name) -> Result<(), Denied> {
        nix::sys::statfs::fstatfs(self.locate(name, true)?)?;
        Ok(())
    }

    /// getxattr(2): how long the value is.
    pub fn getxattr(&self, name: &Name, key: &CStr, into: &mut [u8], follow: bool) -> Result<usize, Denied> {
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        let (room, size) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: names end in a zero; the kernel writes no more than it is told there is room for.
        let got = unsafe { libc::getxattr(path.name().as_ptr(), key.as_ptr(), room, size) };
        Ok(Errno::result(got)? as usize)
    }

    /// listxattr(2): how long the list is.
    pub fn listxattr(&self, name: &Name, into: &mut [u8], follow: bool) -> Result<usize, Denied> {
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        // SAFETY: the name ends in a zero; the kernel writes no more than it is told there is room
        // for.
        let got = unsafe { libc::listxattr(path.name().as_ptr(), into.as_mut_ptr().cast(), into.len()) };
        Ok(Errno::result(got)? as usize)
    }

    /// setxattr(2) of an attribute `user.*`.
    pub fn setxattr(
        &self,
        name: &Name,
        key: &CStr,
        value: &[u8],
        flags: c_int,
        follow: bool,
    ) -> Result<(), Denied> {
        expect_of_user(key)?;
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        let (from, size) = (value.as_ptr().cast(), value.len());
        // SAFETY: names end in a zero, and the value has the length that is told.
        done(unsafe { libc::setxattr(path.name().as_ptr(), key.as_ptr(), from, size, flags) })
    }

    /// removexattr(2) of an attribute `user.*`.
    pub fn removexattr(&self, name: &Name, key: &CStr, follow: bool) -> Result<(), Denied> {
        expect_of_user(key)?;
        let file = self.locate(name, follow)?;
        // SAFETY: names end in a zero.
        done(unsafe { libc::removexattr(by_number(file.as_raw_fd()).name().as_ptr(), key.as_ptr()) })
    }

    /// How many directories the root is above this one. What has been moved out of it is refused.
    fn depth(&self, directory: BorrowedFd<'_>) -> Result<usize, Denied> {
        let root = identity(self.directory.as_fd())?;
        let mut at: Option<OwnedFd> = None;
        for depth in 0..DEEPEST {
            let here = at.as_ref().map_or(directory, AsFd::as_fd);
            let this = identity(here)?;
            if this == root {
                return Ok(depth);
            }
            let up = openat(here, c"..", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
            if identity(up.as_fd())? == this {
                break;
            }
            at = Some(up);
        }
        Err(Refusal::Leaves.into())
    }
}

/// Only attributes `user.*` are changed.
pub(crate) fn expect_of_user(key: &CStr) -> Result<(), Denied> {
    if key.to_bytes().starts_with(b"user.") {
        Ok(())
    } else {
        Err(Refusal::Attribute.into())
    }
}

/// Whether a target, followed from `depth` directories beneath the root, stays in it, as far as its
/// text tells.
fn stays(target: &[u8], depth: usize) -> bool {
    let mut depth = Some(depth);
    for part in target.split(|&byte| byte == b'/') {
        depth = match part {
            b"" | b"." => depth,
            b".." => depth.and_then(|depth| depth.checked_sub(1)),
            _ => depth.map(|depth| depth + 1),
        };
    }
    target.first() != Some(&b'/') && depth.is_some()
}

fn identity(file: BorrowedFd<'_>) -> Result<(libc::dev_t, libc::ino_t), Errno> {
    let found = fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

fn permissions(mode: c_uint) -> Mode {
    Mode::from_bits_truncate(mode & 0o777)
}

fn done(result: c_int) -> Result<(), Denied> {
    Errno::result(result)?;
    Ok(())
}

fn touch_at(directory: RawFd, name: &CStr, flags: c_int) -> Result<(), Denied> {
    // SAFETY: the name ends in a zero; no times are given, which means now.
    done(unsafe { libc::utimensat(directory, name.as_ptr(), std::ptr::null(), flags) })
}

/// The name by which a descriptor that is good for nothing else can be acted on: `/proc/self/fd/N`.
struct ByNumber([u8; 32]);

fn by_number(file: RawFd) -> ByNumber {
    use std::io::Write;
    let mut text = [0; 32];
    // 14 bytes and a number of at most 10; what is left stays zero.
    let _ = write!(&mut text[..31], "/proc/self/fd/{file}");
    ByNumber(text)
}

impl ByNumber {
    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::stays;

    #[test]
    fn a_target_stays_where_it_never_goes_above_the_root() {
        assert!(stays(b"a/../b", 0));
        assert!(stays(b"../b", 1));
        assert!(!stays(b"../b", 0));
        assert!(!stays(b"a/../../b", 0));
        assert!(!stays(b"/b", 3));
    }
}
