//! Times across which constraints are not valid: jumps of the agent's clock, and changes of the
//! route.
//!
//! **Contradictions.** θ cannot leave the cones of the earlier probes, so a constraint outside them
//! proves a jump. This finds every jump that is greater than the round trip, at its first probe.
//!
//! **Shifts.** A smaller jump contradicts no constraint, but extends the cones of one side to times
//! at which they are false. So for every time between two probes, the last probes before it and the
//! first after it are compared in two ways. The first is a line through both with a step between
//! them, by weighted least squares with the weight 1/(excess/2 + ε)²: half of the delay of a probe
//! beyond the minimum is its maximum error. The second is the minimum delay of both sides. A step
//! of the middle without a similar step of the delay is a jump. A step of the delay alone, or of
//! both, is another route. The distinction only serves the estimate. The bound does not depend on
//! it: at both, no constraint is used across the change.
//!
//! A jump that is smaller than the noise of the delays is not found. It moves the truth out of the
//! bound only if it is also greater than the minimum one-way delay.

use crate::estimate::Begin;
use crate::probe::{Origin, Point, Sample, Via, median};
use crate::regress::weighted;

/// Number of probes that are compared, before and after a change. A side with fewer than
/// `MIN_SAMPLES` decides nothing.
pub(crate) const BEFORE: usize = 12;
pub(crate) const AFTER: usize = 8;
const MIN_SAMPLES: usize = 3;
/// Minimum step of the middle that is considered, ns: the scheduling of two busy hosts moves it by
/// this much.
const MIN_JUMP_NS: f64 = 20_000.0;
/// Minimum step of the delay that is considered, ns.
const MIN_DETOUR_NS: f64 = 50_000.0;
/// Minimum noise, ns: the granularity of stamps, and the delay between a stamp and the wire.
const MIN_NOISE_NS: f64 = 1_000.0;
/// The distance of a probe from the line is at most half its excess. With one change, Σ w r² is
/// therefore below the number of probes, except for the error of the line itself.
const MAX_MISFIT: f64 = 4.0;
/// One over the variance of an unknown rate (100 ppm, the tolerance of quartz as sold), in
/// (ns/s)^-2.
pub(crate) const RATE_PRIOR: f64 = 1e-10;

/// A change between two times of the agent, ns since the origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cut {
    pub from: f64,
    pub to: f64,
    pub begin: Begin,
}

/// All jumps that the constraints prove, in order. `upper` and `lower` are in order of `t`; O(n).
pub(crate) fn contradictions(upper: &[Point], lower: &[Point], rate: f64) -> Vec<Cut> {
    let above = upper.iter().map(|point| (*point, true));
    let mut events: Vec<(Point, bool)> = above.chain(lower.iter().map(|point| (*point, false))).collect();
    events.sort_by(|a, b| a.0.t.total_cmp(&b.0.t));
    let mut cuts = Vec::new();
    let (mut start, mut now, mut low, mut high) = (0, 0.0, f64::NEG_INFINITY, f64::INFINITY);
    for (k, &(point, is_upper)) in events.iter().enumerate() {
        low -= rate * (point.t - now);
        high += rate * (point.t - now);
        now = point.t;
        let contradicted = if is_upper { point.y < low } else { point.y > high };
        if contradicted {
            // The nearest constraint that contradicts this one: the jump is between the two.
            let apart = |i: &usize| match events[*i] {
                (other, true) if !is_upper => is_contradiction(other, point, rate),
                (other, false) if is_upper => is_contradiction(point, other, rate),
                _ => false,
            };
            let nearest = (start..k).rev().find(apart).unwrap_or(k.saturating_sub(1));
            cuts.push(Cut {
                from: events[nearest].0.t,
                to: point.t,
                begin: Begin::Jump,
            });
            (start, low, high) = (k, f64::NEG_INFINITY, f64::INFINITY);
        }
        if is_upper {
            high = high.min(point.y);
        } else {
            low = low.max(point.y);
        }
    }
    cuts
}

/// Whether no θ satisfies both constraints.
pub(crate) fn is_contradiction(upper: Point, lower: Point, rate: f64) -> bool {
    lower.y - upper.y > rate * (lower.t - upper.t).abs()
}

/// The values of a probe that a comparison uses, ns since the origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub sent: f64,
    pub received: f64,
    /// Middle of the two constraints.
    pub middle: f64,
    pub delay: f64,
}

impl Exchange {
    pub fn of(sample: &Sample, origin: &Origin) -> Self {
        let (upper, lower) = (origin.upper(sample), origin.lower(sample));
        Self {
            sent: upper.t,
            received: lower.t,
            middle: 0.5 * (upper.y + lower.y),
            delay: sample.delay(),
        }
    }

