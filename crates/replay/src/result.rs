//! The result of a replay.

mod compare;
mod tally;

use std::collections::BTreeMap;

use plimsoll_trace::cost::{Cost, Guess};
use plimsoll_trace::names::Names;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::timing::{SubtractedTime, Timing, subtracted};

pub(crate) use compare::{Comparison, NOT_OPEN};
pub(crate) use tally::{AbandonedWait, Tally};

/// Format and version of the result.
pub const FORMAT: &str = "plimsoll.replay/1";

/// The result of a replay. Times are seconds, or microseconds if their names contain `us`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayResult {
    /// [`FORMAT`].
    pub format: String,
    /// Timing of the replay.
    pub timing: Timing,
    /// Duration from the first action to the end of the last, s.
    pub wall_s: f64,
    /// The recorded duration, including the cost of tracing, s.
    pub recorded_s: f64,
    /// The recorded duration without the cost of tracing, as in the profile of the trace.
    pub untraced_s: Interval,
    /// Duration of the replayed think times and calls without the cost of tracing, if calls took
    /// their recorded times, s.
    #[serde(default)]
    pub planned_s: f64,
    /// Whether the replay was stopped before its end.
    pub stopped: bool,
    /// Number of threads of the replay.
    pub threads: u64,
    /// Number of calls in the trace.
    pub calls: u64,
    /// Number of calls that were made.
    pub performed: u64,
    /// Number of calls in the trace on ignored names.
    pub ignored: u64,
    /// Number of calls that were not made because the call that should have opened their file
    /// failed. They are also mismatches.
    pub lost: u64,
    /// Number of bytes read.
    pub read_bytes: u64,
    /// Number of bytes written.
    pub write_bytes: u64,
    /// Times of the calls, by name of the call.
    pub by_call: BTreeMap<String, CallTimes>,
    /// Lateness of actions with a planned time: all in `exact`, those after a sleep in `diff`.
    pub lateness: Quantiles,
    /// Time that was subtracted from the recorded times, with the median, the low and the high
    /// value of the calibration.
    pub tracing: [SubtractedTime; 3],
    /// Waiting for other workers.
    pub waits: Waits,
    /// Results that differ from the trace, the most frequent first, causes before consequences.
    pub mismatches: Vec<Mismatch>,
    /// Calls that the sandbox refused, the most frequent first.
    pub refusals: Vec<RefusedCalls>,
}

/// A time with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Most likely value, s.
    pub middle_s: f64,
    /// Lower bound, s.
    pub low_s: f64,
    /// Upper bound, s.
    pub high_s: f64,
}

/// Times of one kind of call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Number of calls.
    pub count: u64,
    /// Number of calls that failed; some must fail.
    pub failed: u64,
    /// Bytes that the calls moved.
    pub bytes: u64,
    /// Sum of the times, s.
    pub total_s: f64,
    /// Sum of the recorded times of the same calls, including the cost of tracing, s.
    pub recorded_s: f64,
    /// Sum of the recorded times without the cost of tracing, s.
    pub untraced_s: f64,
    /// Distribution of the time of one call.
    pub times: Quantiles,
}

/// Quantiles of a distribution, us, to three significant digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Median, us.
    pub p50_us: f64,
    /// 90 % quantile, us.
    pub p90_us: f64,
    /// 99 % quantile, us.
    pub p99_us: f64,
    /// Maximum, us.
    pub max_us: f64,
}

/// Waiting for other workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Number of edges: an action must be after one of another worker.
    pub edges: u64,
    /// Number of edges at which the other action was not complete yet.
    pub waited: u64,
    /// Sum of the waits of all workers, s.
    pub total_s: f64,
    /// Number of waits that were abandoned because no worker could continue.
    pub let_go: u64,
    /// The first abandoned waits.
    pub examples: Vec<LetGo>,
}

