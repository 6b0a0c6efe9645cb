//! The drivers, one folder each. `crate::registry` lists them.

pub mod exec;
pub mod frontier;
pub mod http;
pub mod null;
pub mod replay;
pub mod sql;
pub mod tcp;

mod versions;
