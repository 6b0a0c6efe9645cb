//! Merges the logs of all threads by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::preload::{Log, Record, Records};

/// The kind of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentKind<'a> {
    /// A log begins, because a thread or a program has started.
    Log,
    /// A call begins. A descriptor that it closes is free from now on.
    Begin(Record<'a>),
    /// A call ends. A descriptor that it opens exists from now on. A call that did not return has
    /// no such moment.
    End(Record<'a>),
}

/// A moment in one of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment<'a> {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The index of the log among those passed to [`Merge::new`].
    pub log: usize,
    /// The kind of the moment.
    pub kind: MomentKind<'a>,
}

/// All moments by time; at equal times, ends come first. Within a thread, calls overlap only if a
/// signal handler made the inner ones or if a child of vfork made them. In the first case the outer
/// call begins too late here, after the inner ones have ended.
#[derive(Debug)]
pub struct Merge<'a> {
    records: Vec<Records<'a>>,
    /// Ordered by time, kind and order of arrival.
    queue: BinaryHeap<Reverse<QueuedMoment<'a>>>,
    arrivals: u64,
}

#[derive(Debug)]
struct QueuedMoment<'a> {
    order: (u64, u8, u64),
    log: usize,
    kind: MomentKind<'a>,
}

impl PartialEq for QueuedMoment<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for QueuedMoment<'_> {}

impl PartialOrd for QueuedMoment<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedMoment<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl<'a> Merge<'a> {
    /// Merges logs of one host, in any order.
    pub fn new(logs: Vec<Log<'a>>) -> Self {
        let mut merge = Self {
            records: Vec::with_capacity(logs.len()),
            queue: BinaryHeap::new(),
            arrivals: 0,
        };
        for (index, log) in logs.into_iter().enumerate() {
            merge.push(log.head.monotonic_ns, index, MomentKind::Log);
            merge.records.push(log.records);
        }
        merge
    }

    /// The readers of the logs. After the last moment they contain the numbers of lost records and
    /// cut bytes.
    pub fn records(&self) -> &[Records<'a>] {
        &self.records
    }

    fn push(&mut self, time_ns: u64, log: usize, kind: MomentKind<'a>) {
        let rank = match kind {
            MomentKind::End(_) => 0,
            MomentKind::Log => 1,
            MomentKind::Begin(_) => 2,
        };
        let order = (time_ns, rank, self.arrivals);
        self.arrivals += 1;
        self.queue.push(Reverse(QueuedMoment { order, log, kind }));
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Moment<'a>;

    fn next(&mut self) -> Option<Moment<'a>> {
        let Reverse(QueuedMoment { order, log, kind }) = self.queue.pop()?;
        if let MomentKind::Begin(record) = kind
            && record.duration_ns.is_some()
        {
            self.push(record.end_ns(), log, MomentKind::End(record));
        }
        if !matches!(kind, MomentKind::End(_))
            && let Some(record) = self.records[log].next()
        {
            self.push(record.start_ns, log, MomentKind::Begin(record));
        }
        Some(Moment {
            time_ns: order.0,
            log,
            kind,
        })
    }
}
