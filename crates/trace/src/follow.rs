//! A log as a whole: its lines become calls, of which it is known what they do and to which open files.

use std::collections::{BTreeMap, VecDeque};

use crate::kernel::{Kernel, Request, Touched};
use crate::syscalls::{self, Effect, Syscall};
use crate::text::{Call, Calls, Said, line};

/// Lines of a thread that are kept until it is known whose child it is.
const PATIENCE: usize = 10_000;

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// As it was written.
    pub call: Call<'a>,
    /// What it is; none for one that nobody knew when this was written.
    pub known: Option<&'static Syscall>,
    /// Open files that it was about.
    pub touched: Touched,
    /// Its beginning is missing.
    pub half: bool,
}

/// What could not be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Lines that strace does not write, or that were cut.
    pub odd_lines: u64,
    /// The first of them, each to its 200th byte.
    pub examples: Vec<String>,
    /// Calls that nobody knew when this was written.
    pub unknown_calls: u64,
    /// Ends of calls without a beginning.
    pub halves: u64,
}

/// Examples that are kept.
const EXAMPLES: usize = 5;

/// Follows a log, line by line.
#[derive(Debug, Default)]
pub struct Follower {
    calls: Calls,
    kernel: Kernel,
    /// What calls that go on have said when they began.
    begun: BTreeMap<u32, Touched>,
    /// Threads that are making another one now, and whether that has the same descriptors.
    forking: BTreeMap<u32, bool>,
    /// Lines of threads that are somebody's child, as long as it can be that of several.
    waiting: BTreeMap<u32, VecDeque<Vec<u8>>>,
    trouble: Trouble,
}

impl Follower {
    /// Of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// What could not be understood so far.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// Calls whose end is missing although their thread went on: lines are lost.
    pub fn endless(&self) -> u64 {
        self.calls.endless()
    }

    /// Takes in the next line, without its end. `pid` is the thread where the line does not tell. Calls that have ended are
    /// given to `hear`, each thread's in their order.
    pub fn line(&mut self, text: &[u8], pid: u32, hear: &mut impl FnMut(&Kernel, &Seen<'_>)) {
        let Some(line) = line::parse(text) else {
            self.is_odd(text);
            return;
        };
        let pid = line.pid.unwrap_or(pid);
        if !matches!(line.what, line::What::Note) && !self.knows_parent(pid) {
            let lines = self.waiting.entry(pid).or_default();
            lines.push_back(text.to_vec());
            if lines.len() > PATIENCE {
                self.adopt(pid);
                self.catch_up(pid, hear);
            }
            return;
        }
        self.take(line, pid, hear);
        self.settle(hear);
    }

    /// The log has ended: what still waits is taken in.
    pub fn end(&mut self, hear: &mut impl FnMut(&Kernel, &Seen<'_>)) {
        while let Some((&pid, _)) = self.waiting.first_key_value() {
            self.adopt(pid);
            self.catch_up(pid, hear);
        }
    }

    /// Whether this thread is known, or becomes so: as the child of the only one that is making any, or as one that was there
    /// before the trace began.
    fn knows_parent(&mut self, pid: u32) -> bool {
        if self.kernel.knows(pid) {
            return true;
        }
        if self.waiting.contains_key(&pid) || self.forking.len() > 1 {
            return false;
        }
        self.adopt(pid);
        true
    }

    fn adopt(&mut self, pid: u32) {
        if let Some((&parent, &shares)) = self.forking.first_key_value() {
            self.kernel.is_born(pid, parent, shares);
        }
    }

    /// Lines that have waited for a parent that is known now.
    fn settle(&mut self, hear: &mut impl FnMut(&Kernel, &Seen<'_>)) {
        while !self.waiting.is_empty() {
            let kernel = &self.kernel;
            let only_one = self.forking.len() <= 1 && self.waiting.len() == 1;
            let ready = self
                .waiting
                .keys()
                .copied()
                .find(|&pid| only_one || kernel.knows(pid));
            let Some(pid) = ready else { return };
            if !self.kernel.knows(pid) {
                self.adopt(pid);
            }
            self.catch_up(pid, hear);
        }
    }

    fn catch_up(&mut self, pid: u32, hear: &mut impl FnMut(&Kernel, &Seen<'_>)) {
        for text in self.waiting.remove(&pid).unwrap_or_default() {
            if let Some(line) = line::parse(&text) {
                self.take(line, pid, hear);
            }
        }
    }

    fn take(&mut self, line: line::Line<'_>, pid: u32, hear: &mut impl FnMut(&Kernel, &Seen<'_>)) {
        match self.calls.take(line, pid) {
            Said::Began(call) => {
                if let Some(known) = syscalls::find(call.name) {
                    let asked = Request::new(call, known);
                    if known.effect == Effect::Fork {
                        self.forking.insert(pid, asked.shares_files());
                    }
                    self.begun.insert(pid, self.kernel.begins(asked));
                }
            }
            Said::Call(call) => {
                let seen = ended(&mut self.kernel, &mut self.trouble, call, self.begun.remove(&pid));
                self.forking.remove(&pid);
                hear(&self.kernel, &seen);
            }
            Said::End(call) => {
                self.trouble.halves += 1;
                let seen = Seen {
                    call,
                    known: syscalls::find(call.name),
                    touched: Touched::default(),
                    half: true,
                };
                hear(&self.kernel, &seen);
            }
            Said::Exited { .. } | Said::Killed { .. } => {
                self.forking.remove(&pid);
                self.begun.remove(&pid);
                self.kernel.is_gone(pid);
            }
            Said::Superseded { pid, by } => {
                self.forking.remove(&pid);
                if let Some(begun) = self.begun.remove(&by) {
                    self.begun.insert(pid, begun);
                }
                self.kernel.is_superseded(pid, by);
            }
            Said::Nothing => {}
        }
    }

    fn is_odd(&mut self, text: &[u8]) {
        self.trouble.odd_lines += 1;
        if self.trouble.examples.len() < EXAMPLES {
            let start = &text[..text.len().min(200)];
            self.trouble
                .examples
                .push(String::from_utf8_lossy(start).into_owned());
        }
    }
}

fn ended<'a>(kernel: &mut Kernel, trouble: &mut Trouble, call: Call<'a>, begun: Option<Touched>) -> Seen<'a> {
    let known = syscalls::find(call.name);
    let touched = match (known, call.ended) {
        (Some(known), Some(ended)) => {
            let asked = Request::new(call, known);
            let begun = begun.unwrap_or_else(|| kernel.begins(asked));
            kernel.ends(asked, &ended, begun)
        }
        _ => Touched::default(),
    };
    trouble.unknown_calls += u64::from(known.is_none());
    Seen {
        call,
        known,
        touched,
        half: false,
    }
}
