//! The crate from outside: whole runs against small real servers.
#![allow(clippy::unwrap_used, clippy::too_many_lines, missing_docs)]

mod database;
mod exec;
mod frontier;
mod harness;
mod http;
mod load;
mod sql;
mod tcp;
