//! Named metrics of transactions: values for which the table of transactions has no column.

use crate::codes::Code;

/// One named number of one transaction, such as the CPU time of the client program.
///
/// (`agent`, `tester`, `start`) identifies the transaction, because a tester has one request in
/// progress at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricRow {
    /// Index of the agent in the run.
    pub agent: u16,
    /// Number of the tester over all agents, from 0.
    pub tester: u32,
    /// Start of the transaction, ns of the agent's `CLOCK_MONOTONIC_RAW`.
    pub start: i64,
    /// Name of the metric, in the agent's [`crate::Codes`].
    pub metric: Code,
    /// The unit follows from the end of the name: `_s` seconds, `_bytes` bytes, otherwise none.
    pub value: f64,
}
