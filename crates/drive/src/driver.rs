//! What a driver is. Each driver is one file of `drivers/`.
//!
//! A driver is made once per workload and process ([`AsyncDriver::prepare`]), where everything
//! about settings, templates and files is checked; it makes one tester per tester of the run, and a
//! tester carries out its transactions one after the other. A tester connects within its first
//! transaction, so that the time of connecting is seen, and closes when it is dropped.

use std::cell::RefCell;
use std::future::Future;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_clock::Clock;
use plimsoll_model::{Cache, Code, Codes, Endpoint, NOT_HAPPENED, NameLookup, Outcome};
use plimsoll_schedule::{Fill, Template, Used, Values};
use serde::de::DeserializeOwned;

use crate::blocking_pool::Limit;
use crate::failure::Failure;
use crate::net::{Host, is_address};
use crate::reactor::Io;

/// What a driver is made from.
pub struct Setup<'a> {
    /// `settings` of the workload.
    pub settings: &'a serde_json::Value,
    /// `request` of each operation.
    pub requests: Vec<&'a serde_json::Value>,
    /// Where requests go.
    pub endpoints: &'a [Endpoint],
    /// The workload's values.
    pub values: &'a Values,
    /// The agent's dictionary.
    pub codes: &'a Codes,
    /// Seed of the run.
    pub seed: u64,
    /// Index of the workload in the run; with a seed and a tester's number it names a random
    /// sequence.
    pub workload: u64,
    /// Per operation: what stands in its texts. Filled by [`Setup::template`].
    pub(crate) used: RefCell<Vec<Used>>,
    /// Of the whole run. Filled by [`Setup::host`].
    pub(crate) lookups: &'a RefCell<Vec<NameLookup>>,
}

impl Setup<'_> {
    /// Looks a host up, and records how long that took.
    pub fn host(&self, name: &str, port: u16) -> Result<Host, String> {
        let begun = Instant::now();
        let host = Host::resolve(name, port)?;
        if !is_address(name) {
            let (name, took_ns) = (name.to_owned(), begun.elapsed().as_nanos() as u64);
            self.lookups.borrow_mut().push(NameLookup { name, took_ns });
        }
        Ok(host)
    }

    /// The settings as the driver's own type.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(self.settings).map_err(|error| format!("settings: {error}"))
    }

    /// The request of operation `index` as the driver's own type.
    pub fn request<T: DeserializeOwned>(&self, index: usize) -> Result<T, String> {
        T::deserialize(self.requests[index]).map_err(|error| format!("request of operation {index}: {error}"))
    }

    /// Compiles a text of operation `operation`.
    pub fn template(&self, operation: usize, text: &str) -> Template {
        let template = Template::new(text, self.values);
        template.used(&mut self.used.borrow_mut()[operation]);
        template
    }

    /// Compiles a text that stands in the settings: its values are drawn for every operation.
    pub fn common_template(&self, text: &str) -> Template {
        let template = Template::new(text, self.values);
        for used in self.used.borrow_mut().iter_mut() {
            template.used(used);
        }
        template
    }
}

/// What a tester is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Index of the operation in its workload.
    pub operation: usize,
    /// Index of the endpoint in its workload.
    pub endpoint: usize,
    /// For templates: tester, its n-th transaction, endpoint, time, values.
    pub fill: Fill<'a>,
}

/// What a tester waits for; names the code of a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A connection, or a program to start.
    Connect,
    /// The first byte of the answer.
    FirstByte,
    /// The rest of it.
    Body,
}

impl Waiting {
    /// The code of a time-out that comes while this is waited for.
    pub const fn timeout_code(self) -> &'static str {
        match self {
            Self::Connect => "timeout connect",
            Self::FirstByte => "timeout first byte",
            Self::Body => "timeout body",
        }
    }
}

/// Collects what happens to one transaction. A driver fills it in; stamps are taken beside the
/// system call.
pub struct Attempt {
    clock: Arc<dyn Clock>,
    codes: Codes,
    /// See `Transaction`; set before the driver is called, to be taken anew right before the first
    /// system call.
    pub start: i64,
    /// See `Transaction`.
    pub connected: i64,
    /// See `Transaction`.
    pub first_byte: i64,
    /// See `Transaction`.
    pub end: i64,
    /// When the tester was free again, where that is later than `end` ([`Attempt::freed`]).
    pub free: i64,
    /// See `Transaction`.
    pub items: u64,
    /// See `Transaction`.
    pub payload: u64,
    /// See `Transaction`.
    pub sent: u64,
    /// See `Transaction`.
    pub received: u64,
    /// See `Transaction`.
    pub session: u32,
    /// See `Transaction`.
    #[allow(clippy::struct_field_names, reason = "the column's name")]
    pub attempt: u16,
    /// See `Transaction`.
    pub cache: Cache,
    /// Index of the endpoint that it ended at, for a driver that chooses among them itself.
    pub endpoint: Option<usize>,
    /// See `Transaction`; an attempt that is not finished is an error.
    pub outcome: Outcome,
    /// See `Transaction`.
    pub code: Code,
    /// What is waited for.
    pub waiting: Waiting,
    /// Named metrics.
    pub metrics: Vec<(Code, f64)>,
    /// Something that a person should read; the first few of a lane become notes.
    pub note: Option<String>,
}

impl Attempt {
    /// One to be used again and again.
    pub fn new(clock: Arc<dyn Clock>, codes: Codes) -> Self {
        Self {
            clock,
            codes,
            start: NOT_HAPPENED,
            connected: NOT_HAPPENED,
            first_byte: NOT_HAPPENED,
            end: NOT_HAPPENED,
            free: NOT_HAPPENED,
            items: 0,
            payload: 0,
            sent: 0,
            received: 0,
            session: 0,
            attempt: 0,
            cache: Cache::None,
            endpoint: None,
            outcome: Outcome::Error,
            code: Code::NONE,
            waiting: Waiting::Connect,
            metrics: Vec::new(),
            note: None,
        }
    }

