//! Zero of a run on the clock of each agent: written before the load begins, so that segments can
//! be converted even when the controller did not live to do it.

use std::path::Path;

use plimsoll_clock::Assumptions;
use plimsoll_model::{Keep, Role, format};
use serde::{Deserialize, Serialize};

use crate::RecordError;

/// Name of the file in the directory of the segments.
pub const START_FILE: &str = "start.json";

/// When a run began, and what is needed to convert what it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// [`format::START`].
    pub format: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run.
    pub run: String,
    /// The run's zero, in ns since the Unix epoch by the controller's clock.
    pub t0_unix_ns: i64,
    /// The run's zero on the controller's `CLOCK_MONOTONIC_RAW`, ns; 0 in files of versions that
    /// had one clock only.
    #[serde(default)]
    pub t0_ns: i64,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// End of the measured window, if the run ends by time.
    pub duration_ns: Option<u64>,
    /// What of the transactions stays on disk.
    pub keep: Keep,
    /// What is taken for granted of clocks.
    #[serde(default)]
    pub assumptions: Assumptions,
    /// The agents in the order of their indices.
    pub agents: Vec<AgentStart>,
}

/// The run's zero on one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStart {
    /// Name of the agent.
    pub name: String,
    /// Its host.
    #[serde(default)]
    pub host: String,
    /// The site of its host.
    #[serde(default)]
    pub site: String,
    /// The run's zero on its `CLOCK_MONOTONIC_RAW`, as it took it to be when the run began, ns.
    pub t0_raw_ns: i64,
    /// What it was there for.
    #[serde(default)]
    pub role: Role,
    /// That clock is the controller's own.
    #[serde(default = "yes")]
    pub same_clock: bool,
}

/// Files of versions that had one clock only do not say so.
fn yes() -> bool {
    true
}

impl Start {
    /// Reads the file in `segments`.
    ///
    /// # Errors
    /// [`RecordError::Io`] when it is missing, [`RecordError::Broken`] and [`RecordError::Version`]
    /// for what is in it.
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
