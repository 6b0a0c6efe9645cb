//! Whom an action waits for.
//!
//! The rules are those of ARTC (Weiss, Harter, Arpaci-Dusseau, Arpaci-Dusseau: ROOT: Replaying
//! Multithreaded Traces with Resource-Oriented Ordering, SOSP 2013): each thread in its own order,
//! and between threads only what a shared resource asks for. Actions claim resources; one waits for
//! those of other workers that have claimed the same before it, where they had ended before it
//! began. Calls that overlapped stay unordered. Three claims do not ask for the end, since the
//! kernel has seen to it already: an open file is there before it is used, its uses are over before
//! it is gone, and a wait is over after what it waited for.
//!
//! Every edge leads from an action to one behind it in the order of [`Step::key`], so there is no
//! cycle.
//!
//! Edges that another one to the same worker implies are left out. Those that a third worker
//! implies are not: to know them would cost a clock of all workers for each of them.

mod marks;
mod ranges;
mod sleepers;

use std::collections::{HashMap, HashSet, VecDeque};

use marks::{KnownProgress, Mark, Marks};
use ranges::Ranges;
use sleepers::Sleepers;

/// One action, for the order.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Who does it.
    pub worker: u32,
    /// Its place among the worker's actions.
    pub index: u32,
    /// When it began: ns.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Its place in the order: where it began, or ended if it waited. It never goes back within a
    /// worker.
    pub key: i64,
    /// Where its claims begin.
    pub claims: u32,
    /// How many they are.
    pub count: u32,
}

/// What an action needs or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// An open file is made.
    Makes(u32),
    /// Its offset is used and moved.
    Moves(u32),
    /// It is used, wherever it stands.
    Uses(u32),
    /// It is gone.
    Ends(u32),
    /// Bytes `from..to` of a file are read; to the greatest number: all of it, its size too.
    Reads {
        /// Which.
        file: u32,
        /// Where they begin.
        from: u64,
        /// Where they end.
        to: u64,
    },
    /// They are written.
    Writes {
        /// Which.
        file: u32,
        /// Where they begin.
        from: u64,
        /// Where they end.
        to: u64,
    },
    /// A name is used, and with it those of the directories on its way.
    Names(u32),
    /// What the name stands for is changed: made, moved, removed. The directories on its way are
    /// used.
    Changes(u32),
    /// Bytes go into a pipe.
    Feeds {
        /// Which.
        pipe: u32,
        /// How many.
        bytes: u64,
    },
    /// Bytes come out of a pipe; none at its end.
    Draws {
        /// Which.
        pipe: u32,
        /// How many.
        bytes: u64,
    },
    /// One that writes to a pipe leaves.
    Leaves(u32),
    /// A lock of a file is taken or given back.
    Locks(u32),
    /// A worker has ended.
    Awaits(u32),
    /// Whoever waits at this address (futex) of a process goes on, so many of them.
    Wakes {
        /// Which process.
        process: u32,
        /// Where.
        address: u64,
        /// How many.
        count: u32,
    },
    /// One that has waited there goes on.
    Woken {
        /// Which process.
        process: u32,
        /// Where.
        address: u64,
    },
    /// A thread of this process ends, and whoever joins it goes on.
    Parts(u32),
    /// A child of this process ends.
    Departs(u32),
    /// A signal is waited for: that of a child of this process, where one has ended meanwhile.
    Heeds(u32),
    /// A worker begins.
    Starts(u32),
    /// It holds this one until it executes or exits (vfork).
    Lends(u32),
    /// The worker executes or exits.
    Returns,
}

/// Before action `at`, its worker waits until `worker` has done `until` actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The place of the action that waits.
    pub at: u32,
    /// Who is waited for.
    pub worker: u32,
    /// How many actions must be done.
    pub until: u32,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Order {
    /// By worker, in the order of the actions.
    pub edges: Vec<Vec<Edge>>,
    /// Waits that another worker has ended: worker and place.
    pub caused: Vec<(u32, u32)>,
}

/// The order that resources ask for. `steps` stand by their keys. `nodes` tells of a name the
/// numbers of those names on its way, itself the last, that anybody changes.
pub fn by_resource<'a>(
    steps: &[Step],
    claims: &[Claim],
    workers: usize,
    nodes: impl Fn(u32) -> &'a [u32],
) -> Order {
    let mut finder = Finder {
        shared: Shared::of(steps, claims),
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

/// Strictly as recorded: each action waits for the one before it.
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

/// Resources that more than one worker claims; all others ask for nothing.
#[derive(Debug, Default)]
struct Shared {
    opens: HashMap<u32, Option<u32>>,
    files: HashMap<u32, Option<u32>>,
    written: HashSet<u32>,
}

impl Shared {
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

/// Of one open file.
#[derive(Debug, Default)]
struct OpenFileOrder {
    made: Option<Mark>,
    moved: Marks,
    used: Marks,
}

/// Of one name.
#[derive(Debug, Default)]
struct Node {
    used: Marks,
    changed: Marks,
}

/// Of one pipe.
#[derive(Debug, Default)]
struct Pipe {
    /// Bytes so far.
    fed: u64,
    drawn: u64,
    /// Who has written, and up to which byte; what has been read is gone.
    feeds: VecDeque<(u64, Mark)>,
    left: Marks,
}

#[derive(Debug, Default)]
struct Finder {
    shared: Shared,
    /// By worker.
    known: Vec<KnownProgress>,
    opens: HashMap<u32, OpenFileOrder>,
    files: HashMap<u32, Ranges>,
    names: HashMap<u32, Node>,
    pipes: HashMap<u32, Pipe>,
    locks: HashMap<u32, Marks>,
    /// What each worker has done last.
    last: HashMap<u32, Mark>,
    sleepers: Sleepers,
    /// By process: how its last thread ended that has ended.
    parted: HashMap<u32, Mark>,
    /// By process: how its last child ended that has ended.
    departed: HashMap<u32, Mark>,
    /// Whom a worker has been lent by.
    lent: HashMap<u32, u32>,
    /// What has given a worker back to itself.
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
                            .filter(|mark| ended_meanwhile(mark, step))
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
                        .extend(departed.filter(|mark| ended_meanwhile(mark, step)));
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
        for (place, &node) in nodes.iter().enumerate() {
            let node = self.names.entry(node).or_default();
            self.needs.extend(node.changed.before(start));
            if changes && place + 1 == nodes.len() {
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

    /// Needs become edges: of each worker the last one, if it is not known to be over.
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
        for (place, mark) in self.needs.iter().enumerate() {
            let is_last = self
                .needs
                .get(place + 1)
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

fn ended_meanwhile(mark: &Mark, step: &Step) -> bool {
    (step.start..=step.end).contains(&mark.end)
}

#[cfg(test)]
mod tests;