    /// Empties it for the next transaction, and stamps its start; gives the stamp.
    pub fn reset(&mut self) -> i64 {
        self.connected = NOT_HAPPENED;
        self.first_byte = NOT_HAPPENED;
        self.end = NOT_HAPPENED;
        self.free = NOT_HAPPENED;
        self.items = 0;
        self.payload = 0;
        self.sent = 0;
        self.received = 0;
        self.session = 0;
        self.attempt = 0;
        self.cache = Cache::None;
        self.endpoint = None;
        self.outcome = Outcome::Error;
        self.code = Code::NONE;
        self.waiting = Waiting::Connect;
        self.metrics.clear();
        self.note = None;
        self.start = self.clock.raw_ns();
        self.start
    }

    /// Reads the clock of stamps.
    #[inline]
    pub fn now(&self) -> i64 {
        self.clock.raw_ns()
    }

    /// Stamps the start anew: right before the first system call.
    #[inline]
    pub fn begin(&mut self) {
        self.start = self.clock.raw_ns();
    }

    /// Stamps the end and says how it went.
    #[inline]
    pub fn finish(&mut self, outcome: Outcome, code: Code) {
        self.end = self.clock.raw_ns();
        self.outcome = outcome;
        self.code = code;
    }

    /// Says how it went, for a driver that has stamped [`Self::end`] itself, right after the read
    /// that completed it.
    #[inline]
    pub fn conclude(&mut self, outcome: Outcome, code: Code) {
        self.outcome = outcome;
        self.code = code;
    }

    /// Stamps when the tester is free again, for a driver that goes on working after [`Self::end`]:
    /// verifying an answer, closing what is used once. That is the tester's own work: not a part of
    /// the transaction, and no lateness of the next one, which is planned from here.
    #[inline]
    pub fn freed(&mut self) {
        self.free = self.clock.raw_ns();
    }

    /// Whether the transaction has ended, and what goes on is the tester's own work.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.free != NOT_HAPPENED
    }

    /// When the next transaction may be planned from: the end, or later.
    #[inline]
    pub fn free_at(&self) -> i64 {
        self.free.max(self.end)
    }

    /// Bytes were read: stamps the first byte, and the end as far as is known.
    #[inline]
    pub fn read(&mut self, count: usize) {
        let now = self.clock.raw_ns();
        self.received += count as u64;
        if self.first_byte == NOT_HAPPENED {
            self.first_byte = now;
            self.waiting = Waiting::Body;
        }
        self.end = now;
    }

    /// [`Self::finish`] by a failure.
    pub fn fail(&mut self, failure: &Failure) {
        self.finish_text(failure.outcome, &failure.code);
    }

    /// [`Self::finish`] by the text of a code: for what is rare.
    pub fn finish_text(&mut self, outcome: Outcome, code: &str) {
        self.end = self.clock.raw_ns();
        self.outcome = outcome;
        self.code = self.codes.number(code);
    }

    /// Number of a code.
    pub fn code_of(&self, text: &str) -> Code {
        self.codes.number(text)
    }
}

/// A driver whose testers are tasks of a lane.
pub trait AsyncDriver: Send + Sync + Sized + 'static {
    /// One tester's state: connection, buffers.
    type Tester: AsyncTester;
    /// Open files of a tester.
    const FILES: u64 = 1;
    /// Checks and compiles everything. Opens no connection. The error names the key, what is wrong,
    /// and what to do.
    fn prepare(setup: &Setup<'_>) -> Result<Self, String>;
    /// A tester, on the lane that will run it.
    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Self::Tester;
}

/// A tester of an [`AsyncDriver`].
pub trait AsyncTester: 'static {
    /// Carries out one transaction: fills `attempt`, ending with [`Attempt::finish`]. The future is
    /// dropped when its time is up or the run ends, and [`Self::reset`] called.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) -> impl Future<Output = ()>;
    /// The last transaction was abandoned: drop whatever is in an unknown state.
    fn reset(&mut self);
}

/// A driver whose testers are threads.
pub trait BlockingDriver: Send + Sync + Sized + 'static {
    /// One tester's state.
    type Tester: BlockingTester;
    /// As [`AsyncDriver::prepare`].
    fn prepare(setup: &Setup<'_>) -> Result<Self, String>;
    /// A tester, made on the thread that will run it. The run begins when all are made, however
    /// long that takes.
    ///
    /// # Errors
    /// What it lacks, and what to do: there is no run then.
    fn tester(self: &Arc<Self>, number: u32) -> Result<Self::Tester, String>;
    /// Removes what testers have made, when all of them have ended, outside of all that is
    /// measured. Gives what a person should know of what is left.
    fn tidy(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A tester of a [`BlockingDriver`].
pub trait BlockingTester: 'static {
    /// Gets ready for another transaction. It is in none of them: a tester that works here says so
    /// by [`Attempt::freed`], and the next one is planned from then.
    ///
    /// # Errors
    /// Why it cannot go on: it is taken out.
    fn renew(&mut self, attempt: &mut Attempt) -> Result<(), String> {
        let _ = attempt;
        Ok(())
    }

    /// Carries out one transaction. It must end soon after `limit` says so, by itself, with
    /// [`Outcome::Timeout`] or [`Outcome::Cancelled`]; nobody else can end it.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>);
}

impl Limit<'_> {
    /// A descriptor that becomes readable when the run gives up on transactions in progress.
    pub fn cancel_fd(&self) -> RawFd {
        self.cancel_fd
    }
}
