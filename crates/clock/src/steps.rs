//! Steps of the wall clock: events of a run that change none of its figures.
//!
//! A time service slews by changing the rate of `CLOCK_REALTIME` and that of `CLOCK_MONOTONIC`
//! equally (adjtimex(2)). So the difference of the two changes only if a program sets the clock, or
//! if the machine was suspended. Rejected: REALTIME relative to RAW with the 500 ppm of NTP as a
//! limit. Chrony slews by up to 100,000 ppm on Linux, which would be a step every second.

/// The three clocks of a host, read one after the other, monotonic before realtime; ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub raw_ns: i64,
    /// `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: i64,
    /// `CLOCK_REALTIME`, ns since the Unix epoch.
    pub realtime_ns: i64,
}

/// A step of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Raw time of the first reading after the step, ns.
    pub at_raw_ns: i64,
    /// Size of the step, ns; positive is forward.
    pub by_ns: i64,
}

/// Minimum size of a step, ns. Smaller changes are ignored.
pub const MIN_STEP_NS: u64 = 1_000_000;

/// The steps in readings, which are in order of time. If a reader is interrupted between two
/// clocks, its reading has a difference that the next reading does not have. So a step needs two
/// successive readings with the same difference. A step next to the first or the last reading has
/// no second reading and is not reported.
pub fn steps(readings: &[Reading]) -> Vec<Step> {
    let gap = |reading: &Reading| reading.realtime_ns.saturating_sub(reading.monotonic_ns);
    let agree = |a: i64, b: i64| a.abs_diff(b) < MIN_STEP_NS;
    let mut steps = Vec::new();
    let mut level: Option<i64> = None;
    for pair in readings.windows(2) {
        let (this, next) = (gap(&pair[0]), gap(&pair[1]));
        if !agree(this, next) {
            continue;
        }
        // An interruption between the two clocks only adds to the difference.
        let gap_now = this.min(next);
        match level {
            Some(before) if agree(before, gap_now) => level = Some(before.min(gap_now)),
            before => {
                steps.extend(before.map(|before| Step {
                    at_raw_ns: pair[0].raw_ns,
                    by_ns: gap_now.saturating_sub(before),
                }));
                level = Some(gap_now);
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Clock, TestClock};

    fn read(clock: &TestClock) -> Reading {
        Reading {
            raw_ns: clock.raw_ns(),
            monotonic_ns: clock.monotonic_ns(),
            realtime_ns: clock.realtime_ns(),
        }
    }

    #[test]
    fn a_step_is_found_and_slewing_is_ignored() {
        // 80,000 ppm is how chrony slews.
        let clock = TestClock::new(1_000, 1_700_000_000_000_000_000, 80_000_000);
        let mut readings = Vec::new();
        for second in 0..60 {
            match second {
                20 => clock.step(-3_600_000_000_000),
                40 => clock.step(2_000_000),
                _ => {}
            }
            readings.push(read(&clock));
            clock.advance(1_000_000_000);
        }
        let step = |second: i64, by_ns| Step {
            at_raw_ns: 1_000 + second * 1_000_000_000,
            by_ns,
        };
        assert_eq!(
            steps(&readings),
            [step(20, -3_600_000_000_000), step(40, 2_000_000)]
        );
    }

    #[test]
    fn a_reading_that_was_interrupted_is_not_a_step() {
        let clock = TestClock::new(0, 500, 0);
        let mut readings = Vec::new();
        for second in 0..30 {
            let mut reading = read(&clock);
            if [0, 7, 29].contains(&second) {
                reading.realtime_ns += 50_000_000;
            }
            readings.push(reading);
            clock.advance(1_000_000_000);
        }
        assert_eq!(steps(&readings), []);
        assert_eq!(steps(&readings[..1]), []);
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn two_successive_steps_are_reported_as_their_sum() {
        let gaps = [0, 0, 5_000_000, 9_000_000, 9_000_000, 9_000_000];
        let readings: Vec<Reading> = (0..)
            .zip(gaps)
            .map(|(k, gap)| Reading {
                raw_ns: k,
                monotonic_ns: k,
                realtime_ns: k + gap,
            })
            .collect();
        assert_eq!(
            steps(&readings),
            [Step {
                at_raw_ns: 3,
                by_ns: 9_000_000
            }]
        );
    }
}
