//! Follows the logs of all threads: their records become events.

use std::collections::HashMap;

use crate::event::{Event, Outcome};
use crate::implied;
use crate::kernel::{Birth, CallResult, EarlyRelease, Kernel, Part, Request};
use crate::preload::machine::Machine;
use crate::preload::{Head, Image, Log, Merge, Moment, MomentKind, Record};
use crate::syscalls::{Argument, Effect};

/// Counts of records, and of those that were not used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnusedRecords {
    /// Number of records, including lost ones.
    pub records: u64,
    /// Number of records that the recorder could not write.
    pub lost: u64,
    /// Number of calls that this version does not know.
    pub unknown_calls: u64,
    /// Number of logs that end in bytes that are not a record.
    pub cut: u64,
}

/// Follows the logs of a program from the first record to the last. Events are passed to `sink` in
/// the order of their ends, with times in ns since `zero_ns` (`CLOCK_MONOTONIC`).
pub fn follow(
    logs: Vec<Log<'_>>,
    zero_ns: u64,
    sink: &mut impl FnMut(&mut Kernel, &Event),
) -> (Kernel, UnusedRecords) {
    let heads: Vec<Head<'_>> = logs.iter().map(|log| log.head.clone()).collect();
    let mut follower = Follower {
        kernel: Kernel::new(),
        machine: Machine::of(&heads),
        begun: HashMap::new(),
        executing: HashMap::new(),
        zero_ns,
        now_ns: zero_ns,
        records: 0,
    };
    let mut merge = Merge::new(logs);
    for moment in merge.by_ref() {
        follower.take(&moment, &heads[moment.log], sink);
    }
    follower.end(&heads, sink);
    let records = merge.records();
    // The count of a damaged log may be any number.
    let lost = records
        .iter()
        .map(super::Records::lost)
        .fold(0, u64::saturating_add);
    let unknown_calls = records
        .iter()
        .map(super::Records::unknown_calls)
        .fold(0, u64::saturating_add);
    let unused = UnusedRecords {
        records: follower.records.saturating_add(lost),
        lost,
        unknown_calls,
        cut: records.iter().filter(|log| log.cut_bytes().is_some()).count() as u64,
    };
    (follower.kernel, unused)
}

struct Follower<'a> {
    kernel: Kernel,
    machine: Machine,
    /// Descriptors that unfinished calls released at their start, by thread.
    begun: HashMap<u32, EarlyRelease>,
    /// Threads that are executing a program. It has started when its log begins.
    executing: HashMap<u32, Record<'a>>,
    zero_ns: u64,
    now_ns: u64,
    records: u64,
}

impl<'a> Follower<'a> {
    fn take(&mut self, moment: &Moment<'a>, head: &Head<'a>, sink: &mut impl FnMut(&mut Kernel, &Event)) {
        self.now_ns = moment.time_ns;
        match moment.kind {
            MomentKind::Log => self.begin_log(head, sink),
            MomentKind::Begin(record) => {
                self.records += 1;
                let tid = self.thread(&record, head);
                let begun = self.kernel.begin_call(&self.request(tid, &record));
                if record.duration_ns.is_some() {
                    self.begun.insert(tid, begun);
                } else if record.call.effect == Effect::Execute {
                    self.executing.insert(tid, record);
                } else {
                    self.end_call(tid, &record, begun, record.outcome, sink);
                }
            }
            MomentKind::End(record) => {
                let tid = self.thread(&record, head);
                let begun = self.begun.remove(&tid).unwrap_or_default();
                self.end_call(tid, &record, begun, record.outcome, sink);
            }
        }
    }

    /// Handles the start of a log: of a thread or a program.
    fn begin_log(&mut self, head: &Head<'a>, sink: &mut impl FnMut(&mut Kernel, &Event)) {
        if let Some(record) = self.executing.remove(&head.tid) {
            self.end_call(
                head.tid,
                &record,
                EarlyRelease::default(),
                Outcome::Returned(0),
                sink,
            );
        }
        self.add_missing_thread(head);
        if let Some(image) = &head.image {
            self.add_image(head.tid, image);
        }
    }

