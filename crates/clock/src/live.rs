//! The current time and the near future during a run, from the last probes.
//!
//! Offset and rate by weighted least squares over a window. The error of a probe that was delayed
//! by more than the minimum of its window is at most half the excess, so its weight is
//! 1/(excess/2 + ε)². Observations further than three of their own errors from the line have less
//! weight (Huber, *Robust Statistics*, 1981). The rate has a prior of 100 ppm, so that the burst at
//! the start does not produce an extreme rate. A change of the route or a jump of the clock empties
//! the window, and resets the minimum delay. The bound is that of [`crate::estimate`]: the cones of
//! the probes in the window.

use std::collections::VecDeque;

use crate::change::{AFTER, BEFORE, Exchange, RATE_PRIOR, is_contradiction, shift};
use crate::estimate::Begin;
use crate::map::{AgentTime, ControllerTime};
use crate::probe::{Assumptions, Origin, Probe, Sample, median};
use crate::regress::weighted;

/// Maximum number of probes of the window: two minutes at one per second, in which the rate of a
/// clock changes little.
const WINDOW: usize = 128;
/// Error by rounding of the results, ns.
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

/// The result of adding a probe to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushResult {
    /// The probe is in the window.
    Kept,
    /// The stamps of the probe are impossible. It is counted and dropped.
    Rejected,
    /// The probe is in the window. It shows that the clock jumped or the route changed before it;
    /// older probes are dropped.
    Changed(Begin),
}

impl Live {
    /// An empty window: every time is unknown.
    pub fn new(assumptions: Assumptions) -> Self {
        Self {
            assumptions,
            window: VecDeque::with_capacity(WINDOW),
            line: None,
            rejected: 0,
        }
    }

    /// Changes the assumptions for later results. The probes of the window are kept.
    pub fn assume(&mut self, assumptions: Assumptions) {
        self.assumptions = assumptions;
        self.line = self.fit();
    }

    /// Number of probes rejected so far.
    pub fn rejected(&self) -> usize {
        self.rejected
    }

    /// Number of probes in the window, at most 128.
    pub fn probes(&self) -> usize {
        self.window.len()
    }

    /// Minimum round trip in the window, ns. None without probes.
    pub fn least_round_trip_ns(&self) -> Option<i64> {
        let physical = self.assumptions.physical_min_rtt_ns;
        let delays = self.window.iter().map(|sample| sample.upper - sample.lower);
        delays.min().map(|least| least.saturating_add(physical))
    }

    /// Rate of the controller's clock relative to the agent's, minus 1, ppm. None without probes.
    pub fn drift_ppm(&self) -> Option<f64> {
        self.line.map(|line| line.rate * 1e6)
    }

    /// Adds a probe to the window. Probes must be added in the order in which their answers
    /// arrived.
    pub fn push(&mut self, probe: &Probe) -> PushResult {
        let Some(sample) = probe.sample(&self.assumptions) else {
            self.rejected += 1;
            return PushResult::Rejected;
        };
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(sample);
        let changed = self.find_change();
        if let Some((_, after)) = changed {
            self.window.retain(|sample| sample.sent >= after);
        }
        self.line = self.fit();
        changed.map_or(PushResult::Kept, |(begin, _)| PushResult::Changed(begin))
    }

    /// The change that the newest probe shows, and the time at which the first probe certainly
    /// after it was sent.
    fn find_change(&self) -> Option<(Begin, i64)> {
        let newest = self.window.back()?;
        let origin = Origin::of(newest);
        let rate = self.assumptions.rate();
        let contradicts = |sample: &Sample| {
            is_contradiction(origin.upper(newest), origin.lower(sample), rate)
                || is_contradiction(origin.upper(sample), origin.lower(newest), rate)
        };
        if self.window.iter().any(contradicts) {
            return Some((Begin::Jump, newest.sent));
        }
        let recent = self
            .window
            .iter()
            .skip(self.window.len().saturating_sub(BEFORE + AFTER));
        let recent: Vec<&Sample> = recent.filter(|sample| sample.via == newest.via).collect();
        let exchanges: Vec<Exchange> = recent
            .iter()
            .map(|sample| Exchange::of(sample, &origin))
            .collect();
        let (before, after) = exchanges.split_at(exchanges.len().checked_sub(AFTER)?);
        shift(before, after).map(|shift| (shift.begin, recent[shift.between(&exchanges).1].sent))
    }

