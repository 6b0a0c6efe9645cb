//! The map from an agent's clock onto the controller's.

use serde::{Deserialize, Serialize};

/// Added to every bound: the knots and the results are rounded to whole nanoseconds.
const ROUNDING_NS: i64 = 2;

/// Offset of the controller's clock as a function of agent time, with a bound for every time. The
/// function is linear between knots and continuous, and controller time never decreases.
///
/// At a jump of the agent's clock the line connects both sides over the interval that contains the
/// jump. The bound there includes both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredMap", into = "StoredMap")]
pub struct ClockMap(StoredMap);

/// The stored form. The file that contains it has the version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMap {
    /// In order of time; empty for an agent on the controller's clock.
    knots: Vec<Knot>,
    /// In order of time; they cover the time from the first knot to the last.
    stretches: Vec<Stretch>,
    /// dθ/dt before the first knot, ppm.
    lead_ppm: f64,
    /// dθ/dt after the last knot, ppm.
    tail_ppm: f64,
    /// ρ, the rate by which the bound grows outside the knots, ppm.
    max_rate_error_ppm: f64,
}

/// A point of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Knot {
    pub agent_ns: i64,
    pub controller_ns: i64,
}

/// An interval from `from_ns` to the next stretch, or to the last knot. The error in it is at most
/// `bound_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub from_ns: i64,
    pub bound_ns: i64,
}

/// A time of the agent, converted to the controller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerTime {
    /// Controller time, ns.
    pub controller_ns: i64,
    /// Maximum difference from the true controller time, ns.
    pub bound_ns: i64,
}

/// A time of the controller, converted to the agent's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTime {
    /// Agent time, ns.
    pub agent_ns: i64,
    /// Maximum difference from the true agent time, ns, unless the agent's clock jumps between the
    /// two.
    pub bound_ns: i64,
}

impl ClockMap {
    /// The map of an agent that reads the controller's clock: times are unchanged, and the bound is
    /// 0.
    pub fn same() -> Self {
        Self(StoredMap {
            knots: Vec::new(),
            stretches: Vec::new(),
            lead_ppm: 0.0,
            tail_ppm: 0.0,
            max_rate_error_ppm: 0.0,
        })
    }

    /// None if `knots` or `stretches` are empty or not in order, or do not begin at the same time.
    pub(crate) fn new(
        knots: Vec<Knot>,
        stretches: Vec<Stretch>,
        (lead, tail): (f64, f64),
        max_rate: f64,
    ) -> Option<Self> {
        Self::try_from(StoredMap {
            knots,
            stretches,
            lead_ppm: lead * 1e6,
            tail_ppm: tail * 1e6,
            max_rate_error_ppm: max_rate * 1e6,
        })
        .ok()
        .filter(|map| !map.is_same())
    }

    /// Whether the agent reads the controller's clock.
    pub fn is_same(&self) -> bool {
        self.0.knots.is_empty()
    }

