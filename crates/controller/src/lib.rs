//! The controller: carries out the runs that the lab asks for.
//!
//! It starts an agent, says when to begin, merges what the agents report each second, watches the ceilings, and when a
//! run has ended turns the segments into Parquet and closes the books. It never handles single transactions while a run
//! goes on. One thread decides ([`control`]); others only read (the lab's commands, the agents) or write (events).

mod ceiling;
mod disk;
mod host;
mod live;
mod run;
mod session;
mod summary;

pub use disk::{ConvertError, convert_directory};
pub use host::AgentCommand;
pub use session::{ControlError, control};
pub use summary::{AgentSummary, Summary};
