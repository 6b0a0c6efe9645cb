//! stdio: functions that may read or write more than the buffer.
//!
//! Their system calls are made inside libc. The bytes written are those that were added to the
//! buffer and are no longer in it. The bytes read are inferred from the position of the open file
//! before and after, so only files are recorded, not pipes. Bytes and offsets are exact, but
//! several reads (or writes) within one function are one record, and a read that found the end of
//! the file has no record. If the buffer shows beforehand that no system call is needed, nothing is
//! recorded. Functions for wide characters are not recorded.

use core::ffi::{c_char, c_int, c_long, c_void};

use crate::calls::Call;
use crate::kernel;
use crate::record::{self, CallEnd};
use crate::stream::{self, Stream, Way};
use crate::wrap::{Word, next};

type File = *mut Stream;
type Name = *const c_char;
type List = *mut c_void;

/// `way: names (arguments) -> type, stream, whether the buffer suffices;`
macro_rules! streams {
    ($($way:ident: $($name:ident)+ ($($argument:tt)*) -> $returns:ty, $stream:ident, $direct:expr;)*) => {
        $(streams! { @ $way [$($name)+] ($($argument)*) $returns, $stream, $direct })*
    };
    (@ $way:ident [$($name:ident)+] $arguments:tt $returns:ty, $stream:ident, $direct:expr) => {
        $(streams! { @@ $way $name $arguments $returns, $stream, $direct })+
    };
    (@@ $way:ident $name:ident ($($argument:ident: $kind:ty),*) $returns:ty, $stream:ident, $direct:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $returns {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let next = next!($name: fn($($kind),*) -> $returns);
                if $direct {
                    return next($($argument),*);
                }
                let before = stream::before($stream);
                let returned = next($($argument),*);
                stream::after(before, $stream, Way::$way);
                returned
            }
        }
    };
}

streams! {
    Read: fread fread_unlocked (data: List, size: usize, count: usize, file: File) -> usize, file, has(file, size, count);
    Read: __fread_chk __fread_unlocked_chk (data: List, capacity: usize, size: usize, count: usize, file: File) -> usize, file, has(file, size, count);
    Read: fgets fgets_unlocked (data: List, length: c_int, file: File) -> List, file, has_line(file, b'\n');
    Read: __fgets_chk __fgets_unlocked_chk (data: List, capacity: usize, length: c_int, file: File) -> List, file, has_line(file, b'\n');
    Read: getline (line: List, capacity: List, file: File) -> isize, file, has_line(file, b'\n');
    Read: getdelim __getdelim (line: List, capacity: List, end: c_int, file: File) -> isize, file, has_line(file, end as u8);
    Read: fgetc getc _IO_getc fgetc_unlocked getc_unlocked __uflow __underflow (file: File) -> c_int, file, has(file, 1, 1);
    Read: vfscanf __isoc99_vfscanf __isoc23_vfscanf (file: File, format: Name, list: List) -> c_int, file, false;

    Seek: fseek fseeko fseeko64 (file: File, offset: c_long, whence: c_int) -> c_int, file, false;
    Seek: fsetpos fsetpos64 (file: File, position: List) -> c_int, file, false;
    Seek: rewind (file: File) -> (), file, false;
}

/// `names (arguments) -> type, stream, whether the buffer suffices, number of bytes added;`
macro_rules! writes {
    ($($($name:ident)+ ($($argument:tt)*) -> $returns:ty, $stream:ident, $direct:expr, $added:expr;)*) => {
        $(writes! { @ [$($name)+] ($($argument)*) $returns, $stream, $direct, $added })*
    };
    (@ [$($name:ident)+] $arguments:tt $returns:ty, $stream:ident, $direct:expr, $added:expr) => {
        $(writes! { @@ $name $arguments $returns, $stream, $direct, $added })+
    };
    (@@ $name:ident ($($argument:ident: $kind:ty),*) $returns:ty, $stream:ident, $direct:expr, $added:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $returns {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let next = next!($name: fn($($kind),*) -> $returns);
                let stream = $stream;
                if $direct {
                    return next($($argument),*);
                }
                let before = stream::before_write(stream);
                let returned = next($($argument),*);
                // After a failure the number of added bytes is unknown.
                if let Ok(added) = usize::try_from($added(returned)) {
                    stream::after_write(before, stream, added as i64);
                }
                returned
            }
        }
    };
}

