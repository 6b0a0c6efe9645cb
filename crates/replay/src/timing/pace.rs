//! The clocks of a worker: sleeping until a time, and consuming processor time.
//!
//! Elapsed time is that of `CLOCK_MONOTONIC`, which sleeps use as well. Computing is the processor
//! time of the thread, so that threads without a core compute later, as real ones do.

use std::mem::MaybeUninit;

const SECOND: i64 = 1_000_000_000;
/// A sleep ends this long before its time, and the rest is spun, ns: longer than most wake-ups
/// take.
const SPIN_NS: i64 = 80_000;
/// Maximum length of one sleep, ns, so that a request to stop is noticed.
const PIECE_NS: i64 = 100_000_000;

/// A shorter think time is spun by elapsed time, ns. If the processor is lost during it, the error
/// occurs at most once per time slice.
const SHORT_NS: i64 = 5_000;
/// Maximum time that is subtracted from later think times, ns. A greater excess means that the
/// processor was lost, which is not computing.
const MAX_AHEAD_NS: i64 = 1_000_000;

/// Elapsed time, ns since an arbitrary zero.
pub fn now() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time of this thread, ns.
fn used() -> i64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel fills in `time`. Both clocks exist on every Linux, so the call cannot
    // fail.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec * SECOND + time.tv_nsec
}

/// Sets the timer slack of this thread to the minimum: sleeps otherwise end up to 50 us late.
pub fn sharpen() {
    // SAFETY: all arguments are numbers. If the call is refused, sleeps are coarser, which the
    // lateness shows.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Sleeps until `until`, spinning at the end. False if `stop` returned true before.
pub fn sleep_until(until: i64, stop: impl Fn() -> bool) -> bool {
    loop {
        let now = now();
        if now >= until {
            return true;
        }
        if stop() {
            return false;
        }
        let remaining = until - now - SPIN_NS;
        if remaining > 0 {
            sleep_to(now + remaining.min(PIECE_NS));
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
    // SAFETY: `time` lives as long as the call. If a signal ends it early, the caller reads the
    // clock again.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}

/// Consumes processor time and records the excess: reading the clock of a thread is a system call,
/// which takes longer than many think times. The lateness of sleeps is recorded in the same way,
/// because the recorded times include that of the traced program.
#[derive(Debug, Default)]
pub struct Burner {
    /// Part of the next think time that has already passed, ns.
    ahead: i64,
}

impl Burner {
    /// Part of the next think time that has already passed, ns.
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// Sets the lateness of a sleep that accounted for the time that had passed, ns.
    pub fn set_oversleep(&mut self, late: i64) {
        self.ahead = late.clamp(0, MAX_AHEAD_NS);
    }

    /// Consumes `computing` ns. The time that the worker itself has used since `begun`, on the
    /// clock of [`now`], counts as a part of it. False if `stop` returned true before.
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
        // Half of the first and half of the last reading of the clock are not in its values. A
        // greater difference means that the thread did not have the processor.
        let asking = now() - start - burnt;
        self.ahead = burnt - wanted + if asking < SHORT_NS { asking.max(0) } else { 0 };
        true
    }
}

/// Spins until `until`. Returns the lateness, ns.
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
    fn processor_time_is_consumed_and_the_excess_recorded() {
        for ns in [3_000, 20_000] {
            let mut burner = Burner::default();
            let (before, begun) = (used(), now());
            for _ in 0..1000 {
                assert!(burner.burn(ns, now(), || false));
            }
            let (burnt, passed) = (used() - before, now() - begun);
            let wanted = 1000 * ns as i64;
            // Short times are counted by elapsed time, and another process may have had the
            // processor.
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
            "the lateness of a sleep is subtracted from the next think time"
        );
        burner.set_oversleep(SECOND);
        assert_eq!(burner.ahead(), MAX_AHEAD_NS, "the processor was lost");
        burner.set_oversleep(0);
        assert!(!burner.burn(3_600 * SECOND as u64, now(), || true));
    }
}
