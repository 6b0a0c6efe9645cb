//! Agents and their hosts, in the messages between lab and engine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Limits;

/// Properties of a host and of the agent's process on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// The host's own name, as in `uname -n`.
    pub hostname: String,
    /// Cores that the agent may use.
    pub cores: u32,
    /// Size of the main memory, bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Processor architecture: `x86_64` or `aarch64`.
    pub architecture: String,
    /// Limits of the agent's process.
    pub limits: HostLimits,
    /// Version of the engine on this host.
    pub engine: String,
}

/// Limits of the system that bound the number of testers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLimits {
    /// Files that a process may open: the hard limit.
    pub open_files: u64,
    /// Processes and threads that the user may have.
    pub processes: u64,
    /// Number of local ports for outgoing connections to one address.
    pub local_ports: u64,
}

/// One agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Name of the agent: letters, digits, `.`, `_`, `-`. It becomes a part of file names.
    pub name: String,
    /// Name of the agent's host.
    pub host: String,
    /// Site of the host.
    pub site: String,
    /// Whether the agent runs testers.
    #[serde(default)]
    pub role: Role,
    /// How the agent is started.
    pub start: AgentStartKind,
    /// Processes of its host that the agent monitors.
    #[serde(default)]
    pub watch: Vec<HostWatch>,
    /// Files of workloads that were copied to its host: from the path in the run document to the
    /// path on the host.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Limits of the agent's process, with its testers, recorder, monitor and client programs.
    #[serde(default)]
    pub limits: Limits,
}

/// Task of an agent on its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The agent runs testers and a monitor.
    #[default]
    Testers,
    /// The agent runs only a monitor, on a host of the target.
    Watch,
}

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentStartKind {
    /// A child process of the engine, with the same clock and file system.
    Local,
    /// A command whose standard input and output are the link: `ssh HOST exec ENGINE attach
    /// --directory DIR`.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// The agent dials in and reports its name.
    Joined,
}

/// A process tree to monitor on an agent's host: exactly one of `pid`, `process` and `unit` is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostWatch {
    /// Name in the results.
    pub name: String,
    /// Process id of the root of the tree.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Name of the program, as in /proc/PID/comm. The oldest process with that name is the root.
    #[serde(default)]
    pub process: Option<String>,
    /// Name of a systemd unit.
    #[serde(default)]
    pub unit: Option<String>,
}

/// Rules for all agents of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentRules {
    /// Minimum number of agents with testers. The run starts without agents that are not available
    /// if at least this number is available. 0: all agents must be available, with testers or not.
    pub at_least: u16,
    /// The run ends when an agent is lost.
    pub abort_on_loss: bool,
    /// How long the testers of an agent continue without a link to the controller, ns.
    pub grace_ns: u64,
    /// Maximum difference between the rates of two clocks, ppm. It bounds the error between probes.
    pub max_rate_error_ppm: f64,
    /// Minimum round-trip time that is physically possible, ns. It reduces the clock bound.
    pub physical_min_rtt_ns: u64,
}

impl Default for AgentRules {
    fn default() -> Self {
        Self {
            at_least: 0,
            abort_on_loss: false,
            grace_ns: 60_000_000_000,
            max_rate_error_ppm: 500.0,
            physical_min_rtt_ns: 0,
        }
    }
}
