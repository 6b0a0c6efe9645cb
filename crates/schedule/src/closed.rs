//! Closed loads: when a tester is active, and when it starts its next transaction.

use plimsoll_model::{Dist, Late, LoadSpec};
use rand_distr::{Distribution, Exp1};

use crate::random::{Rng, Stream, rng, uniform};

/// When the testers of a closed load are active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    testers: u32,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Always,
    Ramp { every_ns: u64, life_ns: Option<u64> },
    Stages(Vec<Part>),
}

/// One closed stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    testers: u32,
    stage: u16,
}

impl Presence {
    /// The presence in a load; none if the load has no closed tester.
    pub fn of(load: &LoadSpec) -> Option<Self> {
        let (testers, rule) = match load {
            LoadSpec::Closed { testers, .. } | LoadSpec::Every { testers, .. } => (*testers, Rule::Always),
            LoadSpec::Ramp {
                testers,
                every_ns,
                life_ns,
                ..
            } => (
                *testers,
                Rule::Ramp {
                    every_ns: *every_ns,
                    life_ns: *life_ns,
                },
            ),
            LoadSpec::Stages { stages, .. } => {
                let mut from_ns = 0;
                let mut parts = Vec::new();
                for (stage, spec) in (0..).zip(stages) {
                    let to_ns = from_ns + spec.for_ns;
                    if let Some(testers) = spec.testers {
                        parts.push(Part {
                            from_ns,
                            to_ns,
                            testers,
                            stage,
                        });
                    }
                    from_ns = to_ns;
                }
                (
                    parts.iter().map(|part| part.testers).max().unwrap_or(0),
                    Rule::Stages(parts),
                )
            }
            LoadSpec::Open { .. } | LoadSpec::Recorded { .. } => return None,
        };
        (testers > 0).then_some(Self { testers, rule })
    }

    /// Number of testers that are active at any time of the run.
    pub fn testers(&self) -> u32 {
        self.testers
    }

    /// Whether `tester` begins at the start of the run, together with other testers. In a ramp each
    /// tester begins at its own time.
    pub fn begins_together(&self, tester: u32) -> bool {
        !matches!(self.rule, Rule::Ramp { .. }) && self.next(tester, 0).is_some_and(|(at_ns, _)| at_ns == 0)
    }

    /// First time at or after `earliest_ns` at which `tester` is active, and the index of the stage
    /// at that time; none if the tester is not active any more.
    pub fn next(&self, tester: u32, earliest_ns: u64) -> Option<(u64, u16)> {
        match &self.rule {
            Rule::Always => Some((earliest_ns, 0)),
            Rule::Ramp { every_ns, life_ns } => {
                let joined = u64::from(tester) * every_ns;
                let at = earliest_ns.max(joined);
                life_ns.is_none_or(|life| at < joined + life).then_some((at, 0))
            }
            Rule::Stages(parts) => parts
                .iter()
                .find(|part| tester < part.testers && earliest_ns < part.to_ns)
                .map(|part| (earliest_ns.max(part.from_ns), part.stage)),
        }
    }

    /// Whether `tester` is active at `t_ns`.
    pub fn active(&self, tester: u32, t_ns: u64) -> bool {
        self.next(tester, t_ns).is_some_and(|(at, _)| at == t_ns)
    }
}

/// The slots of one tester of an `every` load: slot k is at `first + k * every`. The first slots of
/// the testers are spread evenly over the first interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    first_ns: u64,
    every_ns: u64,
    late: Late,
}

/// The slot that follows a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextSlot {
    /// Number of the slot, from 0.
    pub slot: u64,
    /// Scheduled start: the time of the slot, or under [`Late::Skip`] the end of the previous
    /// transaction if that is later.
    pub scheduled_ns: u64,
    /// Slots that passed during the previous transaction and are not used. Number of slots =
    /// started + missed.
    pub missed: u64,
}

impl Slots {
    /// The slots of `tester` of `testers`, one every `every_ns` (at least 1).
    pub fn new(tester: u32, testers: u32, every_ns: u64, late: Late) -> Self {
        let first_ns = (u128::from(every_ns) * u128::from(tester) / u128::from(testers.max(1))) as u64;
        Self {
            first_ns,
            every_ns: every_ns.max(1),
            late,
        }
    }

    /// The first slot.
    pub fn first(&self) -> NextSlot {
        NextSlot {
            slot: 0,
            scheduled_ns: self.first_ns,
            missed: 0,
        }
    }

    /// Number of slots before `t_ns`.
    pub fn before(&self, t_ns: u64) -> u64 {
        let Some(last) = t_ns.checked_sub(self.first_ns + 1) else {
            return 0;
        };
        last / self.every_ns + 1
    }

    /// The slot that follows `slot`, whose transaction ended at `end_ns`.
    pub fn after(&self, slot: u64, end_ns: u64) -> NextSlot {
        let time = |slot: u64| self.first_ns + slot * self.every_ns;
        let next = slot + 1;
        if self.late == Late::CatchUp || time(next) > end_ns {
            return NextSlot {
                slot: next,
                scheduled_ns: time(next),
                missed: 0,
            };
        }
        // The last slot that has passed starts now; those before it are missed.
        let last = (end_ns - self.first_ns) / self.every_ns;
        NextSlot {
            slot: last,
            scheduled_ns: end_ns,
            missed: last - next,
        }
    }
}

/// Draws think times of one tester.
#[derive(Debug, Clone)]
pub struct Think {
    dist: Dist,
    rng: Rng,
}

impl Think {
    /// The think times of `tester` of workload `workload`.
    pub fn new(dist: Dist, seed: u64, workload: u64, tester: u64) -> Self {
        Self {
            dist,
            rng: rng(seed, Stream::Think, workload, tester),
        }
    }

