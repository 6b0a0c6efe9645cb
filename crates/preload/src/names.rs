//! Calls on paths, and on the attributes of files.

use core::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW};

use crate::calls::Call;
use crate::kernel;
use crate::record::{self, CallEnd, around};
use crate::wrap::{next, wrap, wrap_one};

type Name = *const c_char;
type Data = *mut c_void;

wrap! {
    Stat: stat stat64 (path: Name, status: Data) -> c_int, [path, status];
    Stat: __xstat __xstat64 (version: c_int, path: Name, status: Data) -> c_int, [path, status];
    Lstat: lstat lstat64 (path: Name, status: Data) -> c_int, [path, status];
    Lstat: __lxstat __lxstat64 (version: c_int, path: Name, status: Data) -> c_int, [path, status];
    Fstat: fstat fstat64 (fd: c_int, status: Data) -> c_int, [fd, status];
    Fstat: __fxstat __fxstat64 (version: c_int, fd: c_int, status: Data) -> c_int, [fd, status];
    Newfstatat: fstatat fstatat64 (at: c_int, path: Name, status: Data, flags: c_int) -> c_int, [at, path, status, flags];
    Newfstatat: __fxstatat __fxstatat64 (version: c_int, at: c_int, path: Name, status: Data, flags: c_int) -> c_int, [at, path, status, flags];
    Statx: statx (at: c_int, path: Name, flags: c_int, mask: c_uint, status: Data) -> c_int, [at, path, flags, 0, status];
    Statfs: statfs statfs64 statvfs statvfs64 (path: Name, status: Data) -> c_int, [path];
    Fstatfs: fstatfs fstatfs64 fstatvfs fstatvfs64 (fd: c_int, status: Data) -> c_int, [fd];
    Access: access (path: Name, mode: c_int) -> c_int, [path, mode];
    Faccessat2: faccessat (at: c_int, path: Name, mode: c_int, flags: c_int) -> c_int, [at, path, mode, flags];
    Readlink: readlink (path: Name, data: Data, length: usize) -> isize, [path, 0, length];
    Readlink: __readlink_chk (path: Name, data: Data, length: usize, capacity: usize) -> isize, [path, 0, length];
    Readlinkat: readlinkat (at: c_int, path: Name, data: Data, length: usize) -> isize, [at, path, 0, length];
    Readlinkat: __readlinkat_chk (at: c_int, path: Name, data: Data, length: usize, capacity: usize) -> isize, [at, path, 0, length];
    Getxattr: getxattr (path: Name, name: Name, data: Data, length: usize) -> isize, [path, name, 0, length];
    Lgetxattr: lgetxattr (path: Name, name: Name, data: Data, length: usize) -> isize, [path, name, 0, length];
    Fgetxattr: fgetxattr (fd: c_int, name: Name, data: Data, length: usize) -> isize, [fd, name, 0, length];
    Listxattr: listxattr (path: Name, data: Data, length: usize) -> isize, [path, 0, length];
    Llistxattr: llistxattr (path: Name, data: Data, length: usize) -> isize, [path, 0, length];
    Flistxattr: flistxattr (fd: c_int, data: Data, length: usize) -> isize, [fd, 0, length];

    Mkdir: mkdir (path: Name, mode: u32) -> c_int, [path, mode];
    Mkdirat: mkdirat (at: c_int, path: Name, mode: u32) -> c_int, [at, path, mode];
    Mknod: mknod (path: Name, mode: u32, device: u64) -> c_int, [path, mode];
    Mknod: __xmknod (version: c_int, path: Name, mode: u32, device: Data) -> c_int, [path, mode];
    Mknod: mkfifo (path: Name, mode: u32) -> c_int, [path, mode | libc::S_IFIFO];
    Mknodat: mknodat (at: c_int, path: Name, mode: u32, device: u64) -> c_int, [at, path, mode];
    Mknodat: __xmknodat (version: c_int, at: c_int, path: Name, mode: u32, device: Data) -> c_int, [at, path, mode];
    Mknodat: mkfifoat (at: c_int, path: Name, mode: u32) -> c_int, [at, path, mode | libc::S_IFIFO];
    Link: link (path: Name, new: Name) -> c_int, [path, new];
    Linkat: linkat (at: c_int, path: Name, to: c_int, new: Name, flags: c_int) -> c_int, [at, path, to, new, flags];
    Symlink: symlink (target: Name, new: Name) -> c_int, [target, new];
    Symlinkat: symlinkat (target: Name, at: c_int, new: Name) -> c_int, [target, at, new];
    Unlink: unlink (path: Name) -> c_int, [path];
    Unlinkat: unlinkat (at: c_int, path: Name, flags: c_int) -> c_int, [at, path, flags];
    Rmdir: rmdir (path: Name) -> c_int, [path];
    Rename: rename (path: Name, new: Name) -> c_int, [path, new];
    Renameat: renameat (at: c_int, path: Name, to: c_int, new: Name) -> c_int, [at, path, to, new];
    Renameat2: renameat2 (at: c_int, path: Name, to: c_int, new: Name, flags: c_uint) -> c_int, [at, path, to, new, flags];
    Truncate: truncate truncate64 (path: Name, length: i64) -> c_int, [path, length];

    Chmod: chmod (path: Name, mode: u32) -> c_int, [path, mode];
    Fchmodat: lchmod (path: Name, mode: u32) -> c_int, [AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW];
    Fchmod: fchmod (fd: c_int, mode: u32) -> c_int, [fd, mode];
    Fchmodat: fchmodat (at: c_int, path: Name, mode: u32, flags: c_int) -> c_int, [at, path, mode, flags];
    Chown: chown (path: Name, user: u32, group: u32) -> c_int, [path];
    Lchown: lchown (path: Name, user: u32, group: u32) -> c_int, [path];
    Fchown: fchown (fd: c_int, user: u32, group: u32) -> c_int, [fd];
    Fchownat: fchownat (at: c_int, path: Name, user: u32, group: u32, flags: c_int) -> c_int, [at, path, 0, 0, flags];
    Utime: utime (path: Name, times: Data) -> c_int, [path];
    Utimes: utimes (path: Name, times: Data) -> c_int, [path];
    Utimensat: lutimes (path: Name, times: Data) -> c_int, [AT_FDCWD, path, 0, AT_SYMLINK_NOFOLLOW];
    Utimensat: futimes futimens (fd: c_int, times: Data) -> c_int, [fd, 0, 0, 0];
    Futimesat: futimesat (at: c_int, path: Name, times: Data) -> c_int, [at, path];
    Utimensat: utimensat (at: c_int, path: Name, times: Data, flags: c_int) -> c_int, [at, path, 0, flags];
    Setxattr: setxattr (path: Name, name: Name, data: Data, length: usize, flags: c_int) -> c_int, [path, name, 0, length, flags];
    Lsetxattr: lsetxattr (path: Name, name: Name, data: Data, length: usize, flags: c_int) -> c_int, [path, name, 0, length, flags];
    Fsetxattr: fsetxattr (fd: c_int, name: Name, data: Data, length: usize, flags: c_int) -> c_int, [fd, name, 0, length, flags];
    Removexattr: removexattr (path: Name, name: Name) -> c_int, [path, name];
    Lremovexattr: lremovexattr (path: Name, name: Name) -> c_int, [path, name];
    Fremovexattr: fremovexattr (fd: c_int, name: Name) -> c_int, [fd, name];
    Chdir: chdir (path: Name) -> c_int, [path];
    Fchdir: fchdir (fd: c_int) -> c_int, [fd];
    Chroot: chroot (path: Name) -> c_int, [path];
    Umask: umask (mode: u32) -> u32, [mode];
}