writes! {
    fwrite fwrite_unlocked (data: List, size: usize, count: usize, file: File) -> usize, file, fits(file, size, count), |whole: usize| (whole * size) as isize;
    fputs fputs_unlocked (text: Name, file: File) -> c_int, file, fits(file, libc::strlen(text), 1), |done: c_int| if done < 0 { -1 } else { libc::strlen(text) as isize };
    fputc putc _IO_putc fputc_unlocked putc_unlocked (character: c_int, file: File) -> c_int, file, fits(file, 1, 1), one_byte;
    __overflow (file: File, character: c_int) -> c_int, file, fits(file, 1, 1), one_byte;
    vfprintf (file: File, format: Name, list: List) -> c_int, file, false, as_count;
    __vfprintf_chk (file: File, check: c_int, format: Name, list: List) -> c_int, file, false, as_count;
    puts (text: Name) -> c_int, stdout, false, |done: c_int| if done < 0 { -1 } else { libc::strlen(text) as isize + 1 };
    putchar putchar_unlocked (character: c_int) -> c_int, stdout, fits(stdout, 1, 1), one_byte;
    vprintf (format: Name, list: List) -> c_int, stdout, false, as_count;
    __vprintf_chk (check: c_int, format: Name, list: List) -> c_int, stdout, false, as_count;
}

fn as_count(added: c_int) -> isize {
    added as isize
}

fn one_byte(done: c_int) -> isize {
    if done < 0 { -1 } else { 1 }
}

unsafe extern "C" {
    static stdin: File;
    static stdout: File;
    static stderr: File;
}

/// Functions with a variable number of arguments: the arguments become a `va_list`, for the
/// function that takes one.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($($name:ident: $fixed:literal $register:literal $listed:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() -> c_int {
            // Six integer registers, eight vector registers, and a va_list: offsets of the next
            // integer and vector, the address of the arguments on the stack, and that of the saved
            // registers.
            core::arch::naked_asm!(
                "sub rsp, 216",
                "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx", "mov [rsp + 32], r8", "mov [rsp + 40], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 48], xmm0", "movaps [rsp + 64], xmm1", "movaps [rsp + 80], xmm2", "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4", "movaps [rsp + 128], xmm5", "movaps [rsp + 144], xmm6", "movaps [rsp + 160], xmm7",
                "2:",
                "mov dword ptr [rsp + 176], 8 * {fixed}",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("lea ", $register, ", [rsp + 176]"),
                "call {listed}",
                "add rsp, 216",
                "ret",
                fixed = const $fixed,
                listed = sym $listed,
            )
        }
    )*};
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    ($($name:ident: $fixed:literal $register:literal $listed:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() -> c_int {
            // Eight vector registers, eight integer registers, and a va_list: the address of the
            // arguments on the stack, the ends of the two register areas, and the negative offsets
            // from these ends.
            core::arch::naked_asm!(
                "stp x29, x30, [sp, -256]!",
                "stp q0, q1, [sp, 16]", "stp q2, q3, [sp, 48]", "stp q4, q5, [sp, 80]", "stp q6, q7, [sp, 112]",
                "stp x0, x1, [sp, 144]", "stp x2, x3, [sp, 160]", "stp x4, x5, [sp, 176]", "stp x6, x7, [sp, 192]",
                "add x9, sp, 256", "str x9, [sp, 208]",
                "add x9, sp, 208", "str x9, [sp, 216]",
                "add x9, sp, 144", "str x9, [sp, 224]",
                "mov w9, -8 * (8 - {fixed})", "str w9, [sp, 232]",
                "mov w9, -128", "str w9, [sp, 236]",
                "add x{fixed}, sp, 208",
                "bl {listed}",
                "ldp x29, x30, [sp], 256",
                "ret",
                fixed = const $fixed,
                listed = sym $listed,
            )
        }
    )*};
}

