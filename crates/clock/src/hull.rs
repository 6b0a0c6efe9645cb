//! The widest strip between two sets of points: no upper point below it, no lower point above it.
//!
//! With θ(t) = c + r t the constraints are `c + r t_i ≤ u_i` and `c + r t_j ≥ l_j`; the line with
//! the greatest margin is the middle of the widest strip. For a rate r the strip's width is
//!
//! ```text
//! w(r) = min_i (u_i − r t_i) − max_j (l_j − r t_j)
//! ```
//!
//! which is concave and piecewise linear in r, with corners at the slopes of the edges of two
//! convex hulls: the lower hull of the upper points, the upper hull of the lower points. So the
//! optimum is exact, and costs at most as much as the hulls. Sources: Moon, Skelly and Towsley,
//! "Estimation and removal of clock skew from network delay measurements", INFOCOM 1999 (linear
//! programme); Zhang, Liu and Xia, "Clock synchronization algorithms for network measurements",
//! INFOCOM 2002 (hulls).

use crate::probe::Point;

/// The lower convex hull of points in order of `t` (Andrew's monotone chain), O(n).
pub(crate) fn lower_hull(points: &[Point]) -> Vec<Point> {
    let mut hull: Vec<Point> = Vec::new();
    for &point in points {
        if hull.last().is_some_and(|last| last.t >= point.t) {
            if hull.last().is_some_and(|last| last.y <= point.y) {
                continue;
            }
            hull.pop();
        }
        while let [.., a, b] = hull[..] {
            if slope(a, b) < slope(b, point) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

fn slope(a: Point, b: Point) -> f64 {
    (b.y - a.y) / (b.t - a.t)
}

/// The hulls of both sides. The lower points are stored negated, so that one kind of hull serves
/// both.
pub(crate) struct Hulls {
    upper: Vec<Point>,
    lower_negated: Vec<Point>,
}

/// The offsets at t = 0 of all lines of one rate that satisfy every constraint: low ..= high. There
/// is no such line if low > high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Strip {
    pub low: f64,
    pub high: f64,
}

impl Strip {
    pub fn middle(&self) -> f64 {
        0.5 * (self.low + self.high)
    }

    /// Negative if the constraints contradict each other.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

impl Hulls {
    /// `upper` and `lower` are in order of `t` and not empty.
    pub fn new(upper: &[Point], lower: &[Point]) -> Self {
        let negated: Vec<Point> = lower.iter().map(|p| Point { t: p.t, y: -p.y }).collect();
        Self {
            upper: lower_hull(upper),
            lower_negated: lower_hull(&negated),
        }
    }

    /// The rate of the widest strip; the middle one if there are several. None if every steeper
    /// line has a wider strip, as with a single probe: then the constraints do not limit the rate.
    pub fn rate(&self) -> Option<f64> {
        let (above, below) = (&self.upper, &self.lower_negated);
        // As r rises, the touching vertex moves right on the upper side and left on the lower side,
        // and w changes by t_lower − t_upper. At the optimum they pass each other.
        let (mut up, mut down) = (0, below.len().checked_sub(1)?);
        let corner = |up: usize, down: usize| {
            let edge_above = above.get(up + 1).map(|next| slope(above[up], *next));
            let edge_below = (down > 0).then(|| -slope(below[down - 1], below[down]));
            match (edge_above, edge_below) {
                (Some(next), Some(other)) if other < next => Some((other, false)),
                (Some(next), _) => Some((next, true)),
                (None, other) => other.map(|other| (other, false)),
            }
        };
        if below[down].t <= above[up].t {
            return None;
        }
        while let Some((rate, is_above)) = corner(up, down) {
            if is_above {
                up += 1;
            } else {
                down -= 1;
            }
            let rising = below[down].t - above[up].t;
            if rising < 0.0 {
                return Some(rate);
            }
            if rising == 0.0 {
                let end = corner(up, down).map_or(rate, |(end, _)| end);
                return Some(0.5 * (rate + end));
            }
        }
        None
    }

    /// The strip of one rate.
    pub fn strip(&self, rate: f64) -> Strip {
        let least = |points: &[Point], rate: f64| {
            let offsets = points.iter().map(|p| p.y - rate * p.t);
            offsets.fold(f64::INFINITY, f64::min)
        };
        Strip {
            high: least(&self.upper, rate),
            low: -least(&self.lower_negated, -rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    fn unit(rng: &mut Pcg64) -> f64 {
        (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn points(coordinates: &[(f64, f64)]) -> Vec<Point> {
        coordinates.iter().map(|&(t, y)| Point { t, y }).collect()
    }

    /// The greatest w(r) over the slopes of all pairs of points: the optimum of a linear programme
    /// is at a vertex, and here every vertex is such a slope.
    fn brute_force(upper: &[Point], lower: &[Point]) -> f64 {
        let width = |r: f64| {
            let high = upper.iter().map(|p| p.y - r * p.t).fold(f64::INFINITY, f64::min);
            let low = lower
                .iter()
                .map(|p| p.y - r * p.t)
                .fold(f64::NEG_INFINITY, f64::max);
            high - low
        };
        let mut best = f64::NEG_INFINITY;
        for side in [upper, lower] {
            for (k, a) in side.iter().enumerate() {
                for b in &side[k + 1..] {
                    if a.t < b.t {
                        best = best.max(width(slope(*a, *b)));
                    }
                }
            }
        }
        best
    }

    #[test]
    fn the_widest_strip_equals_that_of_a_brute_force_search() {
        let mut rng = Pcg64::seed_from_u64(11);
        for case in 0..2_000 {
            let n = 2 + case % 30;
            let (mut upper, mut lower) = (Vec::new(), Vec::new());
            let mut t = 0.0;
            for _ in 0..n {
                t += 1.0 + unit(&mut rng);
                let line = 3.0 + 0.7 * t;
                let back = 0.9 * unit(&mut rng);
                // Every third case has constraints that no line can satisfy.
                let noise = |rng: &mut Pcg64| 5.0 * unit(rng).powi(3) - if case % 3 == 0 { 1.0 } else { 0.0 };
                upper.push(Point {
                    t,
                    y: line + noise(&mut rng),
                });
                lower.push(Point {
                    t: t + back,
                    y: line + 0.7 * back - noise(&mut rng),
                });
            }
            let hulls = Hulls::new(&upper, &lower);
            let rate = hulls.rate().expect("probes one after the other fix the rate");
            let (ours, expected) = (hulls.strip(rate).width(), brute_force(&upper, &lower));
            assert!((ours - expected).abs() < 1e-9, "case {case}: {ours} {expected}");
        }
    }

    #[test]
    fn the_line_satisfies_all_constraints() {
        let upper = points(&[(0.0, 2.0), (1.0, 1.0), (2.0, 3.0), (3.0, 2.5)]);
        let lower = points(&[(0.5, -1.0), (1.5, 0.0), (2.5, -2.0), (3.5, 1.0)]);
        let hulls = Hulls::new(&upper, &lower);
        let rate = hulls.rate().unwrap();
        let strip = hulls.strip(rate);
        for p in &upper {
            assert!(strip.middle() + rate * p.t + 0.5 * strip.width() <= p.y + 1e-12);
        }
        for p in &lower {
            assert!(strip.middle() + rate * p.t - 0.5 * strip.width() >= p.y - 1e-12);
        }
    }

    #[test]
    fn constraints_that_do_not_limit_the_rate_return_none() {
        let single = Hulls::new(&points(&[(0.0, 1.0)]), &points(&[(0.1, 0.0)]));
        assert_eq!(single.rate(), None);
        let overlapping = Hulls::new(
            &points(&[(0.0, 1.0), (1.0, 1.0)]),
            &points(&[(2.0, 0.0), (3.0, 0.0)]),
        );
        assert_eq!(overlapping.rate(), None);
    }

    #[test]
    fn of_points_at_one_time_the_tightest_is_used() {
        let hull = lower_hull(&points(&[
            (0.0, 3.0),
            (0.0, 1.0),
            (0.0, 2.0),
            (1.0, 5.0),
            (1.0, 4.0),
        ]));
        assert_eq!(hull, points(&[(0.0, 1.0), (1.0, 4.0)]));
    }
}
