//! Clients of database servers, without I/O: bytes in, events out. The `sql` driver and the gateway
//! share them.
//!
//! A [`Session`] is one connection. It logs in by itself, then takes one query after the other in
//! the server's text protocol, which is what a plain client and the public servlet's drivers see:
//!
//! ```text
//! loop {
//!     send(session.outgoing());            // whatever is there, also right after `new`
//!     match session.next()? {
//!         Some(Event::Ready) => ...        // logged in, or the query is over: ask the next one
//!         Some(Event::Row) => for value in session.row() { ... }
//!         Some(...) => ...
//!         None => session.received(read()) // more bytes are wanted
//!     }
//! }
//! ```
//!
//! A session of [`Session::secured`] asks for TLS before it says who it is, and announces when that
//! begins ([`Event::StartTls`]); the caller does the handshake, and everything after it goes
//! through that. Passwords are sent in clear if a `PostgreSQL` server asks for that, and to `MySQL`
//! over TLS.
//!
//! Memory: one message at a time; a row is read in place. Nothing is copied that the caller does
//! not ask for.

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

/// Which server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// `PostgreSQL`, protocol 3.0.
    Postgres,
    /// `MariaDB` and `MySQL`, protocol 10.
    Mysql,
}

/// Who logs in, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password, if one is known.
    pub password: Option<String>,
    /// Database; may be empty for `MariaDB`.
    pub database: String,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as the server's own client calls it: `int8`, `text`, `bytea`; `bigint`, `varchar`,
    /// `longblob`.
    pub type_name: String,
}

/// What has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The session takes a query: it has logged in, or the last query is over.
    Ready,
    /// The server is ready for a TLS handshake: do it, then call [`Session::tls_started`].
    StartTls,
    /// A result begins. Not sent for statements without one.
    Columns(Vec<Column>),
    /// A row, to be read by [`Session::row`] until [`Session::next`] is called again.
    Row,
    /// A result or statement has ended well.
    Complete,
    /// A row of `COPY ... TO STDOUT`, of so many bytes (`PostgreSQL` only).
    CopyRow(u64),
    /// The server takes the data of a `COPY ... FROM STDIN` (`PostgreSQL` only).
    CopyIn,
    /// The server refused the login (nothing follows) or the query (`Ready` follows).
    Failed(Refusal),
    /// Somebody has sent this over a channel that the session listens to; may come between any
    /// others (`PostgreSQL` only).
    Notified {
        /// Its channel.
        channel: String,
        /// What was said.
        payload: String,
    },
    /// An event of the binary log, after [`Session::follow_log`] (`MariaDB` only).
    Log(LogEvent),
}

/// Whether a session is within a transaction block, as far as its server has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionStatus {
    /// It is not: every statement is a transaction of its own.
    #[default]
    Idle,
    /// It is: the block waits for its COMMIT or ROLLBACK.
    Open,
    /// An error has ended the block, and the server refuses every statement until a ROLLBACK
    /// (`PostgreSQL` only).
    Failed,
    /// An error came, and `MariaDB` says nothing about the block with it: [`Session::ping`] asks.
    Unknown,
}

/// An error as the server tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE, five characters.
    pub code: String,
    /// `MariaDB`'s own number of the error, where one SQLSTATE covers many; 0 from `PostgreSQL`.
    pub number: u16,
    /// Its text.
    pub message: String,
}

/// What a session takes to make the server stop its query, over another connection (`PostgreSQL`
/// only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelKey {
    process: i32,
    secret: i32,
}

impl CancelKey {
    /// The whole of what is sent on the other connection; the server answers by closing it.
    pub fn request(self) -> Vec<u8> {
        postgres::cancel_request(self)
    }
}

/// The conversation cannot go on: close the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlProtocolError {
    /// A message over the limit of 1 GiB.
    #[error("the server announces a message of {0} bytes, over the limit of 1 GiB")]
    TooLong(u64),
    /// Not what the protocol has at this place.
    #[error("the server does not keep to its protocol: {0}")]
    Nonsense(&'static str),
    /// The login cannot be done from here; says what to do.
    #[error("login: {0}")]
    Login(String),
}
