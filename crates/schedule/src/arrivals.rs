//! The arrival process of an open load: one sequence for all agents. Each agent takes its part
//! of it.

use std::sync::Arc;

use plimsoll_model::{Arrivals as Law, LoadSpec};
use rand_distr::{Distribution, Exp1};

use crate::random::{Rng, Stream, rng};

/// One planned start of an open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Number in the sequence of all agents, from 0.
    pub index: u64,
    /// Time of the planned start, ns since the start of the run.
    pub at_ns: u64,
    /// Index of its stage; 0 for a load without stages.
    pub stage: u16,
}

/// Arrivals per second as a function of time: pieces in order of time, each constant or linear,
/// with gaps at closed stages. For a recording: the times themselves, where the integral of the
/// rate reaches `k` at time `k`.
#[derive(Debug, Clone, PartialEq)]
pub struct RateCurve {
    pieces: Vec<Piece>,
    recorded: Option<Arc<[u64]>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    from_ns: u64,
    /// Length, s; infinite for a load without stages.
    length_s: f64,
    /// Per second.
    rate: (f64, f64),
    stage: u16,
    /// Integral of the rate before this piece.
    before: f64,
}

impl Piece {
    /// Integral of the rate over the piece.
    fn area(&self) -> f64 {
        if self.rate == (0.0, 0.0) {
            0.0
        } else {
            0.5 * (self.rate.0 + self.rate.1) * self.length_s
        }
    }

    /// Time (s) from its start at which its integral reaches `area`, which is less than
    /// [`Self::area`].
    fn reach(&self, area: f64) -> f64 {
        let (a, b) = self.rate;
        // A piece without an end has a constant rate, so that the term of the slope is 0.
        if self.length_s.is_infinite() {
            return area / a;
        }
        // Root of a t + (b - a) t^2 / (2 T) = area, in the form that loses no digits for small
        // areas.
        let root = (a * a + 2.0 * (b - a) * area / self.length_s).max(0.0).sqrt();
        if area == 0.0 { 0.0 } else { 2.0 * area / (a + root) }
    }
}

/// Tolerance for rounding errors: 0.1/s for 30 s must be exactly 3 arrivals.
fn slack(area: f64) -> f64 {
    1e-9 * area.max(1.0)
}

impl RateCurve {
    /// The curve of a load; none if no part of the load is open.
    pub fn of(load: &LoadSpec) -> Option<Self> {
        let pieces = match load {
            LoadSpec::Recorded { at_ns, .. } => {
                return Some(Self {
                    pieces: Vec::new(),
                    recorded: Some(at_ns.as_slice().into()),
                });
            }
            LoadSpec::Open { rate, .. } => {
                vec![Piece {
                    from_ns: 0,
                    length_s: f64::INFINITY,
                    rate: (*rate, *rate),
                    stage: 0,
                    before: 0.0,
                }]
            }
            LoadSpec::Stages { stages, .. } => {
                let mut from_ns = 0;
                let mut before = 0.0;
                let mut pieces = Vec::new();
                for (stage, spec) in (0..).zip(stages) {
                    if let Some(rate) = spec.rate {
                        let length_s = spec.for_ns as f64 * 1e-9;
                        let piece = Piece {
                            from_ns,
                            length_s,
                            rate,
                            stage,
                            before,
                        };
                        before += piece.area();
                        pieces.push(piece);
                    }
                    from_ns += spec.for_ns;
                }
                pieces
            }
            LoadSpec::Closed { .. } | LoadSpec::Every { .. } | LoadSpec::Ramp { .. } => return None,
        };
        (!pieces.is_empty()).then_some(Self {
            pieces,
            recorded: None,
        })
    }

    /// Integral of the rate over the whole load; infinite for a load without stages.
    pub fn total(&self) -> f64 {
        if let Some(recorded) = &self.recorded {
            return recorded.len() as f64;
        }
        self.pieces
            .last()
            .map_or(0.0, |piece| piece.before + piece.area())
    }

