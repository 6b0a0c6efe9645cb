//! The tester cycle: the state machine of one tester, which sleeps until a start, performs, and
//! sleeps, until its part of the run is over. Tasks (`lane`) and threads (`lane::blocking_pool`)
//! drive it. It does no I/O and reads no clock of its own.

use std::sync::Arc;

use plimsoll_model::{Codes, Outcome, WhenFull, grouped};

use super::attempt::Attempt;
use super::control::Control;
use super::policy::{TesterPolicy, TesterSlot, Turn, TurnSchedule, Verdict};
use super::session::work::{SessionWork, WorkEnd};
use super::session::{Part, START_FAILED_PAUSE_NS, SessionEnd, TesterSessions};
use crate::lane::stats::{Header, LaneStats};
use crate::run::arrivals::Arrivals;
use crate::run::plan::Population;

/// State that the testers of a lane share. All times are raw stamps, ns.
pub(crate) trait LaneState {
    /// The current time.
    fn now(&self) -> i64;
    /// Start of the run.
    fn t0(&self) -> i64;
    /// End of the measured window; the maximum value until it is known.
    fn over_at(&self) -> i64;
    /// Whether no transactions may start any more.
    fn is_over(&self) -> bool;
    /// Stop and budget of the run.
    fn control(&self) -> &Control;
    /// Changes the counters of the lane.
    fn with_stats(&self, change: impl FnOnce(&mut LaneStats));
    /// Reads or takes arrivals of a workload; none if the workload has no arrivals on this lane.
    fn with_arrivals<R>(&self, workload: u16, read: impl FnOnce(&mut Arrivals) -> R) -> Option<R>;

    /// Time since the start of the run of a raw stamp, ns; 0 before the start.
    fn run_time(&self, raw: i64) -> u64 {
        (raw - self.t0()).max(0) as u64
    }

    /// Raw stamp of a time since the start of the run, ns.
    fn raw(&self, run_ns: u64) -> i64 {
        self.t0()
            .saturating_add(i64::try_from(run_ns).unwrap_or(i64::MAX))
    }
}

/// The next action of a tester.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sleep until this stamp, or until [`LaneState::is_over`]; then call [`TesterCycle::next`]
    /// again.
    SleepUntil(i64),
    /// Wait until the lane admits this tester; then call [`TesterCycle::admit`].
    AwaitAdmission,
    /// Carry out a transaction; then call [`TesterCycle::finish`].
    Perform(PlannedStart),
    /// Carry out work of a session; then call [`TesterCycle::worked`].
    Work(SessionWork),
    /// Close the connections, because the session has ended; then call [`TesterCycle::next`] again.
    EndSession,
    /// End.
    Done,
}

/// A transaction that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedStart {
    /// Scheduled start, raw stamp, ns.
    pub(crate) scheduled: i64,
    /// Index of the stage; 0 for a load without stages.
    pub(crate) stage: u16,
    /// Number of the arrival in an open load, over all agents; none in a closed load.
    pub(crate) arrival: Option<u64>,
    /// Time at which the tester became free, raw stamp, ns.
    pub(crate) free_at: i64,
}

/// The end of a transaction, from which the next one is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransactionEnd {
    /// Time at which the tester is free again, raw stamp, ns.
    pub(crate) free_at: i64,
    /// Length of a pause after the transaction, ns.
    pub(crate) pause_ns: u64,
}

/// The source of the planned starts.
enum Source {
    /// The tester's own schedule. `begins_together`: its first start waits for admission.
    Closed {
        turns: TurnSchedule,
        begins_together: bool,
    },
    /// The arrivals of the workload: the slot takes the next one. So no dispatcher is needed, and
    /// waiting arrivals are a number, not a queue.
    Open,
}