    /// Draws the next think time, ns.
    pub fn draw(&mut self) -> u64 {
        match self.dist {
            Dist::Fixed { ns } => ns,
            Dist::Exponential { mean_ns } => {
                let unit: f64 = Exp1.sample(&mut self.rng);
                (unit * mean_ns).round() as u64
            }
            Dist::Uniform { from_ns, to_ns } => {
                let width = to_ns.saturating_sub(from_ns).saturating_add(1);
                from_ns + uniform(&mut self.rng, width)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::{Arrivals, StageSpec, WhenFull};

    #[test]
    fn before_counts_the_slots_that_are_earlier_than_a_time() {
        let slots = Slots::new(1, 2, 20, Late::Skip); // at 10, 30, 50, ...
        for (t_ns, due) in [(0, 0), (10, 0), (11, 1), (30, 1), (31, 2), (50, 2), (51, 3)] {
            assert_eq!(slots.before(t_ns), due, "before {t_ns}");
        }
        assert_eq!(Slots::new(0, 1, 20, Late::Skip).before(0), 0);
        assert_eq!(Slots::new(0, 1, 20, Late::Skip).before(1), 1);
    }

    #[test]
    fn testers_of_a_ramp_are_active_from_their_join_for_their_life() {
        let load = LoadSpec::Ramp {
            testers: 3,
            every_ns: 25,
            life_ns: Some(100),
            think: Dist::ZERO,
        };
        let presence = Presence::of(&load).unwrap();
        // tester, earliest, expected
        for (tester, earliest, expected) in [
            (0, 0, Some(0)),
            (0, 99, Some(99)),
            (0, 100, None),
            (2, 0, Some(50)),
            (2, 149, Some(149)),
            (2, 150, None),
        ] {
            let next = presence.next(tester, earliest).map(|(at, _)| at);
            assert_eq!(next, expected, "tester {tester} from {earliest}");
        }
        let active = |t| (0..3).filter(|&tester| presence.active(tester, t)).count();
        assert_eq!(
            [0, 24, 25, 50, 99, 100, 125, 150].map(active),
            [1, 1, 2, 3, 3, 2, 1, 0]
        );
    }

    #[test]
    fn closed_stages_have_their_testers_and_open_stages_have_none() {
        let stage = |for_ns, testers: Option<u32>| StageSpec {
            name: String::new(),
            for_ns,
            testers,
            rate: testers.is_none().then_some((1.0, 1.0)),
        };
        let load = LoadSpec::Stages {
            stages: vec![
                stage(10, Some(2)),
                stage(10, None),
                stage(10, Some(3)),
                stage(10, Some(1)),
            ],
            think: Dist::ZERO,
            arrivals: Arrivals::Even,
            in_flight: 1,
            when_full: WhenFull::Wait,
        };
        let presence = Presence::of(&load).unwrap();
        assert_eq!(presence.testers(), 3);
        for (tester, earliest, expected) in [
            (0, 0, Some((0, 0))),
            (0, 10, Some((20, 2))),
            (0, 29, Some((29, 2))),
            (0, 30, Some((30, 3))),
            (0, 40, None),
            (1, 30, None),
            (2, 0, Some((20, 2))),
        ] {
            assert_eq!(
                presence.next(tester, earliest),
                expected,
                "tester {tester} from {earliest}"
            );
        }
    }

    #[test]
    fn slots_that_pass_are_missed_or_start_late() {
        let skip = Slots::new(1, 4, 100, Late::Skip);
        assert_eq!(
            skip.first(),
            NextSlot {
                slot: 0,
                scheduled_ns: 25,
                missed: 0
            }
        );
        // previous slot, its end, next slot, scheduled, missed
        for (slot, end, next, scheduled, missed) in [
            (0, 60, 1, 125, 0),
            (0, 124, 1, 125, 0),
            (0, 125, 1, 125, 0),
            (0, 130, 1, 130, 0),
            (0, 230, 2, 230, 1),
            (0, 560, 5, 560, 4),
            (5, 561, 6, 625, 0),
        ] {
            let expected = NextSlot {
                slot: next,
                scheduled_ns: scheduled,
                missed,
            };
            assert_eq!(skip.after(slot, end), expected, "slot {slot} to {end}");
        }
        let catch_up = Slots::new(1, 4, 100, Late::CatchUp);
        assert_eq!(
            catch_up.after(0, 560),
            NextSlot {
                slot: 1,
                scheduled_ns: 125,
                missed: 0
            }
        );
    }

    #[test]
    fn every_slot_is_started_or_missed() {
        let slots = Slots::new(0, 1, 10, Late::Skip);
        let (mut started, mut missed, mut now) = (0, 0, 0);
        let mut next = slots.first();
        for duration in [3, 25, 1, 47, 10, 9, 11].into_iter().cycle().take(700) {
            now = next.scheduled_ns.max(now) + duration;
            started += 1;
            let slot = next.slot;
            next = slots.after(slot, now);
            missed += next.missed;
            assert_eq!(next.slot, started + missed);
        }
    }

    #[test]
    fn think_times_have_the_mean_of_their_distribution() {
        let mean = |dist| {
            let mut think = Think::new(dist, 3, 0, 0);
            (0..100_000).map(|_| think.draw() as f64).sum::<f64>() / 100_000.0
        };
        assert!((mean(Dist::Fixed { ns: 70 }) - 70.0).abs() < 1e-9);
        // Standard errors 0.32 % and 0.18 %; four of them.
        assert!((mean(Dist::Exponential { mean_ns: 1e6 }) - 1e6).abs() < 1.3e4);
        assert!(
            (mean(Dist::Uniform {
                from_ns: 0,
                to_ns: 1_000_000
            }) - 5e5)
                .abs()
                < 3.7e3
        );
    }
}
