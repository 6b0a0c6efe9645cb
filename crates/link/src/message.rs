//! The vocabulary. An agent serves several runs in turn: Prepare, Go, (Stop,) until it answers
//! Finished. Where it has written into a directory of its own, the controller then asks for Files,
//! has them sent piece by piece (Fetch), and says Forget when it has them safe.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_model::{AgentBooks, HostFacts, HostWatch, RunSpec, SecondReport, format};
use serde::{Deserialize, Serialize};

/// How long an agent that was asked to end waits for its files to be fetched. Batch systems kill 30
/// s after they have asked (Slurm's `KillWait`, Kubernetes' grace period), and the process needs a
/// moment after it.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(20);

/// Who speaks: the first message in both directions, so that each side can say why it will not talk
/// to the other.
///
/// Fields that are unknown here are let pass, unlike anywhere else: whatever a later version adds,
/// its number must be readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`format::LINK_VERSION`].
    pub link: u16,
    /// Version of the engine.
    pub version: String,
    /// Its process.
    #[serde(default)]
    pub pid: u32,
    /// Drawn at random when the process began: tells it from one that was started in its place.
    #[serde(default)]
    pub incarnation: u64,
    /// Number of the last message that it has received over former links.
    #[serde(default)]
    pub received: u64,
    /// How an agent that was not started by us calls itself: letters, digits, `.`, `_`, `-`.
    #[serde(default)]
    pub name: Option<String>,
}

/// The other side is of another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{who} is version {} (link {}), this {own} is version {version} (link {link}): install one version, and start it again",
    .theirs.version, .theirs.link, link = format::LINK_VERSION
)]
pub struct VersionError {
    who: &'static str,
    own: &'static str,
    version: String,
    theirs: Box<Greeting>,
}

impl Greeting {
    /// Of this process, whose engine is `version`. To be made once: the incarnation is drawn anew
    /// each time.
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

    /// Whether `who` ("the agent") sent this and may be talked to by us (`own`: "controller"),
    /// whose engine is `version`.
    ///
    /// # Errors
    /// [`VersionError`], with both versions.
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
    /// How to reach the time service, if it is another clock than the agent's own. Sent once,
    /// first.
    Time(TimeService),
    /// Check everything and get ready; answered by Prepared or Failed.
    Prepare(Box<Prepare>),
    /// Begin at this time of the controller's clock, a little in the future; the agent converts it.
    /// Answered by Going.
    Go {
        /// Zero of the run on the controller's `CLOCK_MONOTONIC_RAW`, ns.
        t0_ns: i64,
    },
    /// Start nothing new; what is in progress may end. Answered by Finished.
    Stop,
    /// What files of a run are there? Answered by Files.
    List {
        /// Which run.
        run: RunKey,
    },
    /// Send a file from `offset` on, in pieces; answered by them, or by Unsent.
    Fetch {
        /// Stands in its pieces.
        ticket: u32,
        /// Which run.
        run: RunKey,
        /// Name of the file, as in Files.
        name: String,
        /// First byte.
        offset: u64,
    },
    /// The files of a run are safe elsewhere: remove them.
    Forget {
        /// Which run.
        run: RunKey,
    },
    /// How fast is this host? Answered by Measured.
    Measure(Measure),
    /// End.
    Quit,
}

/// The controller's clock, as an agent may ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeService {
    /// The agent shares the controller's clock: nothing is probed.
    pub same: bool,
    /// Where it answers datagrams; none: probes ride the link.
    pub udp: Option<UdpTime>,
}

/// The time service over UDP ([`plimsoll_clock::packet`]).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpTime {
    /// How the agent calls itself in its probes.
    pub agent: u32,
    /// At all addresses, and first of all at the one by which the agent's link goes to the
    /// controller.
    pub port: u16,
    /// Others to be tried.
    pub addresses: Vec<IpAddr>,
    /// Authenticates requests and answers.
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

/// Which run of which experiment, as parts of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Name of the results directory.
    pub experiment: String,
    /// Name of the run's directory: "0001".
    pub run: String,
}

impl RunKey {
    /// Relative path of the run's files; none where a part of it is no plain name.
    pub fn path(&self) -> Option<PathBuf> {
        (is_name(&self.experiment) && is_name(&self.run))
            .then(|| PathBuf::from(&self.experiment).join(&self.run))
    }
}

