//! Memory of a thread, without what the standard library needs for it: zeros at first, there from
//! the thread's first to its last instruction, found in two instructions (the model "initial-exec",
//! as a library that is loaded before the program has its place).

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::AtomicU64;

use crate::log::Log;
use crate::record::Open;

/// What a thread knows. Zeros are a thread that has recorded nothing.
pub struct Thread {
    /// The process in which `log` was made; a child has a log of its own. 0 before there is one.
    pub pid: Cell<u32>,
    /// The child that has our memory and runs instead of us (vfork), or 0.
    pub borrower: Cell<u32>,
    /// The log is being changed: who comes now has interrupted that, as a handler of a signal.
    pub busy: Cell<bool>,
    pub log: UnsafeCell<Log>,
    /// When the call before has ended.
    pub ended_ns: Cell<u64>,
    /// When the processor time was asked for, and what it was.
    pub asked_ns: Cell<u64>,
    pub processor_ns: Cell<u64>,
    /// Records that could not be written and are not reported yet. Atomic, as a handler of a signal
    /// counts on the same thread.
    pub lost: AtomicU64,
    /// The vfork that has not returned in the parent.
    pub lending: Cell<Option<Open>>,
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
    /// That of the thread that asks.
    #[inline]
    pub fn own<'a>() -> &'a Self {
        let address: *const Self;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: two reads: how far from the thread's pointer it lies, and that pointer.
        unsafe {
            core::arch::asm!(
                "mov {0}, qword ptr [rip + plimsoll_thread@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) address,
                options(nostack, readonly, pure),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: see above.
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
        // SAFETY: of the right size, zeros are a value of each field, and only this thread and its
        // handlers of signals have it, who share it by `Cell` and `busy`.
        unsafe { &*address }
    }
}
