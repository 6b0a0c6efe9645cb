//! Threads, and the tree of processes that they make.

use std::collections::HashMap;

use super::json::{Process, Thread, Work};
use super::shown::shown;
use super::time::{InPiece, Spent};
use crate::event::{Event, Outcome, PathId, ThreadId};
use crate::names::Names;
use crate::syscalls::Effect;

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Worker {
    /// First beginning and last end of its calls, ns; of all, also of those that were not asked
    /// for.
    seen: Option<(i64, i64)>,
    program: Option<PathId>,
    executes: u64,
    /// The last that is known of it is that it became another program.
    pub(super) is_silent: bool,
    pub(super) in_piece: InPiece,
    pub(super) sums: Sums,
}

/// What is added up of threads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) time: Spent,
    pub(super) waiting: Spent,
    pub(super) cpu_ns: Option<u64>,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
        self.time.add(&other.time);
        self.waiting.add(&other.waiting);
        self.used_cpu(other.cpu_ns);
    }

    /// Processor time was used, ns.
    pub(super) fn used_cpu(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.cpu_ns = Some(self.cpu_ns.unwrap_or(0).saturating_add(ns));
        }
    }

    fn told(&self, has_durations: bool, is_corrected: bool) -> Work {
        Work {
            calls: self.calls,
            failed_calls: self.failed,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            calls_time: has_durations.then(|| self.time.times(is_corrected)),
            waiting_time: has_durations.then(|| self.waiting.times(is_corrected)),
            cpu_s: self.cpu_ns.map(|ns| ns as f64 / 1e9),
        }
    }
}

impl Worker {
    /// What every event tells of its thread, also one that was not asked for.
    pub(super) fn sees(&mut self, event: &Event) {
        let (start, end) = (event.start_ns, event.end_ns());
        let (first, last) = self.seen.unwrap_or((start, end));
        self.seen = Some((first.min(start), last.max(end)));
        match (event.call.effect, event.outcome) {
            (Effect::Execute, Outcome::Returned(_)) => {
                self.program = event.path.or(self.program);
                self.executes += 1;
                self.is_silent = true;
            }
            // That it ended is known of every program.
            (Effect::Released | Effect::Exited, _) => {}
            _ => self.is_silent = false,
        }
    }
}

/// The processes of a trace, and the place of that of each thread.
pub(super) struct Tree {
    pub(super) processes: Vec<Process>,
    pub(super) of_thread: Vec<Option<usize>>,
}

/// Puts threads that were seen together. A thread whose id is that of its process begins one: ids
/// are given out again.
pub(super) fn tree(workers: &[Worker], names: &Names, has_durations: bool, is_corrected: bool) -> Tree {
    let mut tree = Tree {
        processes: Vec::new(),
        of_thread: vec![None; workers.len()],
    };
    let mut sums: Vec<Sums> = Vec::new();
    let mut newest: HashMap<u32, usize> = HashMap::new();
    for (id, (worker, entry)) in workers.iter().zip(names.threads()).enumerate() {
        let Some((start, end)) = worker.seen else {
            continue;
        };
        let known = newest.get(&entry.pid).copied().filter(|_| entry.tid != entry.pid);
        let place = known.unwrap_or_else(|| {
            let parent = entry
                .parent
                .and_then(|parent| process_of(parent, names, &tree.of_thread));
            tree.processes.push(process(entry.pid, parent, start, end));
            sums.push(Sums::default());
            newest.insert(entry.pid, tree.processes.len() - 1);
            tree.processes.len() - 1
        });
        tree.of_thread[id] = Some(place);
        sums[place].add(&worker.sums);
        let process = &mut tree.processes[place];
        process.start_s = process.start_s.min(start as f64 / 1e9);
        process.end_s = process.end_s.max(end as f64 / 1e9);
        process.executes += worker.executes;
        let program = worker.program.map(|path| shown(names.path(path)));
        process.program = program.or_else(|| process.program.take());
        process.threads.push(Thread {
            id,
            tid: entry.tid,
            start_s: start as f64 / 1e9,
            end_s: end as f64 / 1e9,
            work: worker.sums.told(has_durations, is_corrected),
        });
    }
    for (process, sums) in tree.processes.iter_mut().zip(&sums) {
        process.work = sums.told(has_durations, is_corrected);
    }
    inherit_programs(&mut tree.processes);
    tree
}

fn process(pid: u32, parent: Option<usize>, start_ns: i64, end_ns: i64) -> Process {
    Process {
        pid,
        parent,
        program: None,
        executes: 0,
        start_s: start_ns as f64 / 1e9,
        end_s: end_ns as f64 / 1e9,
        work: Work::default(),
        threads: Vec::new(),
    }
}

/// The process of a thread, or of its next ancestor that was seen.
fn process_of(thread: ThreadId, names: &Names, of_thread: &[Option<usize>]) -> Option<usize> {
    let mut next = Some(thread);
    // A thread is made by one that is older: a table that says otherwise ends the search.
    let mut youngest = usize::MAX;
    while let Some(thread) = next.filter(|thread| thread.index() < youngest) {
        youngest = thread.index();
        if let Some(&Some(place)) = of_thread.get(youngest) {
            return Some(place);
        }
        next = names.threads().get(youngest).and_then(|entry| entry.parent);
    }
    None
}

/// A process that executed nothing is what its parent is.
fn inherit_programs(processes: &mut [Process]) {
    // Parents come before their children.
    for place in 0..processes.len() {
        let parent = processes[place].parent.filter(|&parent| parent < place);
        if let (None, Some(parent)) = (&processes[place].program, parent) {
            let (parents, rest) = processes.split_at_mut(place);
            rest[0].program.clone_from(&parents[parent].program);
        }
    }
}
