//! The logs of all threads as a whole: their records become events.

use std::collections::HashMap;

use crate::event::{Event, Outcome};
use crate::kernel::{Birth, CallResult, EarlyRelease, Kernel, Part, Request};
use crate::preload::machine::Machine;
use crate::preload::{Head, Image, Log, Merge, Moment, Record, When};
use crate::syscalls::{Argument, Effect};
use crate::telling;

/// What could not be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnusedRecords {
    /// Records in all, those that were lost too.
    pub records: u64,
    /// Those that the recorder could not write.
    pub lost: u64,
    /// Calls that nobody knew when this was written.
    pub unknown_calls: u64,
    /// Logs that end in bytes that make no sense.
    pub cut: u64,
}

/// Follows the logs of a program, from the first record to the last. Events are given to `told`,
/// with times since `zero_ns` (`CLOCK_MONOTONIC`), by which they are in order of their ends.
pub fn follow(
    logs: Vec<Log<'_>>,
    zero_ns: u64,
    told: &mut impl FnMut(&mut Kernel, &Event),
) -> (Kernel, UnusedRecords) {
    let heads: Vec<Head<'_>> = logs.iter().map(|log| log.head.clone()).collect();
    let mut following = Following {
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
        following.take(&moment, &heads[moment.log], told);
    }
    following.end(&heads, told);
    let records = merge.records();
    // A damaged log may tell of any number.
    let lost = records
        .iter()
        .map(super::Records::lost)
        .fold(0, u64::saturating_add);
    let unknown_calls = records
        .iter()
        .map(super::Records::unknown_calls)
        .fold(0, u64::saturating_add);
    let lost = UnusedRecords {
        records: following.records.saturating_add(lost),
        lost,
        unknown_calls,
        cut: records.iter().filter(|one| one.cut_bytes().is_some()).count() as u64,
    };
    (following.kernel, lost)
}

struct Following<'a> {
    kernel: Kernel,
    machine: Machine,
    /// What calls that go on have given up when they began, by thread.
    begun: HashMap<u32, EarlyRelease>,
    /// Threads that have asked for another program: they have it when that one's log begins.
    executing: HashMap<u32, Record<'a>>,
    zero_ns: u64,
    now_ns: u64,
    records: u64,
}

impl<'a> Following<'a> {
    fn take(&mut self, moment: &Moment<'a>, head: &Head<'a>, told: &mut impl FnMut(&mut Kernel, &Event)) {
        self.now_ns = moment.time_ns;
        match moment.when {
            When::Log => self.log(head, told),
            When::Begin(record) => {
                self.records += 1;
                let tid = self.thread(&record, head);
                let begun = self.kernel.begins(&self.asked(tid, &record));
                if record.duration_ns.is_some() {
                    self.begun.insert(tid, begun);
                } else if record.call.effect == Effect::Execute {
                    self.executing.insert(tid, record);
                } else {
                    self.tell(tid, &record, begun, record.outcome, told);
                }
            }
            When::End(record) => {
                let tid = self.thread(&record, head);
                let begun = self.begun.remove(&tid).unwrap_or_default();
                self.tell(tid, &record, begun, record.outcome, told);
            }
        }
    }

    /// A thread has begun, or a program.
    fn log(&mut self, head: &Head<'a>, told: &mut impl FnMut(&mut Kernel, &Event)) {
        if let Some(record) = self.executing.remove(&head.tid) {
            self.tell(
                head.tid,
                &record,
                EarlyRelease::default(),
                Outcome::Returned(0),
                told,
            );
        }
        self.add_missing_thread(head);
        if let Some(image) = &head.image {
            self.knows(head.tid, image);
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

    /// What a program has begun with, as far as it is news.
    fn knows(&mut self, tid: u32, image: &Image<'_>) {
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

    /// The thread of a record: a child of vfork has no log of its own yet.
    fn thread(&mut self, record: &Record<'_>, head: &Head<'_>) -> u32 {
        let Some(tid) = record.other_thread else {
            return head.tid;
        };
        self.kernel.add_thread(tid, head.tid, Birth::PROCESS);
        tid
    }

    fn tell(
        &mut self,
        tid: u32,
        record: &Record<'_>,
        begun: EarlyRelease,
        outcome: Outcome,
        told: &mut impl FnMut(&mut Kernel, &Event),
    ) {
        let done = CallResult {
            outcome,
            returned: None,
            duration_ns: record.duration_ns,
            cpu_ns: record.cpu_ns,
        };
        let start_ns = self.since_zero(record.start_ns);
        let event = self.kernel.ends(&self.asked(tid, record), &done, begun, start_ns);
        told(&mut self.kernel, &event);
        for event in telling::behind(&mut self.kernel, &event) {
            told(&mut self.kernel, &event);
        }
    }

    fn since_zero(&self, ns: u64) -> i64 {
        ns.cast_signed().wrapping_sub(self.zero_ns.cast_signed())
    }

    /// No log tells of the end of its thread: all that are left end with the last record.
    fn end(&mut self, heads: &[Head<'_>], told: &mut impl FnMut(&mut Kernel, &Event)) {
        for head in heads {
            if let Some(record) = self.executing.remove(&head.tid) {
                self.tell(head.tid, &record, EarlyRelease::default(), Outcome::Unknown, told);
            }
            let thread = self.kernel.remove_thread(head.tid);
            let at_ns = self.since_zero(self.now_ns);
            let exited = thread.and_then(|thread| telling::exited(thread, at_ns, Outcome::Unknown));
            if let Some(event) = exited {
                told(&mut self.kernel, &event);
                for event in telling::behind(&mut self.kernel, &event) {
                    told(&mut self.kernel, &event);
                }
            }
        }
    }

    /// A record, by what its arguments mean.
    fn asked(&self, tid: u32, record: &Record<'a>) -> Request<'a> {
        let mut texts = record.texts.iter().copied().flatten();
        let mut parts = [None; 6];
        let kinds = record.call.arguments.iter();
        for ((part, kind), number) in parts.iter_mut().zip(kinds).zip(record.arguments) {
            *part = match kind {
                Argument::Path | Argument::Text => texts.next().map(Part::Bytes),
                Argument::Pair => record.pair.map(Part::Pair),
                Argument::Status => record.status.map(|found| Part::Status {
                    size: i64::try_from(found.size).unwrap_or(i64::MAX),
                    mode: found.mode,
                }),
                _ => number.map(|number| Part::Number(self.machine.argument(record, *kind, number))),
            };
        }
        Request::of_parts(tid, record.call, parts)
    }
}
