//! The order of actions: for which actions of other workers an action waits.
//!
//! The rules are those of ARTC (Weiss, Harter, Arpaci-Dusseau, Arpaci-Dusseau: ROOT: Replaying
//! Multithreaded Traces with Resource-Oriented Ordering, SOSP 2013). Each thread keeps its own
//! order, and between threads only shared resources determine the order. Actions claim resources.
//! An action waits for the actions of other workers that have claimed the same resource before and
//! had ended before it began. Overlapping calls remain unordered. Three claims do not require the
//! end, because the kernel guarantees it: an open file exists before it is used, its uses end
//! before it is closed, and a wait ends after the event that it waits for.
//!
//! Every edge leads from an action to a later one in the order of [`Step::key`], so there is no
//! cycle.
//!
//! Edges that another edge to the same worker implies are omitted. Edges that a third worker
//! implies are not: detecting them would need a vector clock per worker.

mod marks;
mod ranges;
mod sleepers;

use std::collections::{HashMap, HashSet, VecDeque};

use marks::{KnownProgress, Mark, Marks};
use ranges::Ranges;
use sleepers::Sleepers;

/// One action with its position in the order.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Index of its worker.
    pub worker: u32,
    /// Index among the actions of the worker.
    pub index: u32,
    /// Start, ns.
    pub start: i64,
    /// End, ns.
    pub end: i64,
    /// Position in the order: its start, or its end if it waited, ns. It does not decrease within a
    /// worker.
    pub key: i64,
    /// Index of its first claim.
    pub claims: u32,
    /// Number of its claims.
    pub count: u32,
}

/// A resource that an action uses or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// An open file is created.
    Makes(u32),
    /// The offset of an open file is used and moved.
    Moves(u32),
    /// An open file is used without its offset.
    Uses(u32),
    /// An open file is closed.
    Ends(u32),
    /// Bytes `from..to` of a file are read. With `to` = `u64::MAX`: the whole file and its size.
    Reads {
        /// Number of the file.
        file: u32,
        /// First byte.
        from: u64,
        /// End of the range.
        to: u64,
    },
    /// Bytes `from..to` of a file are written.
    Writes {
        /// Number of the file.
        file: u32,
        /// First byte.
        from: u64,
        /// End of the range.
        to: u64,
    },
    /// A name is used, and with it the names of the directories in its path.
    Names(u32),
    /// The file of a name is changed: made, moved or removed. The directories in its path are used.
    Changes(u32),
    /// Bytes are written to a pipe.
    Feeds {
        /// Number of the pipe.
        pipe: u32,
        /// Number of bytes.
        bytes: u64,
    },
    /// Bytes are read from a pipe; 0 at its end.
    Draws {
        /// Number of the pipe.
        pipe: u32,
        /// Number of bytes.
        bytes: u64,
    },
    /// A writer closes its end of a pipe.
    Leaves(u32),
    /// A lock of a file is acquired or released.
    Locks(u32),
    /// The end of a worker is waited for.
    Awaits(u32),
    /// `count` threads that wait at this address (futex) of a process are woken.
    Wakes {
        /// Number of the process.
        process: u32,
        /// Address of the futex.
        address: u64,
        /// Number of threads.
        count: u32,
    },
    /// A thread that waited at this address continues.
    Woken {
        /// Number of the process.
        process: u32,
        /// Address of the futex.
        address: u64,
    },
    /// A thread of this process ends; a thread that joins it continues.
    Parts(u32),
    /// A child of this process ends.
    Departs(u32),
    /// A signal is waited for: that of a child of this process, if one ended during the wait.
    Heeds(u32),
    /// A worker begins.
    Starts(u32),
    /// The worker is suspended until this new worker executes a program or exits (vfork).
    Lends(u32),
    /// The worker executes a program or exits.
    Returns,
}

/// Before action `at`, its worker waits until `worker` has completed `until` actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Index of the action that waits.
    pub at: u32,
    /// Index of the worker that is waited for.
    pub worker: u32,
    /// Number of actions that it must have completed.
    pub until: u32,
}

/// The edges of all workers.
#[derive(Debug, Default)]
pub struct Order {
    /// Edges by worker, in the order of the actions.
    pub edges: Vec<Vec<Edge>>,
    /// Waits that another worker ends: worker and index of the action.
    pub caused: Vec<(u32, u32)>,
}

/// The order that resources require. `steps` are sorted by their keys. `nodes` returns, for a name,
/// the numbers of those names in its path, itself last, that any action changes.
pub fn by_resource<'a>(
    steps: &[Step],
    claims: &[Claim],
    workers: usize,
    nodes: impl Fn(u32) -> &'a [u32],
) -> Order {
    let mut finder = Finder {
        shared: SharedResources::of(steps, claims),
        known: vec![KnownProgress::default(); workers],
        order: Order {
            edges: vec![Vec::new(); workers],
            caused: Vec::new(),
        },
        ..Finder::default()
    };
    for step in steps {
        let from = step.claims as usize;
        finder.step(step, &claims[from..from + step.count as usize], &nodes);
    }
    finder.order
}

