//! Failures of exchanges, and their texts in the column `code`.

use std::borrow::Cow;
use std::io;

use plimsoll_model::Outcome;

use crate::net::tls;

/// What a tester waits for. It determines the code of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A connection, or the start of a program.
    Connect,
    /// The first byte of the response.
    FirstByte,
    /// The rest of the response.
    Body,
}

impl Waiting {
    /// The code of a timeout that expires while the tester waits for this.
    pub const fn timeout_code(self) -> &'static str {
        match self {
            Self::Connect => "timeout connect",
            Self::FirstByte => "timeout first byte",
            Self::Body => "timeout body",
        }
    }
}

/// Why a transaction has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Error, refused, or timeout.
    pub outcome: Outcome,
    /// Text of the column `code`.
    pub code: Cow<'static, str>,
}

impl Failure {
    /// The exchange failed.
    pub fn error(code: impl Into<Cow<'static, str>>) -> Self {
        Self {
            outcome: Outcome::Error,
            code: code.into(),
        }
    }

    /// The peer closed the connection before its response was complete.
    pub fn closed_early() -> Self {
        Self::error("closed early")
    }

    /// A timeout within the transaction has expired. The code is that of a timeout of the whole
    /// transaction.
    pub fn late(waiting: Waiting) -> Self {
        Self {
            outcome: Outcome::Timeout,
            code: Cow::Borrowed(waiting.timeout_code()),
        }
    }

    /// A kept connection was closed before any byte of a response, and the request must not be sent
    /// again.
    pub fn not_repeated() -> Self {
        Self::error("kept connection closed")
    }

    /// The failure for an I/O error while connecting.
    pub fn connecting(error: &io::Error) -> Self {
        let refused = |code| Self {
            outcome: Outcome::Refused,
            code: Cow::Borrowed(code),
        };
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => refused("refused"),
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => refused("unreachable"),
            Some(libc::ETIMEDOUT) => refused("no answer to connect"),
            Some(libc::EADDRNOTAVAIL) => Self::error("no free local port"),
            Some(libc::EMFILE | libc::ENFILE) => Self::error("too many open files"),
            _ => Self::talking(error),
        }
    }

    /// The failure for an I/O error on an established connection.
    pub fn talking(error: &io::Error) -> Self {
        if let Some(error) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return Self::error(tls::code(error));
        }
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Self::error("reset"),
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => Self::closed_early(),
            io::ErrorKind::InvalidData => Self::error(format!("tls {error}")),
            io::ErrorKind::TimedOut => Self::error("connection timed out"),
            _ => Self::error(
                error
                    .raw_os_error()
                    .map_or_else(|| error.to_string(), |number| format!("errno {number}")),
            ),
        }
    }
}
