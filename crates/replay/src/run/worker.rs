//! One worker: for each action it thinks, waits for others, and makes the call.

use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::Duration;

use plimsoll_trace::cost::{Debt, Guess};
use plimsoll_trace::event::PathId;

use super::crew::RunContext;
use super::{RunError, scarce};
use crate::action::{Action, Operation, mark};
use crate::order::Edge;
use crate::perform::{ActionResult, Executor};
use crate::plan::Worker;
use crate::result::{AbandonedWait, Tally};
use crate::timing::pace::{self, Burner};
use crate::timing::{Think, Timing, duration, scaled};

/// Interval at which a waiting worker checks whether any worker is active, and whether it must
/// stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// State of a worker.
pub(super) struct Work<'a, 'c> {
    crew: &'a RunContext<'c>,
    at: usize,
    plan: &'a Worker,
    executor: Executor<'a>,
    burner: Burner,
    debt: Debt,
    tally: Tally,
    next_edge: usize,
    /// End of the last action, on the clock of `pace`, ns.
    end: i64,
}

impl<'a, 'c> Work<'a, 'c> {
    pub(super) fn new(crew: &'a RunContext<'c>, at: usize) -> Result<Self, RunError> {
        let plan = &crew.common.plan.workers[at];
        let executor = Executor::new(crew.common, plan.longest_read);
        Ok(Self {
            crew,
            at,
            plan,
            executor: executor.map_err(|why| scarce("memory", why.into()))?,
            burner: Burner::default(),
            debt: Debt::default(),
            tally: Tally::new(),
            next_edge: 0,
            end: pace::now().max(crew.origin),
        })
    }

