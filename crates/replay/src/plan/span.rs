//! How long a trace would have taken without tracing.

use plimsoll_trace::cost::{Cost, Debt, Guess};
use plimsoll_trace::event::PathId;

use super::Plan;
use crate::action::{Operation, mark};
use crate::timing::Think;

impl Plan {
    /// From the start of the first action to the end of the last one, ns, if every gap and every
    /// call had been shorter by what tracing cost, and everybody had waited for the same others.
    /// Without a cost that is about what was recorded.
    pub fn span_ns(&self, cost: &Cost, guess: Guess) -> u64 {
        let mut walk = Walk::new(self, cost, guess);
        // Whoever cannot go on is looked at again when somebody has.
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

/// What one worker has done so far.
#[derive(Default)]
struct WorkerProgress {
    /// When it began, ns; none before its parent made it.
    begun: Option<u64>,
    /// When each of its actions ended, ns.
    ends: Vec<u64>,
    next_edge: usize,
    debt: Debt,
}

struct Walk<'a> {
    plan: &'a Plan,
    cost: &'a Cost,
    guess: Guess,
    /// By worker.
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

    /// Does what a worker can do. Whether that was anything.
    fn advance(&mut self, at: usize) -> bool {
        let worker = &self.plan.workers[at];
        let Some(begun) = self.done[at].begun else {
            return false;
        };
        let from = self.done[at].ends.len();
        for (place, action) in worker.actions.iter().enumerate().skip(from) {
            let Some(after) = self.after_others(at, place) else {
                return place > from;
            };
            let own = &mut self.done[at];
            let think = Think::before(action, self.cost, self.guess, &mut own.debt);
            let before = own.ends.last().copied().unwrap_or(begun);
            let mut now = (before + think.computing_ns + think.waiting_ns).max(after);
            if action.operation == Operation::Fork {
                let child = action.path2.map_or(usize::MAX, PathId::index);
                if let Some(child) = self.done.get_mut(child) {
                    child.begun.get_or_insert(now);
                }
            }
            let own = &mut self.done[at];
            if !action.has(mark::CAUSED) {
                let cost = self.cost.duration(action.slower, self.guess);
                let recorded = action.duration_ns as f64;
                now += (recorded - own.debt.take(cost, recorded)) as u64;
            }
            own.ends.push(now);
        }
        worker.actions.len() > from
    }

    /// When all have ended that an action waits for, ns; 0 where it waits for nobody. None while
    /// one of them has not.
    fn after_others(&mut self, at: usize, place: usize) -> Option<u64> {
        let edges = &self.plan.workers[at].edges;
        let next = self.done[at].next_edge;
        let own = edges[next..].iter().take_while(|edge| edge.at as usize == place);
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
        self.done[at].next_edge = next + count;
        Some(last)
    }
}
