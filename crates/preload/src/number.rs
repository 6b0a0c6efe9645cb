//! syscall(2) with a number: the file calls that programs make in this way because their libc is
//! older than the call.

use core::ffi::{c_int, c_long};

use crate::calls::Call;
use crate::record;
use crate::wrap::{mode_of, next, offset_at};

#[expect(clippy::many_single_char_names, reason = "they have no names of their own")]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the arguments are passed unchanged. An argument that the caller did not pass has an
    // arbitrary value, as in libc.
    unsafe {
        let make = || {
            next!(syscall: fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long)(
                number, a, b, c, d, e, f,
            )
        };
        // Truncated to 32 bits, as in the kernel.
        let (fd, out) = (i64::from(a as c_int), i64::from(c as c_int));
        let mut words = [fd, b, c, d, e, f];
        let call = match number {
            libc::SYS_read => Call::Read,
            libc::SYS_write => Call::Write,
            libc::SYS_pread64 => Call::Pread64,
            libc::SYS_pwrite64 => Call::Pwrite64,
            libc::SYS_close => Call::Close,
            libc::SYS_lseek => Call::Lseek,
            libc::SYS_dup => Call::Dup,
            libc::SYS_dup3 => Call::Dup3,
            libc::SYS_getdents64 => Call::Getdents64,
            libc::SYS_fsync => Call::Fsync,
            libc::SYS_fdatasync => Call::Fdatasync,
            libc::SYS_ftruncate => Call::Ftruncate,
            libc::SYS_fallocate => Call::Fallocate,
            libc::SYS_statx => Call::Statx,
            libc::SYS_newfstatat => Call::Newfstatat,
            libc::SYS_readlinkat => Call::Readlinkat,
            libc::SYS_faccessat2 => Call::Faccessat2,
            libc::SYS_mkdirat => Call::Mkdirat,
            libc::SYS_unlinkat => Call::Unlinkat,
            libc::SYS_renameat2 => {
                words[2] = out;
                Call::Renameat2
            }
            libc::SYS_close_range => Call::CloseRange,
            libc::SYS_io_submit => {
                words[2] = c;
                Call::IoSubmit
            }
            libc::SYS_io_uring_setup => Call::IoUringSetup,
            libc::SYS_io_uring_enter => Call::IoUringEnter,
            libc::SYS_memfd_create => {
                words[0] = a;
                Call::MemfdCreate
            }
            libc::SYS_openat => {
                words[3] = mode_of(c as c_int, d as u32);
                Call::Openat
            }
            libc::SYS_openat2 if c != 0 => {
                // struct open_how: u64 flags, u64 mode, u64 resolve.
                let how = c as usize as *const i64;
                words = [fd, b, how.read_unaligned(), how.add(1).read_unaligned(), 0, 0];
                Call::Openat
            }
            libc::SYS_copy_file_range => {
                words = [
                    fd,
                    offset_at(b as usize as *const i64),
                    out,
                    offset_at(d as usize as *const i64),
                    e,
                    f,
                ];
                Call::CopyFileRange
            }
            _ => return make(),
        };
        record::around(call, &words, make)
    }
}
