//! Clients of database servers, without I/O: the input are bytes, the output are events. The `sql`
//! driver and the gateway share them.
//!
//! A [`Session`] is one connection. It logs in by itself, and then accepts one query after the
//! other in the server's text protocol, which simple clients and the drivers of the public servlet
//! use:
//!
//! ```text
//! loop {
//!     send(session.outgoing());            // if not empty, also immediately after `new`
//!     match session.next()? {
//!         Some(Event::Ready) => ...        // logged in, or the query has ended: send the next one
//!         Some(Event::Row) => for value in session.row() { ... }
//!         Some(...) => ...
//!         None => session.received(read()) // more bytes are needed
//!     }
//! }
//! ```
//!
//! A session of [`Session::secured`] requests TLS before it sends the name of the user, and returns
//! [`Event::StartTls`] when the handshake is to begin. The caller performs the handshake and sends
//! all further bytes through TLS. Passwords are sent in clear text if a `PostgreSQL` server
//! requests it, and to `MySQL` over TLS.
//!
//! Memory: one message at a time; a row is read in place, and its values are not copied.

mod address;
mod input;
mod mysql;
mod postgres;
mod session;

#[cfg(test)]
mod replay;
#[cfg(test)]
mod scripted;

pub use address::{Address, AddressError};
pub use mysql::LogEvent;
pub use session::Session;

/// Kind of a database server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// `PostgreSQL`, protocol 3.0.
    Postgres,
    /// `MariaDB` and `MySQL`, protocol 10.
    Mysql,
}

/// User, password and database of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password; none if it is not known.
    pub password: Option<String>,
    /// Name of the database; can be empty for `MariaDB`.
    pub database: String,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Name of its type in the server's own client: `int8`, `text`, `bytea`; `bigint`, `varchar`,
    /// `longblob`.
    pub type_name: String,
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The session accepts a query: it has logged in, or the previous query has ended.
    Ready,
    /// The server is ready for a TLS handshake: perform it, then call [`Session::tls_started`].
    StartTls,
    /// A result begins. Not sent for statements without a result.
    Columns(Vec<Column>),
    /// A row, which [`Session::row`] returns until [`Session::next`] is called again.
    Row,
    /// A result or statement has ended without an error.
    Complete,
    /// A row of `COPY ... TO STDOUT`, with its length in bytes (`PostgreSQL` only).
    CopyRow(u64),
    /// The server waits for the data of a `COPY ... FROM STDIN` (`PostgreSQL` only).
    CopyIn,
    /// The server refused the login (no event follows) or the query (`Ready` follows).
    Failed(Refusal),
    /// A notification on a channel to which the session listens. It can occur between any other
    /// events (`PostgreSQL` only).
    Notified {
        /// Name of the channel.
        channel: String,
        /// Text of the notification.
        payload: String,
    },
    /// An event of a replication stream, after `START_REPLICATION` (`PostgreSQL` only).
    Stream(StreamEvent),
    /// An event of the binary log, after [`Session::follow_log`] (`MariaDB` only).
    Log(LogEvent),
}

/// An event of a replication stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The stream begins. It has no end.
    Begins,
    /// A text of the output plugin.
    Decoded {
        /// Position in the log.
        position: u64,
        /// The text.
        text: String,
    },
    /// The end of the log. The server has sent everything before it.
    Position(u64),
}

/// Whether a session is within a transaction block, as its server has reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionStatus {
    /// Not in a block: every statement is its own transaction.
    #[default]
    Idle,
    /// In a block, which ends with COMMIT or ROLLBACK.
    Open,
    /// In a block that an error has ended: the server refuses every statement until a ROLLBACK
    /// (`PostgreSQL` only).
    Failed,
    /// Not known after an error, with which `MariaDB` does not report it. [`Session::ping`] asks
    /// for it.
    Unknown,
}

/// An error that the server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE, five characters.
    pub code: String,
    /// `MariaDB`'s number of the error, which is more specific than the SQLSTATE; 0 for
    /// `PostgreSQL`.
    pub number: u16,
    /// Text of the error.
    pub message: String,
}

/// The key with which another connection can cancel the query of a session (`PostgreSQL` only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelKey {
    process: i32,
    secret: i32,
}

impl CancelKey {
    /// All bytes to send on the other connection. The server closes that connection in response.
    pub fn request(self) -> Vec<u8> {
        postgres::cancel_request(self)
    }
}

/// An error after which the session cannot continue. The caller must close the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlProtocolError {
    /// The length of a message, bytes, exceeds the limit of 1 GiB.
    #[error("the server announces a message of {0} bytes; the limit is 1 GiB")]
    TooLong(u64),
    /// The server violates its protocol. The text states how.
    #[error("the server violates its protocol: {0}")]
    Nonsense(&'static str),
    /// The login is not possible. The text states why, and what to do.
    #[error("login: {0}")]
    Login(String),
}
