//! Why an agent cannot prepare a run.

use plimsoll_drive::DriveError;
use plimsoll_limits::LimitError;
use plimsoll_model::SpecError;
use plimsoll_record::RecordError;

use crate::affinity::AffinityError;
use crate::files::SpoolError;

/// Why an agent cannot prepare a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// A signal has asked the agent to end.
    #[error("the agent was asked to end")]
    Leaving,
    /// The segments are to be written into the agent's own directory, and it has none.
    #[error("this agent has no directory of its own")]
    NoDirectory,
    /// The spool of the run cannot be created.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The thread cannot be bound to the cores of the run.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// This process cannot have the limits of the run.
    #[error("hosts.limits: {0}")]
    Limits(#[from] LimitError),
    /// The run document cannot be carried out.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The index of this agent is not in the list of agents.
    #[error("the run has no agent of this index: please report this")]
    NoAgent,
    /// The message does not contain one portion per workload.
    #[error("the number of portions differs from that of the workloads: please report this")]
    Portions,
    /// The recorder cannot be started.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The lanes cannot be started.
    #[error(transparent)]
    Drive(#[from] DriveError),
}
