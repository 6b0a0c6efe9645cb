//! A section of a run, between two cuts, and the level that sections share.
//!
//! A change of the route moves the middle of the constraints, not the clock. A line across it would
//! be tilted by half the new asymmetry over the length of the section. Therefore each section has
//! its own rate. For the level, every additional route is useful: delays only add, so all sections
//! of one clock are moved together, as one continuous shape, to the middle of the range that all
//! their constraints allow. The error of the level is then at most half the difference between the
//! minimum delay of one direction and that of the other, each over all routes. That is at most half
//! the asymmetry of the worst route, and usually that of the best.

use crate::change::Cut;
use crate::cones::Envelope;
use crate::estimate::Begin;
use crate::fit::{Shape, Sides, Terms, shape};
use crate::probe::{Origin, Point, Sample, median};

pub(crate) struct Section {
    pub begin: Begin,
    pub from: f64,
    pub to: f64,
    /// Constraints of the probes that are completely inside the section. A probe that began on one
    /// route and ended on the next has true constraints, which are part of the envelope, but they
    /// would tilt the shape.
    own: Constraints,
    /// Median − minimum of the delays of those probes, ns.
    noise: f64,
    pub envelope: Envelope,
    pub shape: Shape,
}

/// All constraints of a run, each side in order of `t`.
pub(crate) struct Constraints {
    pub upper: Vec<Point>,
    pub lower: Vec<Point>,
}

impl Constraints {
    pub fn new(samples: &[Sample], origin: &Origin) -> Self {
        let mut upper: Vec<Point> = samples.iter().map(|sample| origin.upper(sample)).collect();
        let mut lower: Vec<Point> = samples.iter().map(|sample| origin.lower(sample)).collect();
        upper.sort_by(|a, b| a.t.total_cmp(&b.t));
        lower.sort_by(|a, b| a.t.total_cmp(&b.t));
        Self { upper, lower }
    }
}

/// The sections of a run between its cuts, with shapes that have no common level yet. Times inside
/// a cut belong to neither side. An interval with constraints of one kind only has no bound and
/// becomes part of the cut.
pub(crate) fn divide(
    samples: &[Sample],
    origin: &Origin,
    all: &Constraints,
    cuts: &[Cut],
    rate: f64,
) -> Vec<Section> {
    let first = all.upper.first().map_or(0.0, |point| point.t);
    let last = all.lower.last().map_or(first, |point| point.t);
    let ends = cuts.iter().map(|cut| cut.from).chain([last]);
    let starts = cuts.iter().map(|cut| (cut.to, cut.begin));
    let mut sections: Vec<Section> = Vec::new();
    let mut begins = Begin::Start;
    for ((from, begin), to) in [(first, Begin::Start)].into_iter().chain(starts).zip(ends) {
        if begins != Begin::Jump {
            begins = begin;
        }
        if let Some(section) = Section::new(begins, (from, to), samples, origin, all, rate) {
            sections.push(section);
            begins = Begin::RouteChange;
        }
    }
    if let Some(first) = sections.first_mut() {
        first.begin = Begin::Start;
    }
    fit(&mut sections, rate);
    sections
}

/// Fits the longest section first: its rate is the prior of the others.
fn fit(sections: &mut [Section], limit: f64) {
    let mut order: Vec<&mut Section> = sections.iter_mut().collect();
    order.sort_by(|a, b| (b.to - b.from).total_cmp(&(a.to - a.from)));
    let mut prior = None;
    for section in order {
        let terms = Terms {
            noise: section.noise,
            limit,
            prior: prior.unwrap_or(0.0),
        };
        let sides = Sides {
            upper: &section.own.upper,
            lower: &section.own.lower,
        };
        section.shape = shape(sides, section.from, section.to, &terms);
        prior = prior.or(Some(0.5 * (section.shape.lead + section.shape.tail)));
    }
}

fn within(points: &[Point], (from, to): (f64, f64)) -> &[Point] {
    let start = points.partition_point(|point| point.t < from);
    let end = points.partition_point(|point| point.t <= to);
    &points[start..end.max(start)]
}

