//! The vocabulary. An agent serves several runs in turn: Prepare, Go, (Stop,) until it answers Finished.

use std::path::PathBuf;

use plimsoll_model::{AgentBooks, RunSpec, SecondReport};
use serde::{Deserialize, Serialize};

/// From the controller to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
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
    Hello {
        /// [`plimsoll_model::format::LINK_VERSION`].
        link: u16,
        /// Version of the engine.
        version: String,
        /// Its process.
        pid: u32,
    },
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
