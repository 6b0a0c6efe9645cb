//! The arrivals of an open load, shared by the lanes of an agent.
//!
//! Every lane has its own copy of the agent's sequence, and a shared counter contains the number of
//! arrivals that were taken: a free slot takes the next arrival, independent of its lane. So
//! `in_flight` is one limit, as the experiment file says, and no arrival waits while any slot of
//! the agent is free. The cost is one atomic addition per arrival. Rejected: a separate part of the
//! arrivals for each lane (three slots on two lanes would not be a queue with three servers); one
//! lane for the whole workload (requests that need much CPU time would have one core); a lock
//! around one sequence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_schedule::{Arrival, ArrivalStream};

use super::plan::Population;
use crate::api::AgentPortion;

/// The arrivals of one workload on this agent. It creates the views of the lanes.
#[derive(Debug)]
pub struct Pool {
    stream: ArrivalStream,
    slots: u64,
    taken: Arc<AtomicU64>,
}

impl Pool {
    /// The arrivals for the portion `of` an agent; none if the agent has no arrivals of the
    /// workload.
    pub fn new(population: &Population, of: AgentPortion, seed: u64) -> Option<Self> {
        let part = population.arrivals_of(of)?;
        let curve = population.curve.clone()?;
        let workload = u64::from(population.workload);
        Some(Self {
            stream: ArrivalStream::new(curve, population.arrivals, seed, workload, part.offset, part.step),
            slots: part.slots,
            taken: Arc::new(AtomicU64::new(part.slots)),
        })
    }

    /// The view of lane `lane` of `lanes` lanes.
    pub fn lane(&self, lane: usize, lanes: usize) -> Arrivals {
        Arrivals {
            stream: self.stream.clone(),
            dealt: lane as u64,
            lanes: lanes as u64,
            slots: self.slots,
            taken: Arc::clone(&self.taken),
        }
    }
}

/// A lane's view of the agent's arrivals. Within the agent they are numbered from 0.
#[derive(Debug)]
pub struct Arrivals {
    stream: ArrivalStream,
    /// Number of the lane's next dealt arrival. The first arrivals, one for each slot, are dealt to
    /// the lanes in turn. Otherwise the lane that wakes first would take all of them, and the lanes
    /// would then work in turn, each on many arrivals at once.
    dealt: u64,
    lanes: u64,
    slots: u64,
    /// Number of the next arrival that was not taken.
    taken: Arc<AtomicU64>,
}

impl Arrivals {
    /// Takes the next arrival; none after the last.
    pub fn take(&mut self) -> Option<Arrival> {
        let number = if self.dealt < self.slots {
            let number = self.dealt;
            self.dealt += self.lanes;
            number
        } else {
            self.taken.fetch_add(1, Ordering::Relaxed)
        };
        self.stream.go_to(number);
        self.stream.next()
    }

    /// Takes all arrivals before `t_ns` for which no slot was free, and returns their number.
    pub fn drop_before(&mut self, t_ns: u64) -> u64 {
        // A free slot exists for every dealt arrival, even if the slot has not begun yet.
        if self.dealt < self.slots {
            return 0;
        }
        let mut from = self.taken.load(Ordering::Relaxed);
        loop {
            self.stream.go_to(from);
            self.stream.skip_before(t_ns);
            // Another lane may have taken arrivals in the meantime. The stream never moves back, so
            // that it may be past `from`.
            let to = self.stream.number();
            match self
                .taken
                .compare_exchange_weak(from, to.max(from), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return to.saturating_sub(from),
                Err(now) => from = now,
            }
        }
    }

