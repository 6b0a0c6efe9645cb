//! `sql`, against files and real servers.

pub mod filled;
mod network;
mod sqlite;
mod tls;
mod transactions;
