//! After a run: all probes of an agent → the map of its clock.
//!
//! 1. Probes with impossible stamps are rejected and counted.
//! 2. The run is cut at jumps of the clock and at changes of the route (`change.rs`).
//! 3. Every section gets a shape: the middle of the widest strip between its upper and its lower
//!    constraints, piece by piece (`hull.rs`, `fit.rs`). Sections between two jumps share one level
//!    (`section.rs`).
//! 4. The bound comes from the envelope of all constraints (`cones.rs`), for any shape. Inside a
//!    cut it covers both sides: the clock is assumed to move from the one side to the other, and
//!    not beyond either.
//!
//! The drift of a piece is the mean of dθ/dt over it. Like the bound, its interval depends only on
//! the assumption about ρ. With θ in [L, U] at both ends, (θ(to) − θ(from)) / (to − from) is
//! between (L(to) − U(from)) / (to − from) and (U(to) − L(from)) / (to − from), and never beyond
//! ±ρ. The interval holds for any delays, so it is as wide as two round trips over the length of
//! the piece. The estimate itself is much more precise where the minimum delays are steady.

use serde::{Deserialize, Serialize};

use crate::change;
use crate::fit::Shape;
use crate::map::{ClockMap, Knot, Stretch};
use crate::probe::{Assumptions, Origin, Point, Probe, Sample};
use crate::section::{Constraints, Section, divide, level};

/// Length for which the map stores one bound, the greatest, ns. It is longer if the map would have
/// more than `MAX_STRETCHES` bounds.
const STRETCH: f64 = 10e9;
const MAX_STRETCHES: f64 = 20_000.0;

/// Reason why a piece begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// It is the first piece.
    Start,
    /// The rate changed slowly: a section is divided into pieces of constant rate.
    Knot,
    /// The minimum delay changed.
    RouteChange,
    /// The agent's clock jumped between the previous piece and this one, for example because the
    /// machine was suspended or migrated. No clock without a jump satisfies the constraints of
    /// both.
    Jump,
    /// Either the agent's clock jumped by less than the round trip, or the delay changed in one
    /// direction only. Probes cannot distinguish the two.
    Shift,
}

/// An interval with one drift.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Start, agent time, ns.
    pub from_ns: i64,
    /// End, agent time, ns; not before `from_ns`.
    pub to_ns: i64,
    /// Controller − agent at `from_ns`, ns.
    pub offset_ns: i64,
    /// Mean rate of the controller's clock relative to the agent's, minus 1, ppm: positive if the
    /// agent's clock is slow.
    pub drift_ppm: f64,
    /// Lower bound of the true mean rate, ppm.
    pub drift_low_ppm: f64,
    /// Upper bound of the true mean rate, ppm.
    pub drift_high_ppm: f64,
    /// Number of probes that were sent in this interval.
    pub probes: usize,
    /// Reason why this piece begins.
    pub begins: Begin,
}

/// The result of [`estimate`] for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockEstimate {
    /// Offset and bound at any time.
    pub map: ClockMap,
    /// In order of time, at least one.
    pub pieces: Vec<Piece>,
    /// Number of probes that were rejected because their stamps are impossible.
    pub rejected: usize,
}

/// Reason why there is no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// No probe was answered, or all probes had impossible stamps.
    #[error(
        "the clock of the agent cannot be mapped: none of {probes} probes is usable \
         (check that UDP or the link to the controller works, and that the monotonic clocks of both \
         hosts work)"
    )]
    NoProbes {
        /// Number of probes. All were rejected.
        probes: usize,
    },
    /// Each probe contradicts the next.
    #[error(
        "the clock of the agent cannot be mapped: its {probes} probes contradict each other throughout. \
         One of the two monotonic clocks is broken, or their rates differ by more than \
         {max_rate_error_ppm} ppm"
    )]
    Contradictory {
        /// Number of probes with possible stamps.
        probes: usize,
        /// The declared limit of the rate error, ppm, as text.
        max_rate_error_ppm: String,
    },
}

/// Maps the clock of the agent that made these probes, in any order; O(n log n).
///
/// Fails if no probe is usable, or if the probes contradict each other so that no section remains.
pub fn estimate(probes: &[Probe], assumptions: &Assumptions) -> Result<ClockEstimate, EstimateError> {
    let mut samples: Vec<Sample> = probes
        .iter()
        .filter_map(|probe| probe.sample(assumptions))
        .collect();
    samples.sort_by_key(|sample| sample.sent);
    let origin = Origin::of(
        samples
            .first()
            .ok_or(EstimateError::NoProbes { probes: probes.len() })?,
    );
    let rate = assumptions.rate();
    let all = Constraints::new(&samples, &origin);
    let cuts = change::find(&samples, &origin, &all.upper, &all.lower, rate);
    let mut sections = divide(&samples, &origin, &all, &cuts, rate);
    level(&mut sections);
    let line = RoundedLine::new(&sections);
    let contradictory = || EstimateError::Contradictory {
        probes: samples.len(),
        max_rate_error_ppm: (rate * 1e6).to_string(),
    };
    let line = line.ok_or_else(contradictory)?;
    let map = line.map(&sections, &origin, rate).ok_or_else(contradictory)?;
    Ok(ClockEstimate {
        map,
        pieces: pieces(&sections, &line, &samples, &origin, rate),
        rejected: probes.len() - samples.len(),
    })
}

