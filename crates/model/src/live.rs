//! The reports of an agent to its controller: one per second of a run, and the totals at its end.

use serde::{Deserialize, Serialize};

/// Counts over an interval. Every transaction is counted once when it starts and once when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Transactions that started.
    pub started: u64,
    /// Transactions that ended with [`crate::Outcome::Ok`].
    pub succeeded: u64,
    /// Transactions that ended with another outcome, except
    /// [`Cancelled`](crate::Outcome::Cancelled).
    pub failed: u64,
    /// Arrivals that found no free slot and were not started (`when_full: drop`).
    pub dropped: u64,
    /// Slots of `every` that passed while the previous transaction was in progress (`late: skip`).
    pub missed: u64,
    /// Items of successful transactions.
    pub items: u64,
    /// Payload bytes of successful transactions.
    pub payload: u64,
    /// Wire bytes of all transactions, both directions.
    pub wire: u64,
    /// Transactions and metrics that were lost because the queue of the recorder was full. The
    /// transactions are in these counts, but not in the segments.
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
    /// Counts of the second.
    pub counters: Counters,
    /// Testers that were active at the end of the second.
    pub active: u32,
    /// Transactions in progress at the end of the second.
    pub in_progress: u32,
    /// Response times (ns) of the successful transactions that ended in the second: an
    /// `HdrHistogram` in its V2 encoding (three significant digits), base64. Empty if there were
    /// none.
    pub response: String,
    /// Delays (ns) that the load generator itself caused, for the transactions that started in the
    /// second: the time from the scheduled start, or from the time at which the tester was free if
    /// that is later, to the start. Encoded as `response`.
    #[serde(default)]
    pub own_lateness: String,
    /// Length of a gap in which a lane did not run and that ended in this second, ns. For several
    /// lanes or agents: the longest.
    #[serde(default)]
    pub stopped_ns: u64,
}

/// The totals of one agent for one run. `started == succeeded + failed + in_flight`, otherwise the
/// run is damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTotals {
    /// Counts of the whole run.
    pub counters: Counters,
    /// Transactions that were cancelled at the end of the drain.
    pub in_flight: u64,
    /// Names of the segment files written, in order.
    pub segments: Vec<String>,
    /// Faults of the recording, as texts for the user. Empty if there were none.
    pub damage: Vec<String>,
    /// CPU time of the monitor itself, ns.
    pub monitor_cpu_ns: u64,
    /// Host names that were looked up while the run was prepared. Addresses need no lookup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<NameLookup>,
}

/// One lookup of a host name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameLookup {
    /// The host name.
    pub name: String,
    /// Duration of the lookup, including the start of the program `getent`, ns.
    pub took_ns: u64,
}
