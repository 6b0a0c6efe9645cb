//! One transaction for a driver: the request, and the record that the driver fills in.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_clock::Clock;
use plimsoll_model::{Cache, Code, Codes, NOT_HAPPENED, Outcome};
use plimsoll_schedule::Fill;

use super::failure::{Failure, Waiting};

/// Maximum number of characters of a server's message in a note.
const MAX_NOTE: usize = 500;

/// One request of a tester.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Index of the operation in its workload.
    pub operation: usize,
    /// Index of the endpoint in its workload.
    pub endpoint: usize,
    /// Values for templates: tester, number of the transaction, endpoint, time, drawn values.
    pub fill: Fill<'a>,
}

/// What a driver records of one transaction. Stamps are raw, in ns, taken next to the system call;
/// [`NOT_HAPPENED`] if the event did not occur.
pub struct TransactionRecord {
    /// Start. Set before the driver is called; the driver sets it again immediately before its
    /// first system call ([`Attempt::begin`]).
    pub start: i64,
    /// A new connection was established.
    pub connected: i64,
    /// The first byte of the response was read.
    pub first_byte: i64,
    /// The response was complete, or the failure was detected.
    pub end: i64,
    /// Time at which the tester was free again, if that is later than `end` ([`Attempt::freed`]).
    pub free: i64,
    /// Number of items as the driver counts them.
    pub items: u64,
    /// Size of the decoded payload, bytes.
    pub payload: u64,
    /// Bytes written, including those of the protocol.
    pub sent: u64,
    /// Bytes read, including those of the protocol.
    pub received: u64,
    /// Number of the connection or client program, from 1; 0 is none.
    pub session: u32,
    /// Number of repeated tries within the transaction, from 0.
    pub attempt: u16,
    /// What a cache between tester and target reported.
    pub cache: Cache,
    /// Index of the endpoint of the last try, if the driver itself chooses among endpoints; none
    /// otherwise.
    pub endpoint: Option<usize>,
    /// How the transaction ended; an error if the driver does not set it.
    pub outcome: Outcome,
    /// Short text of the result.
    pub code: Code,
    /// What the tester waits for.
    pub waiting: Waiting,
    /// Named metrics of the transaction.
    pub metrics: Vec<(Code, f64)>,
    /// A message for the user. The first messages of a lane become notes.
    pub note: Option<String>,
}

impl TransactionRecord {
    /// An empty record, with an empty buffer for metrics.
    fn empty(metrics: Vec<(Code, f64)>) -> Self {
        Self {
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
            metrics,
            note: None,
        }
    }
}

/// The record of one transaction in progress, which a driver fills in, with the clock of its stamps
/// and the dictionary of its codes. It dereferences to the record, so that the fields can be
/// replaced together while clock and dictionary remain: cloning those for each transaction would
/// cost atomic operations on memory that all lanes share.
pub struct Attempt {
    clock: Arc<dyn Clock>,
    codes: Codes,
    record: TransactionRecord,
}

impl Deref for Attempt {
    type Target = TransactionRecord;

    #[inline]
    fn deref(&self) -> &TransactionRecord {
        &self.record
    }
}

impl DerefMut for Attempt {
    #[inline]
    fn deref_mut(&mut self) -> &mut TransactionRecord {
        &mut self.record
    }
}

impl Attempt {
    /// An empty record, which is reused for all transactions of a tester.
    pub fn new(clock: Arc<dyn Clock>, codes: Codes) -> Self {
        Self {
            clock,
            codes,
            record: TransactionRecord::empty(Vec::new()),
        }
    }

    /// Clears the record for the next transaction, stamps its start, and returns the stamp.
    pub fn reset(&mut self) -> i64 {
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.clear();
        self.record = TransactionRecord::empty(metrics);
        self.start = self.clock.raw_ns();
        self.start
    }

    /// Reads the clock of the stamps (raw, ns).
    #[inline]
    pub fn now(&self) -> i64 {
        self.clock.raw_ns()
    }

    /// Stamps the start again, immediately before the first system call.
    #[inline]
    pub fn begin(&mut self) {
        self.start = self.clock.raw_ns();
    }

    /// Stamps the end, and sets outcome and code.
    #[inline]
    pub fn finish(&mut self, outcome: Outcome, code: Code) {
        self.end = self.clock.raw_ns();
        self.outcome = outcome;
        self.code = code;
    }

    /// Sets outcome and code, for a driver that has stamped [`Self::end`] itself, immediately after
    /// the read that completed the response.
    #[inline]
    pub fn conclude(&mut self, outcome: Outcome, code: Code) {
        self.outcome = outcome;
        self.code = code;
    }

    /// Stamps the time at which the tester is free again, for a driver that continues to work after
    /// [`Self::end`], such as to verify a response or to close a connection. This work belongs to
    /// the tester: it is not part of the transaction, and it does not make the next one late,
    /// because that is planned from here.
    #[inline]
    pub fn freed(&mut self) {
        self.free = self.clock.raw_ns();
    }

    /// Whether the transaction has ended and the tester does its own work.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.free != NOT_HAPPENED
    }

    /// Time from which the next transaction is planned: the end, or later.
    #[inline]
    pub fn free_at(&self) -> i64 {
        self.free.max(self.end)
    }

    /// Records that `count` bytes were read: stamps the first byte if these are the first, and the
    /// end, which a later read replaces.
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

    /// [`Self::finish`] with outcome and code of a failure.
    pub fn fail(&mut self, failure: &Failure) {
        self.finish_text(failure.outcome, &failure.code);
    }

    /// [`Self::finish`] with the text of a code, which is looked up: for rare outcomes.
    pub fn finish_text(&mut self, outcome: Outcome, code: &str) {
        self.end = self.clock.raw_ns();
        self.outcome = outcome;
        self.code = self.codes.number(code);
    }

    /// Makes an event of a server's message about a failure, cut to `MAX_NOTE` characters.
    pub fn quote(&mut self, driver: &str, message: &str) {
        let message: String = message.chars().take(MAX_NOTE).collect();
        self.note = Some(format!("{driver}: {message}"));
    }

    /// The code of `text`.
    pub fn code_of(&self, text: &str) -> Code {
        self.codes.number(text)
    }
}
