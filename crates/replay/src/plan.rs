//! Converts the events of a trace to the actions of each worker.
//!
//! The plan contains the whole trace: about 100 bytes per call. For a trace of several threads, the
//! conversion needs the same amount again.

mod calls;
mod claims;
mod data;
mod opens;
mod paths;
mod span;

use std::collections::{HashMap, HashSet};
use std::ffi::CString;

use plimsoll_trace::cost::Drift;
use plimsoll_trace::event::{Event, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;
use plimsoll_trace::profile::UntracedTime;
use plimsoll_trace::profile::json::Times;

use crate::action::{Action, Operation, RecordedResult};
use crate::order::{self, Claim, Edge, Step};
use crate::root::Name;
use opens::Opens;
use paths::Paths;

/// Order of the actions of different workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// As the shared resources require: see [`crate::order`].
    #[default]
    Resource,
    /// Strictly the recorded order.
    Trace,
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Order of the actions of different workers.
    pub order: Ordering,
    /// Whether mapped ranges of files are read, page by page.
    pub read_maps: bool,
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The trace is too large for the numbers of a plan.
    #[error("the trace has more than {most} {what}, the maximum of a replay: replay a part of the trace")]
    TooMany {
        /// Noun of what is numbered.
        what: &'static str,
        /// Maximum number.
        most: u32,
    },
}

/// The actions of all workers.
#[derive(Debug, Default)]
pub struct Plan {
    /// One worker per thread of the trace, with the same index. A worker without actions is not
    /// started.
    pub workers: Vec<Worker>,
    /// Paths beneath the root, by index of the path in the trace; none if it is ignored.
    pub names: Vec<Option<Name>>,
    /// Targets of links and names of attributes, as recorded.
    pub texts: HashMap<PathId, CString>,
    /// Number of open files in the trace.
    pub opens: usize,
    /// Files that were open before the trace began.
    pub before: Vec<(OpenId, PathId)>,
    /// Whether an open file was duplicated.
    pub has_duplicates: bool,
    /// Number of calls on ignored names, or on files that were opened by such names.
    pub ignored: u64,
    /// Start of the first event, ns since the zero of the trace.
    pub zero_ns: i64,
    /// End of the last event, ns since the zero of the trace.
    pub end_ns: i64,
    /// Number of recorded calls, including calls that are not replayed.
    pub calls: u64,
    /// Duration of the recorded run, and its duration without tracing, as in the profile of the
    /// trace. None for a plan that was not made from a trace.
    pub times: Option<Times>,
    /// Whether the trace was recorded on one core.
    pub on_one_core: bool,
}

/// The actions of one worker.
#[derive(Debug, Default)]
pub struct Worker {
    /// Actions in order.
    pub actions: Vec<Action>,
    /// Edges to other workers, in the order of the actions.
    pub edges: Vec<Edge>,
    /// Whether the fork of another worker starts it; otherwise it starts with the replay.
    pub is_forked: bool,
    /// Maximum number of bytes that a call reads.
    pub longest_read: u64,
    /// Maximum number of bytes that a call writes.
    pub longest_write: u64,
}

impl Plan {
    /// Converts the events of a trace; those of each thread are in order. `path_beneath` returns
    /// the path of a name beneath the root, or None if it is ignored.
    ///
    /// # Errors
    /// [`PlanError::TooMany`]: the trace has too many calls.
    pub fn new(
        header: &Header,
        events: impl IntoIterator<Item = Event>,
        names: &Names,
        path_beneath: impl Fn(PathId) -> Option<Vec<u8>>,
        options: Options,
    ) -> Result<Self, PlanError> {
        let mut planner = Planner::new(header, names, &path_beneath, options);
        for event in events {
            planner.take(&event)?;
        }
        Ok(planner.finish())
    }

    /// Path with which an open file was opened. None for a pipe or a similar file.
    pub fn opened(&self, open: OpenId) -> Option<PathId> {
        let mut before = self.before.iter();
        let known = before.find_map(|(id, path)| (*id == open).then_some(*path));
        let mut actions = self.workers.iter().flat_map(|worker| &worker.actions);
        known.or_else(|| {
            let opens = |action: &&Action| action.operation == Operation::Open && action.open == Some(open);
            actions.find(opens)?.path
        })
    }

