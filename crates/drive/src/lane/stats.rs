//! The counters of one lane: every transaction is counted when it starts and when it ends. Finished
//! transactions are passed to the sink in batches, and the counts are reported every second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use hdrhistogram::Histogram;
use plimsoll_model::{Code, Counters, MetricRow, NOT_HAPPENED, Outcome, Phase, SecondReport, Transaction};

use super::own_delays::{OwnDelays, encode, histogram};
use crate::api::{DriveEvent, Sink};
use crate::run::plan::Population;
use crate::tester::attempt::Attempt;
use crate::tester::control::Parts;

/// Number of transactions in a batch: about 130 kB, so that a batch stays in the second-level
/// cache.
pub const BATCH: usize = 1024;
const SECOND: i64 = 1_000_000_000;
/// Maximum number of driver notes that a lane sends.
const MAX_NOTES: u32 = 20;
/// Maximum number of events that are kept if the receiver is slow.
const MAX_BACKLOG: usize = 10_000;

/// A tester of the lane that counts as active.
#[derive(Debug, Clone)]
pub struct ActiveTester {
    /// The population to which it belongs.
    pub population: Arc<Population>,
    /// Number among the closed testers of the population, or among its slots, from 0.
    pub number: u32,
    /// Whether it is a slot of an open load.
    pub is_open: bool,
    /// Whether it has stopped after failures or has completed its number of transactions.
    pub has_ended: bool,
}

/// The columns of a transaction that are known before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Planned start (raw, ns).
    pub scheduled: i64,
    /// Number of the tester over all workloads and agents, from 0.
    pub tester: u32,
    /// Index of the workload in the run.
    pub workload: u16,
    /// Index of the stage of a staged load; 0 otherwise.
    pub stage: u16,
    /// Index into the run's list of operations (all workloads in order).
    pub operation: u16,
    /// Index into the run's list of endpoints (all workloads in order).
    pub endpoint: u16,
}

/// Counters of a lane, and its connections to sink and receiver of events.
pub struct LaneStats {
    lane: usize,
    agent: u16,
    parts: Parts,
    sink: Box<dyn Sink>,
    events: SyncSender<DriveEvent>,
    backlog: VecDeque<DriveEvent>,
    batch: Vec<Transaction>,
    metrics: Vec<MetricRow>,
    members: Vec<ActiveTester>,
    total: Counters,
    in_flight: u64,
    in_progress: u32,
    second: u32,
    /// End of the current second, raw ns.
    second_end: i64,
    counters: Counters,
    histogram: Histogram<u32>,
    own: OwnDelays,
    notes: u32,
    closed: bool,
}

impl LaneStats {
    /// Counters that are 0 and wait for [`Self::begin`].
    pub fn new(
        lane: usize,
        agent: u16,
        members: Vec<ActiveTester>,
        sink: Box<dyn Sink>,
        events: SyncSender<DriveEvent>,
    ) -> Self {
        Self {
            lane,
            agent,
            parts: Parts {
                t0: 0,
                warm: 0,
                over: i64::MAX,
            },
            sink,
            events,
            backlog: VecDeque::new(),
            batch: Vec::with_capacity(BATCH),
            metrics: Vec::new(),
            members,
            total: Counters::default(),
            in_flight: 0,
            in_progress: 0,
            second: 0,
            second_end: i64::MAX,
            counters: Counters::default(),
            histogram: histogram(),
            own: OwnDelays::new(),
            notes: 0,
            closed: false,
        }
    }

    /// Sets the limits of the parts of the run, which begins.
    pub fn begin(&mut self, parts: Parts) {
        self.parts = parts;
        self.second_end = parts.t0 + SECOND;
    }

    /// The measured window ends at `at` (raw, ns) if it has not ended before.
    pub fn end_window(&mut self, at: i64) {
        self.parts.over = self.parts.over.min(at);
    }