    /// Whether the load is open at `t_ns`. A recording ends at its last time.
    pub fn covers(&self, t_ns: u64) -> bool {
        if let Some(recorded) = &self.recorded {
            return recorded.last().is_some_and(|&last| t_ns <= last);
        }
        self.pieces
            .iter()
            .any(|piece| t_ns >= piece.from_ns && ((t_ns - piece.from_ns) as f64) < piece.length_s * 1e9)
    }

    /// Time (ns) and stage at which the integral reaches `area`; none if it does not.
    fn reach(&self, area: f64) -> Option<(u64, u16)> {
        if let Some(recorded) = &self.recorded {
            return recorded.get(area as usize).map(|&at_ns| (at_ns, 0));
        }
        let piece = self
            .pieces
            .iter()
            .find(|piece| area < piece.before + piece.area() - slack(piece.before))?;
        let within = piece.reach((area - piece.before).max(0.0)).min(piece.length_s);
        let at_ns = piece.from_ns + (within * 1e9).round() as u64;
        // Rounding must not move an arrival into the next stage.
        let last_ns = if piece.length_s.is_finite() {
            piece.from_ns + ((piece.length_s * 1e9).round() as u64).saturating_sub(1)
        } else {
            u64::MAX
        };
        Some((at_ns.min(last_ns), piece.stage))
    }
}

/// Arrivals of one agent, in order of time. Infinite for a load without stages.
///
/// Even: arrival `k` is at the time at which the integral of the rate reaches `k`, so that an
/// interval of constant rate contains exactly rate times length arrivals. Poisson: a process of
/// rate 1, mapped through the same inverse. Rejected: thinning, because it needs more draws, and
/// their number depends on the maximum rate.
#[derive(Debug, Clone)]
pub struct ArrivalStream {
    curve: RateCurve,
    law: State,
    /// Index of the next arrival of this stream in the sequence of all agents.
    index: u64,
    offset: u64,
    step: u64,
}

#[derive(Debug, Clone)]
enum State {
    Even,
    Poisson {
        rng: Box<Rng>,
        /// Number of the arrival that `sum` belongs to, plus one; 0 before the first draw.
        drawn: u64,
        sum: f64,
    },
}

impl ArrivalStream {
    /// Arrivals `offset`, `offset + step`, ... of the sequence of all agents. Agent `a` of `agents`
    /// agents has `offset = a` and `step = agents`. A `step` of 0 counts as 1.
    pub fn new(curve: RateCurve, law: Law, seed: u64, workload: u64, offset: u64, step: u64) -> Self {
        let law = match law {
            Law::Even => State::Even,
            Law::Poisson => State::Poisson {
                rng: Box::new(rng(seed, Stream::Arrivals, workload, 0)),
                drawn: 0,
                sum: 0.0,
            },
        };
        Self {
            curve,
            law,
            index: offset,
            offset,
            step: step.max(1),
        }
    }

    /// Number of the next arrival within this stream, from 0.
    pub fn number(&self) -> u64 {
        (self.index - self.offset) / self.step
    }

    /// Advances to arrival `number` of this stream, from 0. It never moves back, because drawn
    /// intervals are not stored.
    pub fn go_to(&mut self, number: u64) {
        let index = self.offset.saturating_add(number.saturating_mul(self.step));
        self.index = self.index.max(index);
    }

    /// The next arrival, without advancing. Repeated calls return the same arrival.
    pub fn peek(&mut self) -> Option<Arrival> {
        let area = match &mut self.law {
            State::Even => self.index as f64,
            State::Poisson { rng, drawn, sum } => {
                while *drawn <= self.index {
                    let gap: f64 = Exp1.sample(&mut **rng);
                    *sum += gap;
                    *drawn += 1;
                }
                *sum
            }
        };
        let (at_ns, stage) = self.curve.reach(area)?;
        Some(Arrival {
            index: self.index,
            at_ns,
            stage,
        })
    }

