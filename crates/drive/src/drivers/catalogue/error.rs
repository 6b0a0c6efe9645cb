//! Why settings or requests of `catalogue` cannot be used, and why a transaction failed.

use std::borrow::Cow;

use plimsoll_model::Outcome;
use plimsoll_wire::catalogue::{CatalogueProtocolError, Status};

use crate::tester::failure::Failure;

/// Why settings or requests cannot be used. The text begins with the key.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// A client certificate is missing.
    #[error(
        "tls: endpoint {0} uses TLS (catalogues:// or soaps://) and needs a client certificate: set tls.cert and tls.key"
    )]
    NoCertificate(String),
    /// Transactions without a session.
    #[error("transactions: need a session: set connection: kept")]
    NoSession,
    /// An operation other than a query through links.
    #[error("by: link is used only by the operation query")]
    ByLink,
    /// Something that the stateless protocol does not have.
    #[error("{0}: is only in the stateful protocol: use a target catalogue://")]
    Stateless(&'static str),
    /// Something that Rucio does not have.
    #[error("{0}: Rucio does not have it: use a target catalogue:// or soap://")]
    NotInRucio(&'static str),
    /// An account of Rucio is missing, or not valid.
    #[error("rucio: expected account, user, password and scope, without line breaks, for a target rucio://")]
    RucioAccount,
    /// A number is out of range.
    #[error("{key}: expected {expected}, got {found}")]
    Range {
        /// The key.
        key: &'static str,
        /// The permitted values.
        expected: &'static str,
        /// The value of the settings.
        found: u64,
    },
}

/// Why a transaction failed.
pub(super) enum OperationError {
    /// A kept connection was closed before any byte of a reply.
    Stale,
    /// The exchange failed.
    Failure(Failure),
    /// The catalogue reported an error, or a wrong answer.
    Answer {
        outcome: Outcome,
        code: Cow<'static, str>,
        message: String,
    },
}

impl From<Failure> for OperationError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<CatalogueProtocolError> for OperationError {
    fn from(error: CatalogueProtocolError) -> Self {
        let code = match error {
            CatalogueProtocolError::TooLong(_) => "answer too long",
            _ => "bad response",
        };
        Self::Answer {
            outcome: Outcome::Error,
            code: Cow::Borrowed(code),
            message: error.to_string(),
        }
    }
}

impl OperationError {
    /// The answer is complete and not correct.
    pub(super) fn wrong(code: &'static str) -> Self {
        Self::Answer {
            outcome: Outcome::Wrong,
            code: Cow::Borrowed(code),
            message: String::new(),
        }
    }

    /// The exchange was complete, and the operation failed.
    pub(super) fn error(code: Cow<'static, str>, message: String) -> Self {
        Self::Answer {
            outcome: Outcome::Error,
            code,
            message,
        }
    }

    /// The reply is not one to the request.
    pub(super) fn unexpected() -> Self {
        Self::Answer {
            outcome: Outcome::Error,
            code: Cow::Borrowed("bad response"),
            message: "the reply is not one to this request".into(),
        }
    }

    /// Whether Rucio does not accept the token.
    pub(super) fn is_unauthorised(&self) -> bool {
        matches!(self, Self::Answer { code, .. } if code == "http 401")
    }

    /// The catalogue refused an operation on an entry that exists, or is new.
    pub(super) fn status(status: Status, message: String) -> Self {
        if status == Status::NO_ENTRY {
            return Self::wrong("missing entry");
        }
        Self::Answer {
            outcome: Outcome::Error,
            code: Cow::Borrowed(status.text()),
            message,
        }
    }
}
