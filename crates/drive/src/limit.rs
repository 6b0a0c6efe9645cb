//! When a transaction must end, and the code of the time-out.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_clock::Clock;
use plimsoll_model::{Code, Codes, Outcome};

use crate::attempt::Attempt;
use crate::failure::Waiting;

/// The codes of time-outs.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutCodes {
    connect: Code,
    first_byte: Code,
    body: Code,
}

impl TimeoutCodes {
    /// Enters them.
    pub fn new(codes: &Codes) -> Self {
        Self {
            connect: codes.number(Waiting::Connect.timeout_code()),
            first_byte: codes.number(Waiting::FirstByte.timeout_code()),
            body: codes.number(Waiting::Body.timeout_code()),
        }
    }

    /// The one for a tester that waits for `waiting`.
    pub fn of(self, waiting: Waiting) -> Code {
        match waiting {
            Waiting::Connect => self.connect,
            Waiting::FirstByte => self.first_byte,
            Waiting::Body => self.body,
        }
    }
}

/// When a blocking operation must end.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Raw, ns.
    pub(crate) deadline: i64,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) cancel_fd: RawFd,
    pub(crate) timeouts: TimeoutCodes,
}

/// Why a blocking operation must end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Its time is up.
    Timeout,
    /// The run gives up on it.
    Cancelled,
}

impl Limit<'_> {
    /// Time left, ns; 0 if none.
    pub fn left_ns(&self) -> u64 {
        (self.deadline - self.clock.raw_ns()).max(0) as u64
    }

    /// Whether the operation must end now, and why.
    pub fn due(&self) -> Option<Due> {
        if self.cancelled.load(Ordering::SeqCst) {
            Some(Due::Cancelled)
        } else if self.clock.raw_ns() >= self.deadline {
            Some(Due::Timeout)
        } else {
            None
        }
    }

    /// Finishes `attempt` for this reason.
    pub fn finish(&self, attempt: &mut Attempt, due: Due) {
        match due {
            Due::Timeout => attempt.finish(Outcome::Timeout, self.timeouts.of(attempt.waiting)),
            Due::Cancelled => attempt.outcome = Outcome::Cancelled,
        }
    }

    /// A descriptor that becomes readable when the run gives up on transactions in progress.
    pub fn cancel_fd(&self) -> RawFd {
        self.cancel_fd
    }
}
