//! The vocabulary. An agent serves several runs in turn: Prepare, Go, (Stop,) until it answers Finished.

use std::path::PathBuf;

use plimsoll_model::{AgentBooks, RunSpec, SecondReport, format};
use serde::{Deserialize, Serialize};

/// Who speaks: the first message in both directions, so that each side can say why it will not talk to the other.
///
/// Fields that are unknown here are let pass, unlike anywhere else: whatever a later version adds, its number must be
/// readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`format::LINK_VERSION`].
    pub link: u16,
    /// Version of the engine.
    pub version: String,
    /// Its process.
    #[serde(default)]
    pub pid: u32,
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
    theirs: Greeting,
}

impl Greeting {
    /// Of this process, whose engine is `version`.
    pub fn new(version: &str) -> Self {
        Self {
            link: format::LINK_VERSION,
            version: version.to_owned(),
            pid: std::process::id(),
        }
    }

    /// Whether `who` ("the agent") sent this and may be talked to by us (`own`: "controller"), whose engine is `version`.
    ///
    /// # Errors
    /// [`VersionError`], with both versions.
    pub fn check(self, who: &'static str, own: &'static str, version: &str) -> Result<(), VersionError> {
        if self.link == format::LINK_VERSION && self.version == version {
            return Ok(());
        }
        Err(VersionError {
            who,
            own,
            version: version.to_owned(),
            theirs: self,
        })
    }
}

/// From the controller to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// First message: who speaks. Another version is refused.
    Hello(Greeting),
    /// Check everything and get ready; answered by Prepared or Failed.
    Prepare(Box<Prepare>),
    /// Begin at this time of the agent's `CLOCK_MONOTONIC_RAW`, a little in the future.
    Go {
        /// Zero of the run, ns.
        t0_raw_ns: i64,
    },
    /// Start nothing new; what is in progress may end. Answered by Finished.
    Stop,
    /// End.
    Quit,
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
    /// Where it writes its segments. It exists.
    pub spool: PathBuf,
}

/// From an agent to the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToController {
    /// First message: who speaks. Another version is refused.
    Hello(Greeting),
    /// Ready to go.
    Prepared,
    /// The run cannot be carried out; the agent is ready for another one.
    Failed {
        /// What, where, and what to do.
        error: String,
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
    /// Still there; once a second.
    Heartbeat,
    /// The run has ended and its segments are closed.
    Finished {
        /// Its books.
        books: AgentBooks,
        /// Time of the run (ns) at which the measured window of this agent ended.
        window_ns: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_both_versions() {
        let other = Greeting {
            link: format::LINK_VERSION + 1,
            version: "9.8.7".into(),
            pid: 1,
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
        // And in the form of version 1, which only agents sent.
        for text in [
            r#"{"type":"hello","link":7,"version":"3.0.0","dialect":["x"],"pid":5}"#,
            r#"{"type":"hello","link":7,"version":"3.0.0"}"#,
        ] {
            let Ok(ToController::Hello(greeting)) = serde_json::from_str(text) else {
                panic!("{text}");
            };
            assert_eq!((greeting.link, greeting.version.as_str()), (7, "3.0.0"));
            assert!(matches!(serde_json::from_str(text), Ok(ToAgent::Hello(_))));
        }
        assert!(serde_json::from_str::<ToAgent>(r#"{"type":"go","t0_raw_ns":1,"dialect":0}"#).is_err());
    }
}
