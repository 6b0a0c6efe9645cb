//! Computes the profile of a trace: the calls of an application on its files.
//!
//! A [`Profiler`] reads the events of a trace in the order of the file and returns a [`Profile`],
//! which is printed as JSON. [`findings`] states its noteworthy properties as text. [`points`]
//! returns single requests, or their density, for a chart.
//!
//! Memory depends on the number of different objects, not on the length of the trace: files, paths,
//! threads, pairs of thread and file, open files, and for each file a bounded number of ranges and
//! of time bins.

mod axis;
mod bursts;
mod call;
mod choice;
mod counts;
mod file;
mod file_names;
pub mod findings;
mod finish;
pub mod json;
mod json_builder;
mod of_files;
mod open;
pub mod points;
mod process;
mod quick;
mod ranges;
pub mod shown;
mod tally;
mod time;
mod untraced;

pub use choice::Choice;
pub use file_names::FileNames;
pub use json::Profile;
pub use untraced::UntracedTime;

use crate::cost::{Cost, Drift};
use crate::event::{Event, Futex, Outcome};
use crate::header::{Header, Recorder};
use crate::names::Names;
use crate::syscalls::Effect;
use axis::{Axis, Line};
use call::Calls;
use choice::{Chooser, Subject};
use counts::Kind;
use file::File;
use json::Elsewhere;
use open::Opens;
use process::Worker;
use time::{TracedTime, Wall};

/// Maximum number of paths with failed lookups in a profile.
pub const MAX_MISSING: usize = 50;
/// Maximum number of other paths of a file.
pub const MAX_OTHER_NAMES: usize = 1000;
/// Maximum number of processes in the list of a file.
pub const MAX_PROCESSES: usize = 64;
/// A request for fewer bytes is a small one. It is the size of a page, the least that a disk or the
/// page cache transfers.
pub const SMALL_REQUEST: u64 = 4096;

/// Builds a profile, event by event.
#[derive(Debug)]
pub struct Profiler {
    header: Header,
    chooser: Chooser,
    /// The paths according to the events so far. Those of the selection take precedence, if it has
    /// them.
    file_names: FileNames,
    cost: Cost,
    drift: Drift,
    calls: Calls,
    workers: Vec<Worker>,
    /// By [`crate::event::FileId`].
    files: Vec<Option<Box<File>>>,
    /// By [`crate::event::PathId`]: paths at which no file was found.
    nameless: Vec<Option<Box<File>>>,
    opens: Opens,
    elsewhere: Elsewhere,
    wall: Wall,
    axis: Axis,
    line: Line<6>,
    submissions: u64,
    /// Number of `io_uring` instances.
    rings: u64,
}

/// The contribution of an event to the counts, in addition to its own fields.
#[derive(Clone, Copy)]
struct EventContribution {
    kind: Kind,
    spent: Option<TracedTime>,
    /// Bytes read from a file; None if no read succeeded.
    read: Option<u64>,
    /// Bytes written to a file; None if no write succeeded.
    written: Option<u64>,
}

impl Profiler {
    /// A profiler before the first event of a trace.
    pub fn new(header: &Header, choice: Choice) -> Self {
        Self {
            header: header.clone(),
            chooser: Chooser::new(choice),
            file_names: FileNames::default(),
            cost: Cost::of(header.calibration.as_ref()),
            drift: Drift::new(header),
            calls: Calls::default(),
            workers: Vec::new(),
            files: Vec::new(),
            nameless: Vec::new(),
            opens: Opens::default(),
            elsewhere: Elsewhere::default(),
            wall: Wall::default(),
            axis: Axis::default(),
            line: Line::default(),
            submissions: 0,
            rings: 0,
        }
    }

    /// Reads the next events. Their ids are those of `names`, which may grow in later calls. A
    /// selection by path uses the paths in `names`, so a caller that knows the tables of the whole
    /// trace passes those.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        for event in events {
            self.add_event(names, event);
        }
    }

    fn add_event(&mut self, names: &Names, event: &Event) {
        if self.chooser.choice.file_names.is_none() {
            self.file_names.add_event(names, event);
        }
        let thread = event.thread.index();
        if thread >= self.workers.len() {
            self.workers.resize(thread + 1, Worker::default());
        }
        self.workers[thread].add_event(event);
        let slower = self.drift.take(event);
        if !self.chooser.is_in_time(event.start_ns) {
            return;
        }
        let kind = self.calls.kind(event.call);
        let is_call = self.calls.named(kind).is_call;
        let subject = self.chooser.subject(names, event.file, event.path);
        if event.call.is_made() {
            // The tracing cost does not depend on the selection.
            let piece = &mut self.workers[thread].piece;
            self.wall
                .add(event, is_waiting(event, subject), piece, &self.cost, slower);
        }
        let target = match event.call.effect {
            Effect::Transfer => self.chooser.subject(names, event.file2, None),
            _ => Subject::None,
        };
        if self.chooser.is_left_out(subject, target) {
            return;
        }
        let spent = event
            .duration_ns
            .map(|ns| TracedTime::new(ns, &self.cost, slower));
        let mut contribution = EventContribution {
            kind,
            spent,
            read: None,
            written: None,
        };
        self.add_to_files(event, [subject, target], &mut contribution);
        if is_call {
            self.add_to_sums(event, subject, &contribution);
        }
    }

    /// Adds an event to the counts of the threads, of the calls and of the timeline.
    fn add_to_sums(&mut self, event: &Event, subject: Subject, contribution: &EventContribution) {
        self.calls
            .named(contribution.kind)
            .add(event, contribution.spent.as_ref());

        let sums = &mut self.workers[event.thread.index()].sums;
        sums.calls += u64::from(event.call.is_made());
        sums.failed += u64::from(matches!(event.outcome, Outcome::Failed(_)));
        sums.read_bytes = sums.read_bytes.saturating_add(contribution.read.unwrap_or(0));
        sums.write_bytes = sums.write_bytes.saturating_add(contribution.written.unwrap_or(0));
        if self.header.recorder == Recorder::Preload {
            // With strace, the processor time includes that of strace.
            sums.add_cpu(event.cpu_ns);
        }
        if let Some(spent) = &contribution.spent {
            sums.time.add(spent);
            if is_waiting(event, subject) {
                sums.waiting.add(spent);
            }
        }

        let has_data = contribution.read.is_some() || contribution.written.is_some();
        let is_about_files = matches!(subject, Subject::File(_) | Subject::Name(_));
        let amounts = [
            u64::from(contribution.read.is_some()),
            contribution.read.unwrap_or(0),
            u64::from(contribution.written.is_some()),
            contribution.written.unwrap_or(0),
            u64::from(is_about_files && !has_data),
            u64::from(!is_about_files && !has_data),
        ];
        let bin = self.axis.bin_index(event.start_ns);
        self.line.add(&self.axis, bin, amounts);
    }
}

/// Whether a call waits for something other than a file: futex, poll, wait4, sleep, reads of pipes
/// and sockets.
fn is_waiting(event: &Event, subject: Subject) -> bool {
    let from_elsewhere = event.call.effect == Effect::Read && subject == Subject::Elsewhere;
    let is_waiting = matches!(event.call.effect, Effect::Wait | Effect::Receive);
    from_elsewhere || is_waiting && event.futex() != Some(Futex::Wakes)
}
