//! The controller: executes the runs that the lab requests.
//!
//! It talks to the agents ([`agents`]), starts and prepares them for a run, merges their second
//! reports, checks the ceilings, and fetches their segments ([`run`]). It converts the segments to
//! Parquet and writes the summary ([`files`]). During a run it never handles single transactions.
//! One thread makes all decisions ([`control`]); other threads only read (the commands of the lab,
//! the agents) or write (events).

mod agents;
mod check;
mod control;
mod error;
mod events;
mod files;
mod input;
mod run;
mod session;

pub use agents::peer::AgentCommand;
pub use control::{ControlError, control};
pub use files::convert::{ConvertError, convert_directory};
pub use files::summary::{AgentSummary, Summary};
