//! Reference services with known behaviour, as a library.
//!
//! Each service is a configuration struct (read from JSON) and a function `serve(listener, config,
//! shutdown) -> Result<(), ServiceError>`. The caller binds the port and determines the end: when
//! the future `shutdown` completes, `serve` ends every connection and returns. All services run on
//! a current-thread or a multi-thread runtime, count their responses (see [`counters`]), and limit
//! the memory that a client can make them use.
//!
//! | service | description |
//! |---|---|
//! | [`sink`] | discards bytes, or sends them: the remote end of a measurement of a network path |
//! | [`null`] | discards all input, or answers lines: measures the load generator itself |
//! | [`echo`] | TCP echo, and a minimal HTTP server with fixed responses |
//! | [`delay`] | c servers and one queue with random service times: M/M/c, whose response time is known from theory |
//! | [`frontier`] | the `FroNtier` gateway to `SQLite`, `PostgreSQL` and `MariaDB` |
//! | [`broker`] | a simulated grid, and decision points that choose sites for its jobs under usage policies |
//! | [`catalogue`] | a file catalogue over `SQLite`, `PostgreSQL` and `MariaDB` |
//!
//! [`data`] writes the tables that `frontier` (and any other client of these databases) reads.

pub mod broker;
pub mod catalogue;
pub mod counters;
pub mod data;
pub mod delay;
pub mod echo;
pub mod frontier;
pub mod null;
pub mod sink;

mod date;
mod http;
mod lines;
mod listen;
mod tls;

pub use listen::bind;
pub use tls::SecurityMode;

use thiserror::Error;

/// Reason why a service could not start or had to stop.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A value of the configuration is invalid.
    #[error("{key}: {why}")]
    Config {
        /// Key of the configuration.
        key: &'static str,
        /// The expected value and the value found.
        why: String,
    },
    /// `SQLite` reported an error.
    #[error("{what}: {source}")]
    Database {
        /// The action that failed, with the path of the file.
        what: String,
        /// The error of `SQLite`.
        source: rusqlite::Error,
    },
    /// A database server reported an error, or could not be reached.
    #[error("{what}: {why}")]
    Server {
        /// The action that failed, with the address of the server.
        what: String,
        /// The error of the server or of the connection.
        why: String,
    },
}

impl ServiceError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