    /// Skips all arrivals before `t_ns`, and returns their number.
    pub fn skip_before(&mut self, t_ns: u64) -> u64 {
        let from = self.index;
        if matches!(self.law, State::Even) {
            // Binary search: after an hour of overload there may be a billion of them.
            let due = |k: u64| self.curve.reach(k as f64).is_some_and(|(at_ns, _)| at_ns < t_ns);
            let mut reach = 1;
            while due(from + reach * self.step) {
                reach *= 2;
            }
            let (mut due_before, mut not_due) = (0, reach);
            // Invariant: every arrival with a number less than `due_before` is due, and arrival
            // `not_due` is not (or does not exist).
            while due_before < not_due {
                let middle = due_before + (not_due - due_before) / 2;
                if due(from + middle * self.step) {
                    due_before = middle + 1;
                } else {
                    not_due = middle;
                }
            }
            self.index = from + due_before * self.step;
            return due_before;
        }
        while self.peek().is_some_and(|arrival| arrival.at_ns < t_ns) {
            self.index += self.step;
        }
        (self.index - from) / self.step
    }
}

impl Iterator for ArrivalStream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let arrival = self.peek()?;
        self.index += self.step;
        Some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::{Dist, StageSpec, WhenFull};

    const SECOND: u64 = 1_000_000_000;

    fn open(rate: f64, arrivals: Law) -> LoadSpec {
        LoadSpec::Open {
            rate,
            arrivals,
            in_flight: 1,
            when_full: WhenFull::Wait,
        }
    }

    fn stage(for_s: u64, rate: Option<(f64, f64)>) -> StageSpec {
        let testers = rate.is_none().then_some(3);
        StageSpec {
            name: String::new(),
            for_ns: for_s * SECOND,
            testers,
            rate,
        }
    }

    fn staged(stages: Vec<StageSpec>, arrivals: Law) -> LoadSpec {
        LoadSpec::Stages {
            stages,
            think: Dist::ZERO,
            arrivals,
            in_flight: 1,
            when_full: WhenFull::Wait,
            slots: None,
            life_ns: None,
        }
    }

    fn stream(load: &LoadSpec, law: Law, seed: u64, offset: u64, step: u64) -> ArrivalStream {
        ArrivalStream::new(RateCurve::of(load).unwrap(), law, seed, 0, offset, step)
    }

    #[test]
    fn recorded_arrivals_are_at_their_times_and_are_shared_by_the_streams() {
        let at_ns = vec![0, 5, 5, 5, 70, 71, 1_000];
        let load = LoadSpec::Recorded {
            at_ns: at_ns.clone(),
            in_flight: 3,
            when_full: WhenFull::Wait,
        };
        let whole: Vec<Arrival> = stream(&load, Law::Even, 1, 0, 1).collect();
        assert!(
            whole
                .iter()
                .map(|arrival| arrival.at_ns)
                .eq(at_ns.iter().copied())
        );
        assert!(whole.iter().map(|arrival| arrival.index).eq(0..7));
        let mut parts: Vec<Arrival> = (0..3)
            .flat_map(|lane| stream(&load, Law::Even, 1, lane, 3))
            .collect();
        parts.sort_by_key(|arrival| arrival.index);
        assert_eq!(parts, whole);
        let mut late = stream(&load, Law::Even, 1, 0, 1);
        assert_eq!(late.skip_before(71), 5);
        assert_eq!(late.next().unwrap().at_ns, 71);
        assert_eq!(late.skip_before(u64::MAX), 1);
        assert_eq!(late.next(), None);
        let curve = RateCurve::of(&load).unwrap();
        assert!(curve.covers(0) && curve.covers(1_000) && !curve.covers(1_001));
    }

    #[test]
    fn even_arrivals_have_equal_intervals_and_an_exact_number() {
        for (rate, seconds, expected) in [
            (1.0, 10, 10),
            (500.0, 7, 3500),
            (0.1, 30, 3),
            (0.3, 10, 3),
            (1.0 / 3.0, 9, 3),
            (333.3, 10, 3333),
        ] {
            let times: Vec<u64> = stream(&open(rate, Law::Even), Law::Even, 1, 0, 1)
                .map(|arrival| arrival.at_ns)
                .take_while(|&at| at < seconds * SECOND)
                .collect();
            assert_eq!(times.len(), expected, "{rate}/s for {seconds} s");
            for (k, &at) in times.iter().enumerate() {
                assert!((at as f64 - k as f64 / rate * 1e9).abs() <= 1.0);
            }
        }
    }

    #[test]
    fn ramps_have_the_exact_number_of_arrivals_within_their_stages() {
        let load = staged(
            vec![
                stage(2, None),
                stage(120, Some((50.0, 500.0))),
                stage(1, None),
                stage(10, Some((500.0, 0.0))),
            ],
            Law::Even,
        );
        assert!((RateCurve::of(&load).unwrap().total() - 35_500.0).abs() < 1e-6);
        let all: Vec<Arrival> = stream(&load, Law::Even, 1, 0, 1).collect();
        let of = |stage| all.iter().filter(move |arrival| arrival.stage == stage);
        assert_eq!((of(1).count(), of(3).count(), all.len()), (33_000, 2_500, 35_500));
        assert_eq!(of(1).next().unwrap().at_ns, 2 * SECOND);
        assert!(of(1).all(|arrival| (2 * SECOND..122 * SECOND).contains(&arrival.at_ns)));
        assert!(of(3).all(|arrival| (123 * SECOND..133 * SECOND).contains(&arrival.at_ns)));
        // Half way up the ramp, in time: 60 s at a mean of (50 + 275) / 2.
        assert_eq!(of(1).filter(|arrival| arrival.at_ns < 62 * SECOND).count(), 9_750);
        assert!(all.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }

    #[test]
    fn the_arrivals_of_all_agents_together_are_the_whole_sequence() {
        for law in [Law::Even, Law::Poisson] {
            let load = staged(
                vec![stage(3, Some((10.0, 100.0))), stage(2, Some((100.0, 100.0)))],
                law,
            );
            let whole: Vec<Arrival> = stream(&load, law, 42, 0, 1).collect();
            for agents in 1..=7 {
                let mut parts: Vec<Arrival> = (0..agents)
                    .flat_map(|agent| stream(&load, law, 42, agent, agents))
                    .collect();
                parts.sort_by_key(|arrival| arrival.index);
                assert_eq!(parts, whole, "{law:?}, {agents} agents");
            }
        }
    }

    #[test]
    fn poisson_counts_have_the_mean_and_the_variance_of_the_rate() {
        let load = staged(vec![stage(10, Some((5.0, 15.0)))], Law::Poisson);
        let counts: Vec<f64> = (0..2_000)
            .map(|seed| stream(&load, Law::Poisson, seed, 0, 1).count() as f64)
            .collect();
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Expected 100 for both; standard errors sqrt(100/2000) = 0.22 and 100 sqrt(2/2000) = 3.2;
        // four of them.
        assert!((mean - 100.0).abs() < 0.9, "mean {mean}");
        assert!((variance - 100.0).abs() < 13.0, "variance {variance}");
    }

    /// Kolmogorov distance of `values` from the exponential distribution with mean 1.
    fn distance_from_exponential(values: &mut [f64]) -> f64 {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len() as f64;
        let cumulative = |x: f64| 1.0 - (-x).exp();
        values.iter().enumerate().fold(0.0, |largest: f64, (i, &x)| {
            let probability = cumulative(x);
            let (below, above) = (probability - i as f64 / n, (i as f64 + 1.0) / n - probability);
            largest.max(below).max(above)
        })
    }

    #[test]
    fn poisson_gaps_are_exponential_and_not_correlated() {
        const N: usize = 20_000;
        // A ramp, too: in units of the integral of the rate the gaps of any Poisson process are
        // exponential (Papangelou).
        let ramp = staged(vec![stage(1_000, Some((5.0, 95.0)))], Law::Poisson);
        let area = |at_ns: u64| {
            let t = at_ns as f64 * 1e-9;
            5.0 * t + 0.5 * 0.09 * t * t
        };
        let flat = open(50.0, Law::Poisson);
        for (load, area) in [
            (&flat, (&|at_ns: u64| at_ns as f64 * 50e-9) as &dyn Fn(u64) -> f64),
            (&ramp, &area),
        ] {
            for seed in [1, 2, 3] {
                let times: Vec<f64> = stream(load, Law::Poisson, seed, 0, 1)
                    .take(N)
                    .map(|arrival| area(arrival.at_ns))
                    .collect();
                assert_eq!(times.len(), N);
                let mut last = 0.0;
                let mut gaps: Vec<f64> = times
                    .iter()
                    .map(|&at| at - std::mem::replace(&mut last, at))
                    .collect();
                // Lag-1 correlation: standard error 1 / sqrt(N); four of them.
                let correlation = gaps
                    .windows(2)
                    .map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0))
                    .sum::<f64>()
                    / N as f64;
                assert!(correlation.abs() < 4.0 / (N as f64).sqrt(), "{correlation}");
                // Smirnov's critical value at 0.1 %.
                let distance = distance_from_exponential(&mut gaps) * (N as f64).sqrt();
                assert!(distance < 1.949, "{distance}");
            }
        }
        // The test can fail: a mean that is off by 5 % is detected.
        let mut wrong: Vec<f64> = stream(&flat, Law::Poisson, 1, 0, 1)
            .take(N)
            .map(|arrival| arrival.at_ns as f64 * 52.5e-9)
            .collect();
        let before = wrong.clone();
        wrong
            .iter_mut()
            .skip(1)
            .zip(&before)
            .for_each(|(at, last)| *at -= last);
        assert!(distance_from_exponential(&mut wrong) * (N as f64).sqrt() > 1.949);
    }

    #[test]
    fn go_to_skips_the_arrivals_in_between_and_never_moves_back() {
        for law in [Law::Even, Law::Poisson] {
            let all: Vec<Arrival> = stream(&open(50.0, law), law, 5, 2, 3).take(40).collect();
            let mut some = stream(&open(50.0, law), law, 5, 2, 3);
            for number in [0, 1, 7, 39] {
                some.go_to(number);
                assert_eq!(some.number(), number);
                assert_eq!(some.next().as_ref(), all.get(number as usize), "{law:?}");
            }
            some.go_to(3);
            assert_eq!(some.number(), 40, "go_to must not move back");
        }
    }

    #[test]
    fn skip_before_skips_exactly_the_arrivals_that_are_due() {
        for law in [Law::Even, Law::Poisson] {
            for (offset, step) in [(0, 1), (2, 3), (6, 7)] {
                for t in [0, 1, SECOND / 3, SECOND, 7 * SECOND, 3_600 * SECOND] {
                    let mut skipping = stream(&open(50.0, law), law, 5, offset, step);
                    let mut walking = skipping.clone();
                    let mut expected = 0;
                    while walking.peek().is_some_and(|arrival| arrival.at_ns < t) {
                        walking.next();
                        expected += 1;
                    }
                    assert_eq!(
                        skipping.skip_before(t),
                        expected,
                        "{law:?} {offset}/{step} to {t}"
                    );
                    assert_eq!(skipping.next(), walking.next());
                }
            }
        }
        let load = staged(vec![stage(1, Some((10.0, 10.0)))], Law::Even);
        assert_eq!(
            stream(&load, Law::Even, 1, 0, 1).skip_before(9 * SECOND),
            10,
            "skipping stops at the last arrival"
        );
    }
}
