//! Why settings or requests of `ftp` cannot be used, and why a transaction failed.

use std::borrow::Cow;
use std::io;

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{FtpProtocolError, Reply};

use crate::tester::failure::Failure;

/// Why settings or requests cannot be used. The text begins with the key.
#[derive(Debug, thiserror::Error)]
pub enum FtpError {
    /// A name or a password would end the command that contains it.
    #[error("login: the {0} contains a line end: a login is sent in lines")]
    Login(&'static str),
    /// Blocks with offsets are needed.
    #[error("operation {operation}: {what} needs mode: extended")]
    Extended {
        /// Index of the operation, from 0.
        operation: usize,
        /// What needs them.
        what: &'static str,
    },
    /// The number of files of a transaction is not possible.
    #[error("paths of operation {operation}: expected 1 to {max} files, got {found}")]
    FileCount {
        /// Index of the operation, from 0.
        operation: usize,
        /// Largest number.
        max: usize,
        /// Number of files.
        found: usize,
    },
    /// A restart of several files, or of a part.
    #[error("restart_at of operation {operation}: only the transfer of one whole file can be continued")]
    Restart {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// The number of streams is not possible.
    #[error("data connections of operation {operation}: expected 1 to {max}, got {found}")]
    StreamCount {
        /// Index of the operation, from 0.
        operation: usize,
        /// Largest number.
        max: u32,
        /// Number of streams.
        found: u32,
    },
    /// MD5 needs the bytes in their order.
    #[error(
        "verify of operation {operation}: md5 needs the bytes in their order, which mode: extended does not \
         keep: use verify: adler32, or mode: stream with one stream"
    )]
    Order {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// It is not known how many bytes an upload has.
    #[error("operation {operation}: an upload needs either a size, which is at least restart_at, or a part")]
    Upload {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// The part or the restart is behind the largest offset.
    #[error("part or restart_at of operation {operation}: the bytes are above 2^63")]
    Part {
        /// Index of the operation, from 0.
        operation: usize,
    },
}

/// Why a transaction failed.
#[derive(Debug)]
pub(super) struct TransferError {
    pub(super) outcome: Outcome,
    pub(super) code: Cow<'static, str>,
    /// What the server stated, or what the bytes are; may be empty.
    pub(super) message: String,
    /// Whether the control connection can be used for another transfer.
    pub(super) is_usable: bool,
    /// Whether the control connection was closed.
    pub(super) is_closed: bool,
}

impl TransferError {
    /// The server's reply to a command is not the expected one. `outcome`: refused if the reply
    /// belongs to the login, else error.
    pub(super) fn reply(outcome: Outcome, reply: Reply) -> Self {
        Self {
            outcome,
            // Codes have three digits, so that a server cannot fill the dictionary of codes.
            code: Cow::Owned(format!("FTP {}", reply.code)),
            message: reply.text,
            // 421 announces that the server closes the connection.
            is_usable: reply.code >= 400 && reply.code != 421,
            is_closed: reply.code == 421,
        }
    }

    /// The content is not the expected one.
    pub(super) fn wrong(code: &'static str, message: String) -> Self {
        Self {
            outcome: Outcome::Wrong,
            code: Cow::Borrowed(code),
            message,
            is_usable: true,
            is_closed: false,
        }
    }

    /// The path contains a sign that would end the command.
    pub(super) fn path() -> Self {
        Self {
            outcome: Outcome::Error,
            code: Cow::Borrowed("invalid path"),
            message: "a value of the path contains a line end, which would end the command".to_owned(),
            is_usable: true,
            is_closed: false,
        }
    }

    /// The same failure on a control connection that cannot be used again, because replies to other
    /// commands would follow.
    pub(super) fn unusable(self) -> Self {
        Self {
            is_usable: false,
            ..self
        }
    }

    /// A striped server has more data servers than expected.
    pub(super) fn stripes(found: usize, max: u32) -> Self {
        Self {
            message: format!("the server names {found} data servers, more than stripes: {max}"),
            ..Failure::error("bad response").into()
        }
    }

    /// A striped download is requested of a server without an IPv4 address.
    pub(super) fn not_ipv4() -> Self {
        Self {
            outcome: Outcome::Error,
            code: Cow::Borrowed("not ipv4"),
            message: "a striped transfer needs a server with an IPv4 address: remove stripes".to_owned(),
            is_usable: true,
            is_closed: false,
        }
    }

    /// The control connection was closed.
    pub(super) fn closed() -> Self {
        Self {
            is_closed: true,
            ..Failure::closed_early().into()
        }
    }

    /// The control connection failed.
    pub(super) fn talking(error: &io::Error) -> Self {
        let is_closed = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        Self {
            is_closed,
            ..Failure::talking(error).into()
        }
    }
}

impl From<Failure> for TransferError {
    fn from(failure: Failure) -> Self {
        Self {
            outcome: failure.outcome,
            code: failure.code,
            message: String::new(),
            is_usable: false,
            is_closed: false,
        }
    }
}

impl From<FtpProtocolError> for TransferError {
    fn from(error: FtpProtocolError) -> Self {
        let code = match error {
            FtpProtocolError::LongReply => "answer too long",
            FtpProtocolError::NoReply | FtpProtocolError::NoAddress | FtpProtocolError::Block(_) => {
                "bad response"
            }
        };
        Self {
            message: error.to_string(),
            ..Failure::error(code).into()
        }
    }
}
