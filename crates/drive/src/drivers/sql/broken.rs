//! How a transaction with a database server fails.

use std::borrow::Cow;

use plimsoll_model::Outcome;
use plimsoll_wire::sql::{Refusal, SqlProtocolError};

use super::code::{code, login_code};
use crate::failure::Failure;

/// What to do where a login without a password is refused.
const NO_PASSWORD: &str = "; no password was given: give sql: {password: {secret: \"${env:NAME}\"}}, or \
                           USER:${env:NAME}@HOST in the URL";

/// How a transaction failed.
pub(super) enum Broken {
    /// A kept connection gave no byte of an answer before it broke.
    Stale,
    /// On the way.
    Failure(Failure),
    /// By the server's word, or for what the server said.
    Refused {
        outcome: Outcome,
        code: Cow<'static, str>,
        message: String,
    },
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<SqlProtocolError> for Broken {
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

impl Broken {
    /// A query that the server refused.
    pub(super) fn query(refusal: Refusal) -> Self {
        Self::Refused {
            outcome: Outcome::Error,
            code: code(&refusal),
            message: refusal.message,
        }
    }

    /// Adds what to do where a login without a password fails for want of one, which servers then
    /// speak of.
    pub(super) fn without_password(mut self) -> Self {
        if let Self::Refused { code, message, .. } = &mut self
            && code == "login refused"
            && message.contains("password")
        {
            message.push_str(NO_PASSWORD);
        }
        self
    }

    /// A login that the server refused.
    pub(super) fn login(refusal: Refusal) -> Self {
        Self::Refused {
            outcome: Outcome::Refused,
            code: login_code(&refusal),
            message: refusal.message,
        }
    }
}
