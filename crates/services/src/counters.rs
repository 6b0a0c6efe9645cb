//! What a service counts, and how a test asks for it.
//!
//! HTTP services answer `GET /plimsoll/count` with the number of requests they answered, in decimal
//! and a newline, and `GET /plimsoll/stats` with JSON. Services that speak lines answer the lines
//! `plimsoll count` and `plimsoll stats`. Questions of this kind are themselves not counted.
//!
//! A request is counted before the last byte of its answer leaves, so that whoever holds an answer
//! finds it counted.
//!
//! The counts come with the time at which they were read, by the clock that testers' stamps are
//! mapped onto: a reader that is late, or far away, still learns how many were answered between two
//! instants. Rejected: the reader's own time (the way and a busy host would be in it), and a bin
//! for each second in the service (a clock to be read for every request, and memory that grows with
//! the run).

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_clock::{Clock, SystemClock};
use serde::Serialize;

/// Counters of one service. All only grow.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    received: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
}

/// The values of [`Counters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Whole requests read.
    pub received: u64,
    /// Requests answered, with any status. At rest `received` = `answered` + those whose client
    /// left first.
    pub answered: u64,
    /// Requests that were no valid request (too big, too slow, not the protocol); not in the other
    /// two.
    pub refused: u64,
    /// When this was read: `CLOCK_MONOTONIC_RAW` of the service's host, ns. `answered` lags it by
    /// no more than a request that is being counted on another core.
    pub clock_ns: i64,
}

impl Counters {
    // Relaxed: each counter is a number by itself, nothing else is published through it.
    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, requests: u64) {
        self.received.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, requests: u64) {
        self.answered.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The values now.
    pub fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            clock_ns: SystemClock.raw_ns(),
        }
    }
}

/// The questions that every service answers about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Count,
    Stats,
}

impl Question {
    /// By the target of an HTTP request.
    pub(crate) fn of_target(target: &str) -> Option<Self> {
        match target {
            "/plimsoll/count" => Some(Self::Count),
            "/plimsoll/stats" => Some(Self::Stats),
            _ => None,
        }
    }

    /// By a line, without its end.
    pub(crate) fn of_line(line: &[u8]) -> Option<Self> {
        match line {
            b"plimsoll count" => Some(Self::Count),
            b"plimsoll stats" => Some(Self::Stats),
            _ => None,
        }
    }

    /// The answer, with a newline at its end; `stats` is asked only where needed.
    pub(crate) fn answer<S: Serialize>(self, counters: &Counters, stats: impl FnOnce() -> S) -> String {
        match self {
            Self::Count => format!("{}\n", counters.counts().answered),
            // These structs hold numbers and text only: there is nothing that JSON could refuse.
            Self::Stats => serde_json::to_string(&stats()).unwrap_or_default() + "\n",
        }
    }
}