    fn add_missing_thread(&mut self, head: &Head<'_>) {
        if self.kernel.knows(head.tid) {
            return;
        }
        if head.tid != head.pid {
            self.kernel.add_thread(head.tid, head.pid, Birth::THREAD);
        } else if self.kernel.knows(head.parent) {
            self.kernel.add_thread(head.tid, head.parent, Birth::PROCESS);
        }
    }

    /// Adds the working directory and the open descriptors of a new program, where they are not
    /// known yet.
    fn add_image(&mut self, tid: u32, image: &Image<'_>) {
        if !image.directory.is_empty() {
            self.kernel.set_directory(tid, image.directory);
        }
        for open in &image.open {
            let offset = open.offset.and_then(|offset| i64::try_from(offset).ok());
            self.kernel.add_open_before(
                tid,
                open.number,
                open.name,
                offset,
                self.machine.open_flags(u64::from(open.flags)),
                open.is_marked,
            );
        }
    }

    /// The thread of a record. A child of vfork has no log of its own yet.
    fn thread(&mut self, record: &Record<'_>, head: &Head<'_>) -> u32 {
        let Some(tid) = record.other_thread else {
            return head.tid;
        };
        self.kernel.add_thread(tid, head.tid, Birth::PROCESS);
        tid
    }

    fn end_call(
        &mut self,
        tid: u32,
        record: &Record<'_>,
        begun: EarlyRelease,
        outcome: Outcome,
        sink: &mut impl FnMut(&mut Kernel, &Event),
    ) {
        let done = CallResult {
            outcome,
            returned: None,
            duration_ns: record.duration_ns,
            cpu_ns: record.cpu_ns,
        };
        let start_ns = self.since_zero(record.start_ns);
        let event = self
            .kernel
            .end_call(&self.request(tid, record), &done, begun, start_ns);
        sink(&mut self.kernel, &event);
        for event in implied::implied_events(&mut self.kernel, &event) {
            sink(&mut self.kernel, &event);
        }
    }

    fn since_zero(&self, ns: u64) -> i64 {
        ns.cast_signed().wrapping_sub(self.zero_ns.cast_signed())
    }

    /// Ends the remaining threads with the last record, because logs do not contain the end of a
    /// thread.
    fn end(&mut self, heads: &[Head<'_>], sink: &mut impl FnMut(&mut Kernel, &Event)) {
        for head in heads {
            if let Some(record) = self.executing.remove(&head.tid) {
                self.end_call(head.tid, &record, EarlyRelease::default(), Outcome::Unknown, sink);
            }
            let thread = self.kernel.remove_thread(head.tid);
            let at_ns = self.since_zero(self.now_ns);
            let exited = thread.and_then(|thread| implied::exited(thread, at_ns, Outcome::Unknown));
            if let Some(event) = exited {
                sink(&mut self.kernel, &event);
                for event in implied::implied_events(&mut self.kernel, &event) {
                    sink(&mut self.kernel, &event);
                }
            }
        }
    }

    /// Converts the arguments of a record by their kinds.
    fn request(&self, tid: u32, record: &Record<'a>) -> Request<'a> {
        let mut texts = record.texts.iter().copied().flatten();
        let mut parts = [None; 6];
        let kinds = record.call.arguments.iter();
        for ((part, kind), number) in parts.iter_mut().zip(kinds).zip(record.arguments) {
            *part = match kind {
                Argument::Path | Argument::Text => texts.next().map(Part::Bytes),
                Argument::Pair => record.pair.map(Part::Pair),
                Argument::Status => record.status.map(|status| Part::Status {
                    size: i64::try_from(status.size).unwrap_or(i64::MAX),
                    mode: status.mode,
                }),
                _ => number.map(|number| Part::Number(self.machine.argument(record, *kind, number))),
            };
        }
        Request::of_parts(tid, record.call, parts)
    }
}
