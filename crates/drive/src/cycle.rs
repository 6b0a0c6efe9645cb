//! The work of one tester as a state machine: sleep, perform, sleep, until its part of the run is
//! over. Tasks (`lane`) and threads (`blocking_pool`) are two shells around it. It does no I/O and
//! reads no clock of its own.

use std::sync::Arc;

use plimsoll_model::{Outcome, WhenFull, grouped};

use crate::arrivals::Arrivals;
use crate::attempt::Attempt;
use crate::control::Control;
use crate::lane_stats::{Header, LaneStats};
use crate::plan::Population;
use crate::policy::{TesterPolicy, TesterSlot, Turn, TurnSchedule, Verdict};

/// What the testers of a lane share. All times are raw stamps, ns.
pub(crate) trait LaneState {
    /// The present.
    fn now(&self) -> i64;
    /// Zero of the run.
    fn t0(&self) -> i64;
    /// End of the measured part. Far in the future until it is known.
    fn over_at(&self) -> i64;
    /// Whether nothing may be started any more.
    fn is_over(&self) -> bool;
    /// Stop and budget of the run.
    fn control(&self) -> &Control;
    /// Changes the counters of the lane.
    fn with_stats(&self, change: impl FnOnce(&mut LaneStats));
    /// Reads or takes arrivals of a workload. None if it has none on this lane.
    fn with_arrivals<R>(&self, workload: u16, read: impl FnOnce(&mut Arrivals) -> R) -> Option<R>;

    /// Time of the run of a raw stamp, ns; 0 before its zero.
    fn run_time(&self, raw: i64) -> u64 {
        (raw - self.t0()).max(0) as u64
    }

    /// Raw stamp of a time of the run, ns.
    fn raw(&self, run_ns: u64) -> i64 {
        self.t0()
            .saturating_add(i64::try_from(run_ns).unwrap_or(i64::MAX))
    }
}

/// What the tester has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sleep until this stamp, or until [`LaneState::is_over`]; then ask again.
    SleepUntil(i64),
    /// Wait until the lane admits this tester; then call [`TesterCycle::admit`].
    AwaitAdmission,
    /// Carry out a transaction; then call [`TesterCycle::finish`].
    Perform(PlannedStart),
    /// End.
    Done,
}

/// A transaction that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedStart {
    /// Scheduled start, raw stamp, ns.
    pub(crate) scheduled: i64,
    /// Stage of the load.
    pub(crate) stage: u16,
    /// Number of the arrival of an open load.
    pub(crate) arrival: Option<u64>,
    /// Since when the tester is free, raw stamp, ns.
    pub(crate) free_at: i64,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    /// When the tester was free again, raw stamp, ns.
    pub(crate) free_at: i64,
    /// Pause after it, ns.
    pub(crate) pause_ns: u64,
}

/// Where the next start comes from.
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
    /// The next start, and the number of slots missed before it.
    Planned {
        start: PlannedStart,
        missed: u64,
    },
    /// The same, which waits for admission.
    Admission {
        start: PlannedStart,
        missed: u64,
    },
    Performing,
    /// A pause of an open slot, to this stamp.
    Pausing(i64),
    Done,
}

/// The state machine of one tester.
pub(crate) struct TesterCycle {
    population: Arc<Population>,
    source: Source,
    state: State,
}

impl TesterCycle {
    pub(crate) fn new(slot: &TesterSlot) -> Self {
        let source = if slot.is_open {
            Source::Open
        } else {
            let turns = TurnSchedule::new(slot);
            Source::Closed {
                begins_together: turns.begin_together(),
                turns,
            }
        };
        Self {
            population: Arc::clone(&slot.population),
            source,
            state: State::New,
        }
    }

