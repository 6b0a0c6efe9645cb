//! Threads and the tree of their processes.

use std::collections::HashMap;

use super::json::{Process, Thread, Work};
use super::shown::shown;
use super::time::{ThreadPiece, TracedTime};
use crate::event::{Event, Outcome, PathId, ThreadId};
use crate::names::Names;
use crate::syscalls::Effect;

/// The work of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Worker {
    /// Start of the first call and end of the last one, ns, including calls that are not selected.
    span: Option<(i64, i64)>,
    program: Option<PathId>,
    executes: u64,
    /// Whether the last event of the thread is the execution of a program.
    pub(super) is_silent: bool,
    pub(super) piece: ThreadPiece,
    pub(super) sums: Sums,
}

/// Sums over threads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) time: TracedTime,
    pub(super) waiting: TracedTime,
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
        self.add_cpu(other.cpu_ns);
    }

    /// Adds processor time, ns.
    pub(super) fn add_cpu(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.cpu_ns = Some(self.cpu_ns.unwrap_or(0).saturating_add(ns));
        }
    }

    fn work(&self, has_durations: bool, is_corrected: bool) -> Work {
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
    /// Adds an event to its thread, also if it is not selected.
    pub(super) fn add_event(&mut self, event: &Event) {
        let (start, end) = (event.start_ns, event.end_ns());
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
        match (event.call.effect, event.outcome) {
            (Effect::Execute, Outcome::Returned(_)) => {
                self.program = event.path.or(self.program);
                self.executes += 1;
                self.is_silent = true;
            }
            // The end of every program is known.
            (Effect::Released | Effect::Exited, _) => {}
            _ => self.is_silent = false,
        }
    }
}

/// The processes of a trace, and the index of the process of each thread.
pub(super) struct Tree {
    pub(super) processes: Vec<Process>,
    pub(super) of_thread: Vec<Option<usize>>,
}

/// Combines the threads with calls to processes. A thread whose id is that of its process starts a
/// new one, because ids are reused.
pub(super) fn tree(workers: &[Worker], names: &Names, has_durations: bool, is_corrected: bool) -> Tree {
    let mut tree = Tree {
        processes: Vec::new(),
        of_thread: vec![None; workers.len()],
    };
    let mut sums: Vec<Sums> = Vec::new();
    let mut newest: HashMap<u32, usize> = HashMap::new();
    for (id, (worker, entry)) in workers.iter().zip(names.threads()).enumerate() {
        let Some((start, end)) = worker.span else {
            continue;
        };
        let known = newest.get(&entry.pid).copied().filter(|_| entry.tid != entry.pid);
        let index = known.unwrap_or_else(|| {
            let parent = entry
                .parent
                .and_then(|parent| process_of(parent, names, &tree.of_thread));
            tree.processes.push(process(entry.pid, parent, start, end));
            sums.push(Sums::default());
            newest.insert(entry.pid, tree.processes.len() - 1);
            tree.processes.len() - 1
        });
        tree.of_thread[id] = Some(index);
        sums[index].add(&worker.sums);
        let process = &mut tree.processes[index];
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
            work: worker.sums.work(has_durations, is_corrected),
        });
    }
    for (process, sums) in tree.processes.iter_mut().zip(&sums) {
        process.work = sums.work(has_durations, is_corrected);
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

/// The process of a thread, or of its closest ancestor with calls.
fn process_of(thread: ThreadId, names: &Names, of_thread: &[Option<usize>]) -> Option<usize> {
    let mut next = Some(thread);
    // The creator of a thread is older. In a table that violates this, the search ends.
    let mut youngest = usize::MAX;
    while let Some(thread) = next.filter(|thread| thread.index() < youngest) {
        youngest = thread.index();
        if let Some(&Some(process)) = of_thread.get(youngest) {
            return Some(process);
        }
        next = names.threads().get(youngest).and_then(|entry| entry.parent);
    }
    None
}

/// A process that executed no program has the program of its parent.
fn inherit_programs(processes: &mut [Process]) {
    // Parents precede their children.
    for index in 0..processes.len() {
        let parent = processes[index].parent.filter(|&parent| parent < index);
        if let (None, Some(parent)) = (&processes[index].program, parent) {
            let (parents, children) = processes.split_at_mut(index);
            children[0].program.clone_from(&parents[parent].program);
        }
    }
}
