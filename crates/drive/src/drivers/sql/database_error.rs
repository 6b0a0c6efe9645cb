//! Failures of transactions with a database server.

use std::borrow::Cow;

use plimsoll_model::Outcome;
use plimsoll_wire::sql::{Refusal, SqlProtocolError};

use super::code::{code, login_code};
use crate::tester::failure::Failure;

/// Advice for a login without a password that is refused.
const NO_PASSWORD: &str = "; no password was given: set sql: {password: {secret: \"${env:NAME}\"}}, or \
                           USER:${env:NAME}@HOST in the URL";

/// Why a transaction failed.
pub(super) enum DatabaseError {
    /// A kept connection was closed before any byte of a response.
    Stale,
    /// The exchange failed.
    Failure(Failure),
    /// The server reported an error, or sent an invalid response.
    Refused {
        outcome: Outcome,
        code: Cow<'static, str>,
        message: String,
    },
}

impl From<Failure> for DatabaseError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<SqlProtocolError> for DatabaseError {
    fn from(error: SqlProtocolError) -> Self {
        let (outcome, code) = match error {
            SqlProtocolError::TooLong(_) => (Outcome::Error, "answer too long"),
            SqlProtocolError::Nonsense(_) => (Outcome::Error, "bad response"),
            SqlProtocolError::Login(_) => (Outcome::Refused, "login refused"),
        };
        Self::Refused {
            outcome,
            code: Cow::Borrowed(code),
            message: error.to_string(),
        }
    }
}

impl DatabaseError {
    /// The server refused a query.
    pub(super) fn query(refusal: Refusal) -> Self {
        Self::Refused {
            outcome: Outcome::Error,
            code: code(&refusal),
            message: refusal.message,
        }
    }

    /// Adds [`NO_PASSWORD`] if a login without a password failed and the server's message contains
    /// "password".
    pub(super) fn without_password(mut self) -> Self {
        if let Self::Refused { code, message, .. } = &mut self
            && code == "login refused"
            && message.contains("password")
        {
            message.push_str(NO_PASSWORD);
        }
        self
    }

    /// The server refused a login.
    pub(super) fn login(refusal: Refusal) -> Self {
        Self::Refused {
            outcome: Outcome::Refused,
            code: login_code(&refusal),
            message: refusal.message,
        }
    }
}
