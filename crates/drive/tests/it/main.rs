//! Tests of the public interface: whole runs with small real servers.
#![allow(clippy::unwrap_used, clippy::too_many_lines, missing_docs)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "`json!` literals as arguments read best"
)]

mod broker;
mod catalogue;
mod catalogue_rucio;
mod catalogue_soap;
mod database;
mod exec;
mod frontier;
mod frontier_asks;
mod frontier_ways;
mod ftp;
mod harness;
mod http;
mod ldap;
mod load;
mod proxies;
mod replay;
mod round_trips;
#[path = "../../../wire/tests/servers/mod.rs"]
mod servers;
mod session;
mod sql;
mod tcp;
mod tls;
mod versions;
