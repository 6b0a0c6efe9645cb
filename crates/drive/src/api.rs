//! What the agent gives and gets.

use plimsoll_model::{Counters, MetricRow, SecondReport, SpecError, Transaction};

/// Where a lane's transactions go. Neither method may wait.
pub trait Sink: Send {
    /// Takes a full batch and leaves an empty one (recycled) in its place; gives the number of
    /// transactions it had no room for.
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize;

    /// Likewise for named metrics; gives the number of rows it had no room for.
    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize;
}

/// One agent's part of a population (or of a budget): those with number = `agent` modulo `agents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Below `agents`: which of those that carry it this agent is.
    pub agent: u16,
    /// Number of agents that carry it, at least 1.
    pub agents: u16,
}

/// What an agent carries of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portions {
    /// Index of this agent among all of the run: it stands in every transaction.
    pub agent: u16,
    /// Of each workload; none where other agents carry it.
    pub workloads: Vec<Option<Share>>,
    /// Of the budget of transactions.
    pub budget: Share,
}

impl Portions {
    /// Everything, of a run with one agent.
    pub fn whole(workloads: usize) -> Self {
        let whole = Share { agent: 0, agents: 1 };
        Self {
            agent: 0,
            workloads: vec![Some(whole); workloads],
            budget: whole,
        }
    }
}

/// What happens while a drive goes on.
#[derive(Debug, Clone)]
pub enum DriveEvent {
    /// One second of one lane; the agent merges the lanes. A lane gives every second of the run
    /// once, in order, from its start to the end of its drain; a lane that has ended gives no more.
    Second {
        /// Index of the lane.
        lane: usize,
        /// What happened in it.
        report: SecondReport,
    },
    /// Something worth a line: `tester-stopped`, `not-started`, `lane-failed`, `stuck`, `driver`.
    Note {
        /// Run time, ns.
        t_ns: i64,
        /// A word of the list above.
        kind: &'static str,
        /// For people.
        text: String,
    },
    /// Last word of a lane; everything it recorded was delivered before.
    LaneEnded {
        /// Index of the lane.
        lane: usize,
        /// Its books: `started == succeeded + failed + in_flight`.
        counters: Counters,
        /// Transactions cancelled at the end of the drain.
        in_flight: u64,
        /// Run time (ns) at which its measured window ended; what ended later has phase `drain`.
        window_ns: i64,
    },
}

/// Why a run cannot be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The run document contradicts itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A driver that does not exist.
    #[error("workload {workload}: there is no driver \"{driver}\"; there are {known}")]
    UnknownDriver {
        /// Name of the workload.
        workload: String,
        /// What was asked for.
        driver: String,
        /// The list.
        known: String,
    },
    /// Something that the driver cannot work with.
    #[error("workload {workload}, driver {driver}: {what}")]
    Driver {
        /// Name of the workload.
        workload: String,
        /// Its driver.
        driver: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// More than the engine carries.
    #[error("{0}")]
    TooMany(String),
    /// The system refuses a resource.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
}

/// What a driver states about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct DriverInfo {
    /// Name in experiment files.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Schemes of the URLs of its endpoints; empty: it has no endpoints.
    pub schemes: &'static [&'static str],
    /// Keys of its settings and requests, at any depth, whose values are paths of files, or lists
    /// or mappings that contain such paths. On another host these files have other paths.
    pub file_keys: &'static [&'static str],
    /// Whether a tester may be a thread: `sql` with `SQLite`, `exec`, `replay`.
    pub blocking: bool,
    /// Whether its testers make files before the load, which may take an hour.
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