    /// Counts a transaction that starts at `now` and could have started at `possible`: the
    /// scheduled start, or the time at which the tester was free (both raw, ns).
    pub fn record_start(&mut self, now: i64, possible: i64) {
        self.roll(now);
        self.own.record_start(now, possible);
        self.counters.started += 1;
        self.in_progress += 1;
    }

    /// Counts a transaction that has ended or was cancelled, and adds it to the batch.
    pub fn record_end(&mut self, header: &Header, attempt: &Attempt) {
        if self.closed {
            return;
        }
        self.roll(attempt.end);
        self.in_progress -= 1;
        self.counters.wire += attempt.sent + attempt.received;
        match attempt.outcome {
            Outcome::Ok => {
                self.counters.succeeded += 1;
                self.counters.items += attempt.items;
                self.counters.payload += attempt.payload;
                self.histogram
                    .saturating_record((attempt.end - header.scheduled).max(1) as u64);
            }
            Outcome::Cancelled => self.in_flight += 1,
            Outcome::Wrong | Outcome::Error | Outcome::Timeout | Outcome::Refused => {
                self.counters.failed += 1;
            }
        }
        let cancelled = attempt.outcome == Outcome::Cancelled;
        let transaction = Transaction {
            scheduled: header.scheduled,
            start: attempt.start,
            connected: attempt.connected,
            first_byte: attempt.first_byte,
            end: attempt.end,
            items: attempt.items,
            payload: attempt.payload,
            sent: attempt.sent,
            received: attempt.received,
            session: attempt.session,
            tester: header.tester,
            agent: self.agent,
            workload: header.workload,
            stage: header.stage,
            operation: header.operation,
            endpoint: header.endpoint,
            code: attempt.code,
            attempt: attempt.attempt,
            outcome: attempt.outcome,
            cache: attempt.cache,
            phase: if cancelled {
                Phase::Drain
            } else {
                self.parts.phase(attempt.end)
            },
        };
        self.batch.push(transaction);
        if self.batch.len() >= BATCH {
            self.deliver();
        }
        if !attempt.metrics.is_empty() {
            self.add_metrics(header.tester, attempt);
        }
    }

    fn add_metrics(&mut self, tester: u32, attempt: &Attempt) {
        let row = |&(metric, value): &(Code, f64)| MetricRow {
            agent: self.agent,
            tester,
            start: attempt.start,
            metric,
            value,
        };
        self.metrics.extend(attempt.metrics.iter().map(row));
        self.deliver_metrics(BATCH);
    }

    /// Adds a session that has ended, or was in progress when the run ended. `metric`: how it
    /// ended.
    pub fn record_session(&mut self, tester: u32, start: i64, end: i64, metric: Code) {
        if self.closed {
            return;
        }
        self.metrics.push(MetricRow {
            agent: self.agent,
            tester,
            start,
            metric,
            value: (end - start) as f64 * 1e-9,
        });
        self.deliver_metrics(BATCH);
    }

    /// Passes the metrics to the sink if there are at least `min` of them.
    fn deliver_metrics(&mut self, min: usize) {
        if self.metrics.len() >= min {
            self.counters.lost_records += self.sink.metrics(&mut self.metrics) as u64;
            self.metrics.clear();
        }
    }

    /// Counts arrivals that are not started.
    pub fn add_dropped(&mut self, count: u64) {
        self.counters.dropped += count;
    }

    /// Counts slots that have passed without a start.
    pub fn add_missed(&mut self, count: u64) {
        self.counters.missed += count;
    }

    /// Records that the lane did not run for `ns` until `now` (raw, ns).
    pub fn record_gap(&mut self, now: i64, ns: i64) {
        self.roll(now);
        self.own.record_gap(ns);
    }

    /// Records that a member is not active any more.
    pub fn deactivate(&mut self, member: usize) {
        if let Some(member) = self.members.get_mut(member) {
            member.has_ended = true;
        }
    }

    /// Sends a note for the user, with the time `now` (raw, ns).
    pub fn note(&mut self, now: i64, kind: &'static str, text: String) {
        let event = DriveEvent::Note {
            t_ns: now - self.parts.t0,
            kind,
            text,
        };
        self.send(event);
    }