/// The recorded order: each action waits for the one before it.
pub fn by_time(steps: &[Step], workers: usize) -> Order {
    let mut order = Order {
        edges: vec![Vec::new(); workers],
        caused: Vec::new(),
    };
    for pair in steps.windows(2) {
        let (before, step) = (pair[0], pair[1]);
        if before.worker != step.worker {
            order.edges[step.worker as usize].push(Edge {
                at: step.index,
                worker: before.worker,
                until: before.index + 1,
            });
        }
    }
    order
}

/// Resources that more than one worker claims. Other resources require no order.
#[derive(Debug, Default)]
struct SharedResources {
    opens: HashMap<u32, Option<u32>>,
    files: HashMap<u32, Option<u32>>,
    written: HashSet<u32>,
}

impl SharedResources {
    fn of(steps: &[Step], claims: &[Claim]) -> Self {
        let mut shared = Self::default();
        for step in steps {
            let from = step.claims as usize;
            for claim in &claims[from..from + step.count as usize] {
                let (owners, resource) = match *claim {
                    Claim::Makes(open) | Claim::Moves(open) | Claim::Uses(open) | Claim::Ends(open) => {
                        (&mut shared.opens, open)
                    }
                    Claim::Reads { file, .. } => (&mut shared.files, file),
                    Claim::Writes { file, .. } => {
                        shared.written.insert(file);
                        (&mut shared.files, file)
                    }
                    _ => continue,
                };
                let owner = owners.entry(resource).or_insert(Some(step.worker));
                if *owner != Some(step.worker) {
                    *owner = None;
                }
            }
        }
        shared
    }

    fn has_open(&self, open: u32) -> bool {
        self.opens.get(&open).is_some_and(Option::is_none)
    }

    fn has_file(&self, file: u32) -> bool {
        self.written.contains(&file) && self.files.get(&file).is_some_and(Option::is_none)
    }
}

/// Actions on one open file.
#[derive(Debug, Default)]
struct OpenFileOrder {
    made: Option<Mark>,
    moved: Marks,
    used: Marks,
}

/// Actions on one name.
#[derive(Debug, Default)]
struct Node {
    used: Marks,
    changed: Marks,
}

/// Actions on one pipe.
#[derive(Debug, Default)]
struct Pipe {
    /// Bytes written so far.
    fed: u64,
    /// Bytes read so far.
    drawn: u64,
    /// Writers, and the end of the bytes that each has written; entries that were read are removed.
    feeds: VecDeque<(u64, Mark)>,
    left: Marks,
}

#[derive(Debug, Default)]
struct Finder {
    shared: SharedResources,
    /// Progress of other workers that each worker knows.
    known: Vec<KnownProgress>,
    opens: HashMap<u32, OpenFileOrder>,
    files: HashMap<u32, Ranges>,
    names: HashMap<u32, Node>,
    pipes: HashMap<u32, Pipe>,
    locks: HashMap<u32, Marks>,
    /// Last action of each worker.
    last: HashMap<u32, Mark>,
    sleepers: Sleepers,
    /// By process: the last end of a thread.
    parted: HashMap<u32, Mark>,
    /// By process: the last end of a child.
    departed: HashMap<u32, Mark>,
    /// By worker: the worker that is suspended until it executes or exits.
    lent: HashMap<u32, u32>,
    /// By worker: the action that ended its suspension.
    returned: HashMap<u32, Mark>,
    needs: Vec<Mark>,
    order: Order,
}