    /// Carries out all actions, or those until the replay is stopped. Returns the counts and the
    /// end of the last action.
    pub(super) fn run_all<'scope>(mut self, scope: &'scope Scope<'scope, 'a>) -> (Tally, i64) {
        clear_umask();
        pace::sharpen();
        self.tally.workers = 1;
        let (crew, plan) = (self.crew, self.plan);
        pace::sleep_until(crew.origin, || crew.is_over());
        for (index, action) in plan.actions.iter().enumerate() {
            if crew.is_over() || !self.think(action) {
                break;
            }
            let Some(in_order) = self.wait(index) else { break };
            if !self.act(action, in_order, scope) {
                break;
            }
            crew.gates[self.at].reach(index as u32 + 1);
        }
        (self.tally, self.end)
    }

    /// Waits for the time of an action. False if the replay was stopped.
    fn think(&mut self, action: &Action) -> bool {
        let crew = self.crew;
        let stop = || crew.is_over();
        match crew.settings.timing {
            Timing::Afap => true,
            Timing::Exact => {
                let since = action.start_ns.saturating_sub(crew.common.plan.zero_ns);
                pace::sleep_until(crew.origin.saturating_add(since), stop)
            }
            Timing::Diff { scale } => {
                let think = Think::before(action, crew.cost, Guess::Middle, &mut self.debt);
                let begun = self.end;
                let computing = scaled(think.computing_ns, scale);
                // The recorded wait includes waiting for a processor. If computing waits for one
                // here, that time is not waited for again.
                let until = begun.saturating_add_unsigned(computing.saturating_add(think.waiting_ns));
                let until = until.saturating_sub(self.burner.ahead());
                self.burner.burn(computing, begun, stop) && (think.waiting_ns == 0 || self.sleep_until(until))
            }
        }
    }

    fn sleep(&mut self, ns: u64) -> bool {
        let until = pace::now().saturating_add_unsigned(ns);
        ns == 0 || self.sleep_until(until.saturating_sub(self.burner.ahead()))
    }

    fn sleep_until(&mut self, until: i64) -> bool {
        let crew = self.crew;
        let is_over = pace::now() >= until;
        let slept = is_over || pace::sleep_until(until, || crew.is_over());
        let late = pace::now() - until;
        self.tally.add_lateness(late);
        self.burner.set_oversleep(if is_over { 0 } else { late });
        slept
    }

    /// Waits for all actions that must precede this one. Returns whether they are complete; None if
    /// the replay was stopped.
    fn wait(&mut self, index: usize) -> Option<bool> {
        let mut in_order = true;
        while let Some(edge) = self.plan.edges.get(self.next_edge) {
            if edge.at as usize != index {
                break;
            }
            self.next_edge += 1;
            let gate = &self.crew.gates[edge.worker as usize];
            if !gate.is_at(edge.until) && !gate.spin_until(edge.until) {
                in_order &= self.wait_long(*edge)?;
            }
        }
        Some(in_order)
    }

    fn wait_long(&mut self, edge: Edge) -> Option<bool> {
        let crew = self.crew;
        let gate = &crew.gates[edge.worker as usize];
        let begun = pace::now();
        let mut hopeless_since = begun;
        crew.active.fetch_sub(1, Ordering::AcqRel);
        let result = loop {
            gate.sleep(edge.until, CHECK_INTERVAL);
            // `has_ended` is read first: the worker may complete its last action in between.
            let has_ended = gate.has_ended();
            if gate.is_at(edge.until) {
                break Some(true);
            }
            if crew.is_over() {
                break None;
            }
            let now = pace::now();
            if crew.active.load(Ordering::Acquire) > 0 {
                hopeless_since = now;
            }
            let patience = crew.settings.patience.as_nanos() as i64;
            if has_ended || now - hopeless_since >= patience {
                self.tally.add_abandoned(AbandonedWait {
                    worker: self.at as u32,
                    at: edge.at,
                    awaited: edge.worker,
                    until: edge.until,
                });
                break Some(false);
            }
        };
        crew.active.fetch_add(1, Ordering::AcqRel);
        let now = pace::now();
        self.tally.waited += 1;
        self.tally.waited_ns += (now - begun).unsigned_abs();
        // The time of the wait is not think time.
        self.end = now;
        result
    }

    /// Carries out an action. False if the replay was stopped.
    fn act<'scope>(&mut self, action: &Action, in_order: bool, scope: &'scope Scope<'scope, 'a>) -> bool {
        let crew = self.crew;
        let start = pace::now();
        if action.operation == Operation::Fork {
            let child = action.path2.map_or(usize::MAX, PathId::index);
            crew.begin(child, scope);
        }
        if crew.settings.timing == Timing::Exact {
            let since = action.start_ns.saturating_sub(crew.common.plan.zero_ns);
            self.tally.add_lateness(start - crew.origin.saturating_add(since));
        }
        let done = self.executor.perform(action, in_order);
        self.end = if done == ActionResult::Nothing {
            start
        } else {
            pace::now()
        };
        self.tally
            .add(action, done, (self.end - start).max(0).unsigned_abs(), crew.cost);
        done != ActionResult::Nothing || self.pass_time(action)
    }

    /// Lets the time of a call that is not made pass.
    fn pass_time(&mut self, action: &Action) -> bool {
        let Timing::Diff { scale } = self.crew.settings.timing else {
            return true;
        };
        if action.has(mark::CAUSED | mark::HANDED) {
            return true;
        }
        let crew = self.crew;
        let duration = duration(action, crew.cost, Guess::Middle);
        let is_continued = if action.operation == Operation::Wait {
            self.sleep(duration)
        } else {
            self.burner
                .burn(scaled(duration, scale), self.end, || crew.is_over())
        };
        self.end = pace::now();
        is_continued
    }
}

/// Removes the umask of this thread only. The modes of new files in the plan already include the
/// mask of the traced process. If the mask cannot be separated, as in some containers, files have
/// fewer permissions.
fn clear_umask() {
    // SAFETY: both calls have only numbers as arguments. The mask is separated before it is
    // changed.
    unsafe {
        if libc::unshare(libc::CLONE_FS) == 0 {
            libc::umask(0);
        }
    }
}