    fn time_s(&self, zero: f64) -> f64 {
        (0.5 * (self.sent + self.received) - zero) * 1e-9
    }
}

/// A difference between the probes before a time and those after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub begin: Begin,
    /// Size of the difference / the size that noise explains.
    strength: f64,
    /// θ before = line[0] + line[1] x, after + line[2]; ns, with x in s since `zero`.
    line: [f64; 3],
    zero: f64,
    /// Minimum delay before and after, ns.
    least: [f64; 2],
    /// Median of the delays − the minimum of their side, ns.
    noise: f64,
    /// Whether one step explains all probes of both sides.
    alone: bool,
}

/// Compares the two sides. None if noise explains the difference.
pub(crate) fn shift(before: &[Exchange], after: &[Exchange]) -> Option<Shift> {
    compare(before, after).filter(|shift| shift.strength > 1.0)
}

/// None if a side has too few probes.
fn compare(before: &[Exchange], after: &[Exchange]) -> Option<Shift> {
    if before.len() < MIN_SAMPLES || after.len() < MIN_SAMPLES {
        return None;
    }
    let least = [before, after].map(least_witnessed);
    let both = || {
        let sides = before
            .iter()
            .map(|exchange| (exchange, 0))
            .chain(after.iter().map(|exchange| (exchange, 1)));
        sides.filter(|(exchange, side)| exchange.delay >= least[*side])
    };
    let mut excess: Vec<f64> = both()
        .map(|(exchange, side)| exchange.delay - least[side])
        .collect();
    let noise = median(&mut excess);
    let zero = after[0].sent;
    let floor = 0.25 * noise + 100.0;
    let observations = both().map(|(exchange, side)| {
        let weight = (0.5 * (exchange.delay - least[side]) + floor).powi(-2);
        ([1.0, exchange.time_s(zero), side as f64], exchange.middle, weight)
    });
    // 100 ppm is 1e5 ns per second.
    let fit = weighted(observations.clone(), [0.0, RATE_PRIOR, 0.0])?;
    let chi_squared: f64 = observations
        .map(|(x, y, w)| w * (y - x.iter().zip(&fit.value).map(|(x, b)| x * b).sum::<f64>()).powi(2))
        .sum();
    let misfit = chi_squared / (excess.len() - 3) as f64;

    let (step, detour) = (fit.value[2].abs(), (least[1] - least[0]).abs());
    let short = least[0].min(least[1]);
    let jump_from = (6.0 * (fit.variance[2] * misfit.max(1.0)).sqrt())
        .max(2.0 * noise)
        .max(0.05 * short);
    let detour_from = (6.0 * noise).max(0.2 * short).max(MIN_DETOUR_NS);
    let strength = (step / jump_from.max(MIN_JUMP_NS)).max(detour / detour_from);
    let begin = if detour <= 0.5 * step + noise {
        Begin::Jump
    } else {
        Begin::RouteChange
    };
    Some(Shift {
        begin,
        strength,
        line: fit.value,
        zero,
        least,
        noise,
        alone: misfit < MAX_MISFIT,
    })
}

/// The minimum delay of a side. If the agent's clock is set forward during a probe, that probe
/// seems shorter than any can be. A single minimum far below the next delay is therefore ignored.
fn least_witnessed(side: &[Exchange]) -> f64 {
    let mut delays: Vec<f64> = side.iter().map(|exchange| exchange.delay).collect();
    delays.sort_by(f64::total_cmp);
    let usual = delays[delays.len() / 2] - delays[1];
    let lone = delays[1] - delays[0] > (6.0 * usual).max(MIN_DETOUR_NS);
    delays[usize::from(lone)]
}

impl Shift {
    /// Whether a probe is so near to one side (0 before, 1 after) that it cannot belong to the
    /// other. After a change of the route its middle must fit as well: the route change may hide a
    /// jump.
    fn is_surely_on(&self, exchange: &Exchange, side: usize) -> bool {
        let change = match self.begin {
            Begin::RouteChange => (self.least[1] - self.least[0]).abs(),
            _ => self.line[2].abs(),
        };
        let near = (0.25 * change).min(2.0 * self.noise + MIN_NOISE_NS);
        let center = self.line[0] + self.line[1] * exchange.time_s(self.zero) + self.line[2] * side as f64;
        (exchange.middle - center).abs() < near && 0.5 * (exchange.delay - self.least[side]).abs() < near
    }

