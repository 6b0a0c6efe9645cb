//! Choice of the next operation.

use rand_pcg::rand_core::Rng as _;

use crate::random::{Stream, rng};
use crate::values::ends;

/// Weighted choice of operations.
///
/// The n-th choice of a tester is `frac(u + n / phi)` looked up in the cumulative weights, with `u`
/// drawn per tester (the additive recurrence of the golden ratio, see L. Kuipers, H. Niederreiter,
/// *Uniform Distribution of Sequences*, 1974, ch. 2.3). Over all testers every choice has exactly
/// the probability of its weight, and the counts of one tester after n choices are within O(log n)
/// of their shares. Rejected: independent draws (the counts deviate by sqrt(n), so that two runs
/// would send different requests); weighted round robin (all testers would begin with the same
/// operation, and its short period could coincide with another one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    /// Upper ends of the intervals of the operations in 0..2^64, without the last.
    ends: Vec<u64>,
}

/// Position of one tester in its sequence of choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixState(u64);

/// 2^64 / phi.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Mix {
    /// A choice by `weights`: each at least 0, at least one greater than 0. Their sum need not be
    /// 1.
    pub fn new(weights: &[f64]) -> Self {
        Self { ends: ends(weights) }
    }

    /// The position of a tester before its first choice.
    pub fn start(seed: u64, workload: u64, tester: u64) -> MixState {
        MixState(rng(seed, Stream::Mix, workload, tester).next_u64())
    }

    /// Returns the index of the next operation, and advances `state`.
    pub fn next(&self, state: &mut MixState) -> usize {
        if self.ends.is_empty() {
            return 0;
        }
        let point = state.0;
        state.0 = point.wrapping_add(STEP);
        self.ends.partition_point(|&end| end <= point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_one_tester_are_close_to_its_shares() {
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
    fn the_first_choices_of_many_testers_have_the_shares_of_the_weights() {
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
    fn a_single_operation_is_always_chosen() {
        let mix = Mix::new(&[0.3]);
        let mut state = Mix::start(1, 0, 0);
        assert!((0..100).all(|_| mix.next(&mut state) == 0));
    }
}
