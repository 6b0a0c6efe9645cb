//! The messages between controller and agent.
//!
//! An agent serves several runs in turn. For each run the controller sends Prepare, Go and possibly
//! Stop; the agent answers Finished at the end. If the agent wrote its segments into a spool of its
//! own, the controller then requests the list of files (List), fetches each file in pieces (Fetch),
//! and sends Forget when all files are stored on its side.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_model::{
    AgentTotals, HostFacts, HostWatch, Limits, PathReport, PathSpec, RunSpec, SecondReport, format,
};
use serde::{Deserialize, Serialize};

/// How long an agent that was asked to end waits for the controller to fetch its files.
///
/// Batch systems send SIGKILL 30 s after SIGTERM (Slurm's `KillWait`, the grace period of
/// Kubernetes). The process needs some of that time to end.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(20);

/// Identity and version of a side: the first message in both directions. With it each side can
/// report why it rejects the other.
///
/// Unlike in all other messages, unknown fields are ignored: the version number must be readable
/// even if a later version adds fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the link protocol: [`format::LINK_VERSION`] of the sender.
    pub link: u16,
    /// Version of the engine.
    pub version: String,
    /// Process id of the sender; 0 if an earlier version does not send it.
    #[serde(default)]
    pub pid: u32,
    /// Random number, drawn when the process starts. It distinguishes the process from a later one
    /// of the same name.
    #[serde(default)]
    pub incarnation: u64,
    /// Number of the last message that the sender received over earlier links; 0 if none.
    #[serde(default)]
    pub received: u64,
    /// Name of an agent that was not started by the controller: letters, digits, `.`, `_`, `-`.
    #[serde(default)]
    pub name: Option<String>,
}

/// The other side has another version of the link protocol or of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{who} is version {} (link {}), this {own} is version {version} (link {link}): install the same version on both hosts and start again",
    .theirs.version, .theirs.link, link = format::LINK_VERSION
)]
pub struct VersionError {
    who: &'static str,
    own: &'static str,
    version: String,
    theirs: Box<Greeting>,
}

impl Greeting {
    /// The greeting of this process, which has engine `version`. Call it once per process: each
    /// call draws another incarnation.
    pub fn new(version: &str) -> Self {
        Self {
            link: format::LINK_VERSION,
            version: version.to_owned(),
            pid: std::process::id(),
            incarnation: RandomState::new().build_hasher().finish(),
            received: 0,
            name: None,
        }
    }

    /// Checks that the sender has the same versions as this process, which has engine `version`.
    /// `who` ("the agent") and `own` ("controller") name sender and receiver in the error.
    ///
    /// # Errors
    /// [`VersionError`] with both versions.
    pub fn check(&self, who: &'static str, own: &'static str, version: &str) -> Result<(), VersionError> {
        if self.link == format::LINK_VERSION && self.version == version {
            return Ok(());
        }
        Err(VersionError {
            who,
            own,
            version: version.to_owned(),
            theirs: Box::new(self.clone()),
        })
    }
}

/// From the controller to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// How the agent reaches the time service. Sent once, before all other messages.
    Time(TimeService),
    /// Check and prepare a run. The agent answers Prepared or Failed.
    Prepare(Box<Prepare>),
    /// Start the load at a time of the controller's clock, a little in the future. The agent
    /// converts the time to its own clock and answers Going.
    Go {
        /// Zero of the run on the controller's `CLOCK_MONOTONIC_RAW`, ns.
        t0_ns: i64,
    },
    /// Start no further transactions; those in progress may end. The agent answers Finished.
    Stop,
    /// List the files of a run. The agent answers Files.
    List {
        /// The run.
        run: RunKey,
    },
    /// Send a file from `offset` to its end. The agent answers with pieces, or with Unsent.
    Fetch {
        /// Number of this request; its pieces contain it.
        ticket: u32,
        /// The run.
        run: RunKey,
        /// Name of the file, as in Files.
        name: String,
        /// Offset of the first byte to send.
        offset: u64,
    },
    /// Remove the files of a run: the controller has stored them.
    Forget {
        /// The run.
        run: RunKey,
    },
    /// Measure the speed of this host. The agent answers Measured.
    Measure(Measure),
    /// Measure network paths from this host. The agent answers Paths.
    MeasurePaths {
        /// The paths.
        paths: Vec<PathSpec>,
    },
    /// End the process.
    Quit,
}

