//! The controller: carries out the runs that the lab asks for.
//!
//! It starts agents ([`peer`]), prepares them for a run ([`assemble`]), says when to begin, merges
//! what they report each second and watches the ceilings ([`run`]), gathers their segments
//! ([`gather`]), turns them into Parquet and closes the books. It never handles single transactions
//! while a run goes on. One thread decides ([`control`]); others only read (the lab's commands, the
//! agents) or write (events).

mod assemble;
mod begin;
mod carrier;
mod ceiling;
mod check;
mod control;
mod disk;
mod door;
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
