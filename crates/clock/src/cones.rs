//! Constraints at times without a probe: each constraint of a probe, widened by ρ times the
//! distance in time.

use crate::probe::Point;

/// `y(t) = min_i (y_i + ρ |t − t_i|)`: the lower envelope of cones whose apexes are points.
pub(crate) struct Cones {
    apexes: Vec<Apex>,
    rate: f64,
}

#[derive(Clone, Copy)]
struct Apex {
    t: f64,
    /// Minimum at `t` of the cones of this point and those before it.
    from_left: f64,
    /// Minimum at `t` of the cones of this point and those after it.
    from_right: f64,
}

impl Cones {
    /// `points` in order of `t`; O(n). Each value grows by ρ per nanosecond of distance; the
    /// minimum of cones needs no more.
    fn new(points: impl Iterator<Item = Point>, rate: f64) -> Self {
        let mut apexes: Vec<Apex> = Vec::new();
        for Point { t, y } in points {
            let extended = apexes
                .last()
                .map_or(f64::INFINITY, |a| a.from_left + rate * (t - a.t));
            apexes.push(Apex {
                t,
                from_left: y.min(extended),
                from_right: y,
            });
        }
        for k in (1..apexes.len()).rev() {
            let extended = apexes[k].from_right + rate * (apexes[k].t - apexes[k - 1].t);
            apexes[k - 1].from_right = apexes[k - 1].from_right.min(extended);
        }
        Self { apexes, rate }
    }

    /// Infinite if there are no points.
    fn at(&self, t: f64) -> f64 {
        let next = self.apexes.partition_point(|apex| apex.t <= t);
        let left = next
            .checked_sub(1)
            .map(|k| self.apexes[k].from_left + self.rate * (t - self.apexes[k].t));
        let right = self
            .apexes
            .get(next)
            .map(|apex| apex.from_right + self.rate * (apex.t - t));
        left.unwrap_or(f64::INFINITY).min(right.unwrap_or(f64::INFINITY))
    }

    /// Every time at which the envelope may bend: the points, and the peaks at which the cones of
    /// two neighbours meet.
    fn bends(&self) -> impl Iterator<Item = f64> + '_ {
        let peaks = self.apexes.windows(2).map(|pair| {
            let lean = (pair[1].from_right - pair[0].from_left) / self.rate;
            (0.5 * (pair[0].t + pair[1].t + lean)).clamp(pair[0].t, pair[1].t)
        });
        self.apexes.iter().map(|apex| apex.t).chain(peaks)
    }
}

/// L(t) ≤ θ(t) ≤ U(t), from all constraints of a section without a jump.
pub(crate) struct Envelope {
    upper: Cones,
    /// Of the negated lower points.
    lower: Cones,
}

impl Envelope {
    /// `upper` and `lower` are in order of `t`; `rate` is ρ, above 0.
    pub fn new(upper: &[Point], lower: &[Point], rate: f64) -> Self {
        Self {
            upper: Cones::new(upper.iter().copied(), rate),
            lower: Cones::new(lower.iter().map(|p| Point { t: p.t, y: -p.y }), rate),
        }
    }

    /// U(t), the greatest θ that the constraints allow. Infinite without upper constraints.
    pub fn upper(&self, t: f64) -> f64 {
        self.upper.at(t)
    }

    /// L(t), the least θ that the constraints allow. −∞ without lower constraints.
    pub fn lower(&self, t: f64) -> f64 {
        -self.lower.at(t)
    }

    /// Every time at which U or L may bend, in order.
    pub fn bends(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.upper.bends().chain(self.lower.bends()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let ys = [5.0, 1.0, 40.0, 2.0, 2.0, 9.0, 0.5];
        let ts = [0.0, 1.0, 1.5, 7.0, 8.0, 8.0, 20.0];
        ts.into_iter().zip(ys).map(|(t, y)| Point { t, y }).collect()
    }

    #[test]
    fn the_envelope_is_the_least_of_all_cones() {
        let all = points();
        for rate in [0.1, 1.0, 3.0] {
            let envelope = Envelope::new(&all, &all, rate);
            for step in -50..300 {
                let t = f64::from(step) * 0.1;
                let least = all
                    .iter()
                    .map(|p| p.y + rate * (t - p.t).abs())
                    .fold(f64::INFINITY, f64::min);
                let greatest = all
                    .iter()
                    .map(|p| p.y - rate * (t - p.t).abs())
                    .fold(f64::NEG_INFINITY, f64::max);
                assert!((envelope.upper(t) - least).abs() < 1e-9, "{rate} {t}");
                assert!((envelope.lower(t) - greatest).abs() < 1e-9, "{rate} {t}");
            }
        }
    }

    #[test]
    fn no_peak_lies_between_bends() {
        let all = points();
        let envelope = Envelope::new(&all, &all, 0.7);
        for pair in envelope.bends().windows(2) {
            let ends = envelope.upper(pair[0]).max(envelope.upper(pair[1]));
            for k in 1..10 {
                let t = pair[0] + (pair[1] - pair[0]) * f64::from(k) * 0.1;
                assert!(envelope.upper(t) <= ends + 1e-9);
            }
        }
    }

    #[test]
    fn without_constraints_the_envelope_is_infinite() {
        let envelope = Envelope::new(&[], &[], 1.0);
        assert_eq!(
            (envelope.lower(0.0), envelope.upper(0.0)),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
    }
}
