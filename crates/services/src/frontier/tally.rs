//! What the gateway knows of itself.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use super::invalidation::InvalidationStats;
use crate::counters::Counts;

/// Counters beyond those of every service. All only grow, but for `waiting` and `in_progress`.
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

/// The values of the counters at one moment, and the configured limits.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FrontierStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Queries given to the database; those for `Last-Modified` are not among them.
    pub queries: u64,
    /// Rows of complete answers.
    pub rows: u64,
    /// Bytes of complete result sets, before compression and base64.
    pub payload_bytes: u64,
    /// Payloads that failed because of the database or of what was asked of it.
    pub database_errors: u64,
    /// Keepalives sent.
    pub keepalives: u64,
    /// Answers 304.
    pub not_modified: u64,
    /// Requests in progress now.
    pub in_progress: usize,
    /// Connections to the database in use now.
    pub connections_in_use: usize,
    /// Requests that wait for a connection now.
    pub connections_waiting: usize,
    /// Of the invalidation of caches, where it is configured.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub invalidation: Option<InvalidationStats>,
    /// The configured limits.
    pub connections_limit: usize,
    /// See [`super::FrontierConfig::threads`].
    pub threads_limit: usize,
}

// Relaxed everywhere: each counter is a number by itself, nothing else is published through it.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Counts its holder as present while it lives, also when it is ended from outside.
pub(super) struct Presence<'a>(&'a AtomicUsize);

impl<'a> Presence<'a> {
    /// With the number present, this one included.
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
