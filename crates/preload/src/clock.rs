//! Clocks, each read without a system call where the kernel supports that.

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec};

fn read(clock: clockid_t) -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: these clocks exist on every Linux, and `time` is valid for writes. The calls do not
    // fail and do not change errno.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// `CLOCK_MONOTONIC`, ns: the same for all processes of a host.
#[inline]
pub fn monotonic() -> u64 {
    read(CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, ns since the Unix epoch.
pub fn real() -> u64 {
    read(CLOCK_REALTIME)
}

/// Processor time of this thread, ns. Reading it is a system call.
pub fn processor() -> u64 {
    read(CLOCK_THREAD_CPUTIME_ID)
}
