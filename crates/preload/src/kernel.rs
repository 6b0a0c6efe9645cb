//! System calls of the recorder. They do not go through libc, whose functions this library
//! replaces, and do not change errno, which belongs to the program.

use core::ffi::{CStr, c_int, c_long};

/// The result of a system call: a value, or errno.
pub type Answer = Result<usize, u16>;

/// Makes a system call. Arguments that it does not have are 0.
///
/// # Safety
/// The arguments must be valid for the call; pointers must be valid until it returns.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> Answer {
    let value: isize;
    // SAFETY: the calling convention of the kernel, which changes rcx and r11, and memory to which
    // the arguments point.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => value,
            in("rdi") words[0], in("rsi") words[1], in("rdx") words[2],
            in("r10") words[3], in("r8") words[4], in("r9") words[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer(value)
}

/// Makes a system call. Arguments that it does not have are 0.
///
/// # Safety
/// The arguments must be valid for the call; pointers must be valid until it returns.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> Answer {
    let value: isize;
    // SAFETY: the calling convention of the kernel, which changes x0, and memory to which the
    // arguments point.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") words[0] => value,
            in("x1") words[1], in("x2") words[2], in("x3") words[3],
            in("x4") words[4], in("x5") words[5],
            options(nostack),
        );
    }
    answer(value)
}

fn answer(value: isize) -> Answer {
    if (-4095..0).contains(&value) {
        Err(value.unsigned_abs() as u16)
    } else {
        Ok(value.cast_unsigned())
    }
}

/// A number as an argument of a call, sign-extended.
fn word(number: c_int) -> usize {
    (number as isize).cast_unsigned()
}

/// openat(2) relative to the current directory, with `O_CLOEXEC`.
pub fn open(path: &CStr, flags: c_int, mode: u32) -> Result<c_int, u16> {
    let flags = word(flags | libc::O_CLOEXEC);
    let words = [
        word(libc::AT_FDCWD),
        path.as_ptr() as usize,
        flags,
        mode as usize,
        0,
        0,
    ];
    // SAFETY: the path ends with 0.
    unsafe { call(libc::SYS_openat, words) }.map(|value| value as c_int)
}

/// close(2).
pub fn close(number: c_int) {
    // SAFETY: no pointers. The descriptor was opened by this library.
    let _ = unsafe { call(libc::SYS_close, [word(number), 0, 0, 0, 0, 0]) };
}

/// read(2).
pub fn read(number: c_int, data: &mut [u8]) -> Answer {
    let words = [word(number), data.as_mut_ptr() as usize, data.len(), 0, 0, 0];
    // SAFETY: the buffer has the length that is passed.
    unsafe { call(libc::SYS_read, words) }
}

/// readlink(2). A target that does not fit is cut.
pub fn readlink(path: &CStr, data: &mut [u8]) -> Answer {
    let words = [
        word(libc::AT_FDCWD),
        path.as_ptr() as usize,
        data.as_mut_ptr() as usize,
        data.len(),
        0,
        0,
    ];
    // SAFETY: the path ends with 0, and the buffer has the length that is passed.
    unsafe { call(libc::SYS_readlinkat, words) }
}

/// getcwd(2). Returns the length of the path in bytes, including the terminating 0.
pub fn current_directory(data: &mut [u8]) -> Answer {
    let words = [data.as_mut_ptr() as usize, data.len(), 0, 0, 0, 0];
    // SAFETY: the buffer has the length that is passed.
    unsafe { call(libc::SYS_getcwd, words) }
}

/// getdents64(2).
pub fn entries(number: c_int, data: &mut [u8]) -> Answer {
    let words = [word(number), data.as_mut_ptr() as usize, data.len(), 0, 0, 0];
    // SAFETY: the buffer has the length that is passed.
    unsafe { call(libc::SYS_getdents64, words) }
}

/// The position of the open file of a descriptor. None if it has no position (a pipe).
pub fn position(number: c_int) -> Option<i64> {
    let words = [word(number), 0, word(libc::SEEK_CUR), 0, 0, 0];
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_lseek, words) }
        .ok()
        .map(|value| value as i64)
}

