//! The recorder that is loaded before libc (`LD_PRELOAD`): it writes down the file calls of a
//! program that is linked dynamically.
//!
//! It stands before libc's functions: each calls the one behind it and leaves a record, with two
//! looks at the clock. A log is a file that is memory (one for each thread, in the directory that
//! `PLIMSOLL_TRACE_DIR` names by an absolute name), so that records outlive whatever happens to the
//! process. Nothing is allocated and no lock is taken; its own system calls do not go by way of
//! libc. Without the variable it does nothing.
//!
//! Children record, too: those of fork in logs of their own, those of vfork in their parent's (as
//! the memory is), and a program that execve starts anew, as long as the environment is kept.
//!
//! **What it does not see.** Programs that are linked statically, that run with more rights than
//! who started them, or that were given another environment. System calls that are made without
//! libc's functions (Go; handwritten ones); of `io_uring` and libaio only that requests are handed
//! over ([`rings`]). What libc does inside itself: loading libraries (dlopen), walking directories
//! (ftw, fts, glob, scandir), databases (getpwnam, locale, iconv, name service), `realpath`,
//! `tmpfile`, `lockf`, what `posix_spawn`, `popen` and `system` do before the new program runs.
//! Descriptors that come in messages of sockets. Memory that is a file's, but for the making of it.
//! A call during which a program is killed. A thread that changes its user while its log has to
//! grow, or its root directory before it has one, is not recorded any further.
//!
//! **What it infers.** Calls of stdio ([`stdio`]) and readdir ([`directory`]) are made inside libc;
//! what the kernel was asked is told by where the open file stands before and after. Such records
//! are marked.
//!
//! What a log holds is described where it is read: `preload` in the crate `plimsoll-trace`.

#![cfg_attr(panic = "abort", no_std)]

mod calls;
mod clock;
mod encode;
mod head;
mod kernel;
mod log;
mod next;
mod process;
mod record;
mod stream;
mod thread;
mod wrap;

mod data;
mod directory;
mod names;
mod number;
mod processes;
mod rings;
mod stdio;

/// Version of the log.
const VERSION: u32 = 1;

/// There is nothing to unwind to in somebody else's program, and nothing here panics but by a
/// mistake. The standard library, which would need a newer libc than many programs have, is left
/// out where it is built to be used (`panic=abort`, see `scripts/preload-library`).
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: no pointers.
        let _ = unsafe { kernel::call(libc::SYS_exit_group, [134, 0, 0, 0, 0, 0]) };
    }
}

// What unwinding would ask, which parts of the core library name. Hidden, as programs that unwind
// have one that works.
#[cfg(panic = "abort")]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality: .word 0",
);