impl Finder {
    fn step<'a>(&mut self, step: &Step, claims: &[Claim], nodes: &impl Fn(u32) -> &'a [u32]) {
        let mark = Mark {
            worker: step.worker,
            index: step.index,
            end: step.end,
        };
        self.needs.clear();
        self.needs.extend(self.returned.remove(&step.worker));
        for claim in claims {
            match *claim {
                Claim::Makes(open) | Claim::Moves(open) | Claim::Uses(open) | Claim::Ends(open) => {
                    if self.shared.has_open(open) {
                        self.open(open, *claim, step, mark);
                    }
                }
                Claim::Reads { file, from, to } if self.shared.has_file(file) => {
                    let ranges = self.files.entry(file).or_default();
                    ranges.read(from..to, step.start, mark, &mut self.needs);
                }
                Claim::Writes { file, from, to } if self.shared.has_file(file) => {
                    let ranges = self.files.entry(file).or_default();
                    ranges.write(from..to, step.start, mark, &mut self.needs);
                }
                Claim::Reads { .. } | Claim::Writes { .. } => {}
                Claim::Names(path) => self.name(nodes(path), false, step.start, mark),
                Claim::Changes(path) => self.name(nodes(path), true, step.start, mark),
                Claim::Feeds { pipe, bytes } => {
                    let pipe = self.pipes.entry(pipe).or_default();
                    pipe.fed += bytes;
                    pipe.feeds.push_back((pipe.fed, mark));
                }
                Claim::Draws { pipe, bytes } => self.draw(pipe, bytes),
                Claim::Leaves(pipe) => self.pipes.entry(pipe).or_default().left.put(mark),
                Claim::Locks(file) => {
                    let lock = self.locks.entry(file).or_default();
                    self.needs.extend(lock.all());
                    lock.put(mark);
                }
                Claim::Awaits(worker) => self.needs.extend(self.last.get(&worker)),
                Claim::Wakes {
                    process,
                    address,
                    count,
                } => self.sleepers.wake((process, address), count, step.start, mark),
                Claim::Woken { process, address } => {
                    let waker = self.sleepers.waker((process, address), step.start);
                    let parted = || {
                        self.parted
                            .get(&process)
                            .copied()
                            .filter(|mark| has_ended_during(mark, step))
                    };
                    self.needs.extend(waker.or_else(parted));
                }
                Claim::Parts(process) => {
                    self.parted.insert(process, mark);
                }
                Claim::Departs(process) => {
                    self.departed.insert(process, mark);
                }
                Claim::Heeds(process) => {
                    let departed = self.departed.get(&process);
                    self.needs
                        .extend(departed.filter(|mark| has_ended_during(mark, step)));
                }
                Claim::Starts(worker) => {
                    if let Some(known) = self.known.get_mut(worker as usize) {
                        known.learn(mark);
                    }
                }
                Claim::Lends(worker) => {
                    self.lent.insert(worker, step.worker);
                }
                Claim::Returns => {
                    if let Some(lender) = self.lent.remove(&step.worker) {
                        self.returned.insert(lender, mark);
                    }
                }
            }
        }
        self.last.insert(step.worker, mark);
        self.settle(step);
    }

    fn open(&mut self, open: u32, claim: Claim, step: &Step, mark: Mark) {
        let state = self.opens.entry(open).or_default();
        match claim {
            Claim::Makes(_) => {
                state.made = Some(mark);
                return;
            }
            Claim::Ends(_) => self.needs.extend(state.used.all()),
            Claim::Moves(_) => {
                self.needs.extend(state.moved.before(step.start));
                state.moved.follow(step.start, mark);
            }
            _ => {}
        }
        self.needs.extend(state.made);
        state.used.put(mark);
    }

    fn name(&mut self, nodes: &[u32], changes: bool, start: i64, mark: Mark) {
        for (index, &node) in nodes.iter().enumerate() {
            let node = self.names.entry(node).or_default();
            self.needs.extend(node.changed.before(start));
            if changes && index + 1 == nodes.len() {
                self.needs.extend(node.used.before(start));
                node.used.drop_before(start);
                node.changed.follow(start, mark);
            } else {
                node.used.put(mark);
            }
        }
    }

    fn draw(&mut self, pipe: u32, bytes: u64) {
        let pipe = self.pipes.entry(pipe).or_default();
        if bytes == 0 {
            self.needs.extend(pipe.left.all());
            return;
        }
        pipe.drawn += bytes;
        while let Some(&(upto, mark)) = pipe.feeds.front() {
            self.needs.push(mark);
            if upto > pipe.drawn {
                break;
            }
            pipe.feeds.pop_front();
            if upto == pipe.drawn {
                break;
            }
        }
    }

    /// Converts needs to edges: for each other worker the last one, unless it is known to be
    /// complete.
    fn settle(&mut self, step: &Step) {
        if self.needs.is_empty() {
            return;
        }
        self.needs.retain(|mark| mark.worker != step.worker);
        if self.needs.iter().any(|mark| mark.end > step.start) {
            self.order.caused.push((step.worker, step.index));
        }
        self.needs.sort_unstable_by_key(|mark| (mark.worker, mark.index));
        let known = &mut self.known[step.worker as usize];
        for (index, mark) in self.needs.iter().enumerate() {
            let is_last = self
                .needs
                .get(index + 1)
                .is_none_or(|next| next.worker != mark.worker);
            if is_last && known.learn(*mark) {
                self.order.edges[step.worker as usize].push(Edge {
                    at: step.index,
                    worker: mark.worker,
                    until: mark.index + 1,
                });
            }
        }
    }
}

fn has_ended_during(mark: &Mark, step: &Step) -> bool {
    (step.start..=step.end).contains(&mark.end)
}

#[cfg(test)]
mod tests;
