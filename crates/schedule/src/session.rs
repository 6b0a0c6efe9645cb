//! Sessions of a tester: computing times, and the times of the requests within them.

use plimsoll_model::SessionSpec;

use crate::random::{Rng, Stream, draw, rng, uniform};

/// Draws the sessions of one tester.
#[derive(Debug, Clone)]
pub struct Sessions {
    spec: SessionSpec,
    rng: Rng,
}

impl Sessions {
    /// The sessions of `tester` of workload `workload`.
    pub fn new(spec: SessionSpec, seed: u64, workload: u64, tester: u64) -> Self {
        Self {
            spec,
            rng: rng(seed, Stream::Session, workload, tester),
        }
    }

    /// Draws the next session: the computing times before each of its requests and after the last
    /// one, ns. Their sum is the computing time of the session, in which the requests are at
    /// independent, uniformly distributed times.
    pub fn draw(&mut self) -> Vec<u64> {
        let total = draw(&self.spec.compute, &mut self.rng);
        let range = u64::from(self.spec.max_queries - self.spec.min_queries) + 1;
        let queries = u64::from(self.spec.min_queries) + uniform(&mut self.rng, range);
        let mut times: Vec<u64> = (0..queries)
            .map(|_| uniform(&mut self.rng, total.saturating_add(1)))
            .collect();
        times.sort_unstable();
        times.push(total);
        let mut before = 0;
        times
            .into_iter()
            .map(|at| at - std::mem::replace(&mut before, at))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Dist;

    use super::*;

    fn sessions(compute: Dist, min_queries: u32, max_queries: u32) -> Sessions {
        let spec = SessionSpec {
            start: Vec::new(),
            compute,
            busy: false,
            min_queries,
            max_queries,
        };
        Sessions::new(spec, 7, 0, 0)
    }

    #[test]
    fn the_computing_times_sum_to_that_of_the_session() {
        for queries in [0, 1, 5] {
            let parts = sessions(Dist::Fixed { ns: 1_000 }, queries, queries).draw();
            assert_eq!(parts.len(), queries as usize + 1);
            assert_eq!(parts.iter().sum::<u64>(), 1_000);
        }
        assert_eq!(sessions(Dist::ZERO, 2, 2).draw(), [0, 0, 0]);
    }

    #[test]
    fn all_numbers_of_requests_are_equally_frequent_and_the_parts_are_equal_on_average() {
        let mut sessions = sessions(Dist::Fixed { ns: 900_000 }, 2, 4);
        let (mut counts, mut sums) = ([0_u32; 5], [0_u64; 3]);
        for _ in 0..30_000 {
            let parts = sessions.draw();
            counts[parts.len() - 1] += 1;
            if let [first, second, third] = parts[..] {
                for (sum, part) in sums.iter_mut().zip([first, second, third]) {
                    *sum += part;
                }
            }
        }
        // Five standard deviations of a binomial(30000, 1/3) are 408.
        assert!(counts[2..].iter().all(|&count| count.abs_diff(10_000) < 410));
        // A part of three has a standard deviation of 0.24 of the whole.
        let mean = |sum: u64| sum as f64 / f64::from(counts[2]);
        assert!(
            sums.iter().all(|&sum| (mean(sum) - 300_000.0).abs() < 12_000.0),
            "{sums:?}"
        );
    }

    #[test]
    fn sessions_are_reproducible() {
        let drawn = || sessions(Dist::Exponential { mean_ns: 1e9 }, 1, 9).draw();
        assert_eq!(drawn(), drawn());
    }
}
