//! How a replay went.

mod compare;
mod tally;

use std::collections::BTreeMap;

use plimsoll_trace::cost::{Cost, Guess};
use plimsoll_trace::names::Names;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::timing::{Subtracted, Timing, subtracted};

pub(crate) use compare::{Comparison, NOT_OPEN};
pub(crate) use tally::{Tally, Unfinished};

/// Version of the result.
pub const FORMAT: &str = "plimsoll.replay/1";

/// How a replay went. Times are seconds, or microseconds where their names say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// [`FORMAT`].
    pub format: String,
    /// How fast it was to be.
    pub timing: Timing,
    /// From the first action to the end of the last one.
    pub wall_s: f64,
    /// The same as recorded: tracing is in it.
    pub recorded_s: f64,
    /// The same without what tracing cost, as the profile of the trace says.
    pub untraced_s: Interval,
    /// What the think times and calls that are replayed come to without what tracing cost, if calls
    /// take as long as they did.
    #[serde(default)]
    pub planned_s: f64,
    /// It was stopped before its end.
    pub stopped: bool,
    /// Threads that took part.
    pub threads: u64,
    /// Calls of the trace.
    pub calls: u64,
    /// Calls that were made.
    pub performed: u64,
    /// Calls of the trace on names that are ignored.
    pub ignored: u64,
    /// Calls whose open file was not there, as what should have opened it had failed: they are
    /// among the mismatches.
    pub lost: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// By the names of the calls.
    pub by_call: BTreeMap<String, CallTimes>,
    /// How late actions began that had a time: in `exact` all, in `diff` those after a sleep.
    pub lateness: Quantiles,
    /// What was subtracted from recorded times, by the median, the low and the high end of the
    /// calibration.
    pub tracing: [Subtracted; 3],
    /// Waiting for other workers.
    pub waits: Waits,
    /// Results that were not those of the trace, most frequent first, causes before consequences.
    pub mismatches: Vec<Mismatch>,
    /// What the sandbox has not done, most frequent first.
    pub refusals: Vec<Refused>,
}

/// A time that is not known better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Most likely.
    pub middle_s: f64,
    /// At least.
    pub low_s: f64,
    /// At most.
    pub high_s: f64,
}

/// Times of one kind of call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    /// How many.
    pub count: u64,
    /// How many of them failed, as they may have to.
    pub failed: u64,
    /// Bytes that they have moved.
    pub bytes: u64,
    /// In all.
    pub total_s: f64,
    /// The same calls as recorded: tracing is in it.
    pub recorded_s: f64,
    /// The same without what tracing cost.
    pub untraced_s: f64,
    /// Of one call.
    pub times: Quantiles,
}

/// Of a distribution, us: to three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Of how many.
    pub count: u64,
    /// Median.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// The greatest.
    pub max_us: f64,
}

/// Waiting for other workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// How often an action had to be after one of another worker.
    pub edges: u64,
    /// How often that was not over yet.
    pub waited: u64,
    /// How long in all, summed over the workers.
    pub total_s: f64,
    /// How often nobody could go on, and one was let go.
    pub let_go: u64,
    /// The first of them.
    pub examples: Vec<LetGo>,
}

/// An edge that was let go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LetGo {
    /// Who waited, by its id on the traced host.
    pub thread: u32,
    /// Its call.
    pub call: String,
    /// The name it is about, where there is one.
    pub path: Option<String>,
    /// Whom it waited for.
    pub awaited_thread: u32,
    /// The call of that one.
    pub awaited_call: String,
}

/// Calls whose result was not that of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The call.
    pub call: String,
    /// `ok`, or the name of an error.
    pub recorded: String,
    /// `ok`, `fewer bytes`, `more bytes`, `elsewhere` (lseek), `not open`, or the name of an error.
    pub got: String,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<Example>,
}

/// One of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// The name in the trace; empty where the call has none that is known.
    pub path: String,
    /// What was returned when it was recorded; errors are negative.
    pub recorded: i64,
    /// What is returned now.
    pub got: i64,
}

/// Calls that the sandbox has not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The call.
    pub call: String,
    /// Why.
    pub why: String,
    /// How many.
    pub count: u64,
    /// Names in the trace: the first of them.
    pub examples: Vec<String>,
}

impl Replayed {
    /// Whether all results were those of the trace, and nothing was refused, lost, let go or left.
    pub fn is_faithful(&self) -> bool {
        let untroubled = self.mismatches.is_empty() && self.refusals.is_empty();
        untroubled && self.lost == 0 && self.waits.let_go == 0 && !self.stopped
    }
}

/// What was recorded, beside what was achieved.
pub(crate) struct RecordedRun {
    pub(crate) recorded_s: f64,
    pub(crate) untraced_s: Interval,
    pub(crate) planned_s: f64,
    pub(crate) tracing: [Subtracted; 3],
}

pub(crate) fn recorded(plan: &Plan, cost: &Cost) -> RecordedRun {
    let span = plan.end_ns.saturating_sub(plan.zero_ns).max(0);
    let recorded_s = seconds(if plan.calls == 0 { 0 } else { span.unsigned_abs() });
    let planned = Guess::ALL.map(|guess| seconds(plan.span_ns(cost, guess)));
    let mut tracing = [Subtracted::default(); 3];
    for worker in &plan.workers {
        for (sum, guess) in tracing.iter_mut().zip(Guess::ALL) {
            let found = subtracted(&worker.actions, cost, guess);
            sum.subtracted_ns += found.subtracted_ns;
            sum.clipped_ns += found.clipped_ns;
        }
    }
    RecordedRun {
        recorded_s,
        untraced_s: untraced(plan, recorded_s, planned),
        planned_s: planned[0],
        tracing,
    }
}

/// The estimate of the profile. What waits between threads hold of the tracing of others is in a
/// plan, but not in that; on one core a plan knows who waited for the core alone, which the profile
/// does not.
fn untraced(plan: &Plan, recorded_s: f64, [planned_s, longest_s, shortest_s]: [f64; 3]) -> Interval {
    // What costs little leaves a long span.
    let planned = Interval {
        middle_s: planned_s,
        low_s: shortest_s,
        high_s: longest_s,
    };
    let Some(times) = &plan.times else {
        return planned;
    };
    let found = Interval {
        middle_s: times.corrected_s.unwrap_or(recorded_s),
        low_s: times.low_s.unwrap_or(recorded_s),
        high_s: times.high_s.unwrap_or(recorded_s),
    };
    if !plan.on_one_core {
        return found;
    }
    Interval {
        low_s: found.low_s.min(planned.low_s),
        high_s: found.high_s.max(planned.high_s),
        ..planned
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A name as people read it.
pub(crate) fn shown(names: &Names, path: Option<plimsoll_trace::event::PathId>) -> Option<String> {
    path.map(|path| String::from_utf8_lossy(names.path(path)).into_owned())
}
