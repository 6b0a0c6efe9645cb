//! Which requests of a tester must miss every cache: a share of them, seeded, and exact.

use plimsoll_schedule::{Stream, rng, uniform};

/// A share of a tester's requests.
///
/// Request numbers are cut into spans of 1 / share, rounded to whole numbers so that their mean is
/// exact, and one of each span is chosen at random. So after n requests the count differs from n
/// times the share by less than one span's one, and no period of the workload can fall into step
/// with it. Rejected: a draw for each request, whose count is off by the root of its mean; every
/// k-th request, which a list of k queries would make the same query each time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uncached {
    share: f64,
    seed: u64,
    workload: u64,
}

impl Uncached {
    /// `share` is above 0, and at most 1.
    pub(super) fn new(share: f64, seed: u64, workload: u64) -> Self {
        Self {
            share,
            seed,
            workload,
        }
    }

    /// Whether request `n` (from 0) of a tester is one.
    pub(super) fn chosen(self, tester: u32, n: u64) -> bool {
        // The last span that begins at n or before. The division may be off by one, the beginnings
        // are what counts.
        let mut span = (n as f64 * self.share) as u64 + 1;
        while self.begin(span) > n {
            span -= 1;
        }
        let (begin, end) = (self.begin(span), self.begin(span + 1));
        let member = u64::from(tester) << 40 | span;
        let mut rng = rng(self.seed, Stream::Driver, self.workload, member);
        n == begin + uniform(&mut rng, end - begin)
    }

    /// The request that a span begins with; the first with 0.
    fn begin(self, span: u64) -> u64 {
        // 20 spans of 5 % are 400 requests, whatever 1 / 0.05 is in binary.
        (span as f64 / self.share - 1e-9).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_exact_at_every_moment() {
        for share in [0.001, 0.05, 0.1, 0.3, 1.0 / 3.0, 0.5, 0.75, 0.9, 0.999, 1.0] {
            for tester in [0, 1, 77] {
                let uncached = Uncached::new(share, 5, 0);
                let mut count = 0_u64;
                for n in 0..5_000 {
                    count += u64::from(uncached.chosen(tester, n));
                    let off = count as f64 - (n + 1) as f64 * share;
                    assert!(off.abs() < 1.0 + 1e-6, "{share}: {count} of {}", n + 1);
                }
            }
        }
    }

    #[test]
    fn whole_spans_hold_exactly_their_share() {
        let uncached = Uncached::new(0.05, 9, 1);
        let chosen = |from: u64| (from..from + 20).filter(|&n| uncached.chosen(3, n)).count();
        assert!((0..1_000).all(|span| chosen(span * 20) == 1));
    }

    #[test]
    fn it_has_no_period_and_testers_differ() {
        let uncached = Uncached::new(0.05, 9, 1);
        let places = |tester| -> Vec<u64> {
            (0..400)
                .filter(|&n| uncached.chosen(tester, n))
                .map(|n| n % 20)
                .collect()
        };
        let mut distinct = places(0);
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 8, "{distinct:?}");
        assert_ne!(places(0), places(1));
        assert_eq!(places(0), places(0));
    }
}