    /// Agent times of the first and the last knot: between them each time has probes on both sides.
    /// None for [`Self::same`].
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        Some((self.0.knots.first()?.agent_ns, self.0.knots.last()?.agent_ns))
    }

    /// The greatest bound between the first and the last knot, ns.
    pub fn worst_bound_ns(&self) -> i64 {
        self.0
            .stretches
            .iter()
            .map(|stretch| stretch.bound_ns)
            .max()
            .unwrap_or(0)
    }

    /// The controller's clock when the agent's clock shows `agent_ns`. Outside [`Self::span_ns`]
    /// the bound grows with the distance.
    pub fn at(&self, agent_ns: i64) -> ControllerTime {
        let Some((first, last)) = self.ends() else {
            return ControllerTime {
                controller_ns: agent_ns,
                bound_ns: 0,
            };
        };
        let controller_ns = if agent_ns <= first.agent_ns {
            let elapsed = distance(first.agent_ns, agent_ns);
            shifted(first.controller_ns, elapsed * (1.0 + self.0.lead_ppm * 1e-6))
        } else if agent_ns >= last.agent_ns {
            let elapsed = distance(last.agent_ns, agent_ns);
            shifted(last.controller_ns, elapsed * (1.0 + self.0.tail_ppm * 1e-6))
        } else {
            let next = self.0.knots.partition_point(|knot| knot.agent_ns <= agent_ns);
            let (a, b) = (self.0.knots[next - 1], self.0.knots[next]);
            let part = distance(a.agent_ns, agent_ns) / distance(a.agent_ns, b.agent_ns);
            let advance = part * distance(a.controller_ns, b.controller_ns);
            // Far beyond 2^53 ns rounding could exceed the knot.
            shifted(a.controller_ns, advance).min(b.controller_ns)
        };
        ControllerTime {
            controller_ns,
            bound_ns: self.bound(agent_ns),
        }
    }

    /// The agent's clock when the controller's clock shows `controller_ns`; the earliest such time.
    /// In an interval in which the agent's clock stood still there may be no such time. Then the
    /// result is at the edge of the interval.
    pub fn inverse(&self, controller_ns: i64) -> AgentTime {
        let Some((first, last)) = self.ends() else {
            return AgentTime {
                agent_ns: controller_ns,
                bound_ns: 0,
            };
        };
        let agent_ns = if controller_ns <= first.controller_ns {
            let elapsed = distance(first.controller_ns, controller_ns);
            shifted(first.agent_ns, elapsed / (1.0 + self.0.lead_ppm * 1e-6))
        } else if controller_ns > last.controller_ns {
            let elapsed = distance(last.controller_ns, controller_ns);
            shifted(last.agent_ns, elapsed / (1.0 + self.0.tail_ppm * 1e-6))
        } else {
            let next = self
                .0
                .knots
                .partition_point(|knot| knot.controller_ns < controller_ns);
            let (a, b) = (self.0.knots[next - 1], self.0.knots[next]);
            let part = distance(a.controller_ns, controller_ns) / distance(a.controller_ns, b.controller_ns);
            shifted(a.agent_ns, part * distance(a.agent_ns, b.agent_ns)).min(b.agent_ns)
        };
        // |C(agent_ns) - controller_ns| is within the bound, and C increases by at least 1 - ρ per
        // nanosecond.
        let slowest = 1.0 - self.0.max_rate_error_ppm * 1e-6;
        AgentTime {
            agent_ns,
            bound_ns: (self.bound(agent_ns) as f64 / slowest).ceil() as i64,
        }
    }

    fn ends(&self) -> Option<(Knot, Knot)> {
        Some((*self.0.knots.first()?, *self.0.knots.last()?))
    }

    fn bound(&self, agent_ns: i64) -> i64 {
        let Some((first, last)) = self.ends() else {
            return 0;
        };
        let next = self
            .0
            .stretches
            .partition_point(|stretch| stretch.from_ns <= agent_ns);
        let current = self.0.stretches[next.max(1) - 1];
        // A clock that stood still shows the same reading at two times, and a stretch may begin
        // with it.
        let before = self.0.stretches[next.max(2) - 2..].first();
        let before = before.filter(|_| current.from_ns == agent_ns);
        let within = before.map_or(current.bound_ns, |stretch| stretch.bound_ns.max(current.bound_ns));
        // Outside the probes the true offset changes by at most ρ, and the line by its own rate.
        let before = distance(agent_ns, first.agent_ns).max(0.0) * self.growth_rate(self.0.lead_ppm);
        let after = distance(last.agent_ns, agent_ns).max(0.0) * self.growth_rate(self.0.tail_ppm);
        shifted(within, (before + after).ceil()).saturating_add(ROUNDING_NS)
    }

    fn growth_rate(&self, ppm: f64) -> f64 {
        (self.0.max_rate_error_ppm + ppm.abs()) * 1e-6
    }
}

/// b - a, ns; exact below 2^53.
fn distance(a: i64, b: i64) -> f64 {
    (i128::from(b) - i128::from(a)) as f64
}

fn shifted(ns: i64, by: f64) -> i64 {
    ns.saturating_add(by.round() as i64)
}

impl TryFrom<StoredMap> for ClockMap {
    type Error = &'static str;

    fn try_from(stored: StoredMap) -> Result<Self, Self::Error> {
        let rates = [stored.lead_ppm, stored.tail_ppm, stored.max_rate_error_ppm];
        if rates.iter().any(|ppm| !(-5e5..=5e5).contains(ppm)) {
            return Err("a clock map has a rate beyond ±500,000 ppm");
        }
        if !stored
            .knots
            .is_sorted_by(|a, b| a.agent_ns < b.agent_ns && a.controller_ns <= b.controller_ns)
        {
            return Err("the knots of a clock map are not in order");
        }
        if !stored.stretches.is_sorted_by(|a, b| a.from_ns < b.from_ns) {
            return Err("the stretches of a clock map are not in order");
        }
        if stored.stretches.iter().any(|stretch| stretch.bound_ns < 0) {
            return Err("a clock map has a negative bound");
        }
        if stored.knots.first().map(|knot| knot.agent_ns)
            != stored.stretches.first().map(|stretch| stretch.from_ns)
        {
            return Err("the bounds of a clock map do not begin with its knots");
        }
        Ok(Self(stored))
    }
}

