//! Where one line of constraints must not be carried on: jumps of the agent's clock, and changes of
//! the route.
//!
//! **Contradictions.** θ cannot leave the cones of the probes before, so a constraint that does
//! proves a jump. This finds every jump that is greater than the round trip, with its first probe.
//!
//! **Shifts.** A smaller jump contradicts nothing, yet carries the cones of one side to where they
//! are false. So the last probes before and the first after every place are compared: a line
//! through both with a step between them, by weighted least squares (weight 1/(excess/2 + ε)²: half
//! of what a probe was delayed beyond the least is the most it can be off), and the least delay of
//! both sides. A step of the middle without a like one of the delay is a jump; the delays alone, or
//! both, are another route. The two are told apart for the estimate's sake only. The bound never
//! trusts the answer: at both, no constraint is carried across.
//!
//! What is not found: a jump that drowns in the noise of the delays. It takes the truth out of the
//! bound only if it is greater than the least one-way delay too.

use crate::estimate::Begin;
use crate::probe::{Origin, Point, Sample, Via, median};
use crate::regress::weighted;

/// Probes that are compared, before and after; fewer than `MIN_SAMPLES` on a side decide nothing.
pub(crate) const BEFORE: usize = 12;
pub(crate) const AFTER: usize = 8;
const MIN_SAMPLES: usize = 3;
/// Smallest step of the middle that is looked at, ns: what the scheduling of two busy hosts moves
/// it by.
const MIN_JUMP_NS: f64 = 20_000.0;
/// Smallest step of the delay that is looked at, ns.
const MIN_DETOUR_NS: f64 = 50_000.0;
/// Noise below this is none, ns: the grain of stamps and of what stands between a stamp and the
/// wire.
const MIN_NOISE_NS: f64 = 1_000.0;
/// No probe is further from the line than half its excess, so that with one change Σ w r² is below
/// the number of probes, but for what the line itself is off.
const MAX_MISFIT: f64 = 4.0;
/// One over the variance of a rate that nothing is known of (100 ppm, what quartz is sold for), in
/// (ns/s)^-2.
pub(crate) const RATE_PRIOR: f64 = 1e-10;

/// Something changed between two times of the agent, ns since the origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cut {
    pub from: f64,
    pub to: f64,
    pub begin: Begin,
}

/// All jumps that the constraints prove, in order. `upper` and `lower` in order of `t`; O(n).
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
            // The nearest of those that cannot be true together with this one: the jump is between
            // the two.
            let apart = |i: &usize| match events[*i] {
                (other, true) if !is_upper => excludes(other, point, rate),
                (other, false) if is_upper => excludes(point, other, rate),
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

/// Whether no θ keeps both of these constraints.
pub(crate) fn excludes(upper: Point, lower: Point, rate: f64) -> bool {
    lower.y - upper.y > rate * (lower.t - upper.t).abs()
}

/// What a comparison sees of a probe, ns since the origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub sent: f64,
    pub received: f64,
    /// Middle of its two constraints.
    pub middle: f64,
    pub delay: f64,
}

impl Look {
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

/// A difference between the probes before a place and those after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub begin: Begin,
    /// Size over what noise explains.
    strength: f64,
    /// θ before = line[0] + line[1] x, after + line[2]; ns, with x in s since `zero`.
    line: [f64; 3],
    zero: f64,
    /// Least delay before and after, ns.
    least: [f64; 2],
    /// Median excess of the delays over the least of their side, ns.
    noise: f64,
    /// Whether one step explains all that is seen.
    alone: bool,
}

/// Compares the two sides; None if noise explains the difference.
pub(crate) fn shift(before: &[Look], after: &[Look]) -> Option<Shift> {
    compare(before, after).filter(|shift| shift.strength > 1.0)
}

