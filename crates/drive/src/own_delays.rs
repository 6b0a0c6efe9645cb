//! What the load generator adds to its own measurements: how late it starts transactions that
//! nothing but itself delays, and for how long it stands still. Lateness alone does not say so: a
//! start that waits for a free slot is late because the target is slow.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// Longest time that a histogram of a lane holds, ns; longer ones count as this.
pub const MAX_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// A lane wakes itself this often to see whether it still runs, ns.
pub const PULSE_NS: i64 = 10_000_000;
/// A wake-up that is so late, or later, is a gap, ns: longer than the time slices of a kernel that
/// shares a core, and than a turn of a busy lane.
const GAP_NS: i64 = 20_000_000;

/// The generator's own delays in the current second.
pub struct OwnDelays {
    lateness: Histogram<u32>,
    stopped_ns: u64,
}

impl OwnDelays {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self {
            lateness: histogram(),
            stopped_ns: 0,
        }
    }

    /// A transaction starts at `start`; its schedule and its tester allowed it at `possible` (ns on
    /// one clock).
    #[inline]
    pub fn record_start(&mut self, start: i64, possible: i64) {
        self.lateness.saturating_record((start - possible).max(1) as u64);
    }

    /// The lane stood still for so long, ns.
    pub fn record_gap(&mut self, ns: i64) {
        self.stopped_ns += ns.max(0) as u64;
    }

    /// The histogram of the lateness in its text form, and the time stood still, ns. Begins anew.
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
    /// The first is due one interval after `start` (raw, ns).
    pub fn new(start: i64) -> Self {
        Self {
            due: start + PULSE_NS,
        }
    }

    /// When the next is due (raw, ns).
    pub fn due(&self) -> i64 {
        self.due
    }

    /// The lane is awake at `now`: gives the length of the gap (ns) that ended, if there was one.
    pub fn beat(&mut self, now: i64) -> Option<i64> {
        let late = now - self.due;
        self.due = now + PULSE_NS;
        (late >= GAP_NS).then_some(late)
    }
}

/// For durations up to a day, to three digits.
pub fn histogram() -> Histogram<u32> {
    #[allow(
        clippy::expect_used,
        reason = "the bounds are constants that the library accepts"
    )]
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("constant bounds are valid")
}

/// V2 encoding in base64; empty without values.
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
    fn taking_begins_anew() {
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
