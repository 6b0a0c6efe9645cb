//! The core types of the engine: a transaction, a resolved run, and the messages about them between
//! lab, controller and agent. No I/O, no runtime, no clock: every other crate may import this one.
#![forbid(unsafe_code)]

mod codes;
mod count;
pub mod format;
mod generator;
mod host;
mod limits;
mod live;
mod metric;
mod run;
mod session;
mod tester_session;
mod transaction;

pub use codes::{Code, Codes};
pub use count::grouped;
pub use generator::Generator;
pub use host::{AgentRules, AgentSpec, AgentStartKind, HostFacts, HostLimits, HostWatch, Role};
pub use limits::Limits;
pub use live::{AgentTotals, Counters, NameLookup, SecondReport};
pub use metric::MetricRow;
pub use run::{
    Arrivals, BackoffWhen, Ceiling, Choose, Dist, Endpoint, Keep, Late, LoadSpec, OnError, Operation, Order,
    Reading, RunEnd, RunSpec, SlotSpec, SpecError, StageSpec, Watch, WhenFull, Workload,
};
pub use session::{
    BaselineSpec, ClockState, Command, Event, HostReport, ListenSpec, PathReport, PathSpec, RttReport,
    RunOutcome, TransferSpec,
};
pub use tester_session::{SESSION_THREAD, SessionSpec};
pub use transaction::{Cache, NOT_HAPPENED, Outcome, Phase, Transaction};
