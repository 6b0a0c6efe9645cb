//! The core type: one request with its outcome.

use serde::{Deserialize, Serialize};

use crate::codes::Code;

/// Value of a stamp whose event did not happen.
pub const NOT_HAPPENED: i64 = -1;

/// One request with its outcome, as a tester saw it.
///
/// Stamps are nanoseconds of the agent's `CLOCK_MONOTONIC_RAW`, absolute, taken beside the system
/// call nearest to the wire, and never altered afterwards; [`NOT_HAPPENED`] where the event did not
/// occur. At rest `start` is counted from the start of the run and the other stamps from `start`.
///
/// Invariants: `scheduled <= start`; `end == NOT_HAPPENED` exactly when the transaction was still
/// in progress when the run ended (outcome [`Outcome::Cancelled`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Planned start (glossary: scheduled).
    pub scheduled: i64,
    /// Just before the first system call of the transaction.
    pub start: i64,
    /// A new connection was established; [`NOT_HAPPENED`] on a kept one.
    pub connected: i64,
    /// The first byte of the answer was read.
    pub first_byte: i64,
    /// The answer was complete, or the failure known.
    pub end: i64,
    /// Rows, entries of a bulk call, files: what the driver counts as its items.
    pub items: u64,
    /// Useful bytes, decoded, in bytes.
    pub payload: u64,
    /// Bytes written to the wire, protocol included (TLS records and TCP/IP headers are not seen
    /// from here).
    pub sent: u64,
    /// Bytes read from the wire, likewise.
    pub received: u64,
    /// Number of the session that this transaction belongs to; 0 is none.
    pub session: u32,
    /// Number of the tester over all agents, from 0.
    pub tester: u32,
    /// Index of the agent in the run.
    pub agent: u16,
    /// Index of the workload in the run.
    pub workload: u16,
    /// Index of the stage of a staged load; 0 otherwise.
    pub stage: u16,
    /// Index into the run's list of operations (all workloads in order).
    pub operation: u16,
    /// Index into the run's list of endpoints (all workloads in order).
    pub endpoint: u16,
    /// Short text of what came back: an HTTP status, a kind of error, an exit code.
    pub code: Code,
    /// 0 for the first attempt.
    pub attempt: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// What a cache in between said.
    pub cache: Cache,
    /// Part of the run in which it ended (for one that did not end: in which the run stopped).
    pub phase: Phase,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Outcome {
    /// The answer came and was what the workload expects.
    Ok = 0,
    /// An answer came in time, and is not what the workload expects.
    Wrong = 1,
    /// The exchange broke: reset, closed early, protocol error, a program that failed.
    Error = 2,
    /// No complete answer within the workload's time-out.
    Timeout = 3,
    /// No connection could be made.
    Refused = 4,
    /// Still in progress when the run ended.
    Cancelled = 5,
}

impl Outcome {
    /// All outcomes in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Wrong,
        Self::Error,
        Self::Timeout,
        Self::Refused,
        Self::Cancelled,
    ];

    /// The word used in files and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What a cache between tester and target said of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cache {
    /// No cache spoke.
    None = 0,
    /// Fetched from the origin.
    Miss = 1,
    /// Served from the cache.
    Hit = 2,
    /// Served from the cache after the origin said that it is still true.
    Revalidated = 3,
}

impl Cache {
    /// All values in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::Miss, Self::Hit, Self::Revalidated];

    /// The word used in files and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Miss => "miss",
            Self::Hit => "hit",
            Self::Revalidated => "revalidated",
        }
    }
}

/// Part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    /// Before the measured window.
    WarmUp = 0,
    /// The measured window.
    Measured = 1,
    /// After it: nothing new is started, what is in progress may end.
    Drain = 2,
}

impl Phase {
    /// All phases in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::WarmUp, Self::Measured, Self::Drain];

    /// The word used in files and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measured => "measured",
            Self::Drain => "drain",
        }
    }
}