/// How an agent obtains the time of the controller's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeService {
    /// The agent has the same clock as the controller, so it sends no probes.
    pub same: bool,
    /// Where the time service answers datagrams. `None`: probes are sent over the link.
    pub udp: Option<UdpTime>,
}

/// The time service over UDP ([`plimsoll_clock::packet`]).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpTime {
    /// Number of the agent in its probes.
    pub agent: u32,
    /// UDP port of the time service at all addresses of the controller. The agent tries the address
    /// of its link first.
    pub port: u16,
    /// Further addresses to try.
    pub addresses: Vec<IpAddr>,
    /// Key that authenticates requests and answers.
    pub key: [u8; 32],
}

impl fmt::Debug for UdpTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UdpTime(agent {}, port {} of {:?}, ***)",
            self.agent, self.port, self.addresses
        )
    }
}

/// A run of an experiment. Both names become parts of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Name of the results directory.
    pub experiment: String,
    /// Name of the run's directory: "0001".
    pub run: String,
}

impl RunKey {
    /// Relative path of the run's files; `None` if one of the names fails [`is_name`].
    pub fn path(&self) -> Option<PathBuf> {
        (is_name(&self.experiment) && is_name(&self.run))
            .then(|| PathBuf::from(&self.experiment).join(&self.run))
    }
}

/// Whether `text` may be a part of a path: 1 to 255 letters, digits, `.`, `_` and `-`, not
/// beginning with a dot.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.len() <= 255 && !text.starts_with('.') && text.chars().all(plain)
}

/// Where an agent writes its segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spool {
    /// This directory of the run, which exists: for an agent on the controller's host.
    Here(PathBuf),
    /// The agent's own directory, from which the controller fetches the segments.
    Own(RunKey),
}

/// The part of one agent in a population: the testers whose number is `index` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portion {
    /// Position of this agent among those of the population, from 0, below `of`.
    pub index: u16,
    /// Number of agents that share the population, at least 1.
    pub of: u16,
}

/// The description of a run for one agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The whole run.
    pub spec: RunSpec,
    /// Names of all agents of the run.
    pub agents: Vec<String>,
    /// Index of this agent in `agents`.
    pub index: u16,
    /// Part of this agent in each workload, in the order of the workloads. `None`: the agent has no
    /// testers of the workload.
    pub portions: Vec<Option<Portion>>,
    /// Part of this agent in the budget of transactions of the run.
    pub budget: Portion,
    /// Where the agent writes its segments.
    pub spool: Spool,
    /// Processes of its own host that the agent watches.
    pub watch: Vec<HostWatch>,
    /// How long the agent continues without a link, ns.
    pub grace_ns: u64,
    /// Declared bound of the rate error between the clocks of agent and controller, ppm.
    pub max_rate_error_ppm: f64,
    /// Limits of the process of this agent.
    pub limits: Limits,
}

/// A request to measure the speed of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Length of each measurement, ns.
    pub for_ns: u64,
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInfo {
    /// Name of the file, without a directory.
    pub name: String,
    /// Present size, bytes.
    pub bytes: u64,
}

/// An agent's estimate of the controller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockReport {
    /// Time of the controller's clock minus time of the agent's clock, ns.
    pub offset_ns: i64,
    /// Maximum error of the offset, ns.
    pub bound_ns: i64,
    /// Minimum round trip of the probes, ns.
    pub rtt_min_ns: i64,
    /// Median round trip of the probes, ns.
    pub rtt_median_ns: i64,
    /// Number of probes that were answered.
    pub probes: u64,
    /// Whether probes are sent over UDP; otherwise over the link.
    pub udp: bool,
}

