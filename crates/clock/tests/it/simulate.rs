//! Two simulated hosts and a link between them, with known truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use plimsoll_clock::schedule::{BURST, burst_ns, due_ns};
use plimsoll_clock::{Clock, ClockMap, Probe, Via};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Pareto, StandardNormal};
use rand_pcg::Pcg64;

pub const SECOND: i64 = 1_000_000_000;
/// The controller's clock at the start of the simulation.
const CONTROLLER_NS: i64 = 77 * SECOND;

/// Minimum one-way delays, us.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub there: f64,
    pub back: f64,
}

#[derive(Debug, Clone)]
pub struct Conditions {
    pub seconds: i64,
    /// The agent's clock at the start of the simulation, ns.
    pub agent_ns: i64,
    /// Gain of the controller's clock relative to the agent's.
    pub drift_ppm: f64,
    /// Random walk of the rate, ppm per square root of a second.
    pub wander_ppm: f64,
    pub route: Route,
    /// Mean of the queueing delay in each direction, us. Two per cent of the messages have an
    /// additional Pareto delay of shape 1.5.
    pub noise: f64,
    pub loss: f64,
    /// Second from which the route applies, and the route.
    pub new_route: Option<(i64, Route)>,
    /// At this second the agent's clock jumps ahead (above 0) or stands still (below 0), ns.
    pub jump: Option<(i64, i64)>,
    /// Between these seconds each message to the controller takes longer by this much, us.
    pub congestion: Option<(i64, i64, f64)>,
}

impl Conditions {
    pub fn new(seconds: i64, there: f64, back: f64, noise: f64) -> Self {
        Self {
            seconds,
            agent_ns: 2_500 * SECOND,
            drift_ppm: 25.0,
            wander_ppm: 0.0,
            route: Route { there, back },
            noise,
            loss: 0.0,
            new_route: None,
            jump: None,
            congestion: None,
        }
    }
}

/// A clock whose reading is a function (a table) of the true time that all clocks of the simulation
/// share.
pub struct Oscillator {
    now: Arc<AtomicI64>,
    /// Reading − true time at each second from second -1, ns; linear between.
    lead: Vec<f64>,
    jump: Option<(i64, i64)>,
}

impl Oscillator {
    fn shows(&self, true_ns: i64) -> f64 {
        // A clock that stood still loses that time, including its drift: it never shows less than
        // before.
        let (lived, leapt) = match self.jump {
            Some((at, by)) if true_ns >= at && by > 0 => (true_ns, by),
            Some((at, by)) if true_ns >= at => ((true_ns + by).max(at), 0),
            _ => (true_ns, 0),
        };
        let since = lived + SECOND;
        let k = (since / SECOND) as usize;
        let part = (since % SECOND) as f64 / SECOND as f64;
        let lead = self.lead[k] + part * (self.lead[k + 1] - self.lead[k]);
        lived as f64 + lead + leapt as f64
    }
}

impl Clock for Oscillator {
    fn raw_ns(&self) -> i64 {
        self.shows(self.now.load(Ordering::Relaxed)).floor() as i64
    }

    fn monotonic_ns(&self) -> i64 {
        self.raw_ns()
    }

    fn realtime_ns(&self) -> i64 {
        self.raw_ns()
    }
}

/// A simulated run: its true clocks and the probes that measured them.
pub struct World {
    pub conditions: Conditions,
    now: Arc<AtomicI64>,
    agent: Oscillator,
    controller: Oscillator,
    rng: Pcg64,
    /// In the order in which the answers arrived.
    pub probes: Vec<Probe>,
}

