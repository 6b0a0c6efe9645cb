//! The databases of the gateway: one small interface, three implementations.
//!
//! [`Database::acquire`] waits for a connection, [`PayloadConnection::value`] queries a single
//! value, and [`PayloadConnection::start`] starts a query, whose packed text [`Running::next`]
//! returns piece by piece. Dropping a `Running` stops its query.
//!
//! `SQLite` blocks, so each of its connections has a thread ([`sqlite`]). The task that writes to
//! the client also reads from `PostgreSQL` and `MariaDB` ([`server`], [`running`]). No data is
//! passed between tasks, and if a client does not read, the task stops reading from the database.

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

/// Maximum length of a value or row in bytes. It limits the memory of a connection.
const MAX_ROW: usize = 16 * 1024 * 1024;

/// A query, and how to pack its result.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) method: String,
    pub(super) sql: String,
    pub(super) encoding: Encoding,
    pub(super) ttl: Ttl,
    /// Part of the request that the signature covers. None: the response is not signed.
    pub(super) signed: Option<Arc<[u8]>>,
}

impl Query {
    /// The checks of the servlet, with its messages: a search for five words, also inside literals.
    /// The actual protection is that connections can only read.
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

/// Reason why a payload failed, with the message of its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The gateway refused the request.
    Refused(String),
    /// The database reported an error, or did not respond.
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

/// A part of the result of a query.
#[derive(Debug)]
pub(super) enum Part {
    Piece(Vec<u8>),
    End(End),
}

/// The end of a payload: the last text, the seal, the number of records or the error, and the times
/// of its query (None: it had none) and of its compression.
#[derive(Debug)]
pub(super) struct End {
    pub(super) text: Vec<u8>,
    pub(super) seal: Seal,
    pub(super) outcome: Result<u64, Failure>,
    pub(super) query: Option<Duration>,
    pub(super) compression: Duration,
}

impl End {
    /// The end of a packed payload. As in the servlet, a response without rows and with
    /// `ttl=forever` is an error.
    pub(super) fn new(
        packer: Packer,
        outcome: Result<(), Failure>,
        ttl: Ttl,
        query: Option<Duration>,
    ) -> Self {
        let records = packer.records();
        let (text, seal, compression) = packer.finish();
        let outcome = match outcome {
            Ok(()) if records == 0 && ttl == Ttl::Forever => {
                Err(Failure::refused("Empty result from query not allowed"))
            }
            other => other.map(|()| records),
        };
        Self {
            text,
            seal,
            outcome,
            query,
            compression,
        }
    }

    /// The end of a payload whose packer is lost.
    pub(super) fn lost(why: &str) -> Self {
        Self::new(
            Packer::new(Encoding::Blob, None),
            Err(Failure::database(why)),
            Ttl::Long,
            None,
        )
    }
}

/// A database with its connections.
pub(super) enum Database {
    Sqlite(Arc<sqlite::Pool>),
    Server(Arc<server::Pool>),
}

impl Database {
    /// Opens an `SQLite` file, so that an invalid file is an error at the start of the service. A
    /// server is connected later, and may be restarted.
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

    /// Number of connections that are in use now.
    pub(super) fn in_use(&self) -> usize {
        match self {
            Self::Sqlite(pool) => pool.in_use(),
            Self::Server(pool) => pool.in_use(),
        }
    }

    /// Waits a short time for running queries to end, and ends the idle sessions.
    pub(super) async fn close(&self) {
        if let Self::Server(pool) = self {
            pool.close().await;
        }
    }

    /// Waits for a connection, in order of arrival.
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
    /// The first value of the first row as text. `None` if there is no row, or NULL.
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

    /// Starts a query. Its parts must be read to the end. Dropping the result stops the query.
    pub(super) fn start(self, query: Query) -> Running {
        match self {
            Self::Sqlite(lease) => Running::Sqlite(lease.start(query)),
            Self::Server(lease) => Running::Server(Box::new(running::Running::start(*lease, &query))),
        }
    }
}

/// A running query.
pub(super) enum Running {
    Sqlite(sqlite::Running),
    Server(Box<running::Running>),
}

impl Running {
    /// Waits for the next part. Must not be called after the end.
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
    fn the_check_finds_the_words_of_the_servlet_also_in_literals() {
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
