//! Choice of the requests that must miss every cache: an exact share of a tester's requests, from
//! the seed of the run.

use plimsoll_schedule::{Stream, rng, uniform};

/// A share of a tester's requests.
///
/// The numbers of requests are divided into spans of length 1 / share, rounded to integers so that
/// their mean is exact, and one request of each span is chosen at random. So after n requests the
/// count differs from n times the share by less than one, and the choice has no period that could
/// coincide with one of the workload. Rejected: a draw for each request, because the standard
/// deviation of the count would be about the square root of its mean; every k-th request, which
/// with a list of k queries would always be the same query.
#[derive(Debug, Clone, Copy)]
pub(super) struct UncachedChoice {
    share: f64,
    seed: u64,
    workload: u64,
}

impl UncachedChoice {
    /// `share` is greater than 0 and at most 1.
    pub(super) fn new(share: f64, seed: u64, workload: u64) -> Self {
        Self {
            share,
            seed,
            workload,
        }
    }

    /// Whether request `n` (from 0) of a tester must miss every cache.
    pub(super) fn is_chosen(self, tester: u32, n: u64) -> bool {
        // The last span that begins at n or before. The product may be off by one; `begin` is
        // exact.
        let mut span = (n as f64 * self.share) as u64 + 1;
        while self.begin(span) > n {
            span -= 1;
        }
        let (begin, end) = (self.begin(span), self.begin(span + 1));
        let member = u64::from(tester) << 40 | span;
        let mut rng = rng(self.seed, Stream::Driver, self.workload, member);
        n == begin + uniform(&mut rng, end - begin)
    }

    /// Number of the first request of a span; span 0 begins at 0.
    fn begin(self, span: u64) -> u64 {
        // 20 spans of 5 % must be 400 requests, although 0.05 is not exact in binary.
        (span as f64 / self.share - 1e-9).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_differs_from_the_share_by_at_most_one() {
        for share in [0.001, 0.05, 0.1, 0.3, 1.0 / 3.0, 0.5, 0.75, 0.9, 0.999, 1.0] {
            for tester in [0, 1, 77] {
                let uncached = UncachedChoice::new(share, 5, 0);
                let mut count = 0_u64;
                for n in 0..5_000 {
                    count += u64::from(uncached.is_chosen(tester, n));
                    let off = count as f64 - (n + 1) as f64 * share;
                    assert!(off.abs() < 1.0 + 1e-6, "{share}: {count} of {}", n + 1);
                }
            }
        }
    }

    #[test]
    fn every_span_contains_one_chosen_request() {
        let uncached = UncachedChoice::new(0.05, 9, 1);
        let chosen = |from: u64| (from..from + 20).filter(|&n| uncached.is_chosen(3, n)).count();
        assert!((0..1_000).all(|span| chosen(span * 20) == 1));
    }

    #[test]
    fn the_choice_has_no_period_and_differs_between_testers() {
        let uncached = UncachedChoice::new(0.05, 9, 1);
        let offsets = |tester| -> Vec<u64> {
            (0..400)
                .filter(|&n| uncached.is_chosen(tester, n))
                .map(|n| n % 20)
                .collect()
        };
        let mut distinct = offsets(0);
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 8, "{distinct:?}");
        assert_ne!(offsets(0), offsets(1));
        assert_eq!(offsets(0), offsets(0));
    }
}
