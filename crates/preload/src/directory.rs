//! Directories that libc reads: opendir opens one, readdir asks the kernel for more entries now and
//! then, closedir closes it.
//!
//! Whether the kernel was asked is told by the directory's position. How many bytes of entries it
//! has given stays between it and libc, so that the value of such a record is not known; that of
//! the last one, which finds no more, is 0.

use core::ffi::{c_char, c_int, c_void};

use crate::calls::Call;
use crate::encode::ABSENT;
use crate::record::{self, CallEnd};
use crate::wrap::{Word, next};
use crate::{kernel, next as libc_next};

type Directory = *mut c_void;

const FLAGS: c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_DIRECTORY;

/// Finds the functions, so that nobody has to in a handler of a signal.
pub fn look_up() {
    DESCRIPTOR.get();
}

static DESCRIPTOR: libc_next::Next = libc_next::Next::new("dirfd\0");

unsafe fn descriptor(directory: Directory) -> c_int {
    // SAFETY: the type of dirfd(3); the directory is the caller's.
    unsafe {
        let next: unsafe extern "C" fn(Directory) -> c_int = core::mem::transmute(DESCRIPTOR.get());
        next(directory)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> Directory {
    // SAFETY: given on as it is.
    unsafe {
        let begun = record::begin();
        let directory = next!(opendir: fn(*const c_char) -> Directory)(path);
        let ended = if directory.is_null() {
            CallEnd::told(-1)
        } else {
            CallEnd::with(descriptor(directory).word())
        };
        let words = [libc::AT_FDCWD.word(), path.word(), FLAGS.word()];
        record::end(begun, Call::Openat, &words, ended);
        directory
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(directory: Directory) -> c_int {
    // SAFETY: given on as it is.
    unsafe {
        let fd = if directory.is_null() {
            -1
        } else {
            descriptor(directory)
        };
        let begun = record::begin();
        let failed = next!(closedir: fn(Directory) -> c_int)(directory);
        record::end(begun, Call::Close, &[fd.word()], CallEnd::told(failed.word()));
        failed
    }
}

macro_rules! read {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(directory: Directory) -> *mut c_void {
            // SAFETY: given on as it is.
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
                    let ended = CallEnd { inferred: true, ..CallEnd::with(value) };
                    record::end(Some(begun), Call::Getdents64, &[fd.word()], ended);
                }
                entry
            }
        }
    )+};
}

read! { readdir readdir64 }
