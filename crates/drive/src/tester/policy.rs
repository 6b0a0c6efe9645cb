//! The policy of a tester, without its I/O: when its transactions start, what they request, and
//! what follows a failure. Testers that are tasks and testers that are threads share it. No clock,
//! no I/O.

use std::sync::Arc;

use plimsoll_model::{BackoffWhen, Choose, OnError, Order, Outcome, grouped};
use plimsoll_schedule::{
    Draws, Fill, Mix, MixState, NextSlot, Rng, Slots, Stream, Think, UsedValues, rng, uniform,
};

use super::attempt::Request;
use crate::lane::stats::Header;
use crate::run::plan::Population;

/// One closed tester, or one slot of an open load.
#[derive(Debug, Clone)]
pub struct TesterSlot {
    /// The population to which it belongs.
    pub population: Arc<Population>,
    /// Number among the closed testers of the population, or among its slots, from 0.
    pub number: u32,
    /// Whether it is a slot of an open load.
    pub is_open: bool,
    /// Index in the lane's list of members.
    pub member: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Number of transactions after which it ends; none: not limited.
    pub quota: Option<u64>,
}

impl TesterSlot {
    /// Number over all workloads and agents, from 0.
    pub fn tester(&self) -> u32 {
        let slots_after = if self.is_open { self.population.closed() } else { 0 };
        self.population.first_tester + slots_after + self.number
    }
}

/// A planned start of a closed tester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Scheduled start, ns since the start of the run.
    pub at_ns: u64,
    /// Index of the stage; 0 for a load without stages.
    pub stage: u16,
    /// Number of slots that were missed before it.
    pub missed: u64,
}

/// The sequence of planned starts of a closed tester.
pub struct TurnSchedule {
    population: Arc<Population>,
    number: u32,
    slots: Option<Slots>,
    slot: u64,
    /// Number of slots that were begun or missed.
    settled: u64,
    /// Whether the tester is not active any more: its life or its last stage has ended.
    has_left: bool,
    think: Think,
}

impl TurnSchedule {
    /// The schedule of the closed tester `slot`.
    pub fn new(slot: &TesterSlot) -> Self {
        let population = Arc::clone(&slot.population);
        let slots = population
            .every
            .zip(population.presence.as_ref())
            .map(|((every_ns, late), presence)| Slots::new(presence, slot.number, every_ns, late));
        let think = Think::new(
            population.think,
            slot.seed,
            population.workload.into(),
            slot.number.into(),
        );
        Self {
            population,
            number: slot.number,
            slots,
            slot: 0,
            settled: 0,
            has_left: false,
            think,
        }
    }

    /// The first turn; none if the tester is never active.
    pub fn first(&mut self) -> Option<Turn> {
        match self.slots.as_ref().map(Slots::first) {
            Some(next) => self.take(next),
            None => self.present(0),
        }
    }

    /// Whether the tester begins at the start of the run together with others, instead of at its
    /// own time.
    pub fn begins_together(&self) -> bool {
        self.slots.is_none()
            && self
                .population
                .presence
                .as_ref()
                .is_some_and(|presence| presence.begins_together(self.number))
    }

    /// As [`TurnSchedule::first`], for an agent that joined the run at `joined_ns`: turns that were
    /// due before are missed.
    pub fn first_from(&mut self, joined_ns: u64) -> Option<Turn> {
        if joined_ns == 0 {
            return self.first();
        }
        let Some(slots) = &self.slots else {
            return self.present(joined_ns);
        };
        let missed = slots.before(joined_ns);
        let next = slots.at(missed, missed);
        self.take(next)
    }

    /// The turn after a transaction that ended at `end_ns`. If the driver worked after the end,
    /// such as for a verification (`Attempt::freed`), `end_ns` is the end of that work. Otherwise
    /// the tester's own work would count as lateness.
    pub fn after(&mut self, end_ns: u64) -> Option<Turn> {
        if let Some(slots) = &self.slots {
            let next = slots.after(self.slot, end_ns);
            return self.take(next);
        }
        let think_ns = self.think.draw();
        self.present(end_ns.saturating_add(think_ns))
    }

    /// Records that the turn returned last has begun.
    pub fn begun(&mut self) {
        self.settled = self.slot + 1;
    }

    /// Number of slots before `over_ns`, the end of the run, that were neither begun nor missed; 0
    /// for a load without slots.
    pub fn left_before(&self, over_ns: u64) -> u64 {
        self.slots
            .as_ref()
            .map_or(0, |slots| slots.before(over_ns).saturating_sub(self.settled))
    }

    /// Whether the tester is not active any more, before the end of the run.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    fn take(&mut self, next: Option<NextSlot>) -> Option<Turn> {
        self.has_left = next.is_none();
        let next = next?;
        self.slot = next.slot;
        Some(Turn {
            at_ns: next.scheduled_ns,
            stage: next.stage,
            missed: next.missed,
        })
    }

    fn present(&self, earliest_ns: u64) -> Option<Turn> {
        let (at_ns, stage) = self
            .population
            .presence
            .as_ref()?
            .next(self.number, earliest_ns)?;
        Some(Turn {
            at_ns,
            stage,
            missed: 0,
        })
    }
}

/// What a tester does after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It continues after a pause of this length, ns.
    Go(u64),
    /// It stops, after this number of failures in a row.
    TakeOut(u32),
    /// It ends, because it has completed its number of transactions.
    Done,
}

