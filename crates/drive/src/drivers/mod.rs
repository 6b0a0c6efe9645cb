//! The drivers, one folder each. `registry` lists and prepares them. `versions` is shared by the
//! drivers of queries.

pub mod exec;
pub mod frontier;
pub mod http;
pub mod null;
pub mod registry;
pub mod replay;
pub mod sql;
pub mod tcp;

mod versions;
