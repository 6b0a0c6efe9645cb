//! The controller: executes the runs that the lab requests.
//!
//! It starts agents ([`peer`]), prepares them for a run ([`assemble`]) and sets its start. It
//! merges their second reports and checks the ceilings ([`run`]). At the end it fetches their
//! segments ([`gather`]), converts them to Parquet and writes the summary. During a run it never
//! handles single transactions. One thread makes all decisions ([`control`]); other threads only
//! read (the commands of the lab, the agents) or write (events).

mod assemble;
mod begin;
mod carrier;
mod ceiling;
mod check;
mod control;
mod disk;
mod door;
mod error;
mod events;
mod files_there;
mod gather;
mod input;
mod live;
mod peer;
mod run;
mod session;
mod store;
mod summary;
mod time_service;

pub use control::{ControlError, control};
pub use disk::{ConvertError, convert_directory};
pub use session::AgentCommand;
pub use summary::{AgentSummary, Summary};
