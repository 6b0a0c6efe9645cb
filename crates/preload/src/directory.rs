//! Directories that libc reads: opendir opens one, readdir sometimes requests more entries from the
//! kernel, closedir closes it.
//!
//! A change of the directory's position shows that the kernel was called. The number of bytes that
//! it returned is known only to libc, so the value of such a record is absent. The value of the
//! last one, which found no more entries, is 0.

use core::ffi::{c_char, c_int, c_void};

use crate::calls::Call;
use crate::record::{self, CallEnd};
use crate::wrap::{Word, next};
use crate::{kernel, next as libc_next};
use plimsoll_preload_log::ABSENT;

type Directory = *mut c_void;

const FLAGS: c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_DIRECTORY;

/// Looks up the function now, so that no signal handler has to.
pub fn look_up() {
    DESCRIPTOR.get();
}

static DESCRIPTOR: libc_next::Next = libc_next::Next::new("dirfd\0");

unsafe fn descriptor(directory: Directory) -> c_int {
    // SAFETY: the type of dirfd(3); the caller passes an open directory.
    unsafe {
        let next: unsafe extern "C" fn(Directory) -> c_int = core::mem::transmute(DESCRIPTOR.get());
        next(directory)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> Directory {
    // SAFETY: the arguments are passed unchanged.
    unsafe {
        let begun = record::begin();
        let directory = next!(opendir: fn(*const c_char) -> Directory)(path);
        let ended = if directory.is_null() {
            CallEnd::from_return(-1)
        } else {
            CallEnd::returned(descriptor(directory).word())
        };
        let words = [libc::AT_FDCWD.word(), path.word(), FLAGS.word()];
        record::end(begun, Call::Openat, &words, ended);
        directory
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(directory: Directory) -> c_int {
    // SAFETY: the arguments are passed unchanged.
    unsafe {
        let fd = if directory.is_null() {
            -1
        } else {
            descriptor(directory)
        };
        let begun = record::begin();
        let failed = next!(closedir: fn(Directory) -> c_int)(directory);
        record::end(
            begun,
            Call::Close,
            &[fd.word()],
            CallEnd::from_return(failed.word()),
        );
        failed
    }
}

macro_rules! read {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(directory: Directory) -> *mut c_void {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let next = next!($name: fn(Directory) -> *mut c_void);
                let Some(begun) = record::begin() else { return next(directory) };
                let fd = descriptor(directory);
                let before = kernel::position(fd);
                let errno = libc_next::errno();
                let entry = next(directory);
                let is_end = entry.is_null() && libc_next::errno() == errno;
                if is_end || kernel::position(fd) != before {
                    let value = if is_end { 0 } else { ABSENT };
                    let ended = CallEnd { inferred: true, ..CallEnd::returned(value) };
                    record::end(Some(begun), Call::Getdents64, &[fd.word()], ended);
                }
                entry
            }
        }
    )+};
}

read! { readdir readdir64 }
