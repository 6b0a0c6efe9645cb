//! The core type: a transaction, which is one request with its outcome.

use serde::{Deserialize, Serialize};

use crate::codes::Code;

/// Value of a stamp if its event did not occur.
pub const NOT_HAPPENED: i64 = -1;

/// One request with its outcome, as the tester measured it.
///
/// Stamps are absolute, in ns of the agent's `CLOCK_MONOTONIC_RAW`. Each is taken next to the
/// system call that is nearest to the wire and is not changed afterwards; [`NOT_HAPPENED`] if the
/// event did not occur. In stored results `start` is relative to the start of the run, and the
/// other stamps are relative to `start`.
///
/// Invariants: `scheduled <= start`; `end == NOT_HAPPENED` exactly when the transaction was still
/// in progress when the run ended (outcome [`Outcome::Cancelled`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Planned start (glossary: scheduled).
    pub scheduled: i64,
    /// Start: taken immediately before the first system call of the transaction.
    pub start: i64,
    /// A new connection was established; [`NOT_HAPPENED`] on a reused connection.
    pub connected: i64,
    /// The first byte of the response was read.
    pub first_byte: i64,
    /// The response was complete, or the failure was detected.
    pub end: i64,
    /// Number of items as the driver counts them: rows, entries of a bulk call, files.
    pub items: u64,
    /// Size of the decoded payload, bytes.
    pub payload: u64,
    /// Bytes written, including those of the protocol, but without TLS records and TCP/IP headers.
    pub sent: u64,
    /// Bytes read, including those of the protocol, but without TLS records and TCP/IP headers.
    pub received: u64,
    /// Number of the session, connection or client program of the tester, from 1; 0 is none.
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
    /// Short text of the result: an HTTP status, a kind of error, an exit code.
    pub code: Code,
    /// Number of repeated tries within the transaction, from 0.
    pub attempt: u16,
    /// How the transaction ended.
    pub outcome: Outcome,
    /// What a cache between tester and target reported.
    pub cache: Cache,
    /// Part of the run in which the transaction ended; [`Phase::Drain`] if it was cancelled.
    pub phase: Phase,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Outcome {
    /// The response was complete and as the workload expects it.
    Ok = 0,
    /// The response was complete, but not as the workload expects it.
    Wrong = 1,
    /// The exchange failed: reset, closed early, protocol error, a program that failed.
    Error = 2,
    /// The response was not complete within the timeout of the workload.
    Timeout = 3,
    /// No connection could be established.
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

    /// The word that files and reports contain.
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

/// What a cache between tester and target reported for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cache {
    /// The response contains no report of a cache.
    None = 0,
    /// Fetched from the origin.
    Miss = 1,
    /// Served from the cache.
    Hit = 2,
    /// Served from the cache after the origin confirmed that it is current.
    Revalidated = 3,
}

impl Cache {
    /// All values in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::Miss, Self::Hit, Self::Revalidated];

    /// The word that files and reports contain.
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
    /// After the measured window: no transactions start, those in progress may end.
    Drain = 2,
}

impl Phase {
    /// All phases in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::WarmUp, Self::Measured, Self::Drain];

    /// The word that files and reports contain.
    pub const fn word(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measured => "measured",
            Self::Drain => "drain",
        }
    }
}