impl World {
    /// Simulates a run with the probes of the schedule, including its bursts.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let now = Arc::new(AtomicI64::new(0));
        let mut rate = -conditions.drift_ppm;
        let mut lead = vec![conditions.agent_ns as f64];
        for k in 0..conditions.seconds as usize + 20 {
            lead.push(lead[k] + rate * 1e3);
            let step: f64 = StandardNormal.sample(&mut rng);
            rate += conditions.wander_ppm * step;
        }
        let oscillator = |lead, jump| Oscillator {
            now: Arc::clone(&now),
            lead,
            jump,
        };
        let steady = vec![CONTROLLER_NS as f64; lead.len()];
        let mut world = Self {
            agent: oscillator(lead, conditions.jump.map(|(at, by)| (at * SECOND, by))),
            controller: oscillator(steady, None),
            now,
            rng,
            probes: Vec::new(),
            conditions,
        };
        world.run(seed);
        world
    }

    fn run(&mut self, seed: u64) {
        let end = self.conditions.seconds * SECOND;
        let steady = (0..).map(|k| due_ns(k, seed) as i64).take_while(|t| *t < end);
        let last = (0..BURST).map(|k| end + burst_ns(k) as i64);
        let mut probes: Vec<(i64, Probe)> = steady.chain(last).filter_map(|t| self.exchange(t)).collect();
        probes.sort_by_key(|(arrived, _)| *arrived);
        self.probes = probes.into_iter().map(|(_, probe)| probe).collect();
    }

    fn exchange(&mut self, at: i64) -> Option<(i64, Probe)> {
        if self.is_still(at) {
            return None;
        }
        let there = self.delay(at, true);
        let held = self.rng.random_range(5_000..20_000);
        let back = self.delay(at + there + held, false);
        if self.rng.random_bool(self.conditions.loss) {
            return None;
        }
        let stamp = |clock: &Oscillator, t: i64| {
            self.now.store(t, Ordering::Relaxed);
            clock.raw_ns()
        };
        let arrived = at + there + held + back;
        let probe = Probe {
            sent: stamp(&self.agent, at),
            heard: stamp(&self.controller, at + there),
            answered: stamp(&self.controller, at + there + held),
            received: stamp(&self.agent, arrived),
            via: Via::Udp,
        };
        Some((arrived, probe))
    }

    fn delay(&mut self, at: i64, there: bool) -> i64 {
        let conditions = &self.conditions;
        let second = at / SECOND;
        let route = conditions
            .new_route
            .filter(|(from, _)| second >= *from)
            .map_or(conditions.route, |(_, route)| route);
        let least = if there { route.there } else { route.back };
        let jam = conditions
            .congestion
            .filter(|(from, to, _)| there && (*from..*to).contains(&second));
        let mut us = least + jam.map_or(0.0, |(_, _, by)| by);
        if conditions.noise > 0.0 {
            us += Exp::new(1.0 / conditions.noise)
                .expect("a rate above 0")
                .sample(&mut self.rng);
            if self.rng.random_bool(0.02) {
                let tail: f64 = Pareto::new(conditions.noise, 1.5)
                    .expect("above 0")
                    .sample(&mut self.rng);
                us += tail.min(1e6);
            }
        }
        (us * 1e3) as i64
    }

    /// Whether the agent's machine and its clock stand still at the true time `t`.
    fn is_still(&self, t: i64) -> bool {
        self.conditions
            .jump
            .is_some_and(|(at, by)| t > at * SECOND && t < at * SECOND - by)
    }

    /// The agent's clock and the controller's at a true time.
    pub fn both(&self, true_ns: i64) -> (i64, i64) {
        (
            self.agent.shows(true_ns).floor() as i64,
            self.controller.shows(true_ns).floor() as i64,
        )
    }

    /// True times of `0 ..= seconds`, `step` ns apart, and finer around a jump. Times at which the
    /// agent stands still are omitted: its clock does not distinguish them.
    pub fn instants(&self, step: usize) -> impl Iterator<Item = i64> + '_ {
        let jump = self.conditions.jump.map(|(at, by)| (at * SECOND, by));
        let near = jump
            .into_iter()
            .flat_map(|(at, _)| (at - 3 * SECOND..at + 3 * SECOND).step_by(7_000_001));
        (0..=self.conditions.seconds * SECOND)
            .step_by(step)
            .chain(near)
            .filter(|t| !self.is_still(*t))
    }

    /// True time at which the agent's clock first shows `agent_ns`, to 1 ns.
    pub fn when(&self, agent_ns: i64) -> i64 {
        self.first(|shown| shown >= agent_ns as f64)
    }

    /// As [`Self::when`]. If the agent stood still with that reading, the time at which it
    /// continues.
    pub fn when_it_continues(&self, agent_ns: i64) -> i64 {
        self.first(|shown| shown >= (agent_ns + 1) as f64) - 1
    }

    fn first(&self, reached: impl Fn(f64) -> bool) -> i64 {
        let (mut low, mut high) = (-SECOND, (self.conditions.seconds + 15) * SECOND);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if reached(self.agent.shows(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Errors of a map over the run: the maximum error, ns, and the maximum of error / bound.
    pub fn judge(&self, map: &ClockMap) -> (f64, f64) {
        let mut worst = (0.0_f64, 0.0_f64);
        for t in self.instants(250_000_000) {
            let (agent, controller) = self.both(t);
            let mapped = map.at(agent);
            let error = (mapped.controller_ns - controller).abs() as f64;
            worst = (worst.0.max(error), worst.1.max(error / mapped.bound_ns as f64));
        }
        worst
    }
}

/// Conditions drawn from a seed: links of 0.2 to 315 ms, any asymmetry, drift up to 100 ppm,
/// wander, loss, congestion, a new route, a jump.
pub fn mixed(seed: u64) -> Conditions {
    let mut rng = Pcg64::seed_from_u64(seed ^ 0x006d_6978_6564);
    let links = [
        (200.0, 10.0),
        (2_000.0, 30.0),
        (60_000.0, 500.0),
        (315_000.0, 2_000.0),
    ];
    let (trip, noise) = links[(seed % 4) as usize];
    let draw = |rng: &mut Pcg64, scale: f64| {
        let there = trip * scale * rng.random_range(0.2..0.8);
        Route {
            there,
            back: trip * scale - there,
        }
    };
    let route = draw(&mut rng, 1.0);
    let mut conditions = Conditions::new(600, route.there, route.back, noise * rng.random_range(0.2..2.0));
    conditions.agent_ns = rng.random_range(0..1_000_000) * SECOND / 10;
    conditions.drift_ppm = rng.random_range(-100.0..100.0);
    conditions.wander_ppm = if rng.random_bool(0.5) {
        rng.random_range(0.0..0.05)
    } else {
        0.0
    };
    conditions.loss = if rng.random_bool(0.5) {
        rng.random_range(0.0..0.2)
    } else {
        0.0
    };
    if rng.random_bool(0.4) {
        let scale = rng.random_range(0.5..2.0);
        conditions.new_route = Some((rng.random_range(30..570), draw(&mut rng, scale)));
    }
    if rng.random_bool(0.3) {
        let at = rng.random_range(0..540);
        conditions.congestion = Some((
            at,
            at + rng.random_range(5..60),
            trip * rng.random_range(0.1..3.0),
        ));
    }
    if rng.random_bool(0.3) {
        let by = 100_000_000 * if rng.random_bool(0.5) { 1 } else { 20 };
        conditions.jump = Some((
            rng.random_range(15..585),
            if rng.random_bool(0.5) { by } else { -by },
        ));
    }
    conditions
}
