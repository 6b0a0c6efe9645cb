//! Delays that the load generator itself causes: how late it starts transactions that nothing else
//! delays, and for how long its lanes do not run. Lateness alone does not show these delays: a
//! start that waits for a free slot is late because the target is slow.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// Maximum value of a histogram of a lane, ns; greater values count as this.
pub const MAX_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// Interval at which a lane wakes itself to detect gaps, ns.
pub const PULSE_NS: i64 = 10_000_000;
/// Minimum lateness of a wake-up that counts as a gap, ns: longer than the time slices of a shared
/// core, and longer than a turn of a busy lane.
const GAP_NS: i64 = 20_000_000;

/// The load generator's own delays in the current second.
pub struct OwnDelays {
    lateness: Histogram<u32>,
    stopped_ns: u64,
}

impl OwnDelays {
    /// No delays.
    pub fn new() -> Self {
        Self {
            lateness: histogram(),
            stopped_ns: 0,
        }
    }

    /// Records that a transaction started at `start`, and could have started at `possible`: the
    /// scheduled start, or the time at which the tester was free (both ns on the same clock).
    #[inline]
    pub fn record_start(&mut self, start: i64, possible: i64) {
        self.lateness.saturating_record((start - possible).max(1) as u64);
    }

    /// Records that the lane did not run for `ns`.
    pub fn record_gap(&mut self, ns: i64) {
        self.stopped_ns += ns.max(0) as u64;
    }

    /// Returns the encoded histogram of the lateness and the length of the gaps, ns, and resets
    /// both.
    pub fn take(&mut self) -> (String, u64) {
        let text = encode(&self.lateness);
        if !text.is_empty() {
            self.lateness.reset();
        }
        (text, std::mem::take(&mut self.stopped_ns))
    }
}

/// The regular wake-ups of one lane.
pub struct Pulse {
    due: i64,
}

impl Pulse {
    /// A sequence whose first wake-up is due one interval after `start` (raw, ns).
    pub fn new(start: i64) -> Self {
        Self {
            due: start + PULSE_NS,
        }
    }

    /// Time at which the next wake-up is due (raw, ns).
    pub fn due(&self) -> i64 {
        self.due
    }

    /// Records a wake-up at `now` (raw, ns). Returns the length of the gap that ended, ns; none if
    /// there was no gap.
    pub fn beat(&mut self, now: i64) -> Option<i64> {
        let late = now - self.due;
        self.due = now + PULSE_NS;
        (late >= GAP_NS).then_some(late)
    }
}

/// A histogram for durations up to 24 h, ns, with three significant digits.
pub fn histogram() -> Histogram<u32> {
    #[allow(
        clippy::expect_used,
        reason = "the bounds are constants that the library accepts"
    )]
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("constant bounds are valid")
}

/// The V2 encoding of a histogram, in base64; empty if the histogram is empty.
pub fn encode(histogram: &Histogram<u32>) -> String {
    let mut bytes = Vec::new();
    if histogram.is_empty() || V2Serializer::new().serialize(histogram, &mut bytes).is_err() {
        return String::new();
    }
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_late_wake_up_is_a_gap_and_the_next_is_due_an_interval_later() {
        let mut pulse = Pulse::new(0);
        assert_eq!(pulse.due(), 10 * MS);
        assert_eq!(pulse.beat(10 * MS), None);
        assert_eq!(pulse.beat(39 * MS), None, "19 ms late");
        assert_eq!(pulse.due(), 49 * MS);
        assert_eq!(pulse.beat(4_049 * MS), Some(4_000 * MS));
        assert_eq!(pulse.beat(4_059 * MS), None);
    }

    #[test]
    fn take_resets_the_delays() {
        let mut delays = OwnDelays::new();
        delays.record_start(7, 5);
        delays.record_start(5, 7);
        delays.record_gap(3);
        let (text, stopped) = delays.take();
        assert!(!text.is_empty());
        assert_eq!(stopped, 3);
        assert_eq!(delays.take(), (String::new(), 0));
    }
}
