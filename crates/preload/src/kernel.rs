//! System calls of our own: not by way of libc, whose functions this library stands in for, and
//! without errno, which is the program's.

use core::ffi::{CStr, c_int, c_long};

/// What the kernel answers: a value, or errno.
pub type Answer = Result<usize, u16>;

/// One system call. Arguments that it does not have are 0.
///
/// # Safety
/// The arguments must be what the call asks for; pointers must hold.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> Answer {
    let value: isize;
    // SAFETY: the kernel's convention; it changes rcx and r11, and memory that the arguments point
    // to.
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

/// See above.
///
/// # Safety
/// See above.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> Answer {
    let value: isize;
    // SAFETY: the kernel's convention; it changes x0, and memory that the arguments point to.
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

/// A number as a word of a call; -1 is all ones.
fn word(number: c_int) -> usize {
    (number as isize).cast_unsigned()
}

/// openat(2) from the current directory, closed by execve.
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
    // SAFETY: the name ends with 0.
    unsafe { call(libc::SYS_openat, words) }.map(|value| value as c_int)
}

/// close(2).
pub fn close(number: c_int) {
    // SAFETY: no pointers. It closes what this library has opened.
    let _ = unsafe { call(libc::SYS_close, [word(number), 0, 0, 0, 0, 0]) };
}

/// read(2).
pub fn read(number: c_int, data: &mut [u8]) -> Answer {
    let words = [word(number), data.as_mut_ptr() as usize, data.len(), 0, 0, 0];
    // SAFETY: the buffer is as long as it is said to be.
    unsafe { call(libc::SYS_read, words) }
}

/// readlink(2); what does not fit is cut.
pub fn readlink(path: &CStr, data: &mut [u8]) -> Answer {
    let words = [
        word(libc::AT_FDCWD),
        path.as_ptr() as usize,
        data.as_mut_ptr() as usize,
        data.len(),
        0,
        0,
    ];
    // SAFETY: the name ends with 0, and the buffer is as long as it is said to be.
    unsafe { call(libc::SYS_readlinkat, words) }
}

/// getcwd(2): how many bytes the name has, its end included.
pub fn current_directory(data: &mut [u8]) -> Answer {
    let words = [data.as_mut_ptr() as usize, data.len(), 0, 0, 0, 0];
    // SAFETY: the buffer is as long as it is said to be.
    unsafe { call(libc::SYS_getcwd, words) }
}

/// getdents64(2).
pub fn entries(number: c_int, data: &mut [u8]) -> Answer {
    let words = [word(number), data.as_mut_ptr() as usize, data.len(), 0, 0, 0];
    // SAFETY: the buffer is as long as it is said to be.
    unsafe { call(libc::SYS_getdents64, words) }
}

/// Where the open file of a descriptor stands; None where it has no such place (a pipe).
pub fn position(number: c_int) -> Option<i64> {
    let words = [word(number), 0, word(libc::SEEK_CUR), 0, 0, 0];
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_lseek, words) }
        .ok()
        .map(|value| value as i64)
}

/// fcntl(2) with a command that takes nothing.
pub fn fcntl(number: c_int, command: c_int) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fcntl, [word(number), word(command), 0, 0, 0, 0]) }
}

/// Whether the name is that of a directory, links not followed.
///
/// # Safety
/// The name must end with 0.
pub unsafe fn is_directory(path: *const core::ffi::c_char) -> bool {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    // SAFETY: the caller's.
    let found = open(unsafe { CStr::from_ptr(path) }, flags, 0);
    found.map(close).is_ok()
}

/// fchmod(2).
pub fn change_mode(number: c_int, mode: u32) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_fchmod, [word(number), mode as usize, 0, 0, 0, 0]) };
}

/// ftruncate(2): bytes.
pub fn set_length(number: c_int, length: u64) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_ftruncate, [word(number), length as usize, 0, 0, 0, 0]) }
}

/// fallocate(2): the range is there, on the disk or in memory, so that writing to it by way of
/// memory cannot fail.
pub fn allocate(number: c_int, offset: u64, length: usize) -> Answer {
    // SAFETY: no pointers.
    unsafe {
        call(
            libc::SYS_fallocate,
            [word(number), 0, offset as usize, length, 0, 0],
        )
    }
}

/// The largest file that this process may write: bytes.
pub fn largest_file() -> u64 {
    let mut limit = [u64::MAX; 2];
    let words = [0, libc::RLIMIT_FSIZE as usize, 0, (&raw mut limit) as usize, 0, 0];
    // SAFETY: the kernel writes two numbers there.
    let _ = unsafe { call(libc::SYS_prlimit64, words) };
    limit[0]
}

/// A range of a file as memory, shared with everybody. A child that fork makes does not have it.
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
    // SAFETY: the kernel chooses a place where nothing is.
    let address = unsafe { call(libc::SYS_mmap, words) }?;
    let advice = word(libc::MADV_DONTFORK);
    // SAFETY: of the range above.
    let _ = unsafe { call(libc::SYS_madvise, [address, length, advice, 0, 0, 0]) };
    Ok(address as *mut u64)
}

/// Ends what [`map`] has made.
///
/// # Safety
/// Nothing may use it afterwards.
pub unsafe fn unmap(address: *mut u64, length: usize) {
    // SAFETY: the caller's.
    let _ = unsafe { call(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) };
}

/// In a child process this page is zero, however it was made, if memory is not shared. Whether the
/// kernel can do that (from 4.14).
///
/// # Safety
/// It must be a whole page that is no file's.
pub unsafe fn wipe_in_children(page: *const u8, length: usize) -> bool {
    const MADV_WIPEONFORK: usize = 18;
    let words = [page as usize, length, MADV_WIPEONFORK, 0, 0, 0];
    // SAFETY: the caller's.
    unsafe { call(libc::SYS_madvise, words) }.is_ok()
}

/// getpid(2), getppid(2), gettid(2).
pub fn ids() -> (u32, u32, u32) {
    let ask = |number| {
        // SAFETY: no arguments.
        unsafe { call(number, [0; 6]) }.unwrap_or_default() as u32
    };
    (
        ask(libc::SYS_getpid),
        ask(libc::SYS_getppid),
        ask(libc::SYS_gettid),
    )
}

/// gettid(2).
pub fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.unwrap_or_default() as u32
}