/// None if there are too few.
fn compare(before: &[Look], after: &[Look]) -> Option<Shift> {
    if before.len() < MIN_SAMPLES || after.len() < MIN_SAMPLES {
        return None;
    }
    let least = [before, after].map(least_witnessed);
    let both = || {
        let sides = before
            .iter()
            .map(|one| (one, 0))
            .chain(after.iter().map(|one| (one, 1)));
        sides.filter(|(one, side)| one.delay >= least[*side])
    };
    let mut excess: Vec<f64> = both().map(|(one, side)| one.delay - least[side]).collect();
    let noise = median(&mut excess);
    let zero = after[0].sent;
    let floor = 0.25 * noise + 100.0;
    let observations = both().map(|(one, side)| {
        let weight = (0.5 * (one.delay - least[side]) + floor).powi(-2);
        ([1.0, one.time_s(zero), side as f64], one.middle, weight)
    });
    // 100 ppm are 1e5 ns in a second.
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

/// The least delay of a side. A clock that is set forward while a probe is under way makes that one
/// look shorter than any can be: a lone least, far below the next, is passed over.
fn least_witnessed(side: &[Look]) -> f64 {
    let mut delays: Vec<f64> = side.iter().map(|one| one.delay).collect();
    delays.sort_by(f64::total_cmp);
    let usual = delays[delays.len() / 2] - delays[1];
    let lone = delays[1] - delays[0] > (6.0 * usual).max(MIN_DETOUR_NS);
    delays[usize::from(lone)]
}

impl Shift {
    /// Whether a probe lies so near to one side (0 before, 1 after) that it cannot belong to the
    /// other. Of a change of the route its middle has to fit as well: a jump may hide between the
    /// two.
    fn surely(&self, one: &Look, side: usize) -> bool {
        let change = match self.begin {
            Begin::RouteChange => (self.least[1] - self.least[0]).abs(),
            _ => self.line[2].abs(),
        };
        let near = (0.25 * change).min(2.0 * self.noise + MIN_NOISE_NS);
        let center = self.line[0] + self.line[1] * one.time_s(self.zero) + self.line[2] * side as f64;
        (one.middle - center).abs() < near && 0.5 * (one.delay - self.least[side]).abs() < near
    }

    /// Indices of the last probe that is surely before and the first that is surely after it. Where
    /// there is more than one change, nothing is sure.
    pub fn between(&self, window: &[Look]) -> (usize, usize) {
        let last = window.len() - 1;
        if !self.alone {
            return (0, last);
        }
        let before = window
            .iter()
            .rposition(|one| self.surely(one, 0))
            .filter(|k| *k < last)
            .unwrap_or(0);
        let rest = &window[before + 1..];
        let after = rest.iter().position(|one| self.surely(one, 1));
        (before, after.map_or(last, |k| before + 1 + k))
    }
}

/// All shifts in probes in order of `sent` that contradict nothing; O(n).
pub(crate) fn shifts(looks: &[Look]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut start = 0;
    while let Some((begin, before, after)) = first_shift(&looks[start..]) {
        let (before, after) = (start + before, start + after);
        // What reached across the cut hid others next to it.
        cuts.extend(shifts(
            &looks[before.saturating_sub(BEFORE + AFTER).max(start)..=before],
        ));
        // Answers of a burst may be under way together.
        let (a, b) = (looks[before].received, looks[after].sent);
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
fn first_shift(looks: &[Look]) -> Option<(Begin, usize, usize)> {
    let at = |k: usize| {
        let window = (k.saturating_sub(BEFORE), (k + AFTER).min(looks.len()));
        shift(&looks[window.0..k], &looks[k..window.1]).map(|shift| (shift, window))
    };
    let end = looks.len().saturating_sub(MIN_SAMPLES);
    let first = (MIN_SAMPLES..=end).find(|k| at(*k).is_some())?;
    // It is strongest where it happened.
    let near = (first..=(first + AFTER).min(end)).map_while(at);
    let (shift, window) = near.max_by(|a, b| a.0.strength.total_cmp(&b.0.strength))?;
    let (before, after) = shift.between(&looks[window.0..window.1]);
    let (before, after) = (window.0 + before, window.0 + after);
    // A second look, with nothing of one side among the other: what follows at once is not to be
    // missed.
    let window = (
        (before + 1).saturating_sub(BEFORE),
        (after + AFTER).min(looks.len()),
    );
    let (clean, rest) = (&looks[window.0..=before], &looks[after..window.1]);
    let second = compare(clean, rest).filter(|second| second.strength > 1.0 || !second.alone);
    let Some(second) = second else {
        return Some((shift.begin, before, after));
    };
    let (earlier, later) = second.between(&looks[window.0..window.1]);
    Some((
        second.begin,
        before.min(window.0 + earlier),
        after.max(window.0 + later),
    ))
}

/// All cuts of a run, in order. `samples` in order of `sent`, `upper` and `lower` theirs in order
/// of `t`.
pub(crate) fn find(
    samples: &[Sample],
    origin: &Origin,
    upper: &[Point],
    lower: &[Point],
    rate: f64,
) -> Vec<Cut> {
    let mut cuts = contradictions(upper, lower, rate);
    // The ways have delays of their own; comparing them would find a change of route at every turn.
    let udp = samples.iter().filter(|one| one.via == Via::Udp).count();
    let main = if 2 * udp >= samples.len() {
        Via::Udp
    } else {
        Via::Link
    };
    let looks = samples
        .iter()
        .filter(|one| one.via == main)
        .map(|one| Look::of(one, origin));
    let looks: Vec<Look> = looks.collect();
    let ends = cuts.iter().map(|cut| cut.from).chain([f64::INFINITY]);
    let starts = [f64::NEG_INFINITY]
        .into_iter()
        .chain(cuts.iter().map(|cut| cut.to));
    let mut found = Vec::new();
    for (start, end) in starts.zip(ends) {
        let inside = &looks[looks.partition_point(|one| one.sent < start)..];
        let inside = inside
            .iter()
            .take_while(|one| one.sent <= end)
            .filter(|one| one.received <= end);
        found.extend(shifts(&inside.copied().collect::<Vec<_>>()));
    }
    cuts.extend(found);
    cuts.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut known = f64::NEG_INFINITY;
    for cut in &mut cuts {
        cut.from = cut.from.max(known);
        cut.to = cut.to.max(cut.from);
        known = cut.to;
    }
    cuts
}
