//! The counters of the catalogue.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_wire::catalogue::Request;
use serde::Serialize;

use super::connection::entries_of;
use crate::counters::Counts;
use crate::tls::Handshakes;

/// Counters of operations. They never decrease.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) handshakes: Handshakes,
    pub(super) database_errors: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) busy: AtomicU64,
    entries_inserted: AtomicU64,
    entries_read: AtomicU64,
    entries_deleted: AtomicU64,
}

/// Counters of work in the database. They never decrease.
#[derive(Debug, Default)]
pub(super) struct StoreTally {
    pub(super) deadlocks: AtomicU64,
    pub(super) function_calls: AtomicU64,
    pub(super) function_fallbacks: AtomicU64,
}

/// The values of all counters at one time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CatalogueStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// TLS handshakes that failed.
    pub failed_handshakes: u64,
    /// Requests that failed because of the database.
    pub database_errors: u64,
    /// Transactions that the database has undone because of a deadlock.
    pub deadlocks: u64,
    /// Requests that functions of the database have carried out.
    pub function_calls: u64,
    /// Requests that functions of the database could not decide, so that the service has carried
    /// them out.
    pub function_fallbacks: u64,
    /// Entries that requests were to insert.
    pub entries_inserted: u64,
    /// Entries that requests were to read.
    pub entries_read: u64,
    /// Entries that requests were to delete.
    pub entries_deleted: u64,
    /// Connections that wait for a thread now.
    pub connections_waiting: u64,
    /// Threads that serve a connection now.
    pub in_progress: u64,
    /// Number of threads ([`super::CatalogueConfig::threads`]).
    pub threads_limit: usize,
}

impl Tally {
    pub(super) fn count(&self, request: &Request) {
        let counter = match request {
            Request::Register(_) | Request::Create { .. } => &self.entries_inserted,
            Request::Lookup(_) | Request::Stat(_) | Request::ListReplicas(_) => &self.entries_read,
            Request::Delete(_) => &self.entries_deleted,
            _ => return,
        };
        counter.fetch_add(entries_of(request), Ordering::Relaxed);
    }

    pub(super) fn stats(&self, counts: Counts, store: &StoreTally, threads_limit: usize) -> CatalogueStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CatalogueStats {
            counts,
            handshakes: self.handshakes.completed(),
            failed_handshakes: self.handshakes.failed(),
            database_errors: get(&self.database_errors),
            deadlocks: get(&store.deadlocks),
            function_calls: get(&store.function_calls),
            function_fallbacks: get(&store.function_fallbacks),
            entries_inserted: get(&self.entries_inserted),
            entries_read: get(&self.entries_read),
            entries_deleted: get(&self.entries_deleted),
            connections_waiting: get(&self.waiting),
            in_progress: get(&self.busy),
            threads_limit,
        }
    }
}
