//! c servers and one first-in-first-out queue, as arithmetic: no clock, no waiting.
//!
//! Each request is told at its arrival when it will leave. That makes the model exact: a timer that
//! wakes late delays one answer, and never the servers' next one, so utilization follows the drawn
//! times to the nanosecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

/// All servers stand still once, from `at_s` seconds after the first request, for `for_s` seconds.
/// Requests in service keep what is left of their time; arrivals queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Seconds after the first request.
    pub at_s: f64,
    /// Seconds.
    pub for_s: f64,
}

/// The stall in nanoseconds of the queue's time.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    at: u64,
    length: u64,
}

impl Pause {
    /// Time that servers have been able to work until `now`.
    fn work(self, now: u64) -> u64 {
        if now <= self.at {
            now
        } else {
            now.saturating_sub(self.length).max(self.at)
        }
    }

    /// The moment at which the servers have been able to work for `work`.
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

/// The system. Times are nanoseconds since the first request, and must not go back.
#[derive(Debug)]
pub(crate) struct Queue {
    /// When each server is free, in work time.
    free: BinaryHeap<Reverse<u64>>,
    inside: BinaryHeap<Reverse<Job>>,
    pause: Pause,
    /// Service time of all requests so far, those inside in full.
    committed: u64,
}

impl Queue {
    pub(crate) fn new(servers: usize, stall: Option<Stall>) -> Self {
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        Self {
            free: (0..servers).map(|_| Reverse(0)).collect(),
            inside: BinaryHeap::new(),
            pause: stall.map_or_else(Pause::default, |stall| Pause {
                at: nanos(stall.at_s),
                length: nanos(stall.for_s),
            }),
            committed: 0,
        }
    }

    /// Takes a request that arrives at `now` and needs `service` ns of a server; returns when it
    /// leaves.
    pub(crate) fn enqueue(&mut self, now: u64, service: u64) -> u64 {
        let work = self.pause.work(now);
        self.leave(work);
        let Reverse(free) = self.free.pop().unwrap_or(Reverse(0));
        let start = work.max(free);
        let end = start + service;
        self.free.push(Reverse(end));
        self.inside.push(Reverse(Job { end, start }));
        self.committed += service;
        // A request that needs no time leaves at once, even while the servers stand still.
        self.pause.real(end).max(now)
    }

    fn leave(&mut self, work: u64) {
        while self.inside.peek().is_some_and(|Reverse(job)| job.end <= work) {
            self.inside.pop();
        }
    }

    /// Requests queued and in service at `now`.
    pub(crate) fn in_system(&mut self, now: u64) -> usize {
        self.leave(self.pause.work(now));
        self.inside.len()
    }

    /// Server time spent until `now`, in ns, summed over the servers. A stalled server is not busy.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        let work = self.pause.work(now);
        let ahead: u64 = self
            .inside
            .iter()
            .map(|Reverse(job)| job.end.saturating_sub(work.max(job.start)))
            .sum();
        self.committed - ahead
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
    fn the_first_free_server_takes_the_next_request() {
        let mut queue = Queue::new(2, None);
        assert_eq!(queue.enqueue(0, 100), 100);
        assert_eq!(queue.enqueue(0, 10), 10);
        assert_eq!(queue.enqueue(1, 10), 20);
        assert_eq!(queue.enqueue(2, 10), 30);
        assert_eq!((queue.in_system(5), queue.busy(5)), (4, 10));
    }

    #[test]
    fn a_stall_freezes_what_is_in_service_and_holds_arrivals() {
        let stall = Stall {
            at_s: 1.0,
            for_s: 1.0,
        };
        let ms = 1_000_000;
        let mut queue = Queue::new(1, Some(stall));
        assert_eq!(queue.enqueue(900 * ms, 100 * ms), 1000 * ms); // ends as the stall begins
        let mut queue = Queue::new(1, Some(stall));
        assert_eq!(queue.enqueue(950 * ms, 100 * ms), 2050 * ms); // half of it before, half after
        assert_eq!(queue.busy(1500 * ms), 50 * ms);
        assert_eq!(queue.enqueue(1500 * ms, 10 * ms), 2060 * ms);
        assert_eq!(queue.enqueue(3000 * ms, 10 * ms), 3010 * ms);
        assert_eq!(queue.busy(4000 * ms), 120 * ms);
    }

    /// Mean response time of M/M/c: 1/mu + C(c, a) / (c mu - lambda), with Erlang's C by its
    /// recursion.
    fn erlang_response(servers: u32, lambda: f64, mu: f64) -> f64 {
        let a = lambda / mu;
        let b = (1..=servers).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
        let rho = a / f64::from(servers);
        let waits = b / (1.0 - rho * (1.0 - b));
        1.0 / mu + waits / (f64::from(servers) * mu - lambda)
    }

    #[test]
    fn poisson_arrivals_agree_with_erlang() {
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
            // About 1 % of standard error at these loads: 5 % is no accident of the seed.
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