/// Recorded as unlink for a file, as rmdir for a directory.
#[unsafe(no_mangle)]
unsafe extern "C" fn remove(path: Name) -> c_int {
    // SAFETY: the arguments are passed unchanged.
    unsafe {
        let call = if !path.is_null() && kernel::is_directory(path) {
            Call::Rmdir
        } else {
            Call::Unlink
        };
        around(call, &[path as i64], || next!(remove: fn(Name) -> c_int)(path))
    }
}

macro_rules! current_directory {
    ($($name:ident ($($capacity:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(data: *mut c_char, length: usize $(, $capacity: usize)?) -> *mut c_char {
            // SAFETY: the arguments are passed unchanged. The result is a text.
            unsafe {
                let begun = record::begin();
                let name = next!($name: fn(*mut c_char, usize $(, current_directory!(@ $capacity))?) -> *mut c_char)(data, length $(, $capacity)?);
                let ended = if name.is_null() {
                    CallEnd::from_return(-1)
                } else {
                    CallEnd::returned(libc::strlen(name) as i64 + 1)
                };
                record::end(begun, Call::Getcwd, &[name as i64], ended);
                name
            }
        }
    )*};
    (@ $capacity:ident) => { usize };
}

current_directory! {
    getcwd ();
    __getcwd_chk (capacity);
}

/// A file whose name libc chooses: `mkstemp` and its variants. The name is known when the call has
/// ended.
macro_rules! temporary {
    ($($name:ident ($($argument:ident),*) $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let begun = record::begin();
                let fd = next!($name: fn(*mut c_char $(, temporary!(@ $argument))*) -> c_int)(template $(, $argument)*);
                let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | $flags;
                let words = [template as i64, i64::from(flags), 0o600];
                record::end(begun, Call::Open, &words, CallEnd::from_return(i64::from(fd)));
                fd
            }
        }
    )*};
    (@ $argument:ident) => { c_int };
}

temporary! {
    mkstemp () 0;
    mkstemp64 () 0;
    mkstemps (_suffix) 0;
    mkstemps64 (_suffix) 0;
    mkostemp (flags) flags;
    mkostemp64 (flags) flags;
    mkostemps (_suffix, flags) flags;
    mkostemps64 (_suffix, flags) flags;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the arguments are passed unchanged.
    unsafe {
        let begun = record::begin();
        let name = next!(mkdtemp: fn(*mut c_char) -> *mut c_char)(template);
        let ended = if name.is_null() {
            CallEnd::from_return(-1)
        } else {
            CallEnd::returned(0)
        };
        record::end(begun, Call::Mkdir, &[template as i64, 0o700], ended);
        name
    }
}
