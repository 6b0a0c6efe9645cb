//! Tests of every service with its real listener, on a free port of the loopback interface.

#![allow(
    clippy::unwrap_used,
    reason = "all of this crate is a test; clippy sees that of functions marked so only"
)]

mod broker;
mod broker_binary;
mod catalogue;
mod catalogue_databases;
mod catalogue_paths;
mod catalogue_soap;
mod data;
mod databases;
mod delay;
mod echo;
mod frontier;
mod hostile;
mod invalidation;
mod servers;
mod sink;
mod support;