/// Whether `text` may be a part of a path: letters, digits, `.`, `_`, `-`, and no dot in front.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.len() <= 255 && !text.starts_with('.') && text.chars().all(plain)
}

/// Where an agent writes its segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spool {
    /// Into the run's own directory, which exists: an agent on the controller's host.
    Here(PathBuf),
    /// Into a directory of its own, from which the controller fetches them.
    Own(RunKey),
}

/// The part of one agent in a population: those with number = `index` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portion {
    /// Below `of`.
    pub index: u16,
    /// Number of agents that carry it, at least 1.
    pub of: u16,
}

/// One run, for one agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The whole run.
    pub spec: RunSpec,
    /// Names of all agents of the run.
    pub agents: Vec<String>,
    /// Which of them this one is.
    pub index: u16,
    /// For each workload, what it carries of it.
    pub portions: Vec<Option<Portion>>,
    /// What it has of a budget of transactions.
    pub budget: Portion,
    /// Where it writes its segments.
    pub spool: Spool,
    /// Processes of its own host that it watches.
    pub watch: Vec<HostWatch>,
    /// How long it goes on without a link.
    pub grace_ns: u64,
    /// Declared bound of the rate error between the agent's clock and the controller's, ppm.
    pub max_rate_error_ppm: f64,
}

/// What to measure of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Length of each measurement.
    pub for_ns: u64,
    /// A host and port that takes bytes and throws them away; none: nothing is measured of the
    /// network.
    pub sink: Option<String>,
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInfo {
    /// A plain name.
    pub name: String,
    /// Its size now.
    pub bytes: u64,
}

/// What an agent knows of the controller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockReport {
    /// Controller - agent, ns.
    pub offset_ns: i64,
    /// Greatest error of it, ns.
    pub bound_ns: i64,
    /// Least round trip of the probes, ns.
    pub rtt_min_ns: i64,
    /// Median of them, ns.
    pub rtt_median_ns: i64,
    /// Number of probes that were answered.
    pub probes: u64,
    /// They go over UDP; else they ride the link.
    pub udp: bool,
}

/// From an agent to the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToController {
    /// What host this is; its first message.
    Facts(HostFacts),
    /// After the first probes, and whenever asked for by a Prepare.
    Clock(ClockReport),
    /// Ready to go.
    Prepared,
    /// The run cannot be carried out; the agent is ready for another one.
    Failed {
        /// What, where, and what to do.
        error: String,
    },
    /// Its load begins.
    Going {
        /// Zero of the run on the agent's clock, ns.
        t0_raw_ns: i64,
        /// Greatest error of the conversion, ns.
        bound_ns: i64,
    },
    /// One second over all its lanes.
    Second(SecondReport),
    /// Something worth a line in the events.
    Note {
        /// Time of the run, ns.
        t_ns: i64,
        /// A word of a fixed list.
        kind: String,
        /// For people.
        text: String,
    },
    /// The run has ended and its segments are closed.
    Finished {
        /// Its books.
        books: AgentBooks,
        /// Time of the run (ns) at which the measured window of this agent ended.
        window_ns: i64,
    },
    /// Files of a run.
    Files {
        /// Which run.
        run: RunKey,
        /// In the order in which they were written.
        files: Vec<FileInfo>,
    },
    /// A file cannot be sent.
    Unsent {
        /// Of the request.
        ticket: u32,
        /// Why.
        error: String,
    },
    /// What was measured of this host.
    Measured(Baseline),
    /// It was asked to end while it had something to hand over: its testers stop, Finished follows,
    /// and it waits for [`HANDOVER_TIMEOUT`] until its files are fetched and it is told to Quit.
    Leaving {
        /// The signal, for people: "SIGTERM".
        reason: String,
    },
}

/// How fast a host is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Rounds of a fixed computation on one core, per second.
    pub cpu_per_s: f64,
    /// Bytes/s written to the directory of the spool and synced; none when that failed.
    pub disk_write_bytes_s: Option<f64>,
    /// Bytes/s read from there again, past the page cache where possible.
    pub disk_read_bytes_s: Option<f64>,
    /// Bytes/s over one TCP connection to the sink.
    pub network_bytes_s: Option<f64>,
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
    fn a_greeting_is_readable_whatever_a_later_version_adds_to_it() {
        // And what an earlier one leaves out.
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
    fn a_run_is_named_by_plain_words_only() {
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
