//! Counters of the gateway.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