    fn fit(&self) -> Option<Line> {
        let origin = Origin::of(self.window.back()?);
        let exchanges: Vec<Exchange> = self
            .window
            .iter()
            .map(|sample| Exchange::of(sample, &origin))
            .collect();
        let least = exchanges
            .iter()
            .map(|exchange| exchange.delay)
            .fold(f64::INFINITY, f64::min);
        let noise = median(
            &mut exchanges
                .iter()
                .map(|exchange| exchange.delay - least)
                .collect::<Vec<_>>(),
        );
        let floor = 0.05 * noise + 100.0;
        let error = |exchange: &Exchange| 0.5 * (exchange.delay - least) + floor;
        let mut line = None;
        for _ in 0..3 {
            let observations = exchanges.iter().map(|exchange| {
                let x = 0.5e-9 * (exchange.sent + exchange.received);
                let off = line.map_or(0.0, |[a, b]: [f64; 2]| {
                    (exchange.middle - a - b * x).abs() / error(exchange)
                });
                (
                    [1.0, x],
                    exchange.middle,
                    error(exchange).powi(-2) * (3.0 / off.max(3.0)),
                )
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

    /// The controller's clock when the agent's clock shows `agent_ns`, now or in the near future.
    /// Outside the window the bound grows by ρ per unit of distance. None without probes. A jump
    /// smaller than a round trip is detected eight probes after it; until then the bound does not
    /// hold.
    pub fn at(&self, agent_ns: i64) -> Option<ControllerTime> {
        let line = self.line?;
        let t = line.origin.time(agent_ns);
        let (low, high) = self.envelope(&line.origin, t);
        let offset = (line.offset + line.rate * t).max(low).min(high);
        let bound = (high - offset).max(offset - low) + ROUNDING_NS;
        Some(ControllerTime {
            controller_ns: agent_ns
                .saturating_add(line.origin.offset)
                .saturating_add(offset.round() as i64),
            bound_ns: bound.ceil() as i64,
        })
    }

    /// The agent's clock when the controller's clock shows `controller_ns`, now or in the near
    /// future. None without probes.
    pub fn inverse(&self, controller_ns: i64) -> Option<AgentTime> {
        let line = self.line?;
        let mut agent_ns = controller_ns.saturating_sub(line.origin.offset);
        // Each step leaves a fraction ρ of the error of the step before.
        for _ in 0..8 {
            let ahead = self.at(agent_ns)?.controller_ns.saturating_sub(controller_ns);
            agent_ns = agent_ns.saturating_sub(ahead);
        }
        let forward = self.at(agent_ns)?;
        let residual = forward.controller_ns.abs_diff(controller_ns) as f64;
        let bound = (forward.bound_ns as f64 + residual) / (1.0 - self.assumptions.rate());
        Some(AgentTime {
            agent_ns,
            bound_ns: bound.ceil() as i64,
        })
    }

    fn envelope(&self, origin: &Origin, t: f64) -> (f64, f64) {
        let rate = self.assumptions.rate();
        let mut envelope = (f64::NEG_INFINITY, f64::INFINITY);
        for sample in &self.window {
            let (upper, lower) = (origin.upper(sample), origin.lower(sample));
            envelope.0 = envelope.0.max(lower.y - rate * (t - lower.t).abs());
            envelope.1 = envelope.1.min(upper.y + rate * (t - upper.t).abs());
        }
        envelope
    }
}
