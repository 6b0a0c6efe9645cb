//! From the events of a trace to what each worker does.
//!
//! The plan holds the whole trace: about 100 bytes a call, and, while it is made for more than one
//! thread, as much again.

mod calls;
mod claims;
mod data;
mod opens;
mod places;
mod span;

use std::collections::{HashMap, HashSet};
use std::ffi::CString;

use plimsoll_trace::cost::Drift;
use plimsoll_trace::event::{Event, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;
use plimsoll_trace::profile::Untraced;
use plimsoll_trace::profile::json::Times;

use crate::action::{Action, Operation, Recorded};
use crate::order::{self, Claim, Edge, Step};
use crate::root::Name;
use opens::Opens;
use places::Places;

/// How workers are ordered among each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// As the resources that they share ask for: see [`crate::order`].
    #[default]
    Resource,
    /// Strictly as recorded.
    Trace,
}

/// What is asked of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How workers are ordered.
    pub order: Ordering,
    /// A range of a file that is mapped is read, page by page.
    pub read_maps: bool,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// There are more than a plan can number.
    #[error("the trace has more than {most} {what}: replay a part of it")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        most: u32,
    },
}

/// What all workers do.
#[derive(Debug, Default)]
pub struct Plan {
    /// One for each thread of the trace, by its place. One without actions is nobody.
    pub workers: Vec<Worker>,
    /// By the place of a path: where it is beneath the root.
    pub names: Vec<Option<Name>>,
    /// Targets of links and names of attributes, as they were written.
    pub texts: HashMap<PathId, CString>,
    /// Open files that there are in the trace.
    pub opens: usize,
    /// Files that were open before the trace began.
    pub before: Vec<(OpenId, PathId)>,
    /// Some open file has been duplicated.
    pub has_duplicates: bool,
    /// Calls on names that are ignored, or on files that were opened by such.
    pub ignored: u64,
    /// When the first action began, ns since the zero of the trace.
    pub zero_ns: i64,
    /// When the last one ended.
    pub end_ns: i64,
    /// Calls that were recorded, those that nothing is done for as well.
    pub calls: u64,
    /// How long the recorded run took, and would have taken without tracing: as its profile says.
    /// None of a plan without a trace.
    pub times: Option<Times>,
    /// It was recorded on one core.
    pub on_one_core: bool,
}

/// What one worker does.
#[derive(Debug, Default)]
pub struct Worker {
    /// One after the other.
    pub actions: Vec<Action>,
    /// Whom it waits for meanwhile, in the order of the actions.
    pub edges: Vec<Edge>,
    /// Another worker's fork begins it; else it begins with the replay.
    pub is_forked: bool,
    /// Most bytes that one call reads.
    pub longest_read: u64,
    /// Most bytes that one call writes.
    pub longest_write: u64,
}

impl Plan {
    /// Of the events of a trace, those of each thread in their order. `place` tells where beneath
    /// the root a path is; None where it is to be ignored.
    ///
    /// # Errors
    /// [`PlanError::TooMany`].
    pub fn new(
        header: &Header,
        events: impl IntoIterator<Item = Event>,
        names: &Names,
        place: impl Fn(PathId) -> Option<Vec<u8>>,
        options: Options,
    ) -> Result<Self, PlanError> {
        let mut planner = Planner::new(header, names, &place, options);
        for event in events {
            planner.take(&event)?;
        }
        Ok(planner.finish())
    }

    /// The name that an open file was opened by. None of a pipe and the like.
    pub fn opened(&self, open: OpenId) -> Option<PathId> {
        let mut before = self.before.iter();
        let known = before.find_map(|(one, path)| (*one == open).then_some(*path));
        let mut actions = self.workers.iter().flat_map(|worker| &worker.actions);
        known.or_else(|| {
            let opens = |action: &&Action| action.operation == Operation::Open && action.open == Some(open);
            actions.find(opens)?.path
        })
    }

