//! What lab and engine say to each other: JSON, one object a line, commands in on stdin, events out on stdout.

use serde::{Deserialize, Serialize};

use crate::live::Counters;
use crate::run::RunSpec;

/// From the lab to the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Carry out one run. One at a time.
    Run {
        /// The whole of it.
        spec: Box<RunSpec>,
    },
    /// End the run that goes on: nothing new is started, what was measured is kept.
    Stop {
        /// Said in the event that ends the run.
        reason: String,
    },
    /// End the engine.
    Quit,
}

/// From the engine to the lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// First line: who speaks.
    Hello {
        /// [`crate::format::ENGINE`].
        format: String,
        /// Version of the engine; the lab refuses another than its own.
        version: String,
    },
    /// The load has begun.
    Started {
        /// The run's zero, in ns since the Unix epoch by the controller's clock.
        t0_unix_ns: i64,
        /// Names of the agents taking part.
        agents: Vec<String>,
    },
    /// One second of all agents together.
    Second {
        /// Number of the second from the start of the run, from 0.
        second: u32,
        /// What happened in it.
        counters: Counters,
        /// Active testers at its end.
        active: u32,
        /// In progress at its end.
        in_progress: u32,
        /// Response time of its successful transactions, ms; none when there were none.
        p50_ms: Option<f64>,
        /// Likewise.
        p95_ms: Option<f64>,
        /// Likewise.
        p99_ms: Option<f64>,
    },
    /// Something worth a line in `events.jsonl`: tester-stopped, agent-lost, service-gone, ceiling, damage, ...
    Note {
        /// Seconds from the start of the run.
        t_s: f64,
        /// A word from a fixed list.
        kind: String,
        /// For people.
        text: String,
    },
    /// The run has ended and its files are on disk.
    Finished(Finished),
    /// The command could not be carried out; nothing was measured.
    Refused {
        /// What, where, and what to do.
        error: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// done, stopped, ceiling, agent-lost, service-gone
    pub status: String,
    /// Why, for people; empty when it is done.
    pub reason: String,
    /// The books over all agents.
    pub counters: Counters,
    /// Cancelled at the end.
    pub in_flight: u64,
    /// started = succeeded + failed + in flight, and every one of them is on disk.
    pub balanced: bool,
    /// What went wrong with the recording.
    pub damage: Vec<String>,
}
