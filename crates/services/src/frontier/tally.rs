//! Counters of the gateway.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::invalidation::InvalidationStats;
use crate::counters::Counts;

/// Counters in addition to those of every service. They never decrease, except `waiting` and
/// `in_progress`.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) queries: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) payload_bytes: AtomicU64,
    pub(super) database_errors: AtomicU64,
    pub(super) keepalives: AtomicU64,
    pub(super) not_modified: AtomicU64,
    pub(super) waiting: AtomicUsize,
    pub(super) in_progress: AtomicUsize,
    /// The whole request, from its head to the last byte of its response.
    pub(super) request: Step,
    /// The steps of a request.
    pub(super) pool: Step,
    pub(super) query: Step,
    pub(super) compression: Step,
    pub(super) sending: Step,
}

/// The values of the counters at one time, and the configured limits.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FrontierStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Queries of clients that were sent to the database, without those for `Last-Modified`.
    pub queries: u64,
    /// Rows of complete responses.
    pub rows: u64,
    /// Bytes of complete result sets, before compression and base64.
    pub payload_bytes: u64,
    /// Payloads that failed because of the database or of an error in the query.
    pub database_errors: u64,
    /// Keepalives sent.
    pub keepalives: u64,
    /// Responses with status 304.
    pub not_modified: u64,
    /// Requests in progress now.
    pub in_progress: usize,
    /// Connections to the database that are in use now.
    pub connections_in_use: usize,
    /// Requests that wait for a connection now.
    pub connections_waiting: usize,
    /// Counters of the invalidation of caches. None if it is not configured.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub invalidation: Option<InvalidationStats>,
    /// Maximum number of connections to the database ([`super::FrontierConfig::connections`]).
    pub connections_limit: usize,
    /// Maximum number of requests in progress ([`super::FrontierConfig::threads`]).
    pub threads_limit: usize,
    /// Times of requests and of their steps.
    #[serde(flatten)]
    pub times: StepTimes,
}

/// Total times in nanoseconds, and how often. A step counts when it has ended.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StepTimes {
    /// Requests, from the end of the head to the last byte of the response.
    pub request_ns: u64,
    /// Requests that have ended.
    pub request_count: u64,
    /// Waiting for a connection to the database, with the time to open one.
    pub pool_ns: u64,
    /// Payloads that waited, also those that found a connection at once.
    pub pool_count: u64,
    /// Waiting for the database and reading its rows, without compression.
    pub query_ns: u64,
    /// Queries that have ended, with those for `Last-Modified`.
    pub query_count: u64,
    /// zlib, digest and base64.
    pub compression_ns: u64,
    /// Payloads of complete length.
    pub compression_count: u64,
    /// Writing to the client. It includes waiting for a client that reads slowly.
    pub sending_ns: u64,
    /// Responses.
    pub sending_count: u64,
}

impl Tally {
    /// The times now.
    pub(super) fn times(&self) -> StepTimes {
        let (request_ns, request_count) = self.request.get();
        let (pool_ns, pool_count) = self.pool.get();
        let (query_ns, query_count) = self.query.get();
        let (compression_ns, compression_count) = self.compression.get();
        let (sending_ns, sending_count) = self.sending.get();
        StepTimes {
            request_ns,
            request_count,
            pool_ns,
            pool_count,
            query_ns,
            query_count,
            compression_ns,
            compression_count,
            sending_ns,
            sending_count,
        }
    }
}

/// Total time of a step, and how often it has ended.
#[derive(Debug, Default)]
pub(super) struct Step {
    ns: AtomicU64,
    count: AtomicU64,
}

impl Step {
    pub(super) fn add(&self, time: Duration) {
        // 64 bits are 584 years.
        add(&self.ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        add(&self.count, 1);
    }

    /// Adds the time until the result is dropped, also if its task is cancelled.
    pub(super) fn time(&self) -> StepTimer<'_> {
        StepTimer {
            step: self,
            begin: Instant::now(),
        }
    }

    fn get(&self) -> (u64, u64) {
        (get(&self.ns), get(&self.count))
    }
}

/// See [`Step::time`].
pub(super) struct StepTimer<'a> {
    step: &'a Step,
    begin: Instant,
}

impl Drop for StepTimer<'_> {
    fn drop(&mut self) {
        self.step.add(self.begin.elapsed());
    }
}

/// A step that consists of several parts. It is added when this is dropped, if it had any part.
pub(super) struct StepParts<'a> {
    step: &'a Step,
    time: Option<Duration>,
}

impl<'a> StepParts<'a> {
    pub(super) fn new(step: &'a Step) -> Self {
        Self { step, time: None }
    }

    pub(super) fn add(&mut self, part: Duration) {
        *self.time.get_or_insert_default() += part;
    }
}

impl Drop for StepParts<'_> {
    fn drop(&mut self) {
        if let Some(time) = self.time {
            self.step.add(time);
        }
    }
}

// Relaxed: the counters are independent, and no other data is published through them.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Increments a counter until it is dropped, also if its task is cancelled.
pub(super) struct Presence<'a>(&'a AtomicUsize);

impl<'a> Presence<'a> {
    /// Increments the counter. Also returns its new value.
    pub(super) fn enter(counter: &'a AtomicUsize) -> (Self, usize) {
        let now = counter.fetch_add(1, Ordering::Relaxed) + 1;
        (Self(counter), now)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
