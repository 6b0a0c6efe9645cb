//! One exchange of four stamps, and what it says about the offset.

use serde::{Deserialize, Serialize};

/// Stamps of a clock that counts from the start of a host lie far below this (36 years). What lies
/// beyond is broken, and below it no difference of two stamps or two offsets overflows.
const GREATEST_NS: i64 = 1 << 60;

/// How a probe travelled. The two kinds have delays of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A datagram of its own ([`crate::packet`]).
    Udp,
    /// A frame of the link, where UDP is shut.
    Link,
}

/// Four stamps of one exchange, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// T1, agent time: the request left.
    pub sent: i64,
    /// T2, controller time: the request was heard.
    pub heard: i64,
    /// T3, controller time: the answer left.
    pub answered: i64,
    /// T4, agent time: the answer was received.
    pub received: i64,
    /// The way it went.
    pub via: Via,
}

/// What is taken for granted. All of it stands beside the results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Assumptions {
    /// ρ: greatest difference of the two clocks' rates, parts per million, in 0.001..=100,000.
    /// Every hard bound rests on it.
    pub max_rate_error_ppm: f64,
    /// Round trip that physics allows at least (fibre: 2 × distance / 200,000 km/s), half of it
    /// each way. 0 claims nothing.
    pub physical_min_rtt_ns: i64,
    /// A stamp may be this much before the instant it stands for: the clock's resolution, or what a
    /// conversion of a kernel's time stamp adds. At least 1.
    pub granularity_ns: i64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            max_rate_error_ppm: 500.0,
            physical_min_rtt_ns: 0,
            granularity_ns: 1,
        }
    }
}

impl Assumptions {
    /// ρ as a plain number. What was declared out of range is brought into it, so that every
    /// formula has a finite answer.
    pub(crate) fn rate(&self) -> f64 {
        let ppm = self.max_rate_error_ppm;
        if ppm.is_nan() {
            5e-4
        } else {
            ppm.clamp(1e-3, 1e5) * 1e-6
        }
    }

    /// Half the physical round trip less what a stamp may be off; negative where the stamps are the
    /// coarser.
    fn inward(&self) -> i64 {
        self.physical_min_rtt_ns.clamp(0, GREATEST_NS) / 2 - self.granularity_ns.clamp(1, GREATEST_NS)
    }
}

impl Probe {
    /// Time on the network, ns: (T4 − T1) − (T3 − T2). None if the stamps cannot be true: answered
    /// before heard, received before sent, a negative round trip (but for
    /// `assumptions.granularity_ns` at each end), one that is faster than
    /// `assumptions.physical_min_rtt_ns`, or stamps that no clock has.
    pub fn round_trip_ns(&self, assumptions: &Assumptions) -> Option<i64> {
        let stamps = [self.sent, self.heard, self.answered, self.received];
        if stamps
            .iter()
            .any(|stamp| stamp.checked_abs().is_none_or(|size| size > GREATEST_NS))
        {
            return None;
        }
        let (away, held) = (self.received - self.sent, self.answered - self.heard);
        let network = away - held;
        (away >= 0 && held >= 0 && network >= 2 * assumptions.inward()).then_some(network.max(0))
    }

    /// The two inequalities of this probe; None if it is not to be believed.
    pub(crate) fn sample(&self, assumptions: &Assumptions) -> Option<Sample> {
        self.round_trip_ns(assumptions)?;
        let inward = assumptions.inward();
        let upper = self.heard - self.sent - inward;
        let lower = self.answered - self.received + inward;
        Some(Sample {
            sent: self.sent,
            received: self.received,
            upper,
            lower,
            via: self.via,
        })
    }
}

/// θ(sent) ≤ upper and θ(received) ≥ lower, ns; upper ≥ lower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub sent: i64,
    pub received: i64,
    pub upper: i64,
    pub lower: i64,
    pub via: Via,
}

impl Sample {
    /// Round trip less what is physical, ns.
    pub fn delay(&self) -> f64 {
        (self.upper - self.lower) as f64
    }
}

/// A point of the plane (agent time, offset), ns since an [`Origin`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub t: f64,
    pub y: f64,
}

/// Where the plane of a fit has its zero, so that 53 bits carry every difference to the nanosecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub agent: i64,
    pub offset: i64,
}

impl Origin {
    pub fn of(sample: &Sample) -> Self {
        Self {
            agent: sample.sent,
            offset: sample.upper,
        }
    }

    pub fn time(&self, agent_ns: i64) -> f64 {
        // In 128 bits: this is also asked for times that come from outside.
        (i128::from(agent_ns) - i128::from(self.agent)) as f64
    }

    pub fn upper(&self, sample: &Sample) -> Point {
        Point {
            t: self.time(sample.sent),
            y: (sample.upper - self.offset) as f64,
        }
    }

    pub fn lower(&self, sample: &Sample) -> Point {
        Point {
            t: self.time(sample.received),
            y: (sample.lower - self.offset) as f64,
        }
    }
}

/// The median; 0 for none. For even numbers the greater of the middle two.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(sent: i64, heard: i64, answered: i64, received: i64) -> Probe {
        Probe {
            sent,
            heard,
            answered,
            received,
            via: Via::Udp,
        }
    }

    #[test]
    fn four_stamps_bound_the_offset_from_both_sides() {
        // The controller is 1000 ahead; 30 there, 5 held, 70 back.
        let one = probe(100, 1130, 1135, 205);
        let sample = one.sample(&Assumptions::default()).unwrap();
        assert_eq!(one.round_trip_ns(&Assumptions::default()), Some(100));
        assert_eq!((sample.lower, sample.upper), (1000 - 70 - 1, 1000 + 30 + 1));
        let known = Assumptions {
            physical_min_rtt_ns: 60,
            ..Assumptions::default()
        };
        let sample = one.sample(&known).unwrap();
        assert_eq!((sample.lower, sample.upper), (1000 - 40 - 1, 1000 + 1));
    }

    #[test]
    fn stamps_that_cannot_be_are_not_believed() {
        let fine = Assumptions::default();
        for (why, bad) in [
            ("answered before heard", probe(0, 10, 9, 20)),
            ("received before sent", probe(20, 10, 10, 19)),
            ("negative round trip", probe(0, 10, 40, 20)),
            ("least number", probe(i64::MIN, 0, 0, 0)),
            ("greatest number", probe(0, i64::MAX, i64::MAX, 0)),
        ] {
            assert_eq!(bad.round_trip_ns(&fine), None, "{why}");
            assert!(bad.sample(&fine).is_none(), "{why}");
        }
        let coarse = Assumptions {
            granularity_ns: 10,
            ..fine
        };
        assert_eq!(
            probe(0, 10, 40, 20).round_trip_ns(&coarse),
            Some(0),
            "within the stamps' grain"
        );
        let far = Assumptions {
            physical_min_rtt_ns: 1_000,
            ..fine
        };
        assert_eq!(
            probe(0, 10, 10, 500).round_trip_ns(&far),
            None,
            "faster than light"
        );
    }
}
