//! Calls on names, each beneath the root and without the parts that the sandbox refuses.
//!
//! Each method returns the result of the call of the same name. It fails with the error of the call
//! or with a [`Refusal`].

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_uint};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat, mknodat};
use nix::unistd::{LinkatFlags, UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::{CallFailure, Name, Refusal, Root, is_link};

/// Maximum number of parent directories in which the root is sought: more than a name can have
/// components.
const DEEPEST: usize = 4096;

impl Root {
    /// mkdir(2); setgid and sticky bits are left out.
    pub fn mkdir(&self, name: &Name, mode: c_uint) -> Result<(), CallFailure> {
        if !name.has_last() {
            return Err(Errno::EEXIST.into());
        }
        Ok(mkdirat(self.parent_dir(name)?, name.last(), permissions(mode))?)
    }

    /// mkfifo(3).
    pub fn mkfifo(&self, name: &Name, mode: c_uint) -> Result<(), CallFailure> {
        let parent_dir = self.parent_dir(name)?;
        Ok(mknodat(
            parent_dir,
            name.last(),
            SFlag::S_IFIFO,
            permissions(mode),
            0,
        )?)
    }

    /// unlink(2).
    pub fn unlink(&self, name: &Name) -> Result<(), CallFailure> {
        Ok(unlinkat(
            self.parent_dir(name)?,
            name.last(),
            UnlinkatFlags::NoRemoveDir,
        )?)
    }

    /// rmdir(2).
    pub fn rmdir(&self, name: &Name) -> Result<(), CallFailure> {
        unlinkat(self.parent_dir(name)?, name.last(), UnlinkatFlags::RemoveDir)?;
        self.cache.forget();
        Ok(())
    }

    /// renameat2(2). `RENAME_WHITEOUT`, which leaves a device node behind, is refused.
    pub fn rename(&self, from: &Name, to: &Name, flags: c_uint) -> Result<(), CallFailure> {
        if flags & libc::RENAME_WHITEOUT != 0 {
            return Err(Refusal::Device.into());
        }
        let (old, new) = (self.parent_dir(from)?, self.parent_dir(to)?);
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
        self.cache.forget();
        Ok(())
    }

    /// linkat(2).
    pub fn link(&self, from: &Name, to: &Name, follow: bool) -> Result<(), CallFailure> {
        if follow {
            let file = self.locate(from, true)?;
            let new = self.parent_dir(to)?;
            let flags = LinkatFlags::AT_SYMLINK_FOLLOW;
            let cwd = nix::fcntl::AT_FDCWD;
            return Ok(linkat(
                cwd,
                by_number(file.as_raw_fd()).name(),
                new,
                to.last(),
                flags,
            )?);
        }
        let old = self.parent_dir(from)?;
        let new = match self.parent_dir(to) {
            Ok(new) => new,
            // The kernel looks up the file before the directory of the link.
            Err(why) => return Err(self.stat(from, false).err().unwrap_or(why)),
        };
        Ok(linkat(old, from.last(), new, to.last(), LinkatFlags::empty())?)
    }

    /// linkat(2) of an open file, by its name in /proc: `AT_EMPTY_PATH` would need a privilege.
    pub fn link_file(&self, file: RawFd, to: &Name) -> Result<(), CallFailure> {
        let new = self.parent_dir(to)?;
        let cwd = nix::fcntl::AT_FDCWD;
        let flags = LinkatFlags::AT_SYMLINK_FOLLOW;
        Ok(linkat(cwd, by_number(file).name(), new, to.last(), flags)?)
    }

    /// symlink(2) with an unchanged `target`, which must stay beneath the root if no other link is
    /// in its path.
    pub fn symlink(&self, target: &CStr, name: &Name) -> Result<(), CallFailure> {
        let parent_dir = self.parent_dir(name)?;
        if !is_beneath(target.to_bytes(), self.depth(parent_dir.as_fd())?) {
            return Err(Refusal::Leaves.into());
        }
        Ok(symlinkat(target, parent_dir, name.last())?)
    }

    /// symlink(2) to a name that begins at the root. The target is written relative to the link.
    pub fn symlink_beneath(&self, target: &Name, name: &Name) -> Result<(), CallFailure> {
        let parent_dir = self.parent_dir(name)?;
        let mut text = b"../".repeat(self.depth(parent_dir.as_fd())?);
        text.extend_from_slice(target.whole().to_bytes());
        let text = CString::new(text).map_err(|_| Errno::EINVAL)?;
        if !is_beneath(target.whole().to_bytes(), 0) {
            return Err(Refusal::Leaves.into());
        }
        Ok(symlinkat(text.as_c_str(), parent_dir, name.last())?)
    }

    /// readlink(2).
    pub fn readlink(&self, name: &Name, into: &mut [u8]) -> Result<usize, CallFailure> {
        let parent_dir = self.parent_dir(name)?;
        // SAFETY: the name ends in a zero. The kernel writes at most the passed number of bytes.
        let length = unsafe {
            libc::readlinkat(
                parent_dir.as_fd().as_raw_fd(),
                name.last().as_ptr(),
                into.as_mut_ptr().cast(),
                into.len(),
            )
        };
        Ok(Errno::result(length)? as usize)
    }

    /// stat(2), or lstat(2) if links are not followed.
    pub fn stat(&self, name: &Name, follow: bool) -> Result<FileStat, CallFailure> {
        if let Some(status) = self
            .beside(name)?
            .filter(|status| !follow || !is_link(status.st_mode))
        {
            return Ok(status);
        }
        Ok(fstat(self.locate(name, follow)?)?)
    }

    /// access(2): `mode` is of `R_OK`, `W_OK`, `X_OK`.
    pub fn access(&self, name: &Name, mode: c_int, follow: bool) -> Result<(), CallFailure> {
        if self.beside(name)?.is_some_and(|status| !is_link(status.st_mode)) {
            let parent_dir = self.parent_dir(name)?;
            let stay = libc::AT_SYMLINK_NOFOLLOW;
            // SAFETY: the name ends in a zero.
            let asked =
                unsafe { libc::faccessat(parent_dir.as_fd().as_raw_fd(), name.last().as_ptr(), mode, stay) };
            return done(asked);
        }
        let file = self.locate(name, follow)?;
        // SAFETY: the name ends in a zero.
        done(unsafe { libc::access(by_number(file.as_raw_fd()).name().as_ptr(), mode) })
    }

    /// The status of the last component, without following a link; none if there is no such
    /// component.
    fn beside(&self, name: &Name) -> Result<Option<FileStat>, CallFailure> {
        if !name.has_last() {
            return Ok(None);
        }
        let parent_dir = self.parent_dir(name)?;
        Ok(Some(fstatat(
            parent_dir,
            name.last(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )?))
    }

    /// chmod(2); setuid, setgid and sticky bits are left out.
    pub fn chmod(&self, name: &Name, mode: c_uint, follow: bool) -> Result<(), CallFailure> {
        let file = self.locate(name, follow)?;
        // SAFETY: the name ends in a zero.
        done(unsafe { libc::chmod(by_number(file.as_raw_fd()).name().as_ptr(), mode & 0o777) })
    }

    /// utimensat(2) to the present time.
    pub fn touch(&self, name: &Name, follow: bool) -> Result<(), CallFailure> {
        if !follow && name.has_last() {
            let parent_dir = self.parent_dir(name)?;
            return touch_at(
                parent_dir.as_fd().as_raw_fd(),
                name.last(),
                libc::AT_SYMLINK_NOFOLLOW,
            );
        }
        let file = self.locate(name, follow)?;
        touch_at(libc::AT_FDCWD, by_number(file.as_raw_fd()).name(), 0)
    }

    /// truncate(2) of a regular file.
    pub fn truncate(&self, name: &Name, size: i64) -> Result<(), CallFailure> {
        let file = self.open_file(name, libc::O_WRONLY, 0)?;
        Ok(nix::unistd::ftruncate(file, size)?)
    }

    /// statfs(2).
    pub fn statfs(&self, name: &Name) -> Result<(), CallFailure> {
        nix::sys::statfs::fstatfs(self.locate(name, true)?)?;
        Ok(())
    }

    /// getxattr(2). Returns the length of the value, bytes.
    pub fn getxattr(
        &self,
        name: &Name,
        key: &CStr,
        into: &mut [u8],
        follow: bool,
    ) -> Result<usize, CallFailure> {
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        let (buffer, size) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: names end in a zero. The kernel writes at most the passed number of bytes.
        let length = unsafe { libc::getxattr(path.name().as_ptr(), key.as_ptr(), buffer, size) };
        Ok(Errno::result(length)? as usize)
    }

    /// listxattr(2). Returns the length of the list, bytes.
    pub fn listxattr(&self, name: &Name, into: &mut [u8], follow: bool) -> Result<usize, CallFailure> {
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        // SAFETY: the name ends in a zero. The kernel writes at most the passed number of bytes.
        let length = unsafe { libc::listxattr(path.name().as_ptr(), into.as_mut_ptr().cast(), into.len()) };
        Ok(Errno::result(length)? as usize)
    }

    /// setxattr(2) of an attribute `user.*`.
    pub fn setxattr(
        &self,
        name: &Name,
        key: &CStr,
        value: &[u8],
        flags: c_int,
        follow: bool,
    ) -> Result<(), CallFailure> {
        expect_of_user(key)?;
        let file = self.locate(name, follow)?;
        let path = by_number(file.as_raw_fd());
        let (from, size) = (value.as_ptr().cast(), value.len());
        // SAFETY: names end in a zero, and the value has the passed length.
        done(unsafe { libc::setxattr(path.name().as_ptr(), key.as_ptr(), from, size, flags) })
    }

    /// removexattr(2) of an attribute `user.*`.
    pub fn removexattr(&self, name: &Name, key: &CStr, follow: bool) -> Result<(), CallFailure> {
        expect_of_user(key)?;
        let file = self.locate(name, follow)?;
        // SAFETY: names end in a zero.
        done(unsafe { libc::removexattr(by_number(file.as_raw_fd()).name().as_ptr(), key.as_ptr()) })
    }

    /// Number of directories between the root and this one. A directory that was moved out of the
    /// root is refused.
    fn depth(&self, directory: BorrowedFd<'_>) -> Result<usize, CallFailure> {
        let root = identity(self.directory.as_fd())?;
        let mut at: Option<OwnedFd> = None;
        for depth in 0..DEEPEST {
            let current = at.as_ref().map_or(directory, AsFd::as_fd);
            let this = identity(current)?;
            if this == root {
                return Ok(depth);
            }
            let up = openat(current, c"..", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
            if identity(up.as_fd())? == this {
                break;
            }
            at = Some(up);
        }
        Err(Refusal::Leaves.into())
    }
}

/// Refuses changes of attributes other than `user.*`.
pub(crate) fn expect_of_user(key: &CStr) -> Result<(), CallFailure> {
    if key.to_bytes().starts_with(b"user.") {
        Ok(())
    } else {
        Err(Refusal::Attribute.into())
    }
}

/// Whether the text of a target, from a directory `depth` levels beneath the root, never leads
/// above the root.
fn is_beneath(target: &[u8], depth: usize) -> bool {
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
    let status = fstat(file)?;
    Ok((status.st_dev, status.st_ino))
}

fn permissions(mode: c_uint) -> Mode {
    Mode::from_bits_truncate(mode & 0o777)
}

fn done(result: c_int) -> Result<(), CallFailure> {
    Errno::result(result)?;
    Ok(())
}

fn touch_at(directory: RawFd, name: &CStr, flags: c_int) -> Result<(), CallFailure> {
    // SAFETY: the name ends in a zero. No times are passed, which means the present.
    done(unsafe { libc::utimensat(directory, name.as_ptr(), std::ptr::null(), flags) })
}

/// The name of a descriptor, `/proc/self/fd/N`: the only way to use a descriptor of `O_PATH` in
/// other calls.
struct ByNumber([u8; 32]);

fn by_number(file: RawFd) -> ByNumber {
    use std::io::Write;
    let mut text = [0; 32];
    // 14 bytes and a number of at most 10 digits; the remaining bytes are zero.
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
    use super::is_beneath;

    #[test]
    fn a_target_is_beneath_the_root_if_it_never_leads_above_it() {
        assert!(is_beneath(b"a/../b", 0));
        assert!(is_beneath(b"../b", 1));
        assert!(!is_beneath(b"../b", 0));
        assert!(!is_beneath(b"a/../../b", 0));
        assert!(!is_beneath(b"/b", 3));
    }
}