    /// Indices of the last probe that is certainly before the change and the first that is
    /// certainly after it. If there is more than one change, all probes are uncertain.
    pub fn between(&self, window: &[Exchange]) -> (usize, usize) {
        let last = window.len() - 1;
        if !self.alone {
            return (0, last);
        }
        let before = window
            .iter()
            .rposition(|exchange| self.is_surely_on(exchange, 0))
            .filter(|k| *k < last)
            .unwrap_or(0);
        let later = &window[before + 1..];
        let after = later.iter().position(|exchange| self.is_surely_on(exchange, 1));
        (before, after.map_or(last, |k| before + 1 + k))
    }
}

/// All shifts in probes that contradict nothing, in order of `sent`; O(n).
pub(crate) fn shifts(exchanges: &[Exchange]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut start = 0;
    while let Some((begin, before, after)) = first_shift(&exchanges[start..]) {
        let (before, after) = (start + before, start + after);
        // Windows across the cut hid other shifts next to it.
        cuts.extend(shifts(
            &exchanges[before.saturating_sub(BEFORE + AFTER).max(start)..=before],
        ));
        // Probes of a burst may overlap in time.
        let (a, b) = (exchanges[before].received, exchanges[after].sent);
        cuts.push(Cut {
            from: a.min(b),
            to: a.max(b),
            begin,
        });
        start = after;
    }
    cuts
}

/// The first shift, with the indices of the last probe before it and the first after it.
fn first_shift(exchanges: &[Exchange]) -> Option<(Begin, usize, usize)> {
    let at = |k: usize| {
        let window = (k.saturating_sub(BEFORE), (k + AFTER).min(exchanges.len()));
        shift(&exchanges[window.0..k], &exchanges[k..window.1]).map(|shift| (shift, window))
    };
    let end = exchanges.len().saturating_sub(MIN_SAMPLES);
    let first = (MIN_SAMPLES..=end).find(|k| at(*k).is_some())?;
    // The strength is greatest at the time of the change.
    let near = (first..=(first + AFTER).min(end)).map_while(at);
    let (shift, window) = near.max_by(|a, b| a.0.strength.total_cmp(&b.0.strength))?;
    let (before, after) = shift.between(&exchanges[window.0..window.1]);
    let (before, after) = (window.0 + before, window.0 + after);
    // Compare again without probes of one side among those of the other, so that a second change
    // right after the first is not missed.
    let window = (
        (before + 1).saturating_sub(BEFORE),
        (after + AFTER).min(exchanges.len()),
    );
    let (earlier_side, later_side) = (&exchanges[window.0..=before], &exchanges[after..window.1]);
    let second = compare(earlier_side, later_side).filter(|second| second.strength > 1.0 || !second.alone);
    let Some(second) = second else {
        return Some((shift.begin, before, after));
    };
    let (earlier, later) = second.between(&exchanges[window.0..window.1]);
    Some((
        second.begin,
        before.min(window.0 + earlier),
        after.max(window.0 + later),
    ))
}

/// All cuts of a run, in order. `samples` is in order of `sent`, `upper` and `lower` in order of
/// `t`.
pub(crate) fn find(
    samples: &[Sample],
    origin: &Origin,
    upper: &[Point],
    lower: &[Point],
    rate: f64,
) -> Vec<Cut> {
    let mut cuts = contradictions(upper, lower, rate);
    // UDP and the link have different delays. If they were compared with each other, every
    // alternation would be a change of the route.
    let udp = samples.iter().filter(|sample| sample.via == Via::Udp).count();
    let main = if 2 * udp >= samples.len() {
        Via::Udp
    } else {
        Via::Link
    };
    let exchanges = samples
        .iter()
        .filter(|sample| sample.via == main)
        .map(|sample| Exchange::of(sample, origin));
    let exchanges: Vec<Exchange> = exchanges.collect();
    let ends = cuts.iter().map(|cut| cut.from).chain([f64::INFINITY]);
    let starts = [f64::NEG_INFINITY]
        .into_iter()
        .chain(cuts.iter().map(|cut| cut.to));
    let mut all_shifts = Vec::new();
    for (start, end) in starts.zip(ends) {
        let inside = &exchanges[exchanges.partition_point(|exchange| exchange.sent < start)..];
        let inside = inside
            .iter()
            .take_while(|exchange| exchange.sent <= end)
            .filter(|exchange| exchange.received <= end);
        all_shifts.extend(shifts(&inside.copied().collect::<Vec<_>>()));
    }
    cuts.extend(all_shifts);
    cuts.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut known = f64::NEG_INFINITY;
    for cut in &mut cuts {
        cut.from = cut.from.max(known);
        cut.to = cut.to.max(cut.from);
        known = cut.to;
    }
    cuts
}
