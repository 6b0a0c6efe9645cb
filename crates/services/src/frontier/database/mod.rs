//! The databases behind the gateway: one small interface, three kinds.
//!
//! [`Database::acquire`] waits for a connection, [`PayloadConnection::value`] asks it for a single
//! value, [`PayloadConnection::start`] runs a query whose text comes piece by piece from
//! [`Running::next`]. Whoever drops a `Running` ends its query.
//!
//! `SQLite` blocks, so each of its connections has a thread ([`sqlite`]). `PostgreSQL` and
//! `MariaDB` are read by the very task that writes to the client ([`server`], [`running`]): nothing
//! is handed over, and a client that does not read makes the task stop reading from the database.

mod dialect;
mod link;
mod pack;
mod running;
mod server;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_wire::frontier::armor::Seal;
use plimsoll_wire::frontier::request::{Encoding, Ttl};
use plimsoll_wire::sql::Address;

pub(super) use dialect::Dialect;
pub(super) use link::{Link, Trouble};
pub(super) use pack::Packer;

use super::config::FrontierConfig;
use crate::ServiceError;

/// Longest value or row, bytes: what one query can make a connection hold.
const MAX_ROW: usize = 16 * 1024 * 1024;

/// What to run and how to pack it.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) method: String,
    pub(super) sql: String,
    pub(super) encoding: Encoding,
    pub(super) ttl: Ttl,
    /// What a signature covers of the request, where the answer is to be signed.
    pub(super) signed: Option<Arc<[u8]>>,
}

impl Query {
    /// The servlet's own checks, with its words: a plain search for five words, also inside
    /// literals. The real protection is that connections can only read.
    fn check(&self) -> Result<(), Failure> {
        if self.method != "DEFAULT" {
            return Err(Failure::refused(&format!("Unknown method {}", self.method)));
        }
        let lower = self.sql.to_ascii_lowercase();
        let guarded = ["drop ", "delete ", "insert ", "alter ", "create "];
        if guarded.iter().any(|word| lower.contains(word)) {
            return Err(Failure::refused("Query cancelled"));
        }
        Ok(())
    }
}

/// Why a payload has no answer: the message of its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// We say no.
    Refused(String),
    /// The database says no, or does not answer.
    Database(String),
}

impl Failure {
    pub(super) fn refused(why: &str) -> Self {
        Self::Refused(format!("Exception: {why}"))
    }

    fn database(why: impl std::fmt::Display) -> Self {
        Self::Database(format!("SQLException: {why}"))
    }

    fn stopped(after: Duration) -> Self {
        let seconds = after.as_secs_f64();
        Self::database(format!(
            "the query was stopped after {seconds} s (query_timeout_s)"
        ))
    }
}

/// What comes back from a query.
#[derive(Debug)]
pub(super) enum Part {
    Piece(Vec<u8>),
    End(End),
}

/// The end of a payload: text not handed on yet, and how it went.
#[derive(Debug)]
pub(super) struct End {
    pub(super) text: Vec<u8>,
    pub(super) seal: Seal,
    pub(super) outcome: Result<u64, Failure>,
}

impl End {
    /// Of what has been packed. An answer without rows to be kept for ever is an error, as in the
    /// servlet.
    pub(super) fn new(packer: Packer, outcome: Result<(), Failure>, ttl: Ttl) -> Self {
        let records = packer.records();
        let (text, seal) = packer.finish();
        let outcome = match outcome {
            Ok(()) if records == 0 && ttl == Ttl::Forever => {
                Err(Failure::refused("Empty result from query not allowed"))
            }
            other => other.map(|()| records),
        };
        Self { text, seal, outcome }
    }

    /// Of what will not be packed any more.
    pub(super) fn lost(why: &str) -> Self {
        Self::new(
            Packer::new(Encoding::Blob, None),
            Err(Failure::database(why)),
            Ttl::Long,
        )
    }
}

/// A database with its connections.
pub(super) enum Database {
    Sqlite(Arc<sqlite::Pool>),
    Server(Arc<server::Pool>),
}

impl Database {
    /// `SQLite` is opened at once, so that a wrong file is an error of the start. A server may come
    /// later, and go.
    pub(super) fn open(config: &FrontierConfig) -> Result<Self, ServiceError> {
        let timeout = Duration::from_secs_f64(config.query_timeout_s);
        let text = config.database.to_str().filter(|text| text.contains("://"));
        let Some(url) = text else {
            let pool = sqlite::Pool::open(&config.database, config.connections, timeout)?;
            return Ok(Self::Sqlite(pool));
        };
        let address = Address::from_url(url).map_err(|error| ServiceError::Config {
            key: "database",
            why: error.to_string(),
        })?;
        Ok(Self::Server(server::Pool::new(
            address,
            config.connections,
            timeout,
        )))
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Server(pool) => pool.dialect(),
        }
    }

    /// Connections in use now.
    pub(super) fn in_use(&self) -> usize {
        match self {
            Self::Sqlite(pool) => pool.in_use(),
            Self::Server(pool) => pool.in_use(),
        }
    }

    /// Ends what still runs, for a short while, and says good-bye.
    pub(super) async fn close(&self) {
        if let Self::Server(pool) = self {
            pool.close().await;
        }
    }

    /// Waits for a connection, first come, first served.
    pub(super) async fn acquire(&self) -> Result<PayloadConnection, Failure> {
        match self {
            Self::Sqlite(pool) => pool.acquire().await.map(PayloadConnection::Sqlite),
            Self::Server(pool) => pool
                .acquire()
                .await
                .map(|lease| PayloadConnection::Server(Box::new(lease))),
        }
    }
}

/// A connection for one payload.
pub(super) enum PayloadConnection {
    Sqlite(sqlite::Lease),
    Server(Box<server::Lease>),
}

impl PayloadConnection {
    /// The first value of the first row as text; `None` where there is no row, or NULL.
    pub(super) async fn value(self, sql: &str) -> Result<(Option<String>, Self), Failure> {
        match self {
            Self::Sqlite(lease) => {
                let (value, lease) = lease.value(sql.to_owned()).await?;
                Ok((value, Self::Sqlite(lease)))
            }
            Self::Server(lease) => {
                let (value, lease) = lease.value(sql).await?;
                Ok((value, Self::Server(Box::new(lease))))
            }
        }
    }

    /// Starts the query. The parts must be read to the end, or dropped, which ends the query.
    pub(super) fn start(self, query: Query) -> Running {
        match self {
            Self::Sqlite(lease) => Running::Sqlite(lease.start(query)),
            Self::Server(lease) => Running::Server(Box::new(running::Running::start(*lease, &query))),
        }
    }
}

/// A query that runs.
pub(super) enum Running {
    Sqlite(sqlite::Running),
    Server(Box<running::Running>),
}

impl Running {
    /// The next part; nothing may be asked for after the end.
    pub(super) async fn next(&mut self) -> Part {
        match self {
            Self::Sqlite(running) => running.next().await,
            Self::Server(running) => running.next().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_is_as_naive_as_the_servlets() {
        let check = |sql: &str| {
            let query = Query {
                method: "DEFAULT".into(),
                sql: sql.into(),
                encoding: Encoding::Blob,
                ttl: Ttl::Long,
                signed: None,
            };
            query.check()
        };
        assert!(check("SELECT 'Drop it'").is_err());
        assert!(check("DELETE FROM t").is_err());
        assert!(check("SELECT dropped, created FROM t").is_ok());
    }
}
