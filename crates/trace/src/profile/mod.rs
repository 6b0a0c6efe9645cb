//! What an application did to its files, told from the events of its trace.
//!
//! A [`Profiler`] takes the events of a trace in the order of the file and gives a [`Profile`],
//! which is what comes out as JSON; [`findings`] says in words what of it is worth a look.
//! [`points`] has single requests, or their density, for a picture.
//!
//! Memory is that of what is told apart, not of the length of the trace: files, names, threads,
//! which thread used which file, open files, and for each file a bounded number of pieces that were
//! read and written, and of bins of time.

mod axis;
mod bursts;
mod call;
mod called;
mod chosen;
mod counts;
mod file;
pub mod findings;
mod finish;
pub mod json;
mod of_files;
mod open;
pub mod points;
mod process;
mod quick;
mod ranges;
pub mod shown;
mod tally;
mod telling;
mod time;
mod untraced;

pub use called::Called;
pub use chosen::Choice;
pub use json::Profile;
pub use untraced::Untraced;

use crate::cost::{Cost, Drift};
use crate::event::{Event, Futex, Outcome};
use crate::header::{Header, Recorder};
use crate::names::Names;
use crate::syscalls::Effect;
use axis::{Axis, Line};
use call::Calls;
use chosen::{Chooser, Subject};
use counts::Kind;
use file::File;
use json::Elsewhere;
use open::Opens;
use process::Worker;
use time::{Spent, Wall};

/// Names looked for in vain that are kept in a profile.
pub const MISSING: usize = 50;
/// Other names of a file that are kept.
pub const OTHER_NAMES: usize = 1000;
/// Processes that used a file of which the places are told.
pub const USERS: usize = 64;
/// Below, a request is a small one: bytes. A page, the least that a disk or the kernel's cache
/// moves.
pub const SMALL_REQUEST: u64 = 4096;

/// Makes a profile, event by event.
#[derive(Debug)]
pub struct Profiler {
    header: Header,
    chooser: Chooser,
    /// Of the events so far; what the choice knows of all of them goes before it.
    called: Called,
    cost: Cost,
    drift: Drift,
    calls: Calls,
    workers: Vec<Worker>,
    /// By [`crate::event::FileId`].
    files: Vec<Option<Box<File>>>,
    /// By [`crate::event::PathId`]: names that no file was found under.
    nameless: Vec<Option<Box<File>>>,
    opens: Opens,
    elsewhere: Elsewhere,
    wall: Wall,
    axis: Axis,
    line: Line<6>,
    submissions: u64,
    /// Rings of `io_uring` that were made.
    rings: u64,
}

/// What an event comes to, beside its own fields.
#[derive(Clone, Copy)]
struct EventContribution {
    kind: Kind,
    spent: Option<Spent>,
    /// Bytes that were read from a file; none where no read of one succeeded.
    read: Option<u64>,
    /// Bytes that were written to a file.
    written: Option<u64>,
}

impl Profiler {
    /// Of a trace that nothing of has been read yet.
    pub fn new(header: &Header, choice: Choice) -> Self {
        Self {
            header: header.clone(),
            chooser: Chooser::new(choice),
            called: Called::default(),
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

    /// Takes the next events. Their ids are those of `names`, as far as it is known by then; a
    /// choice by names of files goes by the names that files have here, so who knows the tables of
    /// the whole trace already gives those.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        for event in events {
            self.take_one(names, event);
        }
    }

    fn take_one(&mut self, names: &Names, event: &Event) {
        if self.chooser.choice.called.is_none() {
            self.called.take_one(names, event);
        }
        let place = event.thread.index();
        if place >= self.workers.len() {
            self.workers.resize(place + 1, Worker::default());
        }
        self.workers[place].sees(event);
        let slower = self.drift.take(event);
        if !self.chooser.is_in_time(event.start_ns) {
            return;
        }
        let kind = self.calls.kind(event.call);
        let is_call = self.calls.named(kind).is_call;
        let subject = self.chooser.subject(names, event.file, event.path);
        if event.call.is_made() {
            // Tracing has cost what it has, whatever was asked for.
            let in_piece = &mut self.workers[place].in_piece;
            self.wall
                .add(event, waits(event, subject), in_piece, &self.cost, slower);
        }
        let target = match event.call.effect {
            Effect::Transfer => self.chooser.subject(names, event.file2, None),
            _ => Subject::None,
        };
        if self.chooser.leaves_out(subject, target) {
            return;
        }
        let spent = event.duration_ns.map(|ns| Spent::new(ns, &self.cost, slower));
        let mut taken = EventContribution {
            kind,
            spent,
            read: None,
            written: None,
        };
        self.add_to_files(event, [subject, target], &mut taken);
        if is_call {
            self.add_to_sums(event, subject, &taken);
        }
    }

    /// What the event is to the threads, the calls, and the line of the run.
    fn add_to_sums(&mut self, event: &Event, subject: Subject, taken: &EventContribution) {
        self.calls.named(taken.kind).add(event, taken.spent.as_ref());

        let sums = &mut self.workers[event.thread.index()].sums;
        sums.calls += u64::from(event.call.is_made());
        sums.failed += u64::from(matches!(event.outcome, Outcome::Failed(_)));
        sums.read_bytes = sums.read_bytes.saturating_add(taken.read.unwrap_or(0));
        sums.write_bytes = sums.write_bytes.saturating_add(taken.written.unwrap_or(0));
        if self.header.recorder == Recorder::Preload {
            // With strace, its own share is in it.
            sums.used_cpu(event.cpu_ns);
        }
        if let Some(spent) = &taken.spent {
            sums.time.add(spent);
            if waits(event, subject) {
                sums.waiting.add(spent);
            }
        }

        let has_data = taken.read.is_some() || taken.written.is_some();
        let is_about_files = matches!(subject, Subject::File(_) | Subject::Name(_));
        let amounts = [
            u64::from(taken.read.is_some()),
            taken.read.unwrap_or(0),
            u64::from(taken.written.is_some()),
            taken.written.unwrap_or(0),
            u64::from(is_about_files && !has_data),
            u64::from(!is_about_files && !has_data),
        ];
        let bin = self.axis.place(event.start_ns);
        self.line.add(&self.axis, bin, amounts);
    }
}

/// Whether a call waits for something else than a file: futex, poll, wait4, sleep, reads of pipes
/// and sockets.
fn waits(event: &Event, subject: Subject) -> bool {
    let from_elsewhere = event.call.effect == Effect::Read && subject == Subject::Elsewhere;
    let waits = matches!(event.call.effect, Effect::Wait | Effect::Receive);
    from_elsewhere || waits && event.futex() != Some(Futex::Wakes)
}