    /// What to do now.
    pub(crate) fn next(&mut self, lane: &impl LaneState) -> Step {
        loop {
            match self.state {
                State::New => self.plan_first(lane),
                State::Planned { start, missed } => {
                    if lane.is_over() {
                        self.leave_unstarted(start.scheduled, lane);
                    } else if lane.now() < start.scheduled {
                        return Step::SleepUntil(start.scheduled);
                    } else if self.take_admission() {
                        self.state = State::Admission { start, missed };
                        return Step::AwaitAdmission;
                    } else {
                        return self.start(start, missed, lane);
                    }
                }
                State::Pausing(until) => {
                    if !lane.is_over() && lane.now() < until {
                        return Step::SleepUntil(until);
                    }
                    self.plan_arrival(lane.run_time(lane.now()), lane);
                }
                State::Admission { .. } | State::Performing | State::Done => return Step::Done,
            }
        }
    }

    /// The lane has admitted the tester at the stamp `at`, which is when its first transaction is
    /// scheduled.
    pub(crate) fn admit(&mut self, at: i64) {
        if let State::Admission { mut start, missed } = self.state {
            start.scheduled = at;
            self.state = State::Planned { start, missed };
        }
    }

    /// The transaction has ended. None: the tester has done its part, or was taken out.
    pub(crate) fn finish(&mut self, finished: Option<Finished>, lane: &impl LaneState) {
        let Some(Finished { free_at, pause_ns }) = finished else {
            return self.end(lane);
        };
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

    /// Takes the next arrival of a slot that is free since `free_since` (time of the run, ns).
    /// Arrivals that came while no slot was free are dropped if the load says so: this slot is the
    /// first to be free again.
    fn plan_arrival(&mut self, free_since: u64, lane: &impl LaneState) {
        self.state = State::Done;
        if lane.is_over() {
            return;
        }
        let drops = self.population.when_full == WhenFull::Drop;
        let taken = lane.with_arrivals(self.population.workload, |arrivals| {
            let dropped = if drops {
                arrivals.drop_before(free_since)
            } else {
                0
            };
            (dropped, arrivals.take())
        });
        let Some((dropped, arrival)) = taken else { return };
        if dropped > 0 {
            lane.with_stats(|stats| stats.dropped(dropped));
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

    /// Whether this is the first start of a tester that begins together with others.
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
            lane.with_stats(|stats| stats.missed(missed));
        }
        self.state = State::Performing;
        Step::Perform(start)
    }

    /// The run has ended before the planned start. An arrival that was taken and due is counted.
    fn leave_unstarted(&mut self, scheduled: i64, lane: &impl LaneState) {
        let is_open = matches!(self.source, Source::Open);
        if is_open && scheduled < lane.over_at() && !lane.control().exhausted() {
            let now = lane.now();
            lane.with_stats(|stats| not_started(stats, now, 1));
        }
        self.end(lane);
    }

    /// Counts the slots of a closed tester that were due and not begun.
    fn end(&mut self, lane: &impl LaneState) {
        self.state = State::Done;
        if let Source::Closed { turns, .. } = &self.source {
            let over = lane.over_at();
            if lane.now() >= over {
                let left = turns.left_before(lane.run_time(over));
                lane.with_stats(|stats| stats.missed(left));
            }
        }
    }
}

/// Enters a transaction that has ended in the counters of the lane. The pause after it, ns; None if
/// the tester has done its part, was taken out, or the transaction was cancelled.
pub(crate) fn enter(
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
    stats.ended(header, attempt);
    if outcome == Outcome::Cancelled {
        return None;
    }
    match policy.judge(outcome) {
        Verdict::Go(pause_ns) => Some(pause_ns),
        Verdict::TakeOut(failures) => {
            stats.gone(member);
            stats.note(end, "tester-stopped", policy.taken_out(failures));
            None
        }
        Verdict::Done => {
            stats.gone(member);
            None
        }
    }
}

/// Counts arrivals that were due when the run ended.
pub(crate) fn not_started(stats: &mut LaneStats, now: i64, count: u64) {
    if count > 0 {
        stats.dropped(count);
        let text = format!(
            "{} arrivals were due and had not been started when the run ended",
            grouped(count)
        );
        stats.note(now, "not-started", text);
    }
}

#[cfg(test)]
mod tests;
