//! One transaction as a driver carries it out: the request, and what is recorded of it.

use std::sync::Arc;

use plimsoll_clock::Clock;
use plimsoll_model::{Cache, Code, Codes, NOT_HAPPENED, Outcome};
use plimsoll_schedule::Fill;

use crate::failure::{Failure, Waiting};

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
