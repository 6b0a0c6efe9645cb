//! The messages between lab and engine: JSON, one object per line, commands on stdin and events on
//! stdout.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::{AgentRules, AgentSpec, HostFacts};
use crate::live::Counters;
use crate::run::RunSpec;

/// A command of the lab to the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Carry out one run. One run at a time.
    Run {
        /// The resolved run.
        spec: Box<RunSpec>,
        /// Agents of the run. Empty: one agent on this host, named "local".
        #[serde(default)]
        agents: Vec<AgentSpec>,
        /// Rules for all agents.
        #[serde(default)]
        rules: AgentRules,
    },
    /// Start these agents and report their hosts: one [`Event::Host`] for each agent, then
    /// [`Event::Checked`].
    Check {
        /// Agents, each on a different host.
        agents: Vec<AgentSpec>,
        /// What to measure on each host; none: nothing.
        #[serde(default)]
        baseline: Option<BaselineSpec>,
    },
    /// Start these agents and measure network paths from their hosts, one host after the other:
    /// one [`Event::Paths`] for each agent, then [`Event::PathsMeasured`].
    MeasurePaths {
        /// Agents, each on a different host.
        agents: Vec<AgentSpec>,
        /// What to measure, by the name of the agent. An agent without an entry is only started.
        paths: BTreeMap<String, Vec<PathSpec>>,
    },
    /// Fetch the segments that agents have kept of a run that ended without them into the run's
    /// directory. The response is [`Event::Collected`].
    Collect {
        /// Directory of the run.
        directory: PathBuf,
        /// Agents whose segments are missing.
        agents: Vec<AgentSpec>,
    },
    /// Accept agents that dial in. The response is [`Event::Listening`], then one
    /// [`Event::Joined`] for each agent.
    Listen(ListenSpec),
    /// End the run in progress: no transactions start any more, and the results are kept.
    Stop {
        /// Why the run ends, for the event that reports its end.
        reason: String,
    },
    /// End the engine.
    Quit,
}

/// What to measure on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSpec {
    /// Length of each measurement, ns.
    pub for_ns: u64,
}

/// A network path from the host of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Name of the other end in the results.
    pub to: String,
    /// HOST:PORT to which the host connects. The host resolves the name.
    pub address: String,
    /// Number of handshakes, from which the round trip is determined.
    pub handshakes: u32,
    /// The transfer in each direction, to a sink at `address`. None: only the round trip is
    /// measured.
    #[serde(default)]
    pub transfer: Option<TransferSpec>,
}

/// Limits of a transfer in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSpec {
    /// Minimum duration, ns. The transfer lasts longer if the round trip is long.
    pub min_ns: u64,
    /// Maximum duration, ns.
    pub max_ns: u64,
    /// Number of bytes after which it ends earlier.
    pub max_bytes: u64,
}

/// Results of a [`PathSpec`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathReport {
    /// Name of the other end.
    pub to: String,
    /// Round trips of the handshakes; none if the other end did not answer.
    pub rtt_ns: Option<RttReport>,
    /// Payload that the host sent and the other end received, bytes/s; none if it was not measured.
    pub send_bytes_s: Option<f64>,
    /// Payload that the host received, bytes/s; none if it was not measured.
    pub receive_bytes_s: Option<f64>,
    /// Why a part is missing; none if all was measured.
    pub error: Option<String>,
}

/// The address at which agents dial in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenSpec {
    /// Name of the experiment, for messages.
    pub experiment: String,
    /// IP address or host name to which agents connect.
    pub address: String,
    /// First and last port to try. 0 and 0: any free port.
    pub ports: (u16, u16),
    /// Whether agents may also connect over QUIC.
    #[serde(default)]
    pub quic: bool,
}

