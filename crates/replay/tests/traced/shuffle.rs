//! Random orders that the edges of a plan allow, one call at a time: orders that a busy machine
//! rarely produces.

use plimsoll_replay::action::Operation;
use plimsoll_replay::order::Edge;
use plimsoll_replay::plan::Plan;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Factor by which a fast worker is selected more often.
const FAST: usize = 50;

/// Replaces the edges by those of a total order, which depends only on `seed` and the edges of the
/// plan: each action waits for the one before it. Workers are alternately fast and slow, so that
/// some run far ahead.
pub fn shuffle(plan: &mut Plan, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |bound: usize| random.next_u32() as usize % bound;
    let count = plan.workers.len();
    let (mut done, mut next_edge) = (vec![0_usize; count], vec![0_usize; count]);
    let mut begun: Vec<bool> = plan.workers.iter().map(|worker| !worker.is_forked).collect();
    let mut speeds = vec![1; count];
    let mut edges: Vec<Vec<Edge>> = vec![Vec::new(); count];
    let mut before = None;
    loop {
        if below(20) == 0 {
            speeds.fill_with(|| if below(3) == 0 { 1 } else { FAST });
        }
        let ready: Vec<usize> = (0..count)
            .filter(|&at| begun[at] && is_ready(plan, at, &done, &mut next_edge))
            .flat_map(|at| std::iter::repeat_n(at, speeds[at]))
            .collect();
        if ready.is_empty() {
            break;
        }
        let worker = ready[below(ready.len())];
        let action = &plan.workers[worker].actions[done[worker]];
        if let (Operation::Fork, Some(child)) = (action.operation, action.path2) {
            begun[child.index()] = true;
        }
        if let Some(before) = before.replace(worker).filter(|&before| before != worker) {
            edges[worker].push(Edge {
                at: done[worker] as u32,
                worker: before as u32,
                until: done[before] as u32,
            });
        }
        done[worker] += 1;
    }
    for ((worker, edges), done) in plan.workers.iter_mut().zip(edges).zip(done) {
        assert_eq!(done, worker.actions.len(), "the edges contain a cycle");
        worker.edges = edges;
    }
}

/// Whether the next action of a worker may be done now.
fn is_ready(plan: &Plan, at: usize, done: &[usize], next_edge: &mut [usize]) -> bool {
    let worker = &plan.workers[at];
    while let Some(edge) = worker.edges.get(next_edge[at]) {
        if edge.at as usize > done[at] {
            break;
        }
        if done[edge.worker as usize] < edge.until as usize {
            return false;
        }
        next_edge[at] += 1;
    }
    done[at] < worker.actions.len()
}
