//! The shape of the offset over one section: straight pieces, joined.
//!
//! One line fits while the rate is constant. The temperature of a host changes it within a quarter
//! of an hour. So a section is halved until no piece is longer than 20 minutes. It is halved
//! further while the widest strip of both halves is wider than that of the whole by more than noise
//! explains: then the offset is not straight.

use crate::hull::{Hulls, Strip};
use crate::probe::Point;

/// Maximum length of a piece, ns.
const MAX_PIECE_NS: f64 = 1200e9;
/// Minimum length of a piece that is separated because of a bend, ns.
const MIN_PIECE_NS: f64 = 60e9;
/// Minimum number of constraints of a piece on each side.
const MIN_CONSTRAINTS: usize = 16;
/// Minimum bend that is considered, ns.
const MIN_BEND: f64 = 1_000.0;
/// Expected error of a rate without evidence: the tolerance of quartz as sold.
const QUARTZ: f64 = 1e-4;

/// A polyline that is extended straight at both ends; (ns since the origin, ns).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    /// In order of `t`, not empty.
    pub knots: Vec<Point>,
    pub lead: f64,
    pub tail: f64,
}

impl Shape {
    pub fn at(&self, t: f64) -> f64 {
        let (first, last) = (self.knots[0], self.knots[self.knots.len() - 1]);
        if t <= first.t {
            return first.y + self.lead * (t - first.t);
        }
        if t >= last.t {
            return last.y + self.tail * (t - last.t);
        }
        let next = self.knots.partition_point(|knot| knot.t <= t);
        let (a, b) = (self.knots[next - 1], self.knots[next]);
        a.y + (t - a.t) / (b.t - a.t) * (b.y - a.y)
    }

    pub fn lift(&mut self, by: f64) {
        for knot in &mut self.knots {
            knot.y += by;
        }
    }
}

/// Constraints of one section, each side in order of `t` and not empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub upper: &'a [Point],
    pub lower: &'a [Point],
}

impl<'a> Sides<'a> {
    fn halved(self, at: f64) -> (Self, Self) {
        let split = |points: &'a [Point]| points.split_at(points.partition_point(|point| point.t < at));
        let (upper, lower) = (split(self.upper), split(self.lower));
        let side = |upper, lower| Self { upper, lower };
        (side(upper.0, lower.0), side(upper.1, lower.1))
    }

    fn has_enough(self) -> bool {
        self.upper.len().min(self.lower.len()) >= MIN_CONSTRAINTS
    }
}

/// Parameters of a fit in addition to the constraints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Median delay − minimum delay, ns.
    pub noise: f64,
    /// ρ, the maximum absolute value of a rate.
    pub limit: f64,
    /// The rate if the constraints do not determine one.
    pub prior: f64,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    from: f64,
    to: f64,
    rate: f64,
    strip: Strip,
}

impl Line {
    /// The middle of the widest strip. Its rate is moved towards the prior if the data leave it
    /// uncertain: the minimum delays of n probes are about noise/n above the true minimum, and both
    /// ends of the strip have that error.
    fn fit(sides: Sides, from: f64, to: f64, terms: &Terms) -> Self {
        let hulls = Hulls::new(sides.upper, sides.lower);
        let rate = hulls.rate().map_or(terms.prior, |rate| {
            let reach = sides.upper[sides.upper.len() - 1].t - sides.lower[0].t;
            let error = terms.noise / (sides.upper.len() as f64 * reach.max(1.0));
            let trust = 1.0 / (1.0 + (error / QUARTZ).powi(2));
            // w(r) is concave: the allowed rate nearest to the optimum is the best allowed rate.
            terms.prior + trust * (rate.clamp(-terms.limit, terms.limit) - terms.prior)
        });
        let strip = hulls.strip(rate);
        Self {
            from,
            to,
            rate,
            strip,
        }
    }

    fn at(&self, t: f64) -> f64 {
        self.strip.middle() + self.rate * t
    }
}

/// The shape from `from` to `to`. Its level is only that of this section.
pub(crate) fn shape(sides: Sides, from: f64, to: f64, terms: &Terms) -> Shape {
    let mut lines = Vec::new();
    halve(sides, Line::fit(sides, from, to, terms), terms, &mut lines);
    let (first, last) = (lines[0], lines[lines.len() - 1]);
    let mut knots = vec![Point {
        t: from,
        y: first.at(from),
    }];
    for pair in lines.windows(2) {
        let t = pair[1].from;
        // Neighbours differ by noise. Their mean makes the line continuous.
        knots.push(Point {
            t,
            y: 0.5 * (pair[0].at(t) + pair[1].at(t)),
        });
    }
    if to > from {
        knots.push(Point {
            t: to,
            y: last.at(to),
        });
    }
    Shape {
        knots,
        lead: first.rate,
        tail: last.rate,
    }
}

