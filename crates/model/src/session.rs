//! What lab and engine say to each other: JSON, one object a line, commands in on stdin, events out
//! on stdout.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::{AgentRules, AgentSpec, HostFacts};
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
        /// Who carries it; empty: one agent on this host, called "local".
        #[serde(default)]
        agents: Vec<AgentSpec>,
        /// What holds for them.
        #[serde(default)]
        rules: AgentRules,
    },
    /// Start these agents and say what hosts they are on: a Host for each, then Checked.
    Check {
        /// Each on a host of its own.
        agents: Vec<AgentSpec>,
        /// What to measure there, if anything.
        #[serde(default)]
        baseline: Option<BaselineSpec>,
    },
    /// Fetch what agents have kept of a run that ended without them, into its directory; answered
    /// by Collected.
    Collect {
        /// Directory of the run.
        directory: PathBuf,
        /// The agents.
        agents: Vec<AgentSpec>,
    },
    /// Hear agents that dial in: answered by Listening, then by a Joined for each agent that comes.
    Listen(ListenSpec),
    /// End the run that goes on: nothing new is started, what was measured is kept.
    Stop {
        /// Said in the event that ends the run.
        reason: String,
    },
    /// End the engine.
    Quit,
}

/// What to measure of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSpec {
    /// Length of each measurement, ns.
    pub for_ns: u64,
    /// HOST:PORT of something that takes bytes and throws them away; none: our own end of a
    /// connection to `address`.
    #[serde(default)]
    pub sink: Option<String>,
}

/// Where agents dial in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenSpec {
    /// Name of the experiment, for messages.
    pub experiment: String,
    /// Address or name that agents dial.
    pub address: String,
    /// First and last port to try; 0 and 0: any.
    pub ports: (u16, u16),
    /// Also over QUIC.
    #[serde(default)]
    pub quic: bool,
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
    /// Something worth a line in `events.jsonl`: tester-stopped, agent-lost, service-gone, ceiling,
    /// damage, ...
    Note {
        /// Seconds from the start of the run.
        t_s: f64,
        /// A word from a fixed list.
        kind: String,
        /// For people.
        text: String,
    },
    /// What host an agent is on, or why there is none.
    Host {
        /// Name of the agent.
        name: String,
        /// None when it could not be had.
        facts: Option<HostReport>,
        /// Why not.
        error: Option<String>,
    },
    /// Every agent of a Check was told of.
    Checked,
    /// What was collected.
    Collected {
        /// The books anew; none when there was nothing to be had.
        finished: Option<Finished>,
        /// Why an agent gave nothing, a line each.
        missing: Vec<String>,
    },
    /// Agents may dial in.
    Listening {
        /// What they need for it: a secret.
        token: serde_json::Value,
        /// The port.
        port: u16,
    },
    /// An agent has dialled in.
    Joined {
        /// Its name.
        name: String,
        /// Its host.
        facts: HostFacts,
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
    /// Names of the agents that were lost.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// A host as one of its agents sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// What it is.
    #[serde(flatten)]
    pub facts: HostFacts,
    /// Round trip to the controller.
    pub rtt_ns: RttReport,
    /// Its clock against ours.
    pub clock: ClockState,
    /// How fast it is, if that was asked for.
    pub baseline: Option<serde_json::Value>,
}

/// Round trip of probes, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RttReport {
    /// Least.
    pub min: i64,
    /// Median.
    pub median: i64,
}

/// One clock against another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// Controller - agent, ns.
    pub offset_ns: i64,
    /// Greatest error of it, ns.
    pub bound_ns: i64,
    /// They are the same clock.
    pub same: bool,
    /// Probes go over UDP.
    pub udp: bool,
}