    /// Maximum number of threads that run at the same time, provided that none ends late.
    pub fn most_at_once(&self) -> usize {
        let mut times: Vec<(i64, i32)> = Vec::new();
        for worker in &self.workers {
            if let (Some(first), Some(last)) = (worker.actions.first(), worker.actions.last()) {
                let end = last.start_ns.saturating_add_unsigned(last.duration_ns);
                times.push((first.start_ns, 1));
                times.push((end.saturating_add(1), -1));
            }
        }
        times.sort_unstable();
        let mut alive = 0_i32;
        let most = times.into_iter().map(|(_, change)| {
            alive += change;
            alive
        });
        most.max().unwrap_or(0).unsigned_abs() as usize
    }
}

/// State of one thread during the conversion.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// End of the last event, ns.
    end: Option<i64>,
    computing: u64,
    waiting: u64,
    folded: u32,
    /// Key of the last step.
    key: Option<i64>,
    /// Time of the fork that made it, ns.
    born: Option<i64>,
    /// Whether it has submitted requests, which the replay makes at once.
    submits: bool,
}

/// Conversion of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// The event is not replayed, and no action waits for it: its time is added to the next action.
    Fold,
    /// As [`Self::Fold`], because its name is ignored.
    Ignore,
    /// The event becomes an action.
    Act(Action),
}

struct Planner<'a> {
    trace: &'a Names,
    options: Options,
    plan: Plan,
    paths: Paths,
    opens: Opens,
    threads: Vec<Thread>,
    /// File mode creation mask (umask) by process.
    masks: HashMap<u32, u32>,
    /// Names of pipes that the trace made.
    pipes: HashSet<PathId>,
    /// Whether names are known to exist.
    there: HashMap<PathId, bool>,
    /// By file: its known size, bytes.
    reach: HashMap<u32, u64>,
    /// Steps of all workers, in the order of the events.
    steps: Vec<Step>,
    claims: Vec<Claim>,
    drift: Drift,
    untraced: UntracedTime,
    /// The trace was recorded on one core: a thread that did not compute between two calls waited
    /// for the core.
    on_one_core: bool,
}

