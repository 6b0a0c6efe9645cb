//! Reference services with known behaviour, as a library.
//!
//! Each service is a configuration struct (it reads from JSON) and a function `serve(listener,
//! config, shutdown) -> Result<(), ServiceError>`. The caller binds the port and owns the life:
//! when the future `shutdown` completes, `serve` ends every connection and returns. All of them run
//! on a current-thread as well as on a multi-thread runtime, count what they answer (see
//! [`counters`]), and bound whatever a client can make them hold.
//!
//! | service | what it is for |
//! |---|---|
//! | [`null`] | accepts and discards, or answers lines: measures the tool itself |
//! | [`echo`] | TCP echo, and a lean HTTP server with fixed answers |
//! | [`delay`] | c servers and one queue with drawn service times: M/M/c, an answer known from theory |
//! | [`frontier`] | the `FroNtier` gateway over `SQLite`, `PostgreSQL` and `MariaDB` |
//!
//! [`data`] writes the tables that `frontier` (and any other reader of these databases) serves.

pub mod counters;
pub mod data;
pub mod delay;
pub mod echo;
pub mod frontier;
pub mod null;

mod date;
mod http;
mod lines;
mod listen;

pub use listen::bind;

use thiserror::Error;

/// Why a service could not start, or had to stop.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The configuration holds a value that cannot be served.
    #[error("{key}: {why}")]
    Config {
        /// Key of the configuration.
        key: &'static str,
        /// What is expected.
        why: String,
    },
    /// `SQLite` refused something.
    #[error("{what}: {source}")]
    Database {
        /// What was being done, with the file.
        what: String,
        /// `SQLite`'s answer.
        source: rusqlite::Error,
    },
    /// A database server refused something, or was not there.
    #[error("{what}: {why}")]
    Server {
        /// What was being done, with the server.
        what: String,
        /// Its answer.
        why: String,
    },
}

impl ServiceError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