/// The line as it is stored: whole nanoseconds, never backwards in controller time.
struct RoundedLine(Shape);

impl RoundedLine {
    fn new(sections: &[Section]) -> Option<Self> {
        let mut knots: Vec<Point> = Vec::new();
        for knot in sections.iter().flat_map(|section| &section.shape.knots) {
            let t = knot.t.round();
            let mut y = knot.y.round();
            if let Some(last) = knots.last() {
                if t <= last.t {
                    continue;
                }
                y = y.max(last.y - (t - last.t));
            }
            knots.push(Point { t, y });
        }
        Some(Self(Shape {
            knots,
            lead: sections.first()?.shape.lead,
            tail: sections.last()?.shape.tail,
        }))
    }

    fn map(&self, sections: &[Section], origin: &Origin, rate: f64) -> Option<ClockMap> {
        let knots = self.0.knots.iter().map(|knot| {
            let agent_ns = origin.agent + knot.t as i64;
            Knot {
                agent_ns,
                controller_ns: agent_ns + origin.offset + knot.y as i64,
            }
        });
        let mut stretches: Vec<Stretch> = Vec::new();
        for (from, bound) in self.bounds(sections) {
            let from_ns = origin.agent + from as i64;
            let bound_ns = bound.max(0.0).ceil() as i64;
            match stretches.last_mut().filter(|last| last.from_ns >= from_ns) {
                Some(last) => last.bound_ns = last.bound_ns.max(bound_ns),
                None => stretches.push(Stretch { from_ns, bound_ns }),
            }
        }
        ClockMap::new(knots.collect(), stretches, (self.0.lead, self.0.tail), rate)
    }

    /// Start and greatest error of each stretch, in order.
    fn bounds(&self, sections: &[Section]) -> Vec<(f64, f64)> {
        let span = sections[sections.len() - 1].to - sections[0].from;
        let length = STRETCH.max((span / MAX_STRETCHES).ceil());
        let mut bounds = Vec::new();
        for (k, section) in sections.iter().enumerate() {
            let knots = &self.0.knots[self.0.knots.partition_point(|knot| knot.t < section.from)..];
            let inside = knots.iter().map(|knot| knot.t).take_while(|t| *t <= section.to);
            let mut times = section.envelope.bends();
            times.extend(inside);
            times.sort_by(f64::total_cmp);
            let parts = ((section.to - section.from) / length).ceil().max(1.0);
            let edge = |part: f64| (section.from + part / parts * (section.to - section.from)).floor();
            for part in 0..parts as u32 {
                let (from, to) = (edge(f64::from(part)), edge(f64::from(part + 1)));
                let inside =
                    &times[times.partition_point(|t| *t < from)..times.partition_point(|t| *t <= to)];
                let checked = inside.iter().chain([&from, &to]);
                bounds.push((from, checked.map(|t| self.error(section, *t)).fold(0.0, f64::max)));
            }
            if let Some(next) = sections.get(k + 1) {
                // Both envelopes and the line are straight inside a cut, so the greatest error is
                // at one end.
                let ends = [section.to, next.from];
                let errors = ends
                    .iter()
                    .flat_map(|t| [self.error(section, *t), self.error(next, *t)]);
                bounds.push((section.to, errors.fold(0.0, f64::max)));
            }
        }
        bounds
    }

    /// Greatest distance from the line to the ends of the section's envelope.
    fn error(&self, section: &Section, t: f64) -> f64 {
        let line = self.0.at(t);
        (section.envelope.upper(t) - line).max(line - section.envelope.lower(t))
    }
}

fn pieces(
    sections: &[Section],
    line: &RoundedLine,
    samples: &[Sample],
    origin: &Origin,
    rate: f64,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let begins = section.begins(index.checked_sub(1).map(|before| &sections[before]), rate);
        let knots = &section.shape.knots;
        let spans = knots.iter().zip(
            knots
                .iter()
                .skip(1)
                .chain(knots.last().filter(|_| knots.len() == 1)),
        );
        let last = knots[knots.len() - 1].t;
        for (k, (a, b)) in spans.enumerate() {
            let (from, to) = (a.t, b.t);
            let sent = |sample: &Sample| origin.time(sample.sent);
            let first = samples.partition_point(|sample| sent(sample) < from);
            let after =
                samples.partition_point(|sample| sent(sample) < to || (to >= last && sent(sample) <= to));
            let length = to - from;
            let (low, high) = if length > 0.0 {
                let (start, end) = (&section.envelope, &section.envelope);
                let low = (end.lower(to) - start.upper(from) - 2.0) / length;
                (low, (end.upper(to) - start.lower(from) + 2.0) / length)
            } else {
                (-rate, rate)
            };
            let drift = if length > 0.0 {
                (line.0.at(to) - line.0.at(from)) / length
            } else {
                section.shape.lead
            };
            pieces.push(Piece {
                from_ns: origin.agent + from as i64,
                to_ns: origin.agent + to as i64,
                offset_ns: origin.offset + line.0.at(from).round() as i64,
                drift_ppm: drift * 1e6,
                drift_low_ppm: low.max(-rate) * 1e6,
                drift_high_ppm: high.min(rate) * 1e6,
                probes: after.saturating_sub(first),
                begins: if k == 0 { begins } else { Begin::Knot },
            });
        }
    }
    pieces
}
