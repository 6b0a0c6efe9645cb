//! c servers and one first-in-first-out queue, as arithmetic, without a clock and without waiting.
//!
//! The departure time of a request is computed at its arrival. This makes the model exact: a timer
//! that wakes late delays one response, but not the next request of the server. Utilization follows
//! the drawn times to the nanosecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

/// All servers stop once, `at_s` seconds after the first request, for `for_s` seconds. Requests in
/// service keep their remaining service time, and arriving requests queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Start in seconds after the first request, 0 to 1,000,000.
    pub at_s: f64,
    /// Duration in seconds, 0 to 1,000,000.
    pub for_s: f64,
}

/// The stall in ns of the queue's time.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    at: u64,
    length: u64,
}

impl Pause {
    /// Work time at `now`: the time for which the servers were not stopped.
    fn work(self, now: u64) -> u64 {
        if now <= self.at {
            now
        } else {
            now.saturating_sub(self.length).max(self.at)
        }
    }

    /// The time at which the work time is `work`.
    fn real(self, work: u64) -> u64 {
        if work <= self.at { work } else { work + self.length }
    }
}

/// A request in the system, in work time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    end: u64,
    start: u64,
}

/// The servers and their queue. Times are in ns since the first request, and must not decrease.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Time at which each server is free, in work time.
    free: BinaryHeap<Reverse<u64>>,
    /// Requests that wait or are in service.
    jobs: BinaryHeap<Reverse<Job>>,
    pause: Pause,
    /// Total service time of all requests so far, including the future time of `jobs`.
    committed: u64,
}

impl Queue {
    pub(crate) fn new(servers: usize, stall: Option<Stall>) -> Self {
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        Self {
            free: (0..servers).map(|_| Reverse(0)).collect(),
            jobs: BinaryHeap::new(),
            pause: stall.map_or_else(Pause::default, |stall| Pause {
                at: nanos(stall.at_s),
                length: nanos(stall.for_s),
            }),
            committed: 0,
        }
    }

    /// Adds a request that arrives at `now` and needs `service` ns of a server. Returns its
    /// departure time.
    pub(crate) fn enqueue(&mut self, now: u64, service: u64) -> u64 {
        let work = self.pause.work(now);
        self.remove_finished(work);
        let Reverse(free) = self.free.pop().unwrap_or(Reverse(0));
        let start = work.max(free);
        let end = start + service;
        self.free.push(Reverse(end));
        self.jobs.push(Reverse(Job { end, start }));
        self.committed += service;
        // A request without service time departs immediately, also during the stall.
        self.pause.real(end).max(now)
    }

    fn remove_finished(&mut self, work: u64) {
        while self.jobs.peek().is_some_and(|Reverse(job)| job.end <= work) {
            self.jobs.pop();
        }
    }

    /// Number of requests that wait or are in service at `now`.
    pub(crate) fn in_system(&mut self, now: u64) -> usize {
        self.remove_finished(self.pause.work(now));
        self.jobs.len()
    }

    /// Total time for which the servers were busy until `now`, in ns. A stalled server is not busy.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        let work = self.pause.work(now);
        let future: u64 = self
            .jobs
            .iter()
            .map(|Reverse(job)| job.end.saturating_sub(work.max(job.start)))
            .sum();
        self.committed - future
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::{Law, Sampler};
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    #[test]
    fn one_server_serves_in_order() {
        let mut queue = Queue::new(1, None);
        assert_eq!(queue.enqueue(0, 10), 10);
        assert_eq!(queue.enqueue(3, 10), 20);
        assert_eq!(queue.enqueue(50, 10), 60);
        assert_eq!((queue.in_system(55), queue.busy(55)), (1, 25));
        assert_eq!((queue.in_system(60), queue.busy(60)), (0, 30));
    }

    #[test]
    fn the_first_free_server_serves_the_next_request() {
        let mut queue = Queue::new(2, None);
        assert_eq!(queue.enqueue(0, 100), 100);
        assert_eq!(queue.enqueue(0, 10), 10);
        assert_eq!(queue.enqueue(1, 10), 20);
        assert_eq!(queue.enqueue(2, 10), 30);
        assert_eq!((queue.in_system(5), queue.busy(5)), (4, 10));
    }

    #[test]
    fn a_stall_extends_the_service_and_delays_arrivals() {
        let stall = Stall {
            at_s: 1.0,
            for_s: 1.0,
        };
        let ms = 1_000_000;
        let mut queue = Queue::new(1, Some(stall));
        assert_eq!(queue.enqueue(900 * ms, 100 * ms), 1000 * ms); // ends at the start of the stall
        let mut queue = Queue::new(1, Some(stall));
        assert_eq!(queue.enqueue(950 * ms, 100 * ms), 2050 * ms); // half before the stall, half after it
        assert_eq!(queue.busy(1500 * ms), 50 * ms);
        assert_eq!(queue.enqueue(1500 * ms, 10 * ms), 2060 * ms);
        assert_eq!(queue.enqueue(3000 * ms, 10 * ms), 3010 * ms);
        assert_eq!(queue.busy(4000 * ms), 120 * ms);
    }

    /// Mean response time of M/M/c: 1/mu + C(c, a) / (c mu - lambda). Erlang's C is computed by its
    /// recursion.
    fn erlang_response(servers: u32, lambda: f64, mu: f64) -> f64 {
        let a = lambda / mu;
        let b = (1..=servers).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
        let rho = a / f64::from(servers);
        let waits = b / (1.0 - rho * (1.0 - b));
        1.0 / mu + waits / (f64::from(servers) * mu - lambda)
    }

    #[test]
    fn poisson_arrivals_have_the_response_time_of_erlang_c() {
        for (servers, lambda) in [(1_u32, 600.0), (4, 3000.0), (2, 400.0)] {
            let mut rng = Pcg64::seed_from_u64(u64::from(servers));
            let gaps = Sampler::new(Law::Exponential { mean_s: 1.0 / lambda }).unwrap();
            let services = Sampler::new(Law::Exponential { mean_s: 0.001 }).unwrap();
            let mut queue = Queue::new(servers as usize, None);
            let (mut now, mut total, n) = (0, 0, 400_000);
            for _ in 0..n {
                now += gaps.draw(&mut rng);
                total += queue.enqueue(now, services.draw(&mut rng)) - now;
            }
            let mean = total as f64 / f64::from(n) / 1e9;
            let expected = erlang_response(servers, lambda, 1000.0);
            // The standard error is about 1 % at these loads, so 5 % does not depend on the seed.
            assert!(
                (mean / expected - 1.0).abs() < 0.05,
                "{servers} servers: {mean} against {expected}"
            );
            let utilization = queue.busy(now) as f64 / (now as f64 * f64::from(servers));
            let expected = lambda / 1000.0 / f64::from(servers);
            assert!(
                (utilization / expected - 1.0).abs() < 0.02,
                "{servers} servers: {utilization}"
            );
        }
    }
}