enum State {
    /// No start is planned yet.
    New,
    /// A start is planned; `missed` slots were missed before it.
    Planned {
        start: PlannedStart,
        missed: u64,
    },
    /// A start is planned and waits for admission.
    Admission {
        start: PlannedStart,
        missed: u64,
    },
    Performing,
    /// A slot of an open load pauses until this stamp.
    Pausing(i64),
    /// A session waits until this stamp.
    Waiting(i64),
    /// A session works.
    Working(SessionWork),
    /// A session has ended, and the next one begins a think time after this end.
    Ended(TransactionEnd),
    Done,
}

/// The state machine of one tester.
pub(crate) struct TesterCycle {
    population: Arc<Population>,
    source: Source,
    /// None: the tester carries out single transactions.
    sessions: Option<TesterSessions>,
    state: State,
}

impl TesterCycle {
    pub(crate) fn new(slot: &TesterSlot, codes: &Codes) -> Self {
        let source = if slot.is_open {
            Source::Open
        } else {
            let turns = TurnSchedule::new(slot);
            Source::Closed {
                begins_together: turns.begins_together(),
                turns,
            }
        };
        Self {
            population: Arc::clone(&slot.population),
            source,
            sessions: TesterSessions::new(slot, codes),
            state: State::New,
        }
    }

    /// Returns the next action.
    pub(crate) fn next(&mut self, lane: &impl LaneState) -> Step {
        loop {
            match &self.state {
                State::New => self.plan_first(lane),
                &State::Planned { start, missed } => {
                    if lane.is_over() {
                        self.abandon_start(start.scheduled, lane);
                    } else if lane.now() < start.scheduled {
                        return Step::SleepUntil(start.scheduled);
                    } else if self.take_admission() {
                        self.state = State::Admission { start, missed };
                        return Step::AwaitAdmission;
                    } else if self.begin_session(start, lane) {
                        self.plan_part(lane.now(), 0, lane);
                    } else {
                        return self.start(start, missed, lane);
                    }
                }
                &State::Waiting(until) => {
                    if !lane.is_over() && lane.now() < until {
                        return Step::SleepUntil(until);
                    }
                    self.plan_part(until, 0, lane);
                }
                State::Working(work) => return Step::Work(work.clone()),
                &State::Ended(end) => {
                    self.plan_next(end, lane);
                    return Step::EndSession;
                }
                &State::Pausing(until) => {
                    if !lane.is_over() && lane.now() < until {
                        return Step::SleepUntil(until);
                    }
                    self.plan_arrival(lane.run_time(lane.now()), lane);
                }
                State::Admission { .. } | State::Performing | State::Done => return Step::Done,
            }
        }
    }

    /// Records that the lane has admitted the tester at the stamp `at`, which is the scheduled
    /// start of its first transaction.
    pub(crate) fn admit(&mut self, at: i64) {
        if let State::Admission { mut start, missed } = self.state {
            start.scheduled = at;
            self.state = State::Planned { start, missed };
        }
    }

    /// Records that the transaction has ended. None: the tester ends, because it has completed its
    /// number of transactions, or after failures.
    pub(crate) fn finish(&mut self, outcome: Outcome, end: Option<TransactionEnd>, lane: &impl LaneState) {
        let has_failed = !matches!(outcome, Outcome::Ok | Outcome::Cancelled);
        if has_failed {
            let now = lane.now();
            let at = end.map_or(now, |end| end.free_at);
            self.record_session(SessionEnd::QueryFailed, at, lane);
        }
        match end {
            None => self.end(lane),
            Some(end) if self.sessions.is_none() => self.plan_next(end, lane),
            Some(end) if has_failed => self.state = State::Ended(end),
            Some(TransactionEnd { free_at, pause_ns }) => self.plan_part(free_at, pause_ns, lane),
        }
    }

    /// Records how the work of a session ended.
    pub(crate) fn worked(&mut self, end: WorkEnd, lane: &impl LaneState) {
        let now = lane.now();
        match end {
            WorkEnd::Done => self.plan_part(now, 0, lane),
            WorkEnd::Stopped => self.end(lane),
            WorkEnd::Failed(reason) => {
                lane.with_stats(|stats| stats.driver_note(now, format!("a session failed: {reason}")));
                self.record_session(SessionEnd::WorkFailed, now, lane);
                self.state = State::Ended(TransactionEnd {
                    free_at: now,
                    pause_ns: START_FAILED_PAUSE_NS,
                });
            }
        }
    }

