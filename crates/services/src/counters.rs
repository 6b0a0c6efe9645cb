//! The counters of a service, and the requests that read them.
//!
//! HTTP services answer `GET /plimsoll/count` with the number of requests that they have answered
//! (decimal, with a newline), and `GET /plimsoll/stats` with JSON. Services whose requests are
//! lines answer the lines `plimsoll count` and `plimsoll stats`. These requests are not counted.
//!
//! A request is counted before the last byte of its response is sent, so that a client that has a
//! response finds it counted.
//!
//! The counts contain the time at which they were read, on the clock onto which the stamps of the
//! testers are mapped. A reader that is late or far away thus still learns the number of responses
//! between two times. Rejected: the reader's own time, which contains the network and the delays of
//! a busy host; and a count per second in the service, which needs a clock reading for every
//! request, and memory that grows with the run.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_clock::{Clock, SystemClock};
use serde::Serialize;

/// Counters of one service. They never decrease.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    received: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
}

/// The values of [`Counters`] at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Complete requests read.
    pub received: u64,
    /// Requests answered, with any status. While no request is in progress, `received` = `answered`
    /// + requests whose client closed the connection before the response.
    pub answered: u64,
    /// Invalid requests (too long, too slow, of another protocol). They are not in `received` or
    /// `answered`.
    pub refused: u64,
    /// Time of this reading: `CLOCK_MONOTONIC_RAW` of the service's host, ns. `answered` may lack
    /// requests that other cores are counting at this time.
    pub clock_ns: i64,
}

impl Counters {
    // Relaxed: the counters are independent, and no other data is published through them.
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

/// A request for the counters of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Count,
    Stats,
}

impl Question {
    /// Parses the target of an HTTP request.
    pub(crate) fn of_target(target: &str) -> Option<Self> {
        match target {
            "/plimsoll/count" => Some(Self::Count),
            "/plimsoll/stats" => Some(Self::Stats),
            _ => None,
        }
    }

    /// Parses a line without its end.
    pub(crate) fn of_line(line: &[u8]) -> Option<Self> {
        match line {
            b"plimsoll count" => Some(Self::Count),
            b"plimsoll stats" => Some(Self::Stats),
            _ => None,
        }
    }

    /// The response, with a newline at its end. `stats` is called only if its result is needed.
    pub(crate) fn answer<S: Serialize>(self, counters: &Counters, stats: impl FnOnce() -> S) -> String {
        match self {
            Self::Count => format!("{}\n", counters.counts().answered),
            // The structs contain only numbers and text, so the conversion to JSON cannot fail.
            Self::Stats => serde_json::to_string(&stats()).unwrap_or_default() + "\n",
        }
    }
}