impl Section {
    /// The reason why this section begins, for the result. It is a jump only if no clock without a
    /// jump satisfies the constraints of this section and of the one before.
    pub fn begins(&self, before: Option<&Self>, rate: f64) -> Begin {
        let is_proved = |before: &Self| {
            let up = self.envelope.lower(self.from) - before.envelope.upper(before.to);
            let down = before.envelope.lower(before.to) - self.envelope.upper(self.from);
            up.max(down) > rate * (self.from - before.to)
        };
        if self.begin == Begin::Jump && !before.is_some_and(is_proved) {
            Begin::Shift
        } else {
            self.begin
        }
    }

    /// None if there are constraints of one kind only.
    fn new(
        begin: Begin,
        span: (f64, f64),
        samples: &[Sample],
        origin: &Origin,
        all: &Constraints,
        rate: f64,
    ) -> Option<Self> {
        let (upper, lower) = (within(&all.upper, span), within(&all.lower, span));
        if upper.is_empty() || lower.is_empty() {
            return None;
        }
        let start = samples.partition_point(|sample| origin.time(sample.sent) < span.0);
        let sent = samples[start..]
            .iter()
            .take_while(|sample| origin.time(sample.sent) <= span.1);
        let whole = sent
            .filter(|sample| origin.time(sample.received) <= span.1)
            .copied();
        let whole: Vec<Sample> = whole.collect();
        let mut delays: Vec<f64> = whole.iter().map(Sample::delay).collect();
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        let own = if whole.is_empty() {
            Constraints {
                upper: upper.to_vec(),
                lower: lower.to_vec(),
            }
        } else {
            Constraints::new(&whole, origin)
        };
        Some(Self {
            begin,
            from: span.0,
            to: span.1,
            own,
            noise: if whole.is_empty() {
                0.0
            } else {
                median(&mut delays) - least
            },
            envelope: Envelope::new(upper, lower, rate),
            shape: Shape {
                knots: Vec::new(),
                lead: 0.0,
                tail: 0.0,
            },
        })
    }

    /// The range of shifts of the shape that all constraints allow: low ..= high. Empty (low >
    /// high) if no shift satisfies all constraints.
    fn allowed_shifts(&self) -> (f64, f64) {
        let gap = |point: &Point| point.y - self.shape.at(point.t);
        let high = self.own.upper.iter().map(gap).fold(f64::INFINITY, f64::min);
        let low = self.own.lower.iter().map(gap).fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    }

    /// Moves each knot that the constraints exclude to the nearest allowed value.
    fn clip(&mut self) {
        for knot in &mut self.shape.knots {
            let (low, high) = (self.envelope.lower(knot.t), self.envelope.upper(knot.t));
            // Not `clamp`: rounding may leave the two some millionths of a nanosecond on the wrong
            // side of each other.
            knot.y = knot.y.max(low).min(high);
        }
    }
}

/// Sets all sections between two jumps to one continuous shape with one level. If the two sides of
/// a change of the route have no common level, the change was also a jump, and is changed to one.
pub(crate) fn level(sections: &mut [Section]) {
    let mut start = 0;
    while start < sections.len() {
        let (mut low, mut high) = sections[start].allowed_shifts();
        let mut end = start + 1;
        while end < sections.len() && sections[end].begin == Begin::RouteChange {
            let (before, after) = (&sections[end - 1], &sections[end]);
            let middle = 0.5 * (before.to + after.from);
            let by = before.shape.at(middle) - after.shape.at(middle);
            let allowed = after.allowed_shifts();
            let joined = (low.max(allowed.0 - by), high.min(allowed.1 - by));
            if joined.0 > joined.1 {
                sections[end].begin = Begin::Jump;
                break;
            }
            sections[end].shape.lift(by);
            (low, high) = joined;
            end += 1;
        }
        for section in &mut sections[start..end] {
            section.shape.lift(0.5 * (low + high));
            section.clip();
        }
        start = end;
    }
}
