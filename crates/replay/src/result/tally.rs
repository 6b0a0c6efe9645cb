//! The counts of one worker, and of all workers.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use plimsoll_trace::cost::{Cost, Guess};
use plimsoll_trace::event::{OpenId, PathId};
use plimsoll_trace::names::Names;

use super::{
    CallTimes, Comparison, Example, LetGo, Mismatch, NOT_OPEN, Quantiles, RefusedCalls, Waits, seconds, shown,
};
use crate::action::{Action, Operation};
use crate::perform::ActionResult;
use crate::plan::Plan;
use crate::root::Refusal;
use crate::timing::duration;

/// Number of examples that are kept of each kind.
const EXAMPLES: usize = 3;
/// Maximum time in a histogram, ns: one hour. Longer times count as this.
const MAX_NS: u64 = 3_600_000_000_000;

/// Counts of one kind of call.
#[derive(Default)]
struct Calls {
    count: u64,
    failed: u64,
    bytes: u64,
    total_ns: u64,
    recorded_ns: u64,
    untraced_ns: u64,
    times: Option<Histogram<u64>>,
}

/// Number of similar items, and the first of them.
struct Alike<T> {
    count: u64,
    examples: Vec<T>,
}

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self {
            count: 0,
            examples: Vec::new(),
        }
    }
}

impl<T> Alike<T> {
    fn add(&mut self, example: T) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example);
        }
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        let free = EXAMPLES - self.examples.len();
        self.examples.extend(other.examples.into_iter().take(free));
    }
}

/// A result that differs from the recorded one.
struct Differing {
    path: Option<PathId>,
    open: Option<OpenId>,
    recorded: i64,
    got: i64,
}

/// An abandoned wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AbandonedWait {
    pub(crate) worker: u32,
    pub(crate) at: u32,
    pub(crate) awaited: u32,
    pub(crate) until: u32,
}

/// The counts of a worker.
#[derive(Default)]
pub(crate) struct Tally {
    /// Counts by number of the operation.
    calls: Vec<Calls>,
    lateness: Option<Histogram<u64>>,
    mismatches: BTreeMap<(Operation, Comparison), Alike<Differing>>,
    refusals: BTreeMap<(Operation, &'static str, Refusal), Alike<Option<PathId>>>,
    let_go: Alike<AbandonedWait>,
    pub(crate) lost: u64,
    pub(crate) waited: u64,
    pub(crate) waited_ns: u64,
    pub(crate) workers: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            calls: Operation::ALL.iter().map(|_| Calls::default()).collect(),
            ..Self::default()
        }
    }

    /// Adds an action that took `took_ns`.
    pub(crate) fn add(&mut self, action: &Action, done: ActionResult, took_ns: u64, cost: &Cost) {
        match done {
            ActionResult::Replaced(operation, got) => {
                let action = Action { operation, ..*action };
                self.add(&action, ActionResult::Returned(got), took_ns, cost);
            }
            ActionResult::Returned(got) => {
                let calls = &mut self.calls[action.operation as usize];
                calls.count += 1;
                calls.total_ns += took_ns;
                calls.recorded_ns += action.duration_ns;
                calls.untraced_ns += duration(action, cost, Guess::Middle);
                calls
                    .times
                    .get_or_insert_with(histogram)
                    .saturating_record(took_ns);
                match got {
                    Ok(moved) if action.operation.moves_data() => calls.bytes += moved.unsigned_abs(),
                    Ok(_) => {}
                    Err(_) => calls.failed += 1,
                }
                if let Some(comparison) = Comparison::of(action, got) {
                    self.add_mismatch(action, comparison, got.map_err(|why| why as i32));
                }
            }
            ActionResult::Refused(why) => {
                let kept = self
                    .refusals
                    .entry((action.operation, refused_call(action), why))
                    .or_default();
                kept.add(action.path);
            }
            ActionResult::Lost => {
                self.lost += 1;
                self.add_mismatch(action, Comparison::of_lost(action), Ok(-1));
            }
            ActionResult::Nothing => {}
        }
    }

    fn add_mismatch(&mut self, action: &Action, comparison: Comparison, got: Result<i64, i32>) {
        let number = |result: Result<i64, i32>| result.unwrap_or_else(|errno| -i64::from(errno));
        let recorded = action.recorded.result().map_or(0, number);
        let kept = self.mismatches.entry((action.operation, comparison)).or_default();
        kept.add(Differing {
            path: action.path,
            open: action.open,
            recorded,
            got: number(got),
        });
    }

    pub(crate) fn add_lateness(&mut self, ns: i64) {
        let ns = ns.max(0).unsigned_abs();
        self.lateness.get_or_insert_with(histogram).saturating_record(ns);
    }

    pub(crate) fn add_abandoned(&mut self, edge: AbandonedWait) {
        self.let_go.add(edge);
    }

    /// Adds the counts of another worker.
    pub(crate) fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.calls.iter_mut().zip(other.calls) {
            mine.count += theirs.count;
            mine.failed += theirs.failed;
            mine.bytes += theirs.bytes;
            mine.total_ns += theirs.total_ns;
            mine.recorded_ns += theirs.recorded_ns;
            mine.untraced_ns += theirs.untraced_ns;
            join(&mut mine.times, theirs.times);
        }
        join(&mut self.lateness, other.lateness);
        for (kind, kept) in other.mismatches {
            self.mismatches.entry(kind).or_default().merge(kept);
        }
        for (kind, kept) in other.refusals {
            self.refusals.entry(kind).or_default().merge(kept);
        }
        self.let_go.merge(other.let_go);
        self.lost += other.lost;
        self.waited += other.waited;
        self.waited_ns += other.waited_ns;
        self.workers += other.workers;
    }

    pub(crate) fn performed(&self) -> u64 {
        self.calls.iter().map(|calls| calls.count).sum()
    }

    /// Numbers of bytes read and written. A copy by the kernel counts as both.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let sum = |counts: fn(Operation) -> bool| {
            let kinds = Operation::ALL.iter().zip(&self.calls);
            let some = kinds.filter(|(operation, _)| counts(**operation));
            some.map(|(_, calls)| calls.bytes).sum()
        };
        (sum(Operation::reads), sum(Operation::writes))
    }

    pub(crate) fn by_call(&self) -> BTreeMap<String, CallTimes> {
        let kinds = Operation::ALL.iter().zip(&self.calls);
        kinds
            .filter(|(_, calls)| calls.count > 0)
            .map(|(operation, calls)| (operation.name().to_owned(), calls.times()))
            .collect()
    }

    pub(crate) fn lateness(&self) -> Quantiles {
        quantiles(self.lateness.as_ref())
    }

    pub(crate) fn waits(&self, plan: &Plan, names: &Names) -> Waits {
        let examples = self.let_go.examples.iter();
        Waits {
            edges: plan.workers.iter().map(|worker| worker.edges.len() as u64).sum(),
            waited: self.waited,
            total_s: seconds(self.waited_ns),
            let_go: self.let_go.count,
            examples: examples.map(|edge| edge.describe(plan, names)).collect(),
        }
    }

    pub(crate) fn mismatches(&self, plan: &Plan, names: &Names) -> Vec<Mismatch> {
        let mismatches = self
            .mismatches
            .iter()
            .map(|((operation, comparison), kept)| Mismatch {
                call: operation.name().to_owned(),
                recorded: comparison.recorded.text(),
                got: comparison.got.text(),
                count: kept.count,
                examples: kept
                    .examples
                    .iter()
                    .map(|differing| Example {
                        path: shown(names, differing.path.or_else(|| plan.opened(differing.open?)))
                            .unwrap_or_default(),
                        recorded: differing.recorded,
                        got: differing.got,
                    })
                    .collect(),
            });
        let mut mismatches: Vec<_> = mismatches.collect();
        // A file that could not be opened is the cause of `not open`.
        mismatches.sort_by_key(|mismatch| (mismatch.got == NOT_OPEN, std::cmp::Reverse(mismatch.count)));
        mismatches
    }

    pub(crate) fn refusals(&self, names: &Names) -> Vec<RefusedCalls> {
        let refusals = self.refusals.iter().map(|((_, call, why), kept)| RefusedCalls {
            call: (*call).to_owned(),
            why: why.to_string(),
            count: kept.count,
            examples: kept
                .examples
                .iter()
                .filter_map(|path| shown(names, *path))
                .collect(),
        });
        let mut refusals: Vec<_> = refusals.collect();
        refusals.sort_by_key(|refused| std::cmp::Reverse(refused.count));
        refusals
    }
}

