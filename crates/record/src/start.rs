//! The start of a run on the clock of each agent. It is written before the load begins, so that
//! segments can be converted even if the controller ended early.

use std::path::Path;

use plimsoll_clock::Assumptions;
use plimsoll_model::{Keep, Role, format};
use serde::{Deserialize, Serialize};

use crate::RecordError;

/// Name of the file in the directory of the segments.
pub const START_FILE: &str = "start.json";

/// The start of a run and the settings that are needed to convert its segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// [`format::START`].
    pub format: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run.
    pub run: String,
    /// Start of the run on the controller's clock, ns since the Unix epoch.
    pub t0_unix_ns: i64,
    /// Start of the run on the controller's `CLOCK_MONOTONIC_RAW`, ns; 0 in files of versions with
    /// one clock only.
    #[serde(default)]
    pub t0_ns: i64,
    /// Length of the warm-up, ns.
    pub warmup_ns: u64,
    /// End of the measured window, ns since the start of the run; none if the run does not end by
    /// time.
    pub duration_ns: Option<u64>,
    /// Whether the transactions are kept on disk.
    pub keep: Keep,
    /// Assumptions about the clocks.
    #[serde(default)]
    pub assumptions: Assumptions,
    /// The agents in the order of their indices.
    pub agents: Vec<AgentStart>,
}

/// The start of a run on one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStart {
    /// Name of the agent.
    pub name: String,
    /// Name of the agent's host.
    #[serde(default)]
    pub host: String,
    /// Site of the host.
    #[serde(default)]
    pub site: String,
    /// Start of the run on the agent's `CLOCK_MONOTONIC_RAW`, ns, as the agent estimated it at the
    /// start.
    pub t0_raw_ns: i64,
    /// Role of the agent: testers or only a monitor.
    #[serde(default)]
    pub role: Role,
    /// Whether the agent uses the controller's clock.
    #[serde(default = "yes")]
    pub same_clock: bool,
}

/// Files of versions with one clock only lack this key.
fn yes() -> bool {
    true
}

impl Start {
    /// Reads [`START_FILE`] in the directory `segments`.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the file is missing; [`RecordError::Broken`] and
    /// [`RecordError::Version`]
    /// if its contents are invalid or of another version.
    pub fn read(segments: &Path) -> Result<Self, RecordError> {
        let path = segments.join(START_FILE);
        let text = std::fs::read(&path).map_err(|error| RecordError::io("reading", &path, error))?;
        let start: Self = serde_json::from_slice(&text).map_err(|error| RecordError::broken(&path, error))?;
        if !format::readable(format::START, &start.format) {
            return Err(RecordError::Version {
                path,
                found: start.format,
                own: format::START,
            });
        }
        Ok(start)
    }
}
