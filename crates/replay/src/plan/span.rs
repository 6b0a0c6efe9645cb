//! Estimates the duration of a trace without tracing.

use plimsoll_trace::cost::{Cost, Debt, Guess};
use plimsoll_trace::event::PathId;

use super::Plan;
use crate::action::{Operation, mark};
use crate::timing::Think;

impl Plan {
    /// Time from the start of the first action to the end of the last, ns, if every gap and every
    /// call had been shorter by the cost of tracing, and every wait had been for the same actions.
    /// Without a cost it is about the recorded duration.
    pub fn span_ns(&self, cost: &Cost, guess: Guess) -> u64 {
        let mut walk = Walk::new(self, cost, guess);
        // A worker that cannot continue is tried again after another one has continued.
        loop {
            let mut moved = false;
            for at in 0..self.workers.len() {
                moved |= walk.advance(at);
            }
            if !moved {
                break;
            }
        }
        let last = walk.done.iter().filter_map(|done| done.ends.last()).max();
        last.copied().unwrap_or(0)
    }
}

/// Progress of one worker.
#[derive(Default)]
struct WorkerProgress {
    /// Start, ns; none before its parent made it.
    begun: Option<u64>,
    /// End of each action, ns.
    ends: Vec<u64>,
    next_edge: usize,
    debt: Debt,
}

struct Walk<'a> {
    plan: &'a Plan,
    cost: &'a Cost,
    guess: Guess,
    /// Progress by worker.
    done: Vec<WorkerProgress>,
}

impl<'a> Walk<'a> {
    fn new(plan: &'a Plan, cost: &'a Cost, guess: Guess) -> Self {
        let done = plan.workers.iter().map(|worker| WorkerProgress {
            begun: (!worker.is_forked).then_some(0),
            ends: Vec::with_capacity(worker.actions.len()),
            ..WorkerProgress::default()
        });
        Self {
            plan,
            cost,
            guess,
            done: done.collect(),
        }
    }

    /// Advances a worker until it must wait. Returns whether it advanced.
    fn advance(&mut self, worker_index: usize) -> bool {
        let worker = &self.plan.workers[worker_index];
        let Some(begun) = self.done[worker_index].begun else {
            return false;
        };
        let from = self.done[worker_index].ends.len();
        for (index, action) in worker.actions.iter().enumerate().skip(from) {
            let Some(after) = self.after_others(worker_index, index) else {
                return index > from;
            };
            let own = &mut self.done[worker_index];
            let think = Think::before(action, self.cost, self.guess, &mut own.debt);
            let before = own.ends.last().copied().unwrap_or(begun);
            let mut now = (before + think.computing_ns + think.waiting_ns).max(after);
            if action.operation == Operation::Fork {
                let child = action.path2.map_or(usize::MAX, PathId::index);
                if let Some(child) = self.done.get_mut(child) {
                    child.begun.get_or_insert(now);
                }
            }
            let own = &mut self.done[worker_index];
            if !action.has(mark::CAUSED) {
                let cost = self.cost.duration(action.slower, self.guess);
                let recorded = action.duration_ns as f64;
                now += (recorded - own.debt.take(cost, recorded)) as u64;
            }
            own.ends.push(now);
        }
        worker.actions.len() > from
    }

    /// End of all actions that an action waits for, ns; 0 if it waits for none. None if one of them
    /// has not ended.
    fn after_others(&mut self, worker_index: usize, index: usize) -> Option<u64> {
        let edges = &self.plan.workers[worker_index].edges;
        let next = self.done[worker_index].next_edge;
        let own = edges[next..].iter().take_while(|edge| edge.at as usize == index);
        let mut last = 0;
        let mut count = 0;
        for edge in own {
            last = last.max(
                *self.done[edge.worker as usize]
                    .ends
                    .get(edge.until as usize - 1)?,
            );
            count += 1;
        }
        self.done[worker_index].next_edge = next + count;
        Some(last)
    }
}