/// Name of the call in the trace. The length of an action that is always refused is the index of
/// its call + 1.
fn refused_call(action: &Action) -> &'static str {
    let index = usize::try_from(action.length)
        .ok()
        .and_then(|index| index.checked_sub(1));
    let mut all = plimsoll_trace::syscalls::all();
    let call = index.filter(|_| action.operation == Operation::Refuse);
    call.and_then(|index| all.find(|call| call.index() == index))
        .map_or(action.operation.name(), |call| call.name)
}

impl AbandonedWait {
    fn describe(&self, plan: &Plan, names: &Names) -> LetGo {
        let tid = |worker: u32| {
            let entry = names.threads().get(worker as usize);
            entry.map_or(0, |entry| entry.tid)
        };
        let action = |worker: u32, at: u32| plan.workers.get(worker as usize)?.actions.get(at as usize);
        let call = |action: Option<&Action>| action.map_or("", |action| action.operation.name()).to_owned();
        let waiting = action(self.worker, self.at);
        LetGo {
            thread: tid(self.worker),
            call: call(waiting),
            path: shown(names, waiting.and_then(|action| action.path)),
            awaited_thread: tid(self.awaited),
            awaited_call: call(action(self.awaited, self.until.saturating_sub(1))),
        }
    }
}

impl Calls {
    fn times(&self) -> CallTimes {
        CallTimes {
            count: self.count,
            failed: self.failed,
            bytes: self.bytes,
            total_s: seconds(self.total_ns),
            recorded_s: seconds(self.recorded_ns),
            untraced_s: seconds(self.untraced_ns),
            times: quantiles(self.times.as_ref()),
        }
    }
}

fn histogram() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, MAX_NS, 3);
    made.expect("bounds are right: 1 < an hour, and three digits")
}

fn join(mine: &mut Option<Histogram<u64>>, theirs: Option<Histogram<u64>>) {
    match (mine.as_mut(), theirs) {
        (_, None) => {}
        (None, theirs) => *mine = theirs,
        (Some(mine), Some(theirs)) => {
            let added = mine.add(&theirs);
            debug_assert!(added.is_ok(), "all have the same bounds");
        }
    }
}

fn quantiles(histogram: Option<&Histogram<u64>>) -> Quantiles {
    let Some(histogram) = histogram else {
        return Quantiles::default();
    };
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Quantiles {
        count: histogram.len(),
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        max_us: histogram.max() as f64 / 1e3,
    }
}