impl<'a> Planner<'a> {
    fn new(
        header: &Header,
        trace: &'a Names,
        path_beneath: &impl Fn(PathId) -> Option<Vec<u8>>,
        options: Options,
    ) -> Self {
        let paths = Paths::new(trace.paths().len(), path_beneath);
        let workers = trace.threads().len();
        let mut plan = Plan {
            zero_ns: i64::MAX,
            end_ns: i64::MIN,
            ..Plan::default()
        };
        plan.workers.resize_with(workers, Worker::default);
        Self {
            trace,
            options,
            plan,
            paths,
            opens: Opens::default(),
            threads: vec![Thread::default(); workers],
            masks: HashMap::new(),
            pipes: HashSet::new(),
            there: HashMap::new(),
            reach: HashMap::new(),
            steps: Vec::new(),
            claims: Vec::new(),
            drift: Drift::new(header),
            untraced: UntracedTime::new(header),
            on_one_core: header.is_on_one_core(),
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), PlanError> {
        let index = event.thread.index();
        if index >= self.threads.len() {
            // The thread is of another trace.
            return Ok(());
        }
        self.plan.calls += u64::from(event.call.is_made());
        self.plan.zero_ns = self.plan.zero_ns.min(event.start_ns);
        self.plan.end_ns = self.plan.end_ns.max(event.end_ns());
        self.pass(event);
        let slower = self.drift.take(event);
        self.untraced.take(self.trace, event, slower);
        match self.fate(event) {
            Fate::Act(action) => self.add(event, Action { slower, ..action }),
            fate => {
                self.plan.ignored += u64::from(fate == Fate::Ignore);
                let thread = &mut self.threads[index];
                thread.computing += event.duration_ns.unwrap_or(0);
                thread.folded += 1;
                Ok(())
            }
        }
    }

    /// Adds the time between the last event of the thread and this one.
    fn pass(&mut self, event: &Event) {
        let thread = &mut self.threads[event.thread.index()];
        if let Some(end) = thread.end {
            let gap = event.start_ns.saturating_sub(end).max(0).unsigned_abs();
            let computing = event.cpu_ns.map_or(gap, |cpu| cpu.min(gap));
            thread.computing += computing;
            if !self.on_one_core {
                thread.waiting += gap - computing;
            }
        }
        thread.end = Some(event.end_ns().max(thread.end.unwrap_or(i64::MIN)));
    }

    fn add(&mut self, event: &Event, action: Action) -> Result<(), PlanError> {
        let thread_index = event.thread.index();
        let (thread, worker) = (
            &mut self.threads[thread_index],
            &mut self.plan.workers[thread_index],
        );
        let too_many = |what| PlanError::TooMany { what, most: u32::MAX };
        let index = u32::try_from(worker.actions.len()).map_err(|_| too_many("calls of a thread"))?;
        worker.actions.push(Action {
            start_ns: event.start_ns,
            duration_ns: event.duration_ns.unwrap_or(0),
            computing_ns: std::mem::take(&mut thread.computing),
            waiting_ns: std::mem::take(&mut thread.waiting),
            folded: std::mem::take(&mut thread.folded),
            ..action
        });
        worker.note_lengths(&action);
        let waits = action.operation == Operation::Wait;
        let key = if waits { event.end_ns() } else { event.start_ns };
        let key = key.max(thread.key.unwrap_or(i64::MIN));
        thread.key = Some(key);
        let claims = u32::try_from(self.claims.len()).map_err(|_| too_many("claims of calls"))?;
        self.claim(event, &action);
        self.steps.push(Step {
            worker: thread_index as u32,
            index,
            start: event.start_ns,
            end: event.end_ns(),
            key,
            claims,
            count: self.claims.len() as u32 - claims,
        });
        if action.operation == Operation::Fork {
            self.note_child(event);
        }
        Ok(())
    }

    fn note_child(&mut self, event: &Event) {
        let Some(child) = event.other.map(ThreadId::index) else {
            return;
        };
        if let Some(thread) = self.threads.get_mut(child) {
            thread.born = Some(event.start_ns);
            self.plan.workers[child].is_forked = true;
        }
    }

    fn finish(mut self) -> Plan {
        for (thread, worker) in self.threads.iter().zip(&mut self.plan.workers) {
            if let Some(first) = worker.actions.first_mut() {
                first.set_begin(thread.born, self.plan.zero_ns);
            }
        }
        self.steps.sort_by_key(|step| step.key);
        let workers = self.plan.workers.len();
        let order = match self.options.order {
            Ordering::Trace => order::by_time(&self.steps, workers),
            Ordering::Resource => {
                let nodes = self.paths.nodes(&self.claims);
                order::by_resource(&self.steps, &self.claims, workers, |path| nodes.of(path))
            }
        };
        for (worker, edges) in self.plan.workers.iter_mut().zip(order.edges) {
            worker.edges = edges;
        }
        for (worker, at) in order.caused {
            self.plan.workers[worker as usize].actions[at as usize].marks |= crate::action::mark::CAUSED;
        }
        self.plan.times = Some(self.untraced.finish());
        self.plan.on_one_core = self.on_one_core;
        self.plan.names = self.paths.into_names();
        self.plan.opens = self.opens.count();
        self.plan.before = self.opens.into_before();
        self.plan
    }
}

impl Action {
    /// Sets the time before the first action of a worker, which was made at `born`, or existed at
    /// `zero`. A new thread computes before its first call. For an older thread, this time is
    /// unknown and counts as waiting.
    fn set_begin(&mut self, born: Option<i64>, zero: i64) {
        let inside = self.computing_ns.saturating_add(self.waiting_ns);
        let since = born.unwrap_or(zero);
        let gap = self.start_ns.saturating_sub(since).max(0).unsigned_abs();
        let before = gap.saturating_sub(inside);
        if born.is_some() {
            self.computing_ns += before;
        } else {
            self.waiting_ns += before;
        }
    }
}

impl Worker {
    fn note_lengths(&mut self, action: &Action) {
        match action.operation {
            Operation::Read
            | Operation::Readv
            | Operation::Pread
            | Operation::Preadv
            | Operation::Preadv2
            | Operation::SendOut
            | Operation::List
            | Operation::Readlink
            | Operation::Getxattr
            | Operation::Listxattr => self.longest_read = self.longest_read.max(action.length),
            Operation::Write
            | Operation::Writev
            | Operation::Pwrite
            | Operation::Pwritev
            | Operation::Pwritev2
            | Operation::TakeIn
            | Operation::Setxattr => self.longest_write = self.longest_write.max(action.length),
            _ => {}
        }
    }
}

fn recorded(outcome: Outcome) -> RecordedResult {
    match outcome {
        Outcome::Returned(value) => RecordedResult::returned(value),
        Outcome::Failed(errno) => RecordedResult::failed(errno),
        Outcome::Restarted | Outcome::Unknown => RecordedResult::unknown(),
    }
}

#[cfg(test)]
mod tests;
