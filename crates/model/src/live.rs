//! What an agent tells its controller while a run goes on, and the books that it closes at the end.

use serde::{Deserialize, Serialize};

/// Counts over some span of time. Every transaction is counted once when it starts and once when it
/// ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Transactions started.
    pub started: u64,
    /// Ended with [`crate::Outcome::Ok`].
    pub succeeded: u64,
    /// Ended with any other outcome.
    pub failed: u64,
    /// Arrivals that found no free slot and were not started (`when_full: drop`).
    pub dropped: u64,
    /// Slots of `every` that passed while the previous transaction was in progress (`late: skip`).
    pub missed: u64,
    /// Items of successful transactions.
    pub items: u64,
    /// Payload bytes of successful transactions.
    pub payload: u64,
    /// Wire bytes, both directions, of all transactions.
    pub wire: u64,
    /// Transactions that the recorder had no room for. They are in these counts, but not in the
    /// segments.
    pub lost_records: u64,
}

impl Counters {
    /// Adds `other` to `self`.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.missed += other.missed;
        self.items += other.items;
        self.payload += other.payload;
        self.wire += other.wire;
        self.lost_records += other.lost_records;
    }
}

/// One second of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondReport {
    /// Number of the second from the start of the run, from 0.
    pub second: u32,
    /// What happened in it.
    pub counters: Counters,
    /// Testers that were active at its end.
    pub active: u32,
    /// Transactions in progress at its end.
    pub in_progress: u32,
    /// Response times (ns) of the successful transactions that ended in it: an `HdrHistogram` in
    /// its V2 encoding (three significant digits), base64. Empty when there were none.
    pub response: String,
    /// Encoded as `response`, of the transactions that started in it: by how many ns later than the
    /// generator could have, as their schedule and a free tester allowed it.
    #[serde(default)]
    pub own_lateness: String,
    /// For how long a lane stood still in a gap that ended in this second, ns; of several lanes or
    /// agents the longest.
    #[serde(default)]
    pub stopped_ns: u64,
}

/// The books of one agent for one run. `started == succeeded + failed + in_flight` or the run is
/// damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentBooks {
    /// Over the whole run.
    pub counters: Counters,
    /// Cancelled at the end of the drain.
    pub in_flight: u64,
    /// Names of the segment files written, in order.
    pub segments: Vec<String>,
    /// What went wrong with the recording; empty when nothing did.
    pub damage: Vec<String>,
    /// CPU time of the monitor itself, in ns.
    pub monitor_cpu_ns: u64,
    /// Host names that were looked up when the run was prepared; addresses need no lookup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<NameLookup>,
}

/// One lookup of a host name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameLookup {
    /// The name.
    pub name: String,
    /// Its duration in ns, the start of the program that is asked included.
    pub took_ns: u64,
}
