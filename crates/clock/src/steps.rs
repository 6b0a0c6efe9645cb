//! Steps of the wall clock: events of a run that change none of its numbers.
//!
//! A time service slews by changing the rate of `CLOCK_REALTIME` and of `CLOCK_MONOTONIC` alike
//! (adjtimex(2)), so the difference of the two moves only when somebody sets the clock, or when the
//! machine was suspended. Rejected: REALTIME against RAW with the 500 ppm of NTP as a limit, as
//! chrony slews by up to 100,000 ppm on Linux, which would be a step every second.

/// The three clocks of a host, read one after the other, monotonic before realtime; ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_MONOTONIC_RAW`
    pub raw_ns: i64,
    /// `CLOCK_MONOTONIC`
    pub monotonic_ns: i64,
    /// `CLOCK_REALTIME`
    pub realtime_ns: i64,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Raw time of the first reading after it, ns.
    pub at_raw_ns: i64,
    /// By how much, ns; positive is forward.
    pub by_ns: i64,
}

/// Below this nothing is called a step, ns.
pub const MIN_STEP_NS: u64 = 1_000_000;

/// The steps in readings in order of time. A reader that is interrupted between two clocks sees a
/// difference that is gone with the next reading, so a step is one that two readings in a row agree
/// on; steps next to the first or the last reading need a witness that is not there, and are not
/// told.
pub fn steps(readings: &[Reading]) -> Vec<Step> {
    let gap = |one: &Reading| one.realtime_ns.saturating_sub(one.monotonic_ns);
    let agree = |a: i64, b: i64| a.abs_diff(b) < MIN_STEP_NS;
    let mut steps = Vec::new();
    let mut level: Option<i64> = None;
    for pair in readings.windows(2) {
        let (this, next) = (gap(&pair[0]), gap(&pair[1]));
        if !agree(this, next) {
            continue;
        }
        // What comes between the two clocks only ever adds.
        let seen = this.min(next);
        match level {
            Some(before) if agree(before, seen) => level = Some(before.min(seen)),
            before => {
                steps.extend(before.map(|before| Step {
                    at_raw_ns: pair[0].raw_ns,
                    by_ns: seen.saturating_sub(before),
                }));
                level = Some(seen);
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
    fn a_step_is_found_and_slewing_is_none() {
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
    fn an_interrupted_reader_is_no_step() {
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
    fn two_steps_in_a_row_are_told_as_their_sum() {
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
