//! Agents and the hosts that they are on, as lab and engine speak of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a host is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// Its own name for itself.
    pub hostname: String,
    /// Cores that the agent may use.
    pub cores: u32,
    /// Main memory.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// `x86_64`, `aarch64`
    pub architecture: String,
    /// Of the agent's process.
    pub limits: HostLimits,
    /// Version of the engine there.
    pub engine: String,
}

/// Limits that a load can run into.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLimits {
    /// Files that one process may open: the limit up to which it may be raised.
    pub open_files: u64,
    /// Processes and threads of the user.
    pub processes: u64,
    /// Ports for outgoing connections to one address.
    pub local_ports: u64,
}

/// One agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Letters, digits, `.`, `_`, `-`: it becomes part of names of files.
    pub name: String,
    /// The host that it is on.
    pub host: String,
    /// The site of the host.
    pub site: String,
    /// What it does there.
    #[serde(default)]
    pub role: Role,
    /// How it comes to be.
    pub start: AgentStartKind,
    /// Processes of its host that it watches.
    #[serde(default)]
    pub watch: Vec<HostWatch>,
    /// Files of workloads that were put on its host: names as in the run document, and what they
    /// are called there.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// What an agent does on its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It carries testers.
    #[default]
    Testers,
    /// It only watches: a host of the target.
    Watch,
}

/// How an agent comes to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentStartKind {
    /// A child of the engine; it shares its clock and its file system.
    Local,
    /// This command's standard input and output are the link: `ssh HOST exec ENGINE attach
    /// --directory DIR`.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// It dials in, under its name.
    Joined,
}

/// A process tree to watch on an agent's host: exactly one of `pid`, `process` and `unit` is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostWatch {
    /// Name in the results.
    pub name: String,
    /// Root of the tree.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Name of the program, as in /proc/PID/comm; the eldest process of that name is the root.
    #[serde(default)]
    pub process: Option<String>,
    /// A systemd unit.
    #[serde(default)]
    pub unit: Option<String>,
}

/// What holds for all agents of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentRules {
    /// The run begins without those that cannot be had as long as so many with testers are there;
    /// 0: all of them, and those that watch, too.
    pub at_least: u16,
    /// The run ends when an agent is lost.
    pub abort_on_loss: bool,
    /// How long testers go on without a link to us.
    pub grace_ns: u64,
    /// Greatest rate at which a host's clock may gain on another between probes, ppm.
    pub max_rate_error_ppm: f64,
    /// The least round trip that physics allows, ns; narrows the bound of the clock map.
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
