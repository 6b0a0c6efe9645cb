//! Calls of the operating system for cores, threads and limits.

use std::io;

/// Numbers of the cores that this process may use, in increasing order; only core 0 if they cannot
/// be determined.
pub fn cores() -> Vec<u32> {
    let mut set = empty();
    // SAFETY: `set` is a valid, writable cpu_set_t of the size given.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if rc != 0 {
        return vec![0];
    }
    // SAFETY: the index is below the number of bits of the set.
    let cores = (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) });
    cores.map(|core| core as u32).collect()
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is plain bits, for which zero is the empty set.
    unsafe { std::mem::zeroed() }
}

/// Binds the current thread to `cores`. Numbers beyond the size of the kernel's set are ignored.
pub fn bind(cores: &[u32]) -> io::Result<()> {
    let mut set = empty();
    for &core in cores.iter().filter(|&&core| core < libc::CPU_SETSIZE as u32) {
        // SAFETY: the index was checked to be below the number of bits of the set.
        unsafe { libc::CPU_SET(core as usize, &mut set) };
    }
    // SAFETY: `set` is a valid cpu_set_t of the size given.
    let rc = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Kernel id of the current thread.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// CPU time of the current thread so far, ns.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid and writable for the call. The clock exists in every kernel since
    // 2.6, so that the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

/// Gives the current thread the lowest priority, `SCHED_IDLE`: any other thread preempts it when it
/// wakes. Rejected: niceness 19, with which a thread that wakes waits for up to some milliseconds.
pub fn run_when_idle() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is valid for the call. 0 is the current thread, which may always lower
    // its priority.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
}

/// Sets the timer slack of the current thread to 1 ns. With the kernel's default, a wake-up is up
/// to 50 µs late.
pub fn no_timer_slack() {
    // SAFETY: takes a number; has no effect on memory. Its failure costs precision only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Raises the limit of open files of this process to its hard limit, and returns the limit that is
/// then in force.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid and writable for the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return u64::MAX;
    }
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            rlim_max: limit.rlim_max,
        };
        // SAFETY: `raised` is valid for the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return limit.rlim_max;
        }
    }
    limit.rlim_cur
}