    /// Takes all remaining arrivals before `t_ns`, and returns their number. Called at the end of
    /// the run, and when the agent joins late.
    pub fn take_rest_before(&mut self, t_ns: u64) -> u64 {
        let mut dealt = 0;
        while self.dealt < self.slots {
            self.stream.go_to(self.dealt);
            dealt += u64::from(self.stream.peek().is_some_and(|arrival| arrival.at_ns < t_ns));
            self.dealt += self.lanes;
        }
        dealt + self.drop_before(t_ns)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::{Arrivals as Law, LoadSpec, WhenFull};

    use super::*;
    use crate::run::plan::tests::open;

    const T: u64 = 1_000_000_000;

    /// Numbers of all arrivals before `T`.
    fn whole(law: Law) -> Vec<u64> {
        let curve = plimsoll_schedule::RateCurve::of(&LoadSpec::Open {
            rate: 20_000.0,
            arrivals: law,
            in_flight: 1,
            when_full: WhenFull::Wait,
        });
        ArrivalStream::new(curve.unwrap(), law, 5, 0, 0, 1)
            .take_while(|arrival| arrival.at_ns < T)
            .map(|arrival| arrival.index)
            .collect()
    }

    #[test]
    fn concurrent_lanes_take_every_arrival_once() {
        for law in [Law::Even, Law::Poisson] {
            for (agents, lanes, slots) in [(1, 1, 3), (1, 4, 2), (1, 4, 40), (2, 3, 7), (3, 2, 2)] {
                let population = open(20_000.0, law, slots);
                let mut taken: Vec<u64> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..agents)
                        .filter_map(|agent| Pool::new(&population, AgentPortion { agent, agents }, 5))
                        .flat_map(|pool| (0..lanes).map(move |lane| pool.lane(lane, lanes)))
                        .map(|mut arrivals| {
                            scope.spawn(move || {
                                std::iter::from_fn(|| arrivals.take())
                                    .take_while(|arrival| arrival.at_ns < T)
                                    .map(|arrival| arrival.index)
                                    .collect::<Vec<_>>()
                            })
                        })
                        .collect();
                    threads
                        .into_iter()
                        .flat_map(|thread| thread.join().unwrap())
                        .collect()
                });
                taken.sort_unstable();
                assert_eq!(
                    taken,
                    whole(law),
                    "{law:?}: {agents} agents, {lanes} lanes, {slots} slots"
                );
            }
        }
    }

    #[test]
    fn concurrent_lanes_take_or_drop_every_arrival() {
        for law in [Law::Even, Law::Poisson] {
            let pool = Pool::new(&open(20_000.0, law, 4), AgentPortion { agent: 0, agents: 1 }, 5).unwrap();
            let parts: Vec<(Vec<u64>, u64)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3)
                    .map(|lane| {
                        let mut arrivals = pool.lane(lane, 3);
                        scope.spawn(move || {
                            let (mut taken, mut dropped) = (Vec::new(), 0);
                            let mut free_since = 0;
                            while let Some(arrival) = arrivals.take().filter(|arrival| arrival.at_ns < T) {
                                assert!(arrival.at_ns >= free_since || arrival.index < 4);
                                taken.push(arrival.index);
                                free_since = arrival.at_ns + 77_777 * (1 + lane as u64);
                                dropped += arrivals.drop_before(free_since.min(T));
                            }
                            (taken, dropped + arrivals.take_rest_before(T))
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let dropped: u64 = parts.iter().map(|(_, dropped)| dropped).sum();
            let mut taken: Vec<u64> = parts.into_iter().flat_map(|(taken, _)| taken).collect();
            taken.sort_unstable();
            let all = whole(law);
            assert!(
                dropped > 0 && taken.windows(2).all(|pair| pair[0] < pair[1]),
                "{law:?}"
            );
            assert!(taken.iter().all(|index| all.binary_search(index).is_ok()));
            assert_eq!(taken.len() as u64 + dropped, all.len() as u64, "{law:?}");
        }
    }

    #[test]
    fn arrivals_that_no_slot_took_are_counted_once() {
        let pool = Pool::new(
            &open(20_000.0, Law::Poisson, 5),
            AgentPortion { agent: 0, agents: 1 },
            5,
        )
        .unwrap();
        let mut lanes: Vec<Arrivals> = (0..2).map(|lane| pool.lane(lane, 2)).collect();
        let first = lanes[1].take().unwrap();
        assert_eq!(
            first.index, 1,
            "the first arrivals are dealt out to the lanes in turn"
        );
        let left: u64 = lanes.iter_mut().map(|lane| lane.take_rest_before(T)).sum();
        assert_eq!(left + 1, whole(Law::Poisson).len() as u64);
        assert_eq!(lanes[0].take_rest_before(T), 0);
    }
}