    /// Number of the session in progress, from 1; none if the tester carries out single
    /// transactions.
    pub(crate) fn session(&self) -> Option<u32> {
        self.sessions.as_ref().map(TesterSessions::number)
    }

    /// Begins a session with the planned start, unless the tester carries out single transactions,
    /// or a session is in progress.
    fn begin_session(&mut self, start: PlannedStart, lane: &impl LaneState) -> bool {
        let (Some(sessions), Source::Closed { turns, .. }) = (&mut self.sessions, &mut self.source) else {
            return false;
        };
        let has_begun = sessions.begin(lane.now(), start.stage);
        if has_begun {
            turns.begun();
        }
        has_begun
    }

    /// Plans the next part of the session for a tester that is free since `free_at` and pauses for
    /// `pause_ns`; the end of the session if there is none.
    fn plan_part(&mut self, free_at: i64, pause_ns: u64, lane: &impl LaneState) {
        let pause = |ns| free_at.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX));
        let Some((part, stage)) = self.sessions.as_mut().and_then(TesterSessions::take_part) else {
            self.record_session(SessionEnd::Succeeded, free_at, lane);
            self.state = State::Ended(TransactionEnd { free_at, pause_ns });
            return;
        };
        if lane.is_over() {
            return self.end(lane);
        }
        self.state = match part {
            Part::Work(work) => State::Working(work),
            Part::Wait(ns) => State::Waiting(pause(ns.saturating_add(pause_ns))),
            Part::Query => State::Planned {
                start: PlannedStart {
                    scheduled: pause(pause_ns),
                    stage,
                    arrival: None,
                    free_at,
                },
                missed: 0,
            },
        };
    }

    /// Records the end of the session in progress, if there is one.
    fn record_session(&mut self, how: SessionEnd, at: i64, lane: &impl LaneState) {
        if let Some((tester, start, metric)) = self.sessions.as_mut().and_then(|sessions| sessions.end(how)) {
            lane.with_stats(|stats| stats.record_session(tester, start, at, metric));
        }
    }

    /// Plans the start after an end.
    fn plan_next(&mut self, end: TransactionEnd, lane: &impl LaneState) {
        let TransactionEnd { free_at, pause_ns } = end;
        let free_ns = lane.run_time(free_at);
        if let Source::Closed { turns, .. } = &mut self.source {
            let turn = turns.after(free_ns.saturating_add(pause_ns));
            self.plan_turn(turn, free_at, lane);
        } else if pause_ns > 0 {
            let pause = i64::try_from(pause_ns).unwrap_or(i64::MAX);
            self.state = State::Pausing(free_at.saturating_add(pause));
        } else {
            self.plan_arrival(free_ns, lane);
        }
    }

    fn plan_first(&mut self, lane: &impl LaneState) {
        if let Source::Closed { turns, .. } = &mut self.source {
            let turn = turns.first_from(lane.control().joined_ns());
            self.plan_turn(turn, lane.raw(0), lane);
        } else {
            self.plan_arrival(0, lane);
        }
    }

    fn plan_turn(&mut self, turn: Option<Turn>, free_at: i64, lane: &impl LaneState) {
        let Some(turn) = turn else {
            return self.end(lane);
        };
        let start = PlannedStart {
            scheduled: lane.raw(turn.at_ns),
            stage: turn.stage,
            arrival: None,
            free_at,
        };
        self.state = State::Planned {
            start,
            missed: turn.missed,
        };
    }

    /// Takes the next arrival for a slot that is free since `free_since` (ns since the start of the
    /// run). With `when_full: drop`, arrivals that were due before are dropped: this slot is the
    /// first that is free again.
    fn plan_arrival(&mut self, free_since: u64, lane: &impl LaneState) {
        self.state = State::Done;
        if lane.is_over() {
            return;
        }
        let drop_late = self.population.when_full == WhenFull::Drop;
        let taken = lane.with_arrivals(self.population.workload, |arrivals| {
            let dropped = if drop_late {
                arrivals.drop_before(free_since)
            } else {
                0
            };
            (dropped, arrivals.take())
        });
        let Some((dropped, arrival)) = taken else { return };
        if dropped > 0 {
            lane.with_stats(|stats| stats.add_dropped(dropped));
        }
        if let Some(arrival) = arrival {
            let start = PlannedStart {
                scheduled: lane.raw(arrival.at_ns),
                stage: arrival.stage,
                arrival: Some(arrival.index),
                free_at: lane.raw(free_since),
            };
            self.state = State::Planned { start, missed: 0 };
        }
    }

    /// Returns whether this start must wait for admission: it is the first start of a tester that
    /// begins together with others.
    fn take_admission(&mut self) -> bool {
        match &mut self.source {
            Source::Closed { begins_together, .. } => std::mem::take(begins_together),
            Source::Open => false,
        }
    }

    fn start(&mut self, start: PlannedStart, missed: u64, lane: &impl LaneState) -> Step {
        if !lane.control().take() {
            self.end(lane);
            return Step::Done;
        }
        if let Source::Closed { turns, .. } = &mut self.source {
            turns.begun();
        }
        if missed > 0 {
            lane.with_stats(|stats| stats.add_missed(missed));
        }
        self.state = State::Performing;
        Step::Perform(start)
    }

    /// Ends the tester, because the run has ended before the planned start. An arrival that was
    /// taken and due is counted as dropped.
    fn abandon_start(&mut self, scheduled: i64, lane: &impl LaneState) {
        let is_open = matches!(self.source, Source::Open);
        if is_open && scheduled < lane.over_at() && !lane.control().exhausted() {
            let now = lane.now();
            lane.with_stats(|stats| not_started(stats, now, 1));
        }
        self.end(lane);
    }

    /// Ends the tester. Counts the slots of a closed tester that were due and not begun as missed.
    fn end(&mut self, lane: &impl LaneState) {
        self.state = State::Done;
        self.record_session(SessionEnd::Unfinished, lane.now(), lane);
        if let Source::Closed { turns, .. } = &self.source {
            let over = lane.over_at();
            if lane.now() >= over || turns.has_left() {
                let left = turns.left_before(lane.run_time(over));
                lane.with_stats(|stats| stats.add_missed(left));
            }
        }
    }
}