    /// The most threads that live at one time, if none ends late.
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

/// Of one thread, while its events come.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// End of its last event.
    end: Option<i64>,
    computing: u64,
    waiting: u64,
    folded: u32,
    /// Key of its last step.
    key: Option<i64>,
    /// When its parent made it.
    born: Option<i64>,
    /// It has handed over requests, which are made here before it waits for them.
    submits: bool,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Nothing is done, and nothing waits for it: its time is that of the next action.
    Fold,
    /// The same, because its name is ignored.
    Ignore,
    /// Something is done.
    Act(Action),
}

struct Planner<'a> {
    trace: &'a Names,
    options: Options,
    plan: Plan,
    places: Places,
    opens: Opens,
    threads: Vec<Thread>,
    /// By process: bits that new files do not get.
    masks: HashMap<u32, u32>,
    /// Names of pipes that the trace has made.
    pipes: HashSet<PathId>,
    /// Names that are known to be there.
    there: HashMap<PathId, bool>,
    /// By file: bytes that it is known to have, from its beginning.
    reach: HashMap<u32, u64>,
    /// Steps of all workers, in the order in which they came.
    steps: Vec<Step>,
    claims: Vec<Claim>,
    drift: Drift,
    untraced: Untraced,
    /// Whoever did not compute between two calls waited for the one core of the recording.
    on_one_core: bool,
}

impl<'a> Planner<'a> {
    fn new(
        header: &Header,
        trace: &'a Names,
        place: &impl Fn(PathId) -> Option<Vec<u8>>,
        options: Options,
    ) -> Self {
        let places = Places::new(trace.paths().len(), place);
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
            places,
            opens: Opens::default(),
            threads: vec![Thread::default(); workers],
            masks: HashMap::new(),
            pipes: HashSet::new(),
            there: HashMap::new(),
            reach: HashMap::new(),
            steps: Vec::new(),
            claims: Vec::new(),
            drift: Drift::new(header),
            untraced: Untraced::new(header),
            on_one_core: header.is_on_one_core(),
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), PlanError> {
        let at = event.thread.index();
        if at >= self.threads.len() {
            // Of another trace's tables.
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
                let thread = &mut self.threads[at];
                thread.computing += event.duration_ns.unwrap_or(0);
                thread.folded += 1;
                Ok(())
            }
        }
    }

    /// The time between the thread's last event and this one.
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
        let place = event.thread.index();
        let (thread, worker) = (&mut self.threads[place], &mut self.plan.workers[place]);
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
            worker: place as u32,
            index,
            start: event.start_ns,
            end: event.end_ns(),
            key,
            claims,
            count: self.claims.len() as u32 - claims,
        });
        if action.operation == Operation::Fork {
            self.bears(event);
        }
        Ok(())
    }

    fn bears(&mut self, event: &Event) {
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
                first.begins(thread.born, self.plan.zero_ns);
            }
        }
        self.steps.sort_by_key(|step| step.key);
        let workers = self.plan.workers.len();
        let order = match self.options.order {
            Ordering::Trace => order::by_time(&self.steps, workers),
            Ordering::Resource => {
                let nodes = self.places.nodes(&self.claims);
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
        self.plan.names = self.places.into_names();
        self.plan.opens = self.opens.count();
        self.plan.before = self.opens.into_before();
        self.plan
    }
}

impl Action {
    /// It is the first of its worker, which its parent made at `born`, or which was there at
    /// `zero`: what a thread does before its first call is computing, what nobody saw of it is not.
    fn begins(&mut self, born: Option<i64>, zero: i64) {
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

fn recorded(outcome: Outcome) -> Recorded {
    match outcome {
        Outcome::Returned(value) => Recorded::returned(value),
        Outcome::Failed(errno) => Recorded::failed(errno),
        Outcome::Restarted | Outcome::Unknown => Recorded::unknown(),
    }
}

#[cfg(test)]
mod tests;