/// fcntl(2) with a command without an argument.
pub fn fcntl(number: c_int, command: c_int) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fcntl, [word(number), word(command), 0, 0, 0, 0]) }
}

/// Whether the path is that of a directory. A symbolic link is not followed.
///
/// # Safety
/// The path must end with 0.
pub unsafe fn is_directory(path: *const core::ffi::c_char) -> bool {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    // SAFETY: the caller guarantees it.
    let descriptor = open(unsafe { CStr::from_ptr(path) }, flags, 0);
    descriptor.map(close).is_ok()
}

/// fchmod(2).
pub fn change_mode(number: c_int, mode: u32) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_fchmod, [word(number), mode as usize, 0, 0, 0, 0]) };
}

/// ftruncate(2), to a length in bytes.
pub fn set_length(number: c_int, length: u64) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_ftruncate, [word(number), length as usize, 0, 0, 0, 0]) }
}

/// fallocate(2): reserves the range on the disk or in memory, so that writing to its mapping cannot
/// fail.
pub fn allocate(number: c_int, offset: u64, length: usize) -> Answer {
    // SAFETY: no pointers.
    unsafe {
        call(
            libc::SYS_fallocate,
            [word(number), 0, offset as usize, length, 0, 0],
        )
    }
}

/// The maximum size of a file that this process may write (`RLIMIT_FSIZE`), bytes.
pub fn largest_file() -> u64 {
    let mut limit = [u64::MAX; 2];
    let words = [0, libc::RLIMIT_FSIZE as usize, 0, (&raw mut limit) as usize, 0, 0];
    // SAFETY: the kernel writes two numbers to `limit`.
    let _ = unsafe { call(libc::SYS_prlimit64, words) };
    limit[0]
}

/// Maps a range of a file, shared (`MAP_SHARED`). A child of fork does not inherit the mapping.
pub fn map(number: c_int, offset: u64, length: usize) -> Result<*mut u64, u16> {
    let protection = word(libc::PROT_READ | libc::PROT_WRITE);
    let words = [
        0,
        length,
        protection,
        word(libc::MAP_SHARED),
        word(number),
        offset as usize,
    ];
    // SAFETY: the kernel chooses an unused address.
    let address = unsafe { call(libc::SYS_mmap, words) }?;
    let advice = word(libc::MADV_DONTFORK);
    // SAFETY: the range is the mapping above.
    let _ = unsafe { call(libc::SYS_madvise, [address, length, advice, 0, 0, 0]) };
    Ok(address as *mut u64)
}

/// Removes a mapping of [`map`].
///
/// # Safety
/// The mapping must not be used afterwards.
pub unsafe fn unmap(address: *mut u64, length: usize) {
    // SAFETY: the caller guarantees it.
    let _ = unsafe { call(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) };
}

/// Has the kernel fill this page with zeros in every child process that does not share memory,
/// independent of the call that makes it. Returns whether the kernel supports that (from 4.14).
///
/// # Safety
/// `page` must be aligned to a page, `length` a multiple of the page size, and the memory must not
/// be a mapping of a file.
pub unsafe fn wipe_in_children(page: *const u8, length: usize) -> bool {
    const MADV_WIPEONFORK: usize = 18;
    let words = [page as usize, length, MADV_WIPEONFORK, 0, 0, 0];
    // SAFETY: the caller guarantees it.
    unsafe { call(libc::SYS_madvise, words) }.is_ok()
}

/// getpid(2), getppid(2), gettid(2).
pub fn ids() -> (u32, u32, u32) {
    let query = |number| {
        // SAFETY: no arguments.
        unsafe { call(number, [0; 6]) }.unwrap_or_default() as u32
    };
    (
        query(libc::SYS_getpid),
        query(libc::SYS_getppid),
        query(libc::SYS_gettid),
    )
}

/// gettid(2).
pub fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.unwrap_or_default() as u32
}