/// Chooses operation, endpoint and values of a tester's requests, and decides what follows a
/// failure.
pub struct TesterPolicy {
    population: Arc<Population>,
    tester: u32,
    /// Per operation, the values that its texts contain.
    used: Arc<Vec<UsedValues>>,
    mix: MixState,
    draws: Draws,
    endpoints: Rng,
    endpoint: usize,
    operation: usize,
    /// Number of transactions begun.
    begun: u64,
    /// `begun` when the current session began; 0 without sessions.
    begun_before: u64,
    quota: Option<u64>,
    /// Number of failures in a row.
    failures: u32,
    /// Number of failures without a connection in a row.
    refusals: u32,
    /// Whether starts are planned ahead, independent of the outcomes.
    planned_ahead: bool,
}

impl TesterPolicy {
    /// The policy of the tester `slot`. `used`: per operation, the values that its texts contain.
    pub fn new(slot: &TesterSlot, used: Arc<Vec<UsedValues>>) -> Self {
        let population = Arc::clone(&slot.population);
        let (tester, workload) = (slot.tester(), u64::from(population.workload));
        let of_workload = u64::from(tester - population.first_tester);
        let mut endpoints = rng(slot.seed, Stream::Endpoints, workload, of_workload);
        let count = population.endpoints.len().max(1) as u64;
        let endpoint = match population.order {
            Order::RoundRobin => of_workload % count,
            Order::Random => uniform(&mut endpoints, count),
        };
        Self {
            tester,
            used,
            mix: Mix::start(slot.seed, workload, of_workload),
            draws: population.values.start(slot.seed, workload, of_workload),
            endpoints,
            endpoint: endpoint as usize,
            operation: 0,
            begun: 0,
            begun_before: 0,
            quota: slot.quota,
            failures: 0,
            refusals: 0,
            planned_ahead: slot.is_open || population.every.is_some(),
            population,
        }
    }

    /// Chooses the next request, and returns the columns of its transaction that are known before
    /// it starts. `arrival`: number of the arrival in an open load, over all agents.
    pub fn choose(&mut self, scheduled: i64, stage: u16, arrival: Option<u64>) -> Header {
        let population = &self.population;
        self.operation = match self.opening_operation() {
            Some(operation) => operation,
            None => population.mix.next(&mut self.mix),
        };
        let count = population.endpoints.len();
        if count > 1 && population.choose == Choose::PerRequest && self.begun > 0 {
            self.endpoint = match population.order {
                Order::RoundRobin => (self.endpoint + 1) % count,
                Order::Random => uniform(&mut self.endpoints, count as u64) as usize,
            };
        }
        let used = &self.used[self.operation].values;
        if !used.is_empty() {
            let of_workload = u64::from(self.tester - population.first_tester);
            let in_turn = || of_workload + self.begun * u64::from(population.closed());
            self.draws.at(arrival.unwrap_or_else(in_turn));
            population.values.draw(used, &mut self.draws);
        }
        self.begun += 1;
        Header {
            scheduled,
            tester: self.tester,
            workload: population.workload,
            stage,
            operation: population.first_operation + self.operation as u16,
            endpoint: population.first_endpoint + self.endpoint as u16,
        }
    }

    /// The next transaction is the first of a session.
    pub fn begin_session(&mut self) {
        self.begun_before = self.begun;
    }

    /// The next of the operations with which the tester, or its session, begins; none after the
    /// last of them.
    fn opening_operation(&self) -> Option<usize> {
        let mut end = self.begun_before;
        for &(operation, times) in &self.population.first {
            end += times;
            if self.begun < end {
                return Some(operation);
            }
        }
        None
    }

    /// The request that was chosen last. `realtime_ns` is called only if a text of the request
    /// contains `{now_us}`.
    pub fn request(&self, realtime_ns: impl FnOnce() -> i64) -> Request<'_> {
        let now_us = if self.used[self.operation].now {
            (realtime_ns() / 1000) as u64
        } else {
            0
        };
        Request {
            operation: self.operation,
            endpoint: self.endpoint,
            fill: Fill {
                tester: self.tester,
                n: self.begun.saturating_sub(1),
                endpoint: &self.population.endpoints[self.endpoint].url,
                now_us,
                values: &self.population.values,
                drawn: self.draws.last(),
            },
        }
    }

    /// Decides what follows a transaction with this outcome.
    pub fn judge(&mut self, outcome: Outcome) -> Verdict {
        if outcome == Outcome::Ok {
            self.failures = 0;
        } else {
            self.failures = self.failures.saturating_add(1);
        }
        self.refusals = match outcome {
            Outcome::Refused => self.refusals.saturating_add(1),
            _ => 0,
        };
        if let OnError::StopTester { after } = self.population.on_error
            && self.failures >= after.max(1)
        {
            return Verdict::TakeOut(self.failures);
        }
        if self.quota.is_some_and(|quota| self.begun >= quota) {
            return Verdict::Done;
        }
        match self.population.on_error {
            OnError::Backoff {
                first_ns,
                max_ns,
                when,
            } => {
                let in_a_row = match when {
                    BackoffWhen::Failed => self.failures,
                    BackoffWhen::Refused if self.planned_ahead => 0,
                    BackoffWhen::Refused => self.refusals,
                };
                let Some(doublings) = in_a_row.checked_sub(1) else {
                    return Verdict::Go(0);
                };
                let doubled = first_ns.saturating_mul(1 << doublings.min(62));
                Verdict::Go(doubled.min(max_ns))
            }
            _ => Verdict::Go(0),
        }
    }

    /// Text of the note about a tester that stops after `failures` failures in a row.
    pub fn stop_text(&self, failures: u32) -> String {
        format!(
            "tester {} of workload {} stopped after {} failures in a row",
            self.tester,
            self.population.name,
            grouped(failures.into())
        )
    }
}
