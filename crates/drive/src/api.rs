//! The interface between the agent and a drive.

use plimsoll_model::{Counters, MetricRow, SecondReport, SpecError, Transaction};

use crate::setup_error::SetupError;

/// The receiver of a lane's transactions, such as the recorder. Its methods must not wait.
pub trait Sink: Send {
    /// Accepts a batch and replaces it by an empty one. Returns the number of transactions that
    /// were lost because the queue was full.
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize;

    /// Accepts rows of named metrics in the same way. Returns the number of rows that were lost
    /// because the queue was full.
    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize;
}

/// One agent's part of a population or of a budget: the items whose number modulo `agents` is
/// `agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentPortion {
    /// Index of this agent among the agents that share it; less than `agents`.
    pub agent: u16,
    /// Number of agents that share it, at least 1.
    pub agents: u16,
}

/// The part of a run that one agent carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portions {
    /// Index of this agent in the run, as in the column `agent` of its transactions.
    pub agent: u16,
    /// Its share of each workload; none if only other agents run the workload.
    pub workloads: Vec<Option<AgentPortion>>,
    /// Its share of the budget of transactions.
    pub budget: AgentPortion,
}

impl Portions {
    /// The whole run, if it has one agent.
    pub fn whole(workloads: usize) -> Self {
        let whole = AgentPortion { agent: 0, agents: 1 };
        Self {
            agent: 0,
            workloads: vec![Some(whole); workloads],
            budget: whole,
        }
    }
}

/// An event of a drive.
#[derive(Debug, Clone)]
pub enum DriveEvent {
    /// One second of one lane; the agent merges the lanes. A lane sends every second of the run
    /// once, in order, from the start of the run to the end of the lane.
    Second {
        /// Index of the lane.
        lane: usize,
        /// Counters and histograms of the second.
        report: SecondReport,
    },
    /// An event for the user.
    Note {
        /// Time since the start of the run, ns.
        t_ns: i64,
        /// Kind: `tester-stopped`, `not-started`, `lane-failed`, `stuck` or `driver`.
        kind: &'static str,
        /// Description for the user.
        text: String,
    },
    /// The last event of a lane. All its transactions were delivered before.
    LaneEnded {
        /// Index of the lane.
        lane: usize,
        /// Totals of the lane: `started == succeeded + failed + in_flight`.
        counters: Counters,
        /// Transactions cancelled at the end of the drain.
        in_flight: u64,
        /// End of the measured window, ns since the start of the run. Transactions that ended later
        /// have phase `drain`.
        window_ns: i64,
    },
}

/// Why a drive cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// [`RunSpec::check`](plimsoll_model::RunSpec::check) refuses the run document.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The driver of a workload does not exist.
    #[error("workload {workload}: expected one of the drivers {known}, got \"{driver}\"")]
    UnknownDriver {
        /// Name of the workload.
        workload: String,
        /// Name of the driver that was requested.
        driver: String,
        /// Names of all drivers, separated by commas.
        known: String,
    },
    /// The driver refuses its settings, or cannot create a tester.
    #[error("workload {workload}, driver {driver}: {source}")]
    Driver {
        /// Name of the workload.
        workload: String,
        /// Name of its driver.
        driver: String,
        /// Error of the driver.
        source: Box<SetupError>,
    },
    /// The run ends only after a number of transactions of each tester, but the load of a workload
    /// is open.
    #[error(
        "workload {workload}, driver {driver}: run.until.each_tester does not end an open load: set run.duration"
    )]
    Endless {
        /// Name of the workload.
        workload: String,
        /// Name of its driver.
        driver: String,
    },
    /// The run needs more of a resource than is allowed. The text is the whole message.
    #[error("{0}")]
    TooMany(String),
    /// A call of the operating system failed.
    #[error("cannot {what}: {error}")]
    System {
        /// The action that failed, such as "start a thread".
        what: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

/// Properties of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct DriverInfo {
    /// Name in experiment files.
    pub name: &'static str,
    /// Description in one line, for the help.
    pub help: &'static str,
    /// Schemes of the URLs of its endpoints; empty: it has no endpoints.
    pub schemes: &'static [&'static str],
    /// Keys of its settings and requests, at any depth, whose values are paths of files, or lists
    /// or mappings that contain such paths. On another host these files have different paths.
    pub file_keys: &'static [&'static str],
    /// Whether a tester can be a thread: `sql` (with `SQLite`), `exec`, `replay`.
    pub blocking: bool,
    /// Whether its testers create files before the load, which may take an hour.
    pub prepares_files: bool,
}

impl DriverInfo {
    /// A driver without endpoints and files.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            schemes: &[],
            file_keys: &[],
            blocking: false,
            prepares_files: false,
        }
    }
}
