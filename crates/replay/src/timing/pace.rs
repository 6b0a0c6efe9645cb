//! The worker's clocks: sleeping to a time, burning processor time.
//!
//! Elapsed time is MONOTONIC's, which sleeps use as well; computing is the thread's own processor
//! time, so that threads that have no core meanwhile compute later, as real ones do.

use std::mem::MaybeUninit;

const SECOND: i64 = 1_000_000_000;
/// A sleep ends this long before its time, and the rest is spun: longer than most wake-ups take.
const SPIN_NS: i64 = 80_000;
/// Longest sleep in one piece, so that who wants us to stop is heard.
const PIECE_NS: i64 = 100_000_000;

/// So short a think time is spun by elapsed time. What is lost of it where we lose the processor is
/// lost once a time slice.
const SHORT_NS: i64 = 5_000;
/// No more than this is taken from what comes later: we have lost the processor, which is nobody's
/// computing.
const MAX_AHEAD_NS: i64 = 1_000_000;

/// Elapsed time, ns since some moment.
pub fn now() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time of this thread, ns.
fn used() -> i64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel fills `time` in; both clocks exist on every Linux, so that it cannot fail.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec * SECOND + time.tv_nsec
}

/// Lets this thread's sleeps end when they are to, not up to 50 us later.
pub fn sharpen() {
    // SAFETY: this call takes numbers only. Where it is refused, sleeps are coarser, and lateness
    // tells.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Sleeps until `until`, spinning at the end. False where `stop` said so before.
pub fn sleep_until(until: i64, stop: impl Fn() -> bool) -> bool {
    loop {
        let now = now();
        if now >= until {
            return true;
        }
        if stop() {
            return false;
        }
        let left = until - now - SPIN_NS;
        if left > 0 {
            sleep_to(now + left.min(PIECE_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

fn sleep_to(time: i64) {
    let time = libc::timespec {
        tv_sec: time / SECOND,
        tv_nsec: time % SECOND,
    };
    // SAFETY: `time` lives as long as the call. Where a signal ends it early, the caller looks at
    // the clock again.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}

/// Burns processor time, and keeps account of what was burnt too much: reading the clock of a
/// thread is a system call, and takes longer than many a think time. By how much a sleep was late
/// is in the same account: that of the program is in what was recorded.
#[derive(Debug, Default)]
pub struct Burner {
    /// Passed already of what comes next, ns.
    ahead: i64,
}

impl Burner {
    /// What has passed already of what comes next, ns.
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// A sleep that took into account what had passed has ended so late, ns.
    pub fn set_oversleep(&mut self, late: i64) {
        self.ahead = late.clamp(0, MAX_AHEAD_NS);
    }

    /// Burns `computing` ns, of which has passed already what we had to do ourselves since `begun`,
    /// on the clock of [`now`]. False where `stop` said so before.
    pub fn burn(&mut self, computing: u64, begun: i64, stop: impl Fn() -> bool) -> bool {
        let start = now();
        let wanted = i64::try_from(computing).unwrap_or(i64::MAX);
        let wanted = wanted.saturating_sub(start - begun).saturating_sub(self.ahead);
        if wanted <= 0 {
            self.ahead = (-wanted).min(MAX_AHEAD_NS);
            true
        } else if wanted <= SHORT_NS {
            self.ahead = spin(start + wanted).min(SHORT_NS);
            true
        } else {
            self.burn_long(wanted, start, stop)
        }
    }

    fn burn_long(&mut self, wanted: i64, start: i64, stop: impl Fn() -> bool) -> bool {
        let begun = used();
        let mut rounds = 0_u32;
        let burnt = loop {
            let burnt = used() - begun;
            if burnt >= wanted {
                break burnt;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(256) && stop() {
                return false;
            }
        };
        // Half of the first reading and half of the last are not in what was read. More than that
        // is a processor that we had not.
        let asking = now() - start - burnt;
        self.ahead = burnt - wanted + if asking < SHORT_NS { asking.max(0) } else { 0 };
        true
    }
}

/// Spins until `until`; by how much it is late.
fn spin(until: i64) -> i64 {
    loop {
        let late = now() - until;
        if late >= 0 {
            return late;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        for ns in [0, 1_000, 200_000, 3_000_000] {
            let until = now() + ns;
            assert!(sleep_until(until, || false));
            assert!(now() >= until);
        }
        assert!(!sleep_until(now() + 60 * SECOND, || true));
    }

    #[test]
    fn what_is_burnt_is_processor_time_and_overshoot_is_remembered() {
        for ns in [3_000, 20_000] {
            let mut burner = Burner::default();
            let (before, begun) = (used(), now());
            for _ in 0..1000 {
                assert!(burner.burn(ns, now(), || false));
            }
            let (burnt, passed) = (used() - before, now() - begun);
            let wanted = 1000 * ns as i64;
            // The short are counted by elapsed time, and somebody else may have had the processor.
            assert!(passed >= wanted - SHORT_NS - burner.ahead, "{ns}: {passed}");
            assert!(
                ns < SHORT_NS as u64 || burnt >= wanted - 1000 * SHORT_NS,
                "{ns}: {burnt}"
            );
        }
        let mut burner = Burner::default();
        assert!(burner.burn(0, now() - 5_000, || false));
        assert!(burner.ahead >= 5_000);
        burner.set_oversleep(7_000);
        assert!(burner.burn(3_000, now(), || false));
        assert!(
            burner.ahead() >= 4_000,
            "what a sleep was late is taken from what comes next"
        );
        burner.set_oversleep(SECOND);
        assert_eq!(burner.ahead(), MAX_AHEAD_NS, "we had lost the processor");
        burner.set_oversleep(0);
        assert!(!burner.burn(3_600 * SECOND as u64, now(), || true));
    }
}
