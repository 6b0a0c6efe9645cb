//! Closed loads: when a tester is active, and when it starts its next transaction.

use plimsoll_model::{Dist, LoadSpec};

use crate::random::{Rng, Stream, draw, rng};

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
    Stages { parts: Vec<Part>, life_ns: Option<u64> },
}

/// A time in which a tester is active without a break, or one closed stage of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) from_ns: u64,
    /// End, excluded.
    pub(crate) to_ns: u64,
    pub(crate) stage: u16,
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
            LoadSpec::Stages { stages, life_ns, .. } => {
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
                    Rule::Stages {
                        parts,
                        life_ns: *life_ns,
                    },
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
            Rule::Stages { parts, life_ns } => {
                let left_ns = leave(parts, *life_ns, tester);
                let part = parts
                    .iter()
                    .find(|part| tester < part.testers && earliest_ns < part.to_ns)?;
                let at = earliest_ns.max(part.from_ns);
                (at < left_ns).then_some((at, part.stage))
            }
        }
    }

    /// The periods in which `tester` is active, in order of time.
    pub(crate) fn periods(&self, tester: u32) -> Vec<Period> {
        let one = |from_ns, to_ns| {
            vec![Period {
                from_ns,
                to_ns,
                stage: 0,
            }]
        };
        match &self.rule {
            Rule::Always => one(0, u64::MAX),
            Rule::Ramp { every_ns, life_ns } => {
                let joined = u64::from(tester) * every_ns;
                one(joined, life_ns.map_or(u64::MAX, |life| joined + life))
            }
            Rule::Stages { parts, life_ns } => {
                let left_ns = leave(parts, *life_ns, tester);
                parts
                    .iter()
                    .filter(|part| tester < part.testers && part.from_ns < left_ns)
                    .map(|part| Period {
                        from_ns: part.from_ns,
                        to_ns: part.to_ns.min(left_ns),
                        stage: part.stage,
                    })
                    .collect()
            }
        }
    }

    /// Whether all testers are active throughout the run.
    pub(crate) fn is_constant(&self) -> bool {
        self.rule == Rule::Always
    }

    /// Whether testers join one after the other, each at its own time.
    pub(crate) fn is_ramp(&self) -> bool {
        matches!(self.rule, Rule::Ramp { .. })
    }

    /// Whether `tester` is active at `t_ns`.
    pub fn active(&self, tester: u32, t_ns: u64) -> bool {
        self.next(tester, t_ns).is_some_and(|(at, _)| at == t_ns)
    }
}

/// When the life of a tester of a staged load ends: `life_ns` after its first stage begins.
fn leave(parts: &[Part], life_ns: Option<u64>, tester: u32) -> u64 {
    let first = parts.iter().find(|part| tester < part.testers);
    match (first, life_ns) {
        (Some(part), Some(life)) => part.from_ns.saturating_add(life),
        _ => u64::MAX,
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
        draw(&self.dist, &mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::{Arrivals, StageSpec, WhenFull};

    #[test]
    fn testers_of_a_ramp_are_active_from_their_join_for_their_life() {
        let load = LoadSpec::Ramp {
            testers: 3,
            every_ns: 25,
            life_ns: Some(100),
            think: Dist::ZERO,
            slots: None,
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
            slots: None,
            life_ns: None,
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
