//! One exchange of four stamps, and the constraints on the offset that follow from it.

use serde::{Deserialize, Serialize};

/// Maximum absolute value of a stamp. Stamps of a clock that counts from the start of a host are
/// far below it (36 years); a greater stamp comes from a broken clock. Below it, no difference of
/// two stamps or two offsets overflows.
const GREATEST_NS: i64 = 1 << 60;

/// The transport of a probe. The two kinds have different delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A UDP datagram ([`crate::packet`]).
    Udp,
    /// A frame of the link, if UDP is blocked.
    Link,
}

/// Four stamps of one exchange, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// T1, agent time: the request was sent.
    pub sent: i64,
    /// T2, controller time: the request was received.
    pub heard: i64,
    /// T3, controller time: the answer was sent.
    pub answered: i64,
    /// T4, agent time: the answer was received.
    pub received: i64,
    /// Transport of this probe.
    pub via: Via,
}

/// Assumptions about clocks and network. They are stored with the results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Assumptions {
    /// ρ: maximum difference of the rates of the two clocks, ppm, in 0.001..=100,000. Every bound
    /// depends on it.
    pub max_rate_error_ppm: f64,
    /// Minimum physical round trip, ns (fibre: 2 × distance / 200,000 km/s), half of it each way. 0
    /// makes no assumption.
    pub physical_min_rtt_ns: i64,
    /// A stamp may be this much before the instant that it marks, ns: the resolution of the clock,
    /// or the error by the conversion of a kernel's time stamp. At least 1.
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
    /// ρ as a fraction. A declared value out of range is limited to the range, so that every
    /// formula has a finite result.
    pub(crate) fn rate(&self) -> f64 {
        let ppm = self.max_rate_error_ppm;
        if ppm.is_nan() {
            5e-4
        } else {
            ppm.clamp(1e-3, 1e5) * 1e-6
        }
    }

    /// Half the physical round trip − the granularity of a stamp, ns; negative if the granularity
    /// is greater.
    fn inward(&self) -> i64 {
        self.physical_min_rtt_ns.clamp(0, GREATEST_NS) / 2 - self.granularity_ns.clamp(1, GREATEST_NS)
    }
}

impl Probe {
    /// Time on the network, ns: (T4 − T1) − (T3 − T2). None if the stamps are impossible: answered
    /// before received, received before sent, a round trip below `assumptions.physical_min_rtt_ns`
    /// (each end may be off by `assumptions.granularity_ns`), or stamps that no clock shows.
    pub fn round_trip_ns(&self, assumptions: &Assumptions) -> Option<i64> {
        let stamps = [self.sent, self.heard, self.answered, self.received];
        if stamps
            .iter()
            .any(|stamp| stamp.checked_abs().is_none_or(|size| size > GREATEST_NS))
        {
            return None;
        }
        let (elapsed, held) = (self.received - self.sent, self.answered - self.heard);
        let network = elapsed - held;
        (elapsed >= 0 && held >= 0 && network >= 2 * assumptions.inward()).then_some(network.max(0))
    }

    /// The two constraints of this probe. None if its stamps are impossible.
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
    /// Round trip − the minimum physical round trip, ns.
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

/// The zero of the plane of a fit. With it, an f64 represents every difference to the nanosecond.
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
        // In 128 bits: the times may come from outside.
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

/// The median; 0 if there are no values. For an even number of values, the greater of the middle
/// two.
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
        let probe_1 = probe(100, 1130, 1135, 205);
        let sample = probe_1.sample(&Assumptions::default()).unwrap();
        assert_eq!(probe_1.round_trip_ns(&Assumptions::default()), Some(100));
        assert_eq!((sample.lower, sample.upper), (1000 - 70 - 1, 1000 + 30 + 1));
        let known = Assumptions {
            physical_min_rtt_ns: 60,
            ..Assumptions::default()
        };
        let sample = probe_1.sample(&known).unwrap();
        assert_eq!((sample.lower, sample.upper), (1000 - 40 - 1, 1000 + 1));
    }

    #[test]
    fn impossible_stamps_are_rejected() {
        let fine = Assumptions::default();
        for (why, bad) in [
            ("answered before heard", probe(0, 10, 9, 20)),
            ("received before sent", probe(20, 10, 10, 19)),
            ("negative round trip", probe(0, 10, 40, 20)),
            ("minimum of i64", probe(i64::MIN, 0, 0, 0)),
            ("maximum of i64", probe(0, i64::MAX, i64::MAX, 0)),
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
            "within the granularity of the stamps"
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