/// From an agent to the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToController {
    /// Facts about the agent's host; the first message of an agent.
    Facts(HostFacts),
    /// Estimate of the controller's clock: after the first probes, and when the probes change
    /// between UDP and the link.
    Clock(ClockReport),
    /// The run is prepared.
    Prepared,
    /// The run cannot be prepared. The agent is ready for another one.
    Failed {
        /// What failed, where, and what to do.
        error: String,
    },
    /// The start time of the load is set.
    Going {
        /// Zero of the run on the agent's clock, ns.
        t0_raw_ns: i64,
        /// Maximum error of the conversion, ns.
        bound_ns: i64,
    },
    /// Counters of one second over all lanes of the agent.
    Second(SecondReport),
    /// An event of the run.
    Note {
        /// Time of the run, ns.
        t_ns: i64,
        /// Kind of the event, a word of a fixed list.
        kind: String,
        /// Description of the event for the user.
        text: String,
    },
    /// The run has ended and its segments are closed.
    Finished {
        /// Final counts of the agent.
        #[serde(rename = "books")]
        totals: AgentTotals,
        /// Time of the run at which the measured window of this agent ended, ns.
        window_ns: i64,
    },
    /// Files of a run.
    Files {
        /// The run.
        run: RunKey,
        /// The files, sorted by name.
        files: Vec<FileInfo>,
    },
    /// A file cannot be sent.
    Unsent {
        /// Ticket of the request.
        ticket: u32,
        /// The cause.
        error: String,
    },
    /// Measured speed of the agent's host.
    Measured(Baseline),
    /// Measured network paths, in the order of the request.
    Paths {
        /// The paths.
        paths: Vec<PathReport>,
    },
    /// The agent was asked to end while it had measurements to transfer. Its testers stop, Finished
    /// follows, and it waits for at most [`HANDOVER_TIMEOUT`] until its files are fetched and Quit
    /// arrives.
    Leaving {
        /// Name of the signal: "SIGTERM".
        reason: String,
    },
}

/// Measured speed of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Rounds of a fixed computation on one core, per second.
    pub cpu_per_s: f64,
    /// Bytes/s written to the agent's directory and synced; `None` if the measurement failed.
    pub disk_write_bytes_s: Option<f64>,
    /// Bytes/s when the same file is read, without the page cache if possible; `None` if the
    /// measurement failed.
    pub disk_read_bytes_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_both_versions() {
        let other = Greeting {
            link: format::LINK_VERSION + 1,
            version: "9.8.7".into(),
            ..Greeting::new("9.8.7")
        };
        let said = other
            .check("the agent", "controller", "1.2.3")
            .unwrap_err()
            .to_string();
        let own = format!("version 1.2.3 (link {})", format::LINK_VERSION);
        let theirs = format!("version 9.8.7 (link {})", format::LINK_VERSION + 1);
        assert!(said.contains(&own) && said.contains(&theirs), "{said}");
        assert!(
            Greeting::new("1.2.4")
                .check("the agent", "controller", "1.2.3")
                .is_err()
        );
        assert_eq!(
            Greeting::new("1.2.3").check("the agent", "controller", "1.2.3"),
            Ok(())
        );
    }

    #[test]
    fn a_greeting_with_unknown_or_missing_fields_is_read() {
        // A later version adds fields; an earlier version lacks some.
        for text in [
            r#"{"link":7,"version":"3.0.0","dialect":["x"],"pid":5}"#,
            r#"{"link":7,"version":"3.0.0"}"#,
        ] {
            let greeting: Greeting = serde_json::from_str(text).unwrap();
            assert_eq!((greeting.link, greeting.version.as_str()), (7, "3.0.0"));
        }
        assert!(serde_json::from_str::<ToAgent>(r#"{"type":"go","t0_ns":1,"dialect":0}"#).is_err());
    }

    #[test]
    fn names_that_leave_the_directory_have_no_path() {
        let path = |experiment: &str, run: &str| {
            RunKey {
                experiment: experiment.into(),
                run: run.into(),
            }
            .path()
        };
        assert_eq!(
            path("a-20260101T000000Z", "0001"),
            Some("a-20260101T000000Z/0001".into())
        );
        for wrong in ["", "..", ".x", "a/b", "a\0b", "ü"] {
            assert_eq!((path(wrong, "0001"), path("a", wrong)), (None, None), "{wrong}");
        }
    }
}