/// Counts a transaction that has ended. Returns the length of the pause after it, ns; none if the
/// tester ends, or the transaction was cancelled.
pub(crate) fn record(
    stats: &mut LaneStats,
    policy: &mut TesterPolicy,
    attempt: &mut Attempt,
    header: &Header,
    member: usize,
) -> Option<u64> {
    let (end, outcome) = (attempt.end, attempt.outcome);
    if let Some(text) = attempt.note.take() {
        stats.driver_note(end.max(attempt.start), text);
    }
    stats.record_end(header, attempt);
    if outcome == Outcome::Cancelled {
        return None;
    }
    match policy.judge(outcome) {
        Verdict::Go(pause_ns) => Some(pause_ns),
        Verdict::TakeOut(failures) => {
            stats.deactivate(member);
            stats.note(end, "tester-stopped", policy.stop_text(failures));
            None
        }
        Verdict::Done => {
            stats.deactivate(member);
            None
        }
    }
}

/// Counts arrivals that were due when the run ended as dropped, and adds a note.
pub(crate) fn not_started(stats: &mut LaneStats, now: i64, count: u64) {
    if count > 0 {
        stats.add_dropped(count);
        let text = format!(
            "{} arrivals were due and had not been started when the run ended",
            grouped(count)
        );
        stats.note(now, "not-started", text);
    }
}

#[cfg(test)]
mod tests;
