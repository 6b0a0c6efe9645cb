//! Why work of the lab cannot be carried out, and why an agent cannot take part in it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_link::{LinkError, ToController, VersionError};
use plimsoll_model::SpecError;
use plimsoll_record::RecordError;

use crate::files::convert::ConvertError;

/// Why a run or a collection cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// The run document cannot be carried out.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The directory of the run contains a measurement, which is never overwritten.
    #[error("{0} already contains a measurement: move it first")]
    Measured(PathBuf),
    /// The directory of the segments cannot be created.
    #[error("creating {path}: {source}")]
    Create { path: PathBuf, source: io::Error },
    /// Agents on other hosts need the names of experiment and run, which are parts of the path.
    #[error("{0}: not the directory of a run: expected RESULTS/runs/RUN")]
    NotRun(PathBuf),
    /// The work was stopped.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
    /// The only agent is not connected.
    #[error("the agent is lost: {0}")]
    AgentLost(#[source] MissingError),
    /// Fewer agents are connected than the rules require. Contains the first missing agent.
    #[error("{present} of {all} agents are connected, {required} are needed: {agent}: {why}")]
    TooFewAgents {
        present: usize,
        all: usize,
        required: usize,
        agent: String,
        #[source]
        why: Box<MissingError>,
    },
    /// An agent cannot be asked to prepare the run.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The only agent has not prepared the run.
    #[error("{0}")]
    NotPrepared(#[source] MissingError),
    /// Some of several agents have not prepared the run. Contains the first one, and the number of
    /// further ones.
    #[error("agent {agent}: {why}{}", and_more(*.more))]
    AgentsNotPrepared {
        agent: String,
        #[source]
        why: Box<MissingError>,
        more: usize,
    },
    /// The start of the run cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The collected segments cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        _ => format!(" (and {more} more)"),
    }
}

/// The work was stopped before the load began.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum StoppedError {
    /// The lab asked to stop. Contains its reason.
    #[error("stopped before the load began: {0}")]
    ByLab(String),
    /// The session ends, and the work with it.
    #[error("stopped before the load began: the session ends")]
    SessionEnd,
}

/// Why an agent is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MissingError {
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It did not answer within this time.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// Its link has ended, or cannot be made.
    #[error("{0}")]
    Lost(#[source] LinkError),
    /// Its link has ended. Contains the exit status of its process as text.
    #[error("{error}; {status}")]
    Ended {
        #[source]
        error: LinkError,
        status: String,
    },
    /// It cannot prepare the run. Contains the text that it sent.
    #[error("{0}")]
    Failed(String),
    /// It was asked to end. Contains the reason that it sent.
    #[error("it was asked to end ({0})")]
    Leaving(String),
    /// It sent a message that is not an answer.
    #[error("it sent {0:?}: please report this")]
    Unexpected(Box<ToController>),
    /// The work was stopped before the agent answered.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
}

/// Why an agent cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The system refuses its process or its socket.
    #[error("cannot start agent {name}: {source}")]
    Process { name: String, source: io::Error },
    /// It dials in, and has not done so.
    #[error("it has not dialled in")]
    NotJoined,
}

/// Why an agent cannot be asked to prepare a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// No agent of this workload is connected.
    #[error("workload {0}: none of its agents is connected")]
    NoAgents(String),
    /// The agent of this name has ended.
    #[error("agent {0} has ended")]
    Ended(String),
}

/// Why a list of agents is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NameError {
    /// The name cannot be the name of a file.
    #[error(
        "agent {0:?}: a name consists of letters, digits, `.`, `_` and `-`, and does not begin with a dot"
    )]
    Invalid(String),
    /// Two agents have this name.
    #[error("agent {0} is listed twice: each agent needs its own name")]
    Repeated(String),
}

/// Why an agent that dials in may not take part under the name of a known agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrivalError {
    /// It has another version.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The known agent is another process, and it is connected.
    #[error("another agent with this name is connected: give each agent its own name")]
    NameInUse,
}
