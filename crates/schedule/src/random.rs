//! Exact portions and seeded randomness.

use plimsoll_model::Dist;
use rand_distr::{Distribution as _, Exp1};
use rand_pcg::rand_core::Rng as _;

/// The generator behind every random choice of a run.
pub type Rng = rand_pcg::Pcg64Mcg;

/// Purpose of a random sequence. Sequences of different purposes, workloads and members are
/// independent, so that a change of one does not change the draws of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Intervals between the arrivals of an open load.
    Arrivals = 1,
    /// Think times of a tester.
    Think = 2,
    /// Operations of a tester.
    Mix = 3,
    /// Values of a tester.
    Values = 4,
    /// Endpoints of a tester.
    Endpoints = 5,
    /// Draws of a driver for a tester.
    Driver = 6,
    /// Sessions of a tester.
    Session = 7,
}

/// The random sequence of `member` of workload `workload` for a purpose. `member` is the number of
/// the tester, or 0 if the workload has only one such sequence.
pub fn rng(seed: u64, stream: Stream, workload: u64, member: u64) -> Rng {
    let mut state = seed;
    for word in [stream as u64, workload, member] {
        state = splitmix(state ^ splitmix(word));
    }
    let low = splitmix(state);
    Rng::new((u128::from(state) << 64) | u128::from(low))
}

/// The finalizer of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, doi 10.1145/2660193.2660195.
fn splitmix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Number of items of member `index` if item `k` of `total` items belongs to member `k % of`. The
/// sum of the portions is `total`, and no two portions differ by more than 1. `of` is at least 1,
/// and `index` is less than `of`.
///
/// ```
/// use plimsoll_schedule::portion;
/// assert_eq!((0..3).map(|i| portion(8, i, 3)).collect::<Vec<_>>(), [3, 3, 2]);
/// ```
pub fn portion(total: u64, index: u64, of: u64) -> u64 {
    total / of + u64::from(index < total % of)
}

/// A random number, at least 0 and less than 1.
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A random integer, at least 0 and less than `below`, which is at least 1. The probabilities are
/// equal to within 2^-64 times `below`.
pub fn uniform(rng: &mut Rng, below: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(below)) >> 64) as u64
}

/// A random duration, ns.
pub fn draw(dist: &Dist, rng: &mut Rng) -> u64 {
    match *dist {
        Dist::Fixed { ns } => ns,
        Dist::Exponential { mean_ns } => {
            let unit: f64 = Exp1.sample(rng);
            (unit * mean_ns).round() as u64
        }
        Dist::Uniform { from_ns, to_ns } => {
            let width = to_ns.saturating_sub(from_ns).saturating_add(1);
            from_ns + uniform(rng, width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_the_total_and_differ_by_at_most_one() {
        for total in [0, 1, 5, 100, 1_000_003] {
            for of in 1..=7 {
                let portions: Vec<u64> = (0..of).map(|i| portion(total, i, of)).collect();
                assert_eq!(portions.iter().sum::<u64>(), total);
                assert!(portions.iter().max().unwrap() - portions.iter().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn sequences_are_reproducible_and_differ() {
        let draw = |stream, workload, member| rng(7, stream, workload, member).next_u64();
        assert_eq!(draw(Stream::Mix, 0, 1), draw(Stream::Mix, 0, 1));
        let all = [
            draw(Stream::Mix, 0, 0),
            draw(Stream::Mix, 0, 1),
            draw(Stream::Mix, 1, 0),
            draw(Stream::Think, 0, 0),
            rng(8, Stream::Mix, 0, 0).next_u64(),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn uniform_numbers_are_equally_frequent() {
        let mut rng = rng(1, Stream::Values, 0, 0);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[uniform(&mut rng, 6) as usize] += 1;
            assert!((0.0..1.0).contains(&unit(&mut rng)));
        }
        // Five standard deviations of a binomial(60000, 1/6) are 457.
        assert!(
            counts.iter().all(|&count| count.abs_diff(10_000) < 460),
            "{counts:?}"
        );
    }
}
