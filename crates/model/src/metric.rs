//! Named metrics of transactions: whatever does not stand in the fixed columns.

use crate::codes::Code;

/// One named number of one transaction, such as the CPU time of the program that carried it out.
///
/// It joins its transaction by (`agent`, `tester`, `start`): a tester has one request in progress
/// at a time, so the three name one transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricRow {
    /// Index of the agent in the run.
    pub agent: u16,
    /// Number of the tester over all agents.
    pub tester: u32,
    /// The transaction's start, ns of the agent's `CLOCK_MONOTONIC_RAW`.
    pub start: i64,
    /// Name, in the agent's [`crate::Codes`].
    pub metric: Code,
    /// Unit by name: `_s` seconds, `_bytes` bytes, else a number.
    pub value: f64,
}