variadic! {
    printf: 1 "rsi" vprintf;
    __printf_chk: 2 "rdx" __vprintf_chk;
    fprintf: 2 "rdx" vfprintf;
    __fprintf_chk: 3 "rcx" __vfprintf_chk;
    fscanf: 2 "rdx" vfscanf;
    __isoc99_fscanf: 2 "rdx" __isoc99_vfscanf;
    __isoc23_fscanf: 2 "rdx" __isoc23_vfscanf;
}

unsafe fn has(file: File, size: usize, count: usize) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { size.saturating_mul(count) <= (*file).available().len() }
}

unsafe fn has_line(file: File, end: u8) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { (*file).available().contains(&end) }
}

unsafe fn fits(file: File, size: usize, count: usize) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { size.saturating_mul(count) <= (*file).free_bytes() }
}

macro_rules! open {
    ($($name:ident $again:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: Name, mode: Name) -> File {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let begun = record::begin();
                let file = next!($name: fn(Name, Name) -> File)(path, mode);
                record_open(begun, path, mode, file);
                file
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $again(path: Name, mode: Name, file: File) -> File {
            // SAFETY: the arguments are passed unchanged. libc opens the other file with a new
            // descriptor and moves it to that of the first one.
            unsafe {
                let next = next!($again: fn(Name, Name, File) -> File);
                if path.is_null() || file.is_null() {
                    return next(path, mode, file);
                }
                let fd = (*file).descriptor();
                stream::record_flush(file);
                record::end(record::begin(), Call::Close, &[fd.word()], CallEnd { inferred: true, ..CallEnd::returned(0) });
                stream::forget(fd);
                let begun = record::begin();
                let again = next(path, mode, file);
                record_open(begun, path, mode, again);
                again
            }
        }
    )*};
}

open! {
    fopen freopen;
    fopen64 freopen64;
}

unsafe fn record_open(begun: Option<record::CallStart>, path: Name, mode: Name, file: File) {
    // SAFETY: the caller passes the arguments of fopen.
    unsafe {
        let (flags, appends) = stream::flags(mode);
        let words = [libc::AT_FDCWD.word(), path.word(), flags.word(), 0o666];
        let Some(opened) = file.as_ref() else {
            record::end(begun, Call::Openat, &words, CallEnd::from_return(-1));
            return;
        };
        let fd = opened.descriptor();
        record::end(begun, Call::Openat, &words, CallEnd::returned(fd.word()));
        stream::remember(file);
        if appends && let Some(position) = kernel::position(fd) {
            let words = [fd.word(), 0, libc::SEEK_END.word()];
            let ended = CallEnd {
                inferred: true,
                ..CallEnd::returned(position)
            };
            record::end(record::begin(), Call::Lseek, &words, ended);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: Name) -> File {
    // SAFETY: the arguments are passed unchanged.
    unsafe {
        let file = next!(fdopen: fn(c_int, Name) -> File)(fd, mode);
        stream::remember(file);
        file
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(file: File) -> c_int {
    // SAFETY: the arguments are passed unchanged. The stream is not read after it is closed.
    unsafe {
        stream::record_flush(file);
        let fd = file.as_ref().map_or(-1, Stream::descriptor);
        stream::forget(fd);
        let begun = record::begin();
        let failed = next!(fclose: fn(File) -> c_int)(file);
        if fd >= 0 {
            record::end(
                begun,
                Call::Close,
                &[fd.word()],
                CallEnd::from_return(failed.word()),
            );
        }
        failed
    }
}

macro_rules! flush {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(file: File) -> c_int {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                if file.is_null() {
                    stream::record_flush_of_all();
                }
                let before = stream::before_write(file);
                let failed = next!($name: fn(File) -> c_int)(file);
                stream::after_write(before, file, 0);
                failed
            }
        }
    )+};
}

flush! { fflush fflush_unlocked }

/// Registers the streams that every program has.
pub fn begin() {
    // SAFETY: variables of libc, set before any constructor of another library runs.
    unsafe {
        for file in [stdin, stdout, stderr] {
            stream::remember(file);
        }
    }
}

/// Records that the program ends: libc writes all buffers now.
pub fn end() {
    stream::record_flush_of_all();
}
