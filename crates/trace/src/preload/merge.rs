//! The logs of all threads, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::preload::{Log, Record, Records};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When<'a> {
    /// A log begins: a thread is there, or a program.
    Log,
    /// A call begins; what it gives up (close) is given up now.
    Begin(Record<'a>),
    /// A call has ended; what it makes is there now. There is none for a call that did not return.
    End(Record<'a>),
}

/// Something happens in one of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment<'a> {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// In which log: its place among those given.
    pub log: usize,
    /// What.
    pub when: When<'a>,
}

/// All of it, by time; at one time ends come first. Within a thread calls can be in one another
/// only where a signal's handler has made them (then the outer one begins too late here, when the
/// inner ones have ended), or a child of vfork.
#[derive(Debug)]
pub struct Merge<'a> {
    records: Vec<Records<'a>>,
    /// Ordered by time, kind and how they came.
    queue: BinaryHeap<Reverse<Queued<'a>>>,
    came: u64,
}

#[derive(Debug)]
struct Queued<'a> {
    order: (u64, u8, u64),
    log: usize,
    when: When<'a>,
}

impl PartialEq for Queued<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Queued<'_> {}

impl PartialOrd for Queued<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl<'a> Merge<'a> {
    /// Of logs of one host, in any order.
    pub fn new(logs: Vec<Log<'a>>) -> Self {
        let mut merge = Self {
            records: Vec::with_capacity(logs.len()),
            queue: BinaryHeap::new(),
            came: 0,
        };
        for (place, log) in logs.into_iter().enumerate() {
            merge.push(log.head.monotonic_ns, place, When::Log);
            merge.records.push(log.records);
        }
        merge
    }

    /// What is left of each log: after the last moment, what was lost and cut.
    pub fn records(&self) -> &[Records<'a>] {
        &self.records
    }

    fn push(&mut self, time_ns: u64, log: usize, when: When<'a>) {
        let rank = match when {
            When::End(_) => 0,
            When::Log => 1,
            When::Begin(_) => 2,
        };
        let order = (time_ns, rank, self.came);
        self.came += 1;
        self.queue.push(Reverse(Queued { order, log, when }));
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Moment<'a>;

    fn next(&mut self) -> Option<Moment<'a>> {
        let Reverse(Queued { order, log, when }) = self.queue.pop()?;
        if let When::Begin(record) = when
            && record.duration_ns.is_some()
        {
            self.push(record.end_ns(), log, When::End(record));
        }
        if !matches!(when, When::End(_))
            && let Some(record) = self.records[log].next()
        {
            self.push(record.start_ns, log, When::Begin(record));
        }
        Some(Moment {
            time_ns: order.0,
            log,
            when,
        })
    }
}
