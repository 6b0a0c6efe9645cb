//! How long a trace would have taken without tracing.

use super::Plan;
use crate::action::{Operation, mark};
use crate::timing::{Cost, Guess};

impl Plan {
    /// From the start of the first action to the end of the last one, ns, if every gap and every call had been shorter by what
    /// tracing cost, and everybody had waited for the same others. Without a cost that is about what was recorded.
    pub fn span_ns(&self, cost: &Cost, guess: Guess) -> u64 {
        let mut ends: Vec<Vec<u64>> = self
            .workers
            .iter()
            .map(|worker| Vec::with_capacity(worker.actions.len()))
            .collect();
        let mut edges = vec![0_usize; self.workers.len()];
        let mut begun: Vec<Option<u64>> = self
            .workers
            .iter()
            .map(|worker| (!worker.is_forked).then_some(0))
            .collect();
        // Whoever cannot go on is looked at again when somebody has.
        loop {
            let mut moved = false;
            for at in 0..self.workers.len() {
                if let Some(start) = begun[at] {
                    moved |= self.advance(at, start, cost, guess, &mut ends, &mut edges[at], &mut begun);
                }
            }
            if !moved {
                break;
            }
        }
        let last = ends.iter().filter_map(|ends| ends.last()).max();
        last.copied().unwrap_or(0)
    }

    /// Does what a worker can do. Whether that was anything.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of a walk that nobody else has"
    )]
    fn advance(
        &self,
        at: usize,
        start: u64,
        cost: &Cost,
        guess: Guess,
        ends: &mut [Vec<u64>],
        next_edge: &mut usize,
        begun: &mut [Option<u64>],
    ) -> bool {
        let worker = &self.workers[at];
        let from = ends[at].len();
        for place in from..worker.actions.len() {
            let action = &worker.actions[place];
            let think = cost.think(action, guess);
            let before = ends[at].last().copied().unwrap_or(start);
            let mut now = before + think.computing_ns + think.waiting_ns;
            while let Some(edge) = worker
                .edges
                .get(*next_edge)
                .filter(|edge| edge.at as usize == place)
            {
                let Some(end) = ends[edge.worker as usize].get(edge.until as usize - 1) else {
                    return place > from;
                };
                now = now.max(*end);
                *next_edge += 1;
            }
            if action.operation == Operation::Fork {
                let child = action.path2.map_or(usize::MAX, |child| child.index());
                if let Some(begun) = begun.get_mut(child) {
                    begun.get_or_insert(now);
                }
            }
            let is_caused = action.has(mark::CAUSED);
            now += if is_caused {
                0
            } else {
                cost.duration(action, guess)
            };
            ends[at].push(now);
        }
        worker.actions.len() > from
    }
}