fn halve(sides: Sides, whole: Line, terms: &Terms, lines: &mut Vec<Line>) {
    let Some(halves) = halves(sides, &whole, terms) else {
        lines.push(whole);
        return;
    };
    let least = |parts: &[(Sides, Line)]| {
        let widths = parts.iter().map(|(_, line)| line.strip.width());
        widths.fold(f64::INFINITY, f64::min)
    };
    // An S curve has the same bend in each half as in the whole; its quarters are straight.
    let [early, late] = &halves;
    let quarters = [early, late].map(|(sides, line)| self::halves(*sides, line, terms));
    let finer = quarters
        .iter()
        .map(|two| two.map_or(f64::NEG_INFINITY, |two| least(&two)));
    let bend = least(&halves).max(finer.fold(f64::INFINITY, f64::min)) - whole.strip.width();
    let split = whole.to - whole.from >= 2.0 * MIN_PIECE_NS && bend > (0.25 * terms.noise).max(MIN_BEND);
    if split || whole.to - whole.from > MAX_PIECE_NS {
        for (sides, line) in halves {
            halve(sides, line, terms, lines);
        }
    } else {
        lines.push(whole);
    }
}

/// Both halves of a piece with their lines. None if one of them has too few constraints.
fn halves<'a>(sides: Sides<'a>, whole: &Line, terms: &Terms) -> Option<[(Sides<'a>, Line); 2]> {
    let middle = (0.5 * (whole.from + whole.to)).round();
    let (left, right) = sides.halved(middle);
    (left.has_enough() && right.has_enough()).then(|| {
        let line = |sides, from, to| (sides, Line::fit(sides, from, to, terms));
        [line(left, whole.from, middle), line(right, middle, whole.to)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact probes every second, 100 us each way, along `theta` (ns of s).
    fn probes(seconds: u32, theta: impl Fn(f64) -> f64) -> (Vec<Point>, Vec<Point>) {
        let point = |t: f64, by: f64| Point {
            t: t * 1e9,
            y: theta(t) + by,
        };
        let times = || (0..=seconds).map(f64::from);
        let upper = times().map(|t| point(t, 1e5)).collect();
        let lower = times().map(|t| point(t + 2e-4, -1e5)).collect();
        (upper, lower)
    }

    const TERMS: Terms = Terms {
        noise: 4_000.0,
        limit: 5e-4,
        prior: 0.0,
    };

    #[test]
    fn a_straight_section_is_one_piece_up_to_20_minutes() {
        for (minutes, knots) in [(10, 2), (20, 2), (25, 3), (70, 5)] {
            let (upper, lower) = probes(minutes * 60, |t| 25e3 * t);
            let sides = Sides {
                upper: &upper,
                lower: &lower,
            };
            let shape = shape(sides, 0.0, f64::from(minutes) * 60e9, &TERMS);
            assert_eq!(shape.knots.len(), knots, "{minutes} minutes");
            for t in 0..minutes * 60 {
                assert!((shape.at(f64::from(t) * 1e9) - 25e3 * f64::from(t)).abs() < 10.0);
            }
        }
    }

    #[test]
    fn the_shape_follows_a_bend() {
        // The rate moves from 0 to 2 ppm in 20 minutes: 300 us off the straight line at most.
        let theta = |t: f64| 2e3 / 1200.0 * t * t / 2.0;
        let (upper, lower) = probes(1200, theta);
        let sides = Sides {
            upper: &upper,
            lower: &lower,
        };
        let shape = shape(sides, 0.0, 1200e9, &TERMS);
        assert!(shape.knots.len() > 4, "{shape:?}");
        for t in 0..=1200 {
            let error = shape.at(f64::from(t) * 1e9) - theta(f64::from(t));
            assert!(error.abs() < 6e3, "{t} s: {error} ns");
        }
    }

    #[test]
    fn the_shape_of_one_probe_has_the_rate_of_the_prior() {
        let (upper, lower) = probes(0, |_| 7e3);
        let sides = Sides {
            upper: &upper,
            lower: &lower,
        };
        let prior = Terms { prior: 3e-5, ..TERMS };
        let shape = shape(sides, 0.0, 2e5, &prior);
        assert!((shape.at(1e5) - 7e3).abs() < 1.0);
        assert!((shape.tail - 3e-5).abs() < 1e-15);
    }
}
