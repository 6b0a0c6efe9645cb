//! Which operation comes next.

use rand_pcg::rand_core::Rng as _;

use crate::share::{Stream, rng};
use crate::values::ends;

/// Weighted choice of operations.
///
/// The n-th choice of a tester is `frac(u + n / phi)` looked up in the cumulative weights, with `u`
/// drawn per tester (the additive recurrence of the golden ratio, see L. Kuipers, H. Niederreiter,
/// *Uniform Distribution of Sequences*, 1974, ch. 2.3). Every single choice has exactly its
/// probability over testers, and the counts of one tester after n choices stay within O(log n) of
/// their shares. Rejected: independent draws (shares are off by sqrt(n), so that two runs differ in
/// what they asked for); weighted round robin (all testers would begin with the same operation, and
/// its short period falls into step with others).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    /// Upper ends of the operations in 0..2^64, without the last.
    ends: Vec<u64>,
}

/// Where one tester stands in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixState(u64);

/// 2^64 / phi.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Mix {
    /// Of weights of at least 0, one of them greater; their sum need not be 1.
    pub fn new(weights: &[f64]) -> Self {
        Self { ends: ends(weights) }
    }

    /// The beginning of a tester's sequence.
    pub fn start(seed: u64, workload: u64, tester: u64) -> MixState {
        MixState(rng(seed, Stream::Mix, workload, tester).next_u64())
    }

    /// Index of the next operation.
    pub fn next(&self, state: &mut MixState) -> usize {
        if self.ends.is_empty() {
            return 0;
        }
        let at = state.0;
        state.0 = at.wrapping_add(STEP);
        self.ends.partition_point(|&end| end <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tester_keeps_its_shares_closely() {
        let mix = Mix::new(&[8.0, 2.0]);
        for tester in 0..50 {
            let mut state = Mix::start(1, 0, tester);
            let mut first: i64 = 0;
            for n in 1..=10_000_i64 {
                first += i64::from(mix.next(&mut state) == 0);
                let expected = n as f64 * 0.8;
                assert!((first as f64 - expected).abs() < 4.0, "{first} of {n}");
            }
        }
    }

    #[test]
    fn many_testers_begin_with_the_right_shares() {
        let mix = Mix::new(&[1.0, 1.0, 2.0]);
        let mut counts = [0_i32; 3];
        for tester in 0..40_000 {
            counts[mix.next(&mut Mix::start(9, 0, tester))] += 1;
        }
        // Five standard deviations of a binomial(40000, 1/4) are 433.
        assert!(
            (counts[0] - 10_000).abs() < 433 && (counts[2] - 20_000).abs() < 500,
            "{counts:?}"
        );
    }

    #[test]
    fn one_operation_is_always_it() {
        let mix = Mix::new(&[0.3]);
        let mut state = Mix::start(1, 0, 0);
        assert!((0..100).all(|_| mix.next(&mut state) == 0));
    }
}
