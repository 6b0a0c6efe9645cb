//! While a run goes on: the time now or soon, from the last probes.
//!
//! Offset and rate by weighted least squares over a window. A probe that was delayed by more than
//! the least of its window can be off by half the excess, so its weight is 1/(excess/2 + ε)²;
//! observations further than three of their own errors from the line count less (Huber, *Robust
//! Statistics*, 1981). The rate is held by a prior of 100 ppm, so that the burst at the start does
//! not give a wild one. A change of the route or a jump of the clock empties the window, and with
//! it the least delay. The bound is the one of [`crate::estimate`]: the cones of the probes in the
//! window.

use std::collections::VecDeque;

use crate::change::{AFTER, BEFORE, Look, RATE_PRIOR, excludes, shift};
use crate::estimate::Begin;
use crate::map::{Inverse, Mapped};
use crate::probe::{Assumptions, Origin, Probe, Sample, median};
use crate::regress::weighted;

/// Probes of the window: two minutes at one a second, in which the rate of a clock moves little.
const WINDOW: usize = 128;
/// Rounding of the answers, ns.
const ROUNDING_NS: f64 = 2.0;

/// The last probes of an agent, and the line through them.
#[derive(Debug, Clone)]
pub struct Live {
    assumptions: Assumptions,
    window: VecDeque<Sample>,
    line: Option<Line>,
    rejected: usize,
}

/// θ = offset + rate (t − origin.agent), ns since `origin`.
#[derive(Debug, Clone, Copy)]
struct Line {
    origin: Origin,
    offset: f64,
    rate: f64,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It counts.
    Kept,
    /// Its stamps cannot be true. It is counted and forgotten.
    Rejected,
    /// It counts, and shows that before it the clock jumped or the route changed: what was older is
    /// forgotten.
    Changed(Begin),
}

impl Live {
    /// Without probes nothing is known.
    pub fn new(assumptions: Assumptions) -> Self {
        Self {
            assumptions,
            window: VecDeque::with_capacity(WINDOW),
            line: None,
            rejected: 0,
        }
    }

    /// Holds for what is asked from now on; the probes that are known stay.
    pub fn assume(&mut self, assumptions: Assumptions) {
        self.assumptions = assumptions;
        self.line = self.fit();
    }

    /// How many probes were not believed so far.
    pub fn rejected(&self) -> usize {
        self.rejected
    }

    /// How many probes stand in the window, at most 128.
    pub fn probes(&self) -> usize {
        self.window.len()
    }

    /// Least round trip in the window, ns; None without probes.
    pub fn least_round_trip_ns(&self) -> Option<i64> {
        let physical = self.assumptions.physical_min_rtt_ns;
        let delays = self.window.iter().map(|sample| sample.upper - sample.lower);
        delays.min().map(|least| least.saturating_add(physical))
    }

    /// Rate of the controller's clock against the agent's, less 1, ppm; None without probes.
    pub fn drift_ppm(&self) -> Option<f64> {
        self.line.map(|line| line.rate * 1e6)
    }

    /// Takes a probe in. Probes come in the order in which their answers did.
    pub fn push(&mut self, probe: &Probe) -> Pushed {
        let Some(sample) = probe.sample(&self.assumptions) else {
            self.rejected += 1;
            return Pushed::Rejected;
        };
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(sample);
        let changed = self.changed();
        if let Some((_, after)) = changed {
            self.window.retain(|one| one.sent >= after);
        }
        self.line = self.fit();
        changed.map_or(Pushed::Kept, |(begin, _)| Pushed::Changed(begin))
    }

