//! The three clocks of a host behind one trait, so that tests inject offset, drift and steps.
//!
//! Stamps are `CLOCK_MONOTONIC_RAW`: no time service changes its rate, so durations are exact.
//! Timers of the kernel use `CLOCK_MONOTONIC`. A duration of the raw clock is precise enough for
//! them: the two differ by parts per million. `CLOCK_REALTIME` may step at any time; it is
//! recorded, but never used for a duration.

use std::sync::atomic::{AtomicI64, Ordering};

/// The clocks of a host. All values are ns; the zero of the first two is arbitrary, that of the
/// third is the Unix epoch.
pub trait Clock: Send + Sync {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    fn raw_ns(&self) -> i64;
    /// `CLOCK_MONOTONIC`, ns.
    fn monotonic_ns(&self) -> i64;
    /// `CLOCK_REALTIME`, ns since the Unix epoch.
    fn realtime_ns(&self) -> i64;
}

/// The clocks of this host, read through the vDSO (about 25 ns each; on kernels before 5.3 the raw
/// clock is a system call of about 200 ns).
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn raw_ns(&self) -> i64 {
        read(libc::CLOCK_MONOTONIC_RAW)
    }

    fn monotonic_ns(&self) -> i64 {
        read(libc::CLOCK_MONOTONIC)
    }

    fn realtime_ns(&self) -> i64 {
        read(libc::CLOCK_REALTIME)
    }
}

#[allow(
    clippy::useless_conversion,
    reason = "the fields are 32 bits wide on some targets"
)]
fn read(id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call. The call cannot
    // fail for these ids.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec)
}

/// Clocks that move only by calls of [`Self::advance`] and [`Self::step`], for tests.
#[derive(Debug, Default)]
pub struct TestClock {
    raw: AtomicI64,
    /// REALTIME - RAW at raw 0, ns.
    offset: AtomicI64,
    /// Rate of REALTIME and MONOTONIC against RAW, parts per billion above 1.
    drift_ppb: AtomicI64,
}

impl TestClock {
    /// The raw clock shows `raw_ns`. Realtime differs from it by `offset_ns`. Realtime and
    /// monotonic gain `drift_ppb` ns per second on it.
    pub fn new(raw_ns: i64, offset_ns: i64, drift_ppb: i64) -> Self {
        Self {
            raw: raw_ns.into(),
            offset: offset_ns.into(),
            drift_ppb: drift_ppb.into(),
        }
    }

    /// Advances the raw clock by `ns`.
    pub fn advance(&self, ns: u64) {
        self.raw.fetch_add(ns as i64, Ordering::Relaxed);
    }

    /// Steps realtime by `ns`, as an administrator or a time service may do.
    pub fn step(&self, ns: i64) {
        self.offset.fetch_add(ns, Ordering::Relaxed);
    }

    fn steered(&self) -> i64 {
        let raw = self.raw.load(Ordering::Relaxed);
        let gained = i128::from(raw) * i128::from(self.drift_ppb.load(Ordering::Relaxed)) / 1_000_000_000;
        raw + gained as i64
    }
}

impl Clock for TestClock {
    fn raw_ns(&self) -> i64 {
        self.raw.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> i64 {
        self.steered()
    }

    fn realtime_ns(&self) -> i64 {
        self.steered() + self.offset.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clocks_advance_and_realtime_is_in_this_century() {
        let clock = SystemClock;
        let (raw, monotonic) = (clock.raw_ns(), clock.monotonic_ns());
        assert!(clock.raw_ns() >= raw);
        assert!(clock.monotonic_ns() >= monotonic);
        assert!(clock.realtime_ns() > 1_600_000_000_000_000_000);
    }

    #[test]
    fn a_test_clock_drifts_and_steps_by_the_requested_amounts() {
        let clock = TestClock::new(0, 500, 20_000);
        assert_eq!(clock.realtime_ns(), 500);
        clock.advance(1_000_000_000);
        assert_eq!(clock.raw_ns(), 1_000_000_000);
        assert_eq!(
            clock.monotonic_ns(),
            1_000_020_000,
            "20 ppm gain 20 us in a second"
        );
        assert_eq!(clock.realtime_ns(), 1_000_020_500);
        clock.step(-1_000);
        assert_eq!(clock.realtime_ns(), 1_000_019_500);
        assert_eq!(clock.raw_ns(), 1_000_000_000, "a step of realtime moves no stamp");
    }
}