    /// Sends a note of a driver. After [`MAX_NOTES`] notes, further ones are dropped.
    pub fn driver_note(&mut self, now: i64, text: String) {
        self.notes += 1;
        if self.notes <= MAX_NOTES {
            self.note(now, "driver", text);
        }
    }

    /// Closes all seconds that have ended before `now` (raw, ns).
    #[inline]
    pub fn roll(&mut self, now: i64) {
        if now >= self.second_end {
            self.close_seconds(now);
        }
    }

    #[cold]
    fn close_seconds(&mut self, now: i64) {
        while now >= self.second_end {
            self.close_second();
        }
    }

    fn close_second(&mut self) {
        self.deliver();
        // At the end of the second, or of the window where that comes first.
        let at = self.second_end.min(self.parts.over) - 1;
        let active = if at < self.second_end - SECOND {
            0
        } else {
            let at_ns = (at - self.parts.t0) as u64;
            self.members.iter().filter(|member| member.active(at_ns)).count()
        };
        self.total.add(&self.counters);
        let (own_lateness, stopped_ns) = self.own.take();
        let report = SecondReport {
            second: self.second,
            counters: std::mem::take(&mut self.counters),
            active: active as u32,
            in_progress: self.in_progress,
            response: encode(&self.histogram),
            own_lateness,
            stopped_ns,
        };
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.second += 1;
        self.second_end += SECOND;
        self.send(DriveEvent::Second {
            lane: self.lane,
            report,
        });
    }

    /// Passes the current batch and metrics to the sink.
    fn deliver(&mut self) {
        if !self.batch.is_empty() {
            self.counters.lost_records += self.sink.deliver(&mut self.batch) as u64;
            // If the sink returns a batch that is not empty, its transactions must not be recorded
            // twice.
            self.batch.clear();
            self.batch.reserve(BATCH);
        }
        self.deliver_metrics(1);
    }

    fn send(&mut self, event: DriveEvent) {
        if self.backlog.len() < MAX_BACKLOG {
            self.backlog.push_back(event);
        }
        while let Some(event) = self.backlog.pop_front() {
            match self.events.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    self.backlog.push_front(event);
                    return;
                }
                Err(TrySendError::Disconnected(_)) => self.backlog.clear(),
            }
        }
    }

    /// Ends the counters at `now` (raw, ns): sends the last, partial second and the totals. Waits
    /// for the receiver, because the load has ended. Later transactions are ignored.
    pub fn close(&mut self, now: i64) {
        self.roll(now);
        // Only a fault leaves transactions here. The totals still balance, and the missing rows
        // reveal the fault.
        self.in_flight += u64::from(std::mem::take(&mut self.in_progress));
        self.close_second();
        self.closed = true;
        let ended = DriveEvent::LaneEnded {
            lane: self.lane,
            counters: self.total,
            in_flight: self.in_flight,
            window_ns: (self.parts.over.min(now) - self.parts.t0).max(0),
        };
        self.backlog.push_back(ended);
        for event in self.backlog.drain(..) {
            if self.events.send(event).is_err() {
                break;
            }
        }
    }
}

impl ActiveTester {
    fn active(&self, at_ns: u64) -> bool {
        if self.has_ended {
            return false;
        }
        if self.is_open {
            self.population
                .curve
                .as_ref()
                .is_some_and(|curve| curve.covers(at_ns))
        } else {
            self.population
                .presence
                .as_ref()
                .is_some_and(|presence| presence.active(self.number, at_ns))
        }
    }
}

/// Makes `attempt` a cancelled transaction, which has no end, no items and no payload.
pub fn cancel(attempt: &mut Attempt) {
    attempt.end = NOT_HAPPENED;
    attempt.outcome = Outcome::Cancelled;
    attempt.code = Code::NONE;
    attempt.items = 0;
    attempt.payload = 0;
}