/// An event of the engine for the lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: format and version of the engine.
    Hello {
        /// [`crate::format::ENGINE`].
        format: String,
        /// Version of the engine. The lab refuses every version except its own.
        version: String,
    },
    /// The load has begun.
    Started {
        /// Start of the run on the controller's clock, ns since the Unix epoch.
        t0_unix_ns: i64,
        /// Names of the agents of the run.
        agents: Vec<String>,
    },
    /// One second of a run, summed over all agents.
    Second {
        /// Number of the second from the start of the run, from 0.
        second: u32,
        /// Counts of the second.
        counters: Counters,
        /// Testers that were active at the end of the second.
        active: u32,
        /// Transactions in progress at the end of the second.
        in_progress: u32,
        /// Median response time of the successful transactions, ms; none if there were none.
        p50_ms: Option<f64>,
        /// 95th percentile of the same response times, ms.
        p95_ms: Option<f64>,
        /// 99th percentile of the same response times, ms.
        p99_ms: Option<f64>,
    },
    /// An event for `events.jsonl`.
    Note {
        /// Seconds from the start of the run.
        t_s: f64,
        /// Kind of the event, from a fixed list: tester-stopped, agent-lost, service-gone, ceiling,
        /// damage and others.
        kind: String,
        /// Description for the user.
        text: String,
    },
    /// The host of an agent, or why the agent is not available.
    Host {
        /// Name of the agent.
        name: String,
        /// Properties of the host; none if the agent is not available.
        facts: Option<HostReport>,
        /// Why the agent is not available; none if it is.
        error: Option<String>,
    },
    /// All agents of a [`Command::Check`] were reported.
    Checked,
    /// Paths from the host of an agent.
    Paths {
        /// Name of the agent.
        name: String,
        /// The paths, in the order of the command; empty if the agent is not available.
        paths: Vec<PathReport>,
        /// Why the agent is not available; none if it is.
        error: Option<String>,
    },
    /// All agents of a [`Command::MeasurePaths`] were reported.
    PathsMeasured,
    /// Result of a [`Command::Collect`].
    Collected {
        /// The new totals of the run; none if nothing was fetched.
        finished: Option<RunOutcome>,
        /// One line for each agent from which nothing was fetched, with the reason.
        missing: Vec<String>,
    },
    /// Agents may dial in.
    Listening {
        /// The token that agents need to dial in. It is a secret.
        token: serde_json::Value,
        /// The port at which agents dial in.
        port: u16,
    },
    /// An agent has dialled in.
    Joined {
        /// Name of the agent.
        name: String,
        /// Properties of its host.
        facts: HostFacts,
    },
    /// The run has ended and its files are on disk.
    Finished(RunOutcome),
    /// The command could not be carried out. Nothing was measured.
    Refused {
        /// What happened, where, and what to do.
        error: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOutcome {
    /// How the run ended: done, stopped, ceiling, agent-lost or service-gone.
    pub status: String,
    /// Why the run ended, for the user. Empty if the status is done.
    pub reason: String,
    /// Totals over all agents.
    pub counters: Counters,
    /// Transactions that were cancelled at the end of the drain.
    pub in_flight: u64,
    /// Whether started = succeeded + failed + in flight, and every transaction is on disk.
    pub balanced: bool,
    /// Faults of the recording, as texts for the user.
    pub damage: Vec<String>,
    /// Names of the agents that were lost.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// A host as its agent reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Properties of the host.
    #[serde(flatten)]
    pub facts: HostFacts,
    /// Round-trip times to the controller, ns.
    pub rtt_ns: RttReport,
    /// Relation between the host's clock and the controller's clock.
    pub clock: ClockState,
    /// Results of the measurements that [`Command::Check`] asked for; none if it did not.
    pub baseline: Option<serde_json::Value>,
}

/// Round-trip times of probes, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RttReport {
    /// Minimum, ns.
    pub min: i64,
    /// Median, ns.
    pub median: i64,
}

/// Relation between the clock of an agent and that of the controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// Controller's clock minus agent's clock, ns.
    pub offset_ns: i64,
    /// Maximum error of `offset_ns`, ns.
    pub bound_ns: i64,
    /// Whether both use the same clock.
    pub same: bool,
    /// Whether probes use UDP. Otherwise they use the link.
    pub udp: bool,
}
