//! Calls on descriptors and on the data of files.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{iovec, sockaddr, socklen_t};
use plimsoll_preload_log::ABSENT;

use crate::calls::Call;
use crate::record::{around, by_errno};
use crate::wrap::{Word, mode_of, next, offset_at, total, wrap, wrap_one};
use crate::{kernel, next, record};

type Buffer = *mut c_void;
type Name = *const c_char;

wrap! {
    Open: open open64 __open __open64 (path: Name, flags: c_int, mode: u32) -> c_int, [path, flags, mode_of(flags, mode)];
    Open: __open_2 __open64_2 (path: Name, flags: c_int) -> c_int, [path, flags];
    Openat: openat openat64 (at: c_int, path: Name, flags: c_int, mode: u32) -> c_int, [at, path, flags, mode_of(flags, mode)];
    Openat: __openat_2 __openat64_2 (at: c_int, path: Name, flags: c_int) -> c_int, [at, path, flags];
    Creat: creat creat64 (path: Name, mode: u32) -> c_int, [path, mode];
    MemfdCreate: memfd_create (name: Name, flags: c_uint) -> c_int, [name, flags];
    Close: close __close (fd: c_int) -> c_int, [fd];
    CloseRange: close_range (first: c_uint, last: c_uint, flags: c_int) -> c_int, [first, last, flags];
    CloseRange: closefrom (first: c_int) -> (), [first, c_uint::MAX, 0];
    Dup: dup (fd: c_int) -> c_int, [fd];
    Dup2: dup2 __dup2 (fd: c_int, to: c_int) -> c_int, [fd, to];
    Dup3: dup3 (fd: c_int, to: c_int, flags: c_int) -> c_int, [fd, to, flags];
    Fcntl: fcntl fcntl64 __fcntl (fd: c_int, command: c_int, value: c_long) -> c_int, [fd, command, value_of(command, value)];
    Ioctl: ioctl (fd: c_int, command: usize, value: c_long) -> c_int, [fd, command as u32, value];

    Socket: socket (family: c_int, kind: c_int, protocol: c_int) -> c_int, [family, kind];
    Accept: accept (fd: c_int, from: *mut sockaddr, length: *mut socklen_t) -> c_int, [fd];
    Accept4: accept4 (fd: c_int, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int, [fd, 0, 0, flags];
    Eventfd2: eventfd (value: c_uint, flags: c_int) -> c_int, [value, flags];
    Signalfd4: signalfd (fd: c_int, mask: *const c_void, flags: c_int) -> c_int, [fd, 0, 0, flags];
    TimerfdCreate: timerfd_create (clock: c_int, flags: c_int) -> c_int, [clock, flags];
    EpollCreate: epoll_create (size: c_int) -> c_int, [size];
    EpollCreate1: epoll_create1 (flags: c_int) -> c_int, [flags];
    InotifyInit: inotify_init () -> c_int, [0];
    InotifyInit1: inotify_init1 (flags: c_int) -> c_int, [flags];
    PidfdOpen: pidfd_open (pid: c_int, flags: c_uint) -> c_int, [pid, flags];
    Pipe: pipe (pair: *mut c_int) -> c_int, [pair];
    Pipe2: pipe2 (pair: *mut c_int, flags: c_int) -> c_int, [pair, flags];
    Socketpair: socketpair (family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int, [family, kind, 0, pair];

    Read: read __read (fd: c_int, data: Buffer, length: usize) -> isize, [fd, 0, length];
    Read: __read_chk (fd: c_int, data: Buffer, length: usize, capacity: usize) -> isize, [fd, 0, length];
    Readv: readv (fd: c_int, list: *const iovec, count: c_int) -> isize, [fd, total(list, count)];
    Pread64: pread pread64 __pread64 (fd: c_int, data: Buffer, length: usize, offset: i64) -> isize, [fd, 0, length, offset];
    Pread64: __pread_chk __pread64_chk (fd: c_int, data: Buffer, length: usize, offset: i64, capacity: usize) -> isize, [fd, 0, length, offset];
    Preadv: preadv preadv64 (fd: c_int, list: *const iovec, count: c_int, offset: i64) -> isize, [fd, total(list, count), 0, offset];
    Preadv2: preadv2 preadv64v2 (fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> isize, [fd, total(list, count), 0, offset, flags];
    Write: write __write (fd: c_int, data: Buffer, length: usize) -> isize, [fd, 0, length];
    Writev: writev (fd: c_int, list: *const iovec, count: c_int) -> isize, [fd, total(list, count)];
    Pwrite64: pwrite pwrite64 __pwrite64 (fd: c_int, data: Buffer, length: usize, offset: i64) -> isize, [fd, 0, length, offset];
    Pwritev: pwritev pwritev64 (fd: c_int, list: *const iovec, count: c_int, offset: i64) -> isize, [fd, total(list, count), 0, offset];
    Pwritev2: pwritev2 pwritev64v2 (fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> isize, [fd, total(list, count), 0, offset, flags];
    Sendfile: sendfile sendfile64 (out: c_int, fd: c_int, at: *mut i64, length: usize) -> isize, [out, fd, offset_at(at), length];
    CopyFileRange: copy_file_range (fd: c_int, at: *mut i64, out: c_int, to: *mut i64, length: usize, flags: c_uint) -> isize, [fd, offset_at(at), out, offset_at(to), length, flags];
    Splice: splice (fd: c_int, at: *mut i64, out: c_int, to: *mut i64, length: usize, flags: c_uint) -> isize, [fd, offset_at(at), out, offset_at(to), length, flags];
    Tee: tee (fd: c_int, out: c_int, length: usize, flags: c_uint) -> isize, [fd, out, length, flags];
    Getdents64: getdents64 (fd: c_int, data: Buffer, length: usize) -> isize, [fd, 0, length];
    Lseek: lseek lseek64 __lseek (fd: c_int, offset: i64, whence: c_int) -> i64, [fd, offset, whence];
    Munmap: munmap (address: Buffer, length: usize) -> c_int, [address, length];
    Mremap: mremap (address: Buffer, length: usize, size: usize, flags: c_int, to: Buffer) -> Buffer, [address, length];
    Msync: msync (address: Buffer, length: usize, flags: c_int) -> c_int, [address, length, flags];
    Readahead: readahead (fd: c_int, offset: i64, length: usize) -> isize, [fd, offset, length];

    Ftruncate: ftruncate ftruncate64 (fd: c_int, length: i64) -> c_int, [fd, length];
    Fallocate: fallocate fallocate64 (fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int, [fd, mode, offset, length];
    Fsync: fsync (fd: c_int) -> c_int, [fd];
    Fdatasync: fdatasync (fd: c_int) -> c_int, [fd];
    Syncfs: syncfs (fd: c_int) -> c_int, [fd];
    SyncFileRange: sync_file_range (fd: c_int, offset: i64, length: i64, flags: c_uint) -> c_int, [fd, offset, length, flags];
    Sync: sync () -> (), [0];
    Flock: flock (fd: c_int, command: c_int) -> c_int, [fd, command];
}

/// The argument of fcntl. Some commands have none; then its value has no meaning.
fn value_of(command: c_int, value: c_long) -> i64 {
    match command {
        libc::F_GETFD | libc::F_GETFL | libc::F_GETOWN | libc::F_GETPIPE_SZ | libc::F_GET_SEALS => ABSENT,
        _ => value,
    }
}

/// Only mappings of files are recorded; an anonymous mapping is memory.
macro_rules! map {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            address: Buffer,
            length: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: i64,
        ) -> Buffer {
            // SAFETY: the arguments are passed unchanged. Memory may be mapped while a function is
            // looked up; then libc is not called.
            unsafe {
                let make = || map(address, length, protection, flags, fd, offset);
                if flags & libc::MAP_ANONYMOUS != 0 {
                    return make();
                }
                let words = [0, length.word(), protection.word(), flags.word(), fd.word(), offset];
                around(Call::Mmap, &words, make)
            }
        }
    )+};
}

map! { mmap mmap64 }

/// The same as the function of libc, which only makes the system call.
unsafe fn map(
    address: Buffer,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> Buffer {
    let words = [
        address as usize,
        length,
        protection as usize,
        flags as usize,
        fd as usize,
        offset as usize,
    ];
    // SAFETY: the caller guarantees it.
    match unsafe { kernel::call(libc::SYS_mmap, words) } {
        Ok(address) => address as Buffer,
        Err(errno) => {
            next::set_errno(c_int::from(errno));
            libc::MAP_FAILED
        }
    }
}

/// Functions that return their errno.
macro_rules! by_errno {
    ($($call:ident: $($name:ident)+ ($($argument:ident: $kind:ty),*), [$($word:expr),*];)*) => {$(
        by_errno!(@ $call, [$($name)+], ($($argument: $kind),*), [$($word),*]);
    )*};
    (@ $call:ident, [$($name:ident)+], $arguments:tt, $words:tt) => {
        $(by_errno!(@@ $call, $name, $arguments, $words);)+
    };
    (@@ $call:ident, $name:ident, ($($argument:ident: $kind:ty),*), [$($word:expr),*]) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let begun = record::begin();
                let errno = next!($name: fn($($kind),*) -> c_int)($($argument),*);
                record::end(begun, Call::$call, &[$($word.word()),*], by_errno(errno));
                errno
            }
        }
    };
}

by_errno! {
    Fadvise64: posix_fadvise posix_fadvise64 (fd: c_int, offset: i64, length: i64, advice: c_int), [fd, offset, length, advice];
    Fallocate: posix_fallocate posix_fallocate64 (fd: c_int, offset: i64, length: i64), [fd, 0_i32, offset, length];
}
