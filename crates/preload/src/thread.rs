//! Thread-local memory without the standard library. It is zero at first, and exists from the first
//! to the last instruction of the thread. Two instructions find it: the TLS model is
//! "initial-exec", which is possible because the library is loaded before the program.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::AtomicU64;

use crate::log::Log;
use crate::record::OpenRecord;

/// The state of a thread. All zeros is a thread that has recorded nothing.
pub struct Thread {
    /// The process in which `log` was created, because a child has a log of its own. 0 if there is
    /// none.
    pub pid: Cell<u32>,
    /// The child that runs with the memory of this thread (vfork), or 0.
    pub borrower: Cell<u32>,
    /// The log is being changed. Code that finds this set has interrupted the change, as a signal
    /// handler does.
    pub busy: Cell<bool>,
    pub log: UnsafeCell<Log>,
    /// End of the previous call, ns of `CLOCK_MONOTONIC`.
    pub ended_ns: Cell<u64>,
    /// When the processor time was last read, ns of `CLOCK_MONOTONIC`, and the value, ns.
    pub asked_ns: Cell<u64>,
    pub processor_ns: Cell<u64>,
    /// Number of lost records that have not been reported in the log. Atomic, because a signal
    /// handler counts on the same thread.
    pub lost: AtomicU64,
    /// The record of a vfork that has not returned in the parent.
    pub lending: Cell<Option<OpenRecord>>,
}

core::arch::global_asm!(
    ".pushsection .tbss, \"awT\", %nobits",
    ".balign 16",
    ".globl plimsoll_thread",
    ".hidden plimsoll_thread",
    ".type plimsoll_thread, %object",
    ".size plimsoll_thread, {size}",
    "plimsoll_thread: .zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

impl Thread {
    /// The state of the calling thread.
    #[inline]
    pub fn own<'a>() -> &'a Self {
        let address: *const Self;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: two reads: the offset from the thread pointer, and the thread pointer.
        unsafe {
            core::arch::asm!(
                "mov {0}, qword ptr [rip + plimsoll_thread@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) address,
                options(nostack, readonly, pure),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as for x86-64.
        unsafe {
            core::arch::asm!(
                "mrs {0}, tpidr_el0",
                "adrp {1}, :gottprel:plimsoll_thread",
                "ldr {1}, [{1}, :gottprel_lo12:plimsoll_thread]",
                "add {0}, {0}, {1}",
                out(reg) address,
                out(reg) _,
                options(nostack, readonly, pure),
            );
        }
        // SAFETY: the memory has the right size, zeros are valid for each field, and only this
        // thread and its signal handlers access it. They share it through `Cell` and `busy`.
        unsafe { &*address }
    }
}
