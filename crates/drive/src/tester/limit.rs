//! When a transaction must end, and the code of the timeout.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_clock::Clock;
use plimsoll_model::{Code, Codes, Outcome};

use super::attempt::Attempt;
use super::failure::Waiting;

/// The codes of timeouts.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutCodes {
    connect: Code,
    first_byte: Code,
    body: Code,
}

impl TimeoutCodes {
    /// Adds the codes to the dictionary.
    pub fn new(codes: &Codes) -> Self {
        Self {
            connect: codes.number(Waiting::Connect.timeout_code()),
            first_byte: codes.number(Waiting::FirstByte.timeout_code()),
            body: codes.number(Waiting::Body.timeout_code()),
        }
    }

    /// The code for a tester that waits for `waiting`.
    pub fn of(self, waiting: Waiting) -> Code {
        match waiting {
            Waiting::Connect => self.connect,
            Waiting::FirstByte => self.first_byte,
            Waiting::Body => self.body,
        }
    }
}

/// When a transaction of a blocking tester must end.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Timeout of the transaction (raw, ns).
    pub(crate) deadline: i64,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) cancel_fd: RawFd,
    pub(crate) timeouts: TimeoutCodes,
}

/// Why a transaction of a blocking tester must end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Its timeout has expired.
    Timeout,
    /// The drain of the run has ended.
    Cancelled,
}

impl Limit<'_> {
    /// Time left, ns; 0 if none.
    pub fn left_ns(&self) -> u64 {
        (self.deadline - self.clock.raw_ns()).max(0) as u64
    }

    /// Why the transaction must end now; none if it need not.
    pub fn due(&self) -> Option<Due> {
        if self.cancelled.load(Ordering::SeqCst) {
            Some(Due::Cancelled)
        } else if self.clock.raw_ns() >= self.deadline {
            Some(Due::Timeout)
        } else {
            None
        }
    }

    /// Finishes `attempt` for the reason `due`.
    pub fn finish(&self, attempt: &mut Attempt, due: Due) {
        match due {
            Due::Timeout => attempt.finish(Outcome::Timeout, self.timeouts.of(attempt.waiting)),
            Due::Cancelled => attempt.outcome = Outcome::Cancelled,
        }
    }

    /// A descriptor that becomes readable when the run cancels transactions in progress.
    pub fn cancel_fd(&self) -> RawFd {
        self.cancel_fd
    }
}