impl From<ClockMap> for StoredMap {
    fn from(map: ClockMap) -> Self {
        map.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_pieces() -> ClockMap {
        let knots = [
            (1_000, 501_000),
            (2_000_001_000, 2_000_601_000),
            (3_000_001_000, 3_000_601_000),
        ];
        let knots = knots.map(|(agent_ns, controller_ns)| Knot {
            agent_ns,
            controller_ns,
        });
        let stretches =
            [(1_000, 70), (2_000_001_000, 90)].map(|(from_ns, bound_ns)| Stretch { from_ns, bound_ns });
        ClockMap::new(knots.into(), stretches.into(), (5e-5, 0.0), 5e-4).unwrap()
    }

    #[test]
    fn an_agent_on_the_controllers_clock_is_mapped_exactly() {
        let map = ClockMap::same();
        for t in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert_eq!((map.at(t).controller_ns, map.at(t).bound_ns), (t, 0));
            assert_eq!((map.inverse(t).agent_ns, map.inverse(t).bound_ns), (t, 0));
        }
        assert_eq!((map.span_ns(), map.worst_bound_ns()), (None, 0));
    }

    #[test]
    fn between_knots_the_map_is_linear_and_the_bound_is_that_of_the_stretch() {
        let map = two_pieces();
        assert_eq!(
            map.at(1_000_001_000).controller_ns,
            1_000_551_000,
            "offset half way from 500 to 600 us"
        );
        assert_eq!(map.at(1_000_001_000).bound_ns, 72);
        assert_eq!(map.at(2_500_001_000).controller_ns, 2_500_601_000);
        assert_eq!(map.at(2_500_001_000).bound_ns, 92);
    }

    #[test]
    fn outside_the_knots_the_bound_grows_with_the_distance() {
        let map = two_pieces();
        assert_eq!(map.at(4_000_001_000).controller_ns, 4_000_601_000);
        assert_eq!(
            map.at(4_000_001_000).bound_ns,
            92 + 500_000,
            "500 ppm over a second"
        );
        assert_eq!(
            map.at(-999_999_000).controller_ns,
            -999_549_000,
            "50 us less a second before"
        );
        assert_eq!(map.at(-999_999_000).bound_ns, 72 + 550_000);
        assert!(map.at(i64::MIN).bound_ns > 1 << 50);
        assert!(map.at(i64::MAX).bound_ns > 1 << 50);
    }

    #[test]
    fn the_inverse_returns_the_agent_time() {
        let map = two_pieces();
        for t in (-2_000_000_000..6_000_000_000).step_by(99_999_989) {
            let forward = map.at(t);
            let back = map.inverse(forward.controller_ns);
            assert!(back.agent_ns.abs_diff(t) <= 1, "{t} {back:?}");
            assert!(back.bound_ns.abs_diff(forward.bound_ns) <= 2 + forward.bound_ns as u64 / 1_000);
        }
    }

    #[test]
    fn a_stored_map_is_read_again_and_a_broken_one_is_refused() {
        let map = two_pieces();
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<ClockMap>(&text).unwrap(), map);
        let same = serde_json::to_string(&ClockMap::same()).unwrap();
        assert!(serde_json::from_str::<ClockMap>(&same).unwrap().is_same());
        for (from, to) in [
            ("\"agent_ns\":2000001000", "\"agent_ns\":0"),
            ("\"bound_ns\":90", "\"bound_ns\":-1"),
            ("\"from_ns\":1000", "\"from_ns\":1001"),
            ("\"from_ns\":2000001000", "\"from_ns\":0"),
            ("\"tail_ppm\":0.0", "\"tail_ppm\":1e9"),
        ] {
            assert!(text.contains(from), "{text}");
            let broken = text.replace(from, to);
            assert!(serde_json::from_str::<ClockMap>(&broken).is_err(), "{broken}");
        }
    }
}