    /// Whether the newest probe shows a change, and when the first probe was sent that is surely
    /// after it.
    fn changed(&self) -> Option<(Begin, i64)> {
        let newest = self.window.back()?;
        let origin = Origin::of(newest);
        let rate = self.assumptions.rate();
        let contradicts = |one: &Sample| {
            excludes(origin.upper(newest), origin.lower(one), rate)
                || excludes(origin.upper(one), origin.lower(newest), rate)
        };
        if self.window.iter().any(contradicts) {
            return Some((Begin::Jump, newest.sent));
        }
        let recent = self
            .window
            .iter()
            .skip(self.window.len().saturating_sub(BEFORE + AFTER));
        let recent: Vec<&Sample> = recent.filter(|one| one.via == newest.via).collect();
        let looks: Vec<Look> = recent.iter().map(|one| Look::of(one, &origin)).collect();
        let (before, after) = looks.split_at(looks.len().checked_sub(AFTER)?);
        shift(before, after).map(|shift| (shift.begin, recent[shift.between(&looks).1].sent))
    }

    fn fit(&self) -> Option<Line> {
        let origin = Origin::of(self.window.back()?);
        let looks: Vec<Look> = self.window.iter().map(|one| Look::of(one, &origin)).collect();
        let least = looks.iter().map(|one| one.delay).fold(f64::INFINITY, f64::min);
        let noise = median(&mut looks.iter().map(|one| one.delay - least).collect::<Vec<_>>());
        let floor = 0.05 * noise + 100.0;
        let error = |one: &Look| 0.5 * (one.delay - least) + floor;
        let mut line = None;
        for _ in 0..3 {
            let observations = looks.iter().map(|one| {
                let x = 0.5e-9 * (one.sent + one.received);
                let off = line.map_or(0.0, |[a, b]: [f64; 2]| {
                    (one.middle - a - b * x).abs() / error(one)
                });
                ([1.0, x], one.middle, error(one).powi(-2) * (3.0 / off.max(3.0)))
            });
            line = weighted(observations, [0.0, RATE_PRIOR]).map(|fit| fit.value);
        }
        let [offset, ns_per_s] = line?;
        let limit = self.assumptions.rate();
        Some(Line {
            origin,
            offset,
            rate: (ns_per_s * 1e-9).clamp(-limit, limit),
        })
    }

    /// The controller's clock when the agent's shows `agent_ns`, which is now or soon: outside the
    /// window the bound grows with the distance, by ρ. None without probes. A jump smaller than a
    /// round trip is known eight probes after it; until then the bound does not hold.
    pub fn at(&self, agent_ns: i64) -> Option<Mapped> {
        let line = self.line?;
        let t = line.origin.time(agent_ns);
        let (low, high) = self.envelope(&line.origin, t);
        let offset = (line.offset + line.rate * t).max(low).min(high);
        let bound = (high - offset).max(offset - low) + ROUNDING_NS;
        Some(Mapped {
            controller_ns: agent_ns
                .saturating_add(line.origin.offset)
                .saturating_add(offset.round() as i64),
            bound_ns: bound.ceil() as i64,
        })
    }

    /// The agent's clock when the controller's shows `controller_ns`, which is now or soon. None
    /// without probes.
    pub fn inverse(&self, controller_ns: i64) -> Option<Inverse> {
        let line = self.line?;
        let mut agent_ns = controller_ns.saturating_sub(line.origin.offset);
        // Each step leaves ρ of the error of the one before.
        for _ in 0..8 {
            let ahead = self.at(agent_ns)?.controller_ns.saturating_sub(controller_ns);
            agent_ns = agent_ns.saturating_sub(ahead);
        }
        let there = self.at(agent_ns)?;
        let left = there.controller_ns.abs_diff(controller_ns) as f64;
        let bound = (there.bound_ns as f64 + left) / (1.0 - self.assumptions.rate());
        Some(Inverse {
            agent_ns,
            bound_ns: bound.ceil() as i64,
        })
    }

    fn envelope(&self, origin: &Origin, t: f64) -> (f64, f64) {
        let rate = self.assumptions.rate();
        let mut envelope = (f64::NEG_INFINITY, f64::INFINITY);
        for one in &self.window {
            let (upper, lower) = (origin.upper(one), origin.lower(one));
            envelope.0 = envelope.0.max(lower.y - rate * (t - lower.t).abs());
            envelope.1 = envelope.1.min(upper.y + rate * (t - upper.t).abs());
        }
        envelope
    }
}
