//! Times at which an agent sends probes: a burst at the start and at the end, and about one per
//! second between, with jitter from a seed.
//!
//! The bursts fix both ends of the map, which have probes on one side only. Between them, one probe
//! per second costs less than 100 bytes per second each way. With jitter, the probes of many agents
//! do not coincide with each other or with the periods of the load.

/// Number of probes of a burst.
pub const BURST: u64 = 8;
/// Interval between two probes of a burst, ns. Long compared with a queue of a few packets, short
/// compared with the wander of a clock.
pub const BURST_GAP_NS: u64 = 50_000_000;
/// Mean interval between two probes after the burst, ns.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// Maximum jitter of a probe, in both directions, ns.
pub const JITTER_NS: u64 = INTERVAL_NS / 4;

/// Planned time of probe `index`, ns since the first probe: the burst, then one per interval.
/// Strictly increasing in `index`. Another `seed` (one per agent) results in other times after the
/// burst.
///
/// ```
/// use plimsoll_clock::schedule::{BURST, due_ns};
/// assert_eq!(due_ns(0, 7), 0);
/// assert!((600..=601).contains(&(due_ns(BURST + 600 - 1, 7) / 1_000_000_000)));
/// ```
pub fn due_ns(index: u64, seed: u64) -> u64 {
    if index < BURST {
        return burst_ns(index);
    }
    let jitter = mix(seed ^ mix(index)) % (2 * JITTER_NS);
    let steady = (index - BURST + 1).saturating_mul(INTERVAL_NS);
    burst_ns(BURST - 1)
        .saturating_add(steady - JITTER_NS)
        .saturating_add(jitter)
}

/// Planned time of probe `index` of a burst, ns since its first probe. It is the same for the burst
/// at the start and that at the end.
pub fn burst_ns(index: u64) -> u64 {
    index.saturating_mul(BURST_GAP_NS)
}

/// The finalizer of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, doi 10.1145/2660193.2660195. Rejected: a generator with a state, which would make the time
/// of a probe depend on earlier calls.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_a_burst_and_then_one_probe_per_second() {
        let times: Vec<u64> = (0..1_000).map(|index| due_ns(index, 3)).collect();
        assert_eq!(
            times[..8],
            [0, 50, 100, 150, 200, 250, 300, 350].map(|ms| ms * 1_000_000)
        );
        for pair in times[7..].windows(2) {
            let gap = pair[1] - pair[0];
            assert!((INTERVAL_NS / 2..=INTERVAL_NS * 3 / 2).contains(&gap), "{gap}");
        }
        assert!(
            times[999].abs_diff(992 * INTERVAL_NS + 350_000_000) <= JITTER_NS,
            "no drift of the schedule"
        );
    }

    #[test]
    fn the_jitter_depends_on_the_seed_only() {
        let times = |seed| (8..200).map(|index| due_ns(index, seed)).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        let same = times(1).iter().zip(times(2)).filter(|(a, b)| **a == *b).count();
        assert_eq!(same, 0, "agents do not probe in step");
        let shifts: Vec<i64> = (8..2_008)
            .map(|k| due_ns(k, 5) as i64 - due_ns(k, 6) as i64)
            .collect();
        assert!(shifts.iter().any(|s| *s > 300_000_000) && shifts.iter().any(|s| *s < -300_000_000));
    }

    #[test]
    fn no_index_overflows() {
        assert!(due_ns(u64::MAX, u64::MAX) >= due_ns(1 << 60, 0) - JITTER_NS);
    }
}
