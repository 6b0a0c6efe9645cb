//! When to probe: a burst at the start and at the end, and about one a second between, with jitter
//! from a seed.
//!
//! The bursts pin both ends of the map, where no probe stands on the other side. Between, one a
//! second is less than 100 bytes a second each way. The jitter keeps the probes of many agents, and
//! the periods of what is measured, from falling together.

/// Probes of a burst.
pub const BURST: u64 = 8;
/// Between two probes of a burst, ns. Long against a queue of a few packets, short against the
/// wander of a clock.
pub const BURST_GAP_NS: u64 = 50_000_000;
/// Between two probes after the burst, on average, ns.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// A probe is moved by at most this much to either side, ns.
pub const JITTER_NS: u64 = INTERVAL_NS / 4;

/// When probe `index` is due, ns since the first: the burst, then one an interval. Strictly
/// increasing in `index`; another `seed` (one per agent) gives other times after the burst.
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

/// When probe `index` of a burst is due, ns since its first: of the start, and again of the end.
pub fn burst_ns(index: u64) -> u64 {
    index.saturating_mul(BURST_GAP_NS)
}

/// The finalizer of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, doi 10.1145/2660193.2660195. A generator with a state would make the time of a probe
/// depend on who asked before.
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
    fn a_burst_then_one_a_second() {
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
    fn the_seed_decides_the_jitter_and_nothing_else_does() {
        let of = |seed| (8..200).map(|index| due_ns(index, seed)).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        let same = of(1).iter().zip(of(2)).filter(|(a, b)| **a == *b).count();
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