/// An abandoned wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LetGo {
    /// Thread that waited, by its id on the traced host.
    pub thread: u32,
    /// Name of the call that waited.
    pub call: String,
    /// Path of the call, if it has one.
    pub path: Option<String>,
    /// Thread that it waited for.
    pub awaited_thread: u32,
    /// The call of that thread.
    pub awaited_call: String,
}

/// Calls whose result differs from the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Name of the call.
    pub call: String,
    /// Recorded result: `ok`, or the name of an error.
    pub recorded: String,
    /// Result in the replay: `ok`, `fewer bytes`, `more bytes`, `elsewhere` (lseek), `not open`, or
    /// the name of an error.
    pub got: String,
    /// Number of such calls.
    pub count: u64,
    /// The first such calls.
    pub examples: Vec<Example>,
}

/// One of several similar calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Path in the trace; empty if the call has none or it is unknown.
    pub path: String,
    /// Recorded result; an error is negative.
    pub recorded: i64,
    /// Result in the replay; an error is negative.
    pub got: i64,
}

/// Calls that the sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCalls {
    /// Name of the call.
    pub call: String,
    /// Reason.
    pub why: String,
    /// Number of such calls.
    pub count: u64,
    /// Paths in the trace of the first such calls.
    pub examples: Vec<String>,
}

impl ReplayResult {
    /// Whether all results were those of the trace, and no call was refused, lost, abandoned or
    /// stopped.
    pub fn is_faithful(&self) -> bool {
        let untroubled = self.mismatches.is_empty() && self.refusals.is_empty();
        untroubled && self.lost == 0 && self.waits.let_go == 0 && !self.stopped
    }
}

/// The recorded times, for comparison with those of the replay.
pub(crate) struct RecordedRun {
    pub(crate) recorded_s: f64,
    pub(crate) untraced_s: Interval,
    pub(crate) planned_s: f64,
    pub(crate) tracing: [SubtractedTime; 3],
}

pub(crate) fn recorded(plan: &Plan, cost: &Cost) -> RecordedRun {
    let span = plan.end_ns.saturating_sub(plan.zero_ns).max(0);
    let recorded_s = seconds(if plan.calls == 0 { 0 } else { span.unsigned_abs() });
    let planned = Guess::ALL.map(|guess| seconds(plan.span_ns(cost, guess)));
    let mut tracing = [SubtractedTime::default(); 3];
    for worker in &plan.workers {
        for (sum, guess) in tracing.iter_mut().zip(Guess::ALL) {
            let subtracted_time = subtracted(&worker.actions, cost, guess);
            sum.subtracted_ns += subtracted_time.subtracted_ns;
            sum.clipped_ns += subtracted_time.clipped_ns;
        }
    }
    RecordedRun {
        recorded_s,
        untraced_s: untraced(plan, recorded_s, planned),
        planned_s: planned[0],
        tracing,
    }
}

/// The estimate of the profile. Only the plan accounts for the tracing cost of other threads in
/// waits between threads. For one core, the plan also knows which threads waited for the core
/// alone; the profile does not.
fn untraced(plan: &Plan, recorded_s: f64, [planned_s, longest_s, shortest_s]: [f64; 3]) -> Interval {
    // A low cost of tracing results in a long span.
    let planned = Interval {
        middle_s: planned_s,
        low_s: shortest_s,
        high_s: longest_s,
    };
    let Some(times) = &plan.times else {
        return planned;
    };
    let profile = Interval {
        middle_s: times.corrected_s.unwrap_or(recorded_s),
        low_s: times.low_s.unwrap_or(recorded_s),
        high_s: times.high_s.unwrap_or(recorded_s),
    };
    if !plan.on_one_core {
        return profile;
    }
    Interval {
        low_s: profile.low_s.min(planned.low_s),
        high_s: profile.high_s.max(planned.high_s),
        ..planned
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A path as text for display.
pub(crate) fn shown(names: &Names, path: Option<plimsoll_trace::event::PathId>) -> Option<String> {
    path.map(|path| String::from_utf8_lossy(names.path(path)).into_owned())
}
