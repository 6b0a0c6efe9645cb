//! The drivers, one folder each.
//!
//! `registry` lists and prepares them. `connection` and `versions` are settings that several
//! drivers have.

pub mod broker;
pub mod catalogue;
pub mod exec;
pub mod frontier;
pub mod ftp;
pub mod http;
pub mod ldap;
pub mod null;
pub mod registry;
pub mod replay;
pub mod sql;
pub mod tcp;

mod connection;
mod versions;
