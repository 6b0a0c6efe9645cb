//! The recorder that is loaded before libc (`LD_PRELOAD`). It records the file calls of a
//! dynamically linked program.
//!
//! It replaces functions of libc. Each replacement calls the function of libc, reads the clock
//! before and after the call, and writes a record. A log is a memory-mapped file, one for each
//! thread, in the directory that `PLIMSOLL_TRACE_DIR` names by an absolute path. So the records
//! survive the end of the process, however it ends. The recorder allocates no memory and takes no
//! lock, and its own system calls do not go through libc. Without the variable it does nothing.
//!
//! Children are recorded, too: a child of fork in logs of its own, a child of vfork in the log of
//! its parent (it shares the memory), and a program that is started with execve in new logs,
//! provided that the environment is kept.
//!
//! **What it does not record:**
//!
//! - Programs that are linked statically, that run with more privileges than their caller, or that
//!   got another environment.
//!
//! - System calls that are made without the functions of libc (Go; assembler). Of `io_uring` and
//!   libaio it records only that requests were submitted ([`rings`]).
//!
//! - Calls inside libc: loading libraries (dlopen), walking directories (ftw, fts, glob, scandir),
//!   databases (getpwnam, locale, iconv, name service), `realpath`, `tmpfile`, `lockf`, and what
//!   `posix_spawn`, `popen` and `system` do before the new program runs.
//!
//! - Descriptors that arrive in messages of sockets.
//!
//! - Accesses to mapped files; only the mapping is recorded.
//!
//! - A call during which the program is killed.
//!
//! - A thread that changes its user before its log has to grow, or its root directory before it has
//!   a log: from then on it is not recorded.
//!
//! **What it infers.** The system calls of stdio ([`stdio`]) and readdir ([`directory`]) are made
//! inside libc. They are inferred from the position of the open file before and after the function.
//! Such records are marked.
//!
//! The crate `plimsoll-preload-log` describes the format of a log. The module `preload` of the
//! crate `plimsoll-trace` reads it.

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

/// Nothing here panics except by a mistake, and another program must not be unwound. The library
/// that is used is built without the standard library (`panic=abort`, see
/// `scripts/preload-library`), which would require a newer libc than many programs have.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: no pointers.
        let _ = unsafe { kernel::call(libc::SYS_exit_group, [134, 0, 0, 0, 0, 0]) };
    }
}

// The personality routine of unwinding, to which parts of the core library refer. It is hidden,
// because programs that unwind have a working one.
#[cfg(panic = "abort")]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality: .word 0",
);
