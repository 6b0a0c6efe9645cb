//! Why settings or requests of `ldap` cannot be used, and why a transaction failed.

use std::borrow::Cow;

use plimsoll_model::Outcome;
use plimsoll_wire::ldap::{FilterError, LdapProtocolError, LdapResult};

use crate::tester::failure::Failure;

/// Why settings or requests cannot be used. The text begins with the key.
#[derive(Debug, thiserror::Error)]
pub enum LdapError {
    /// The filter of an operation cannot be read.
    #[error("filter of operation {operation}: {source}")]
    Filter {
        /// Index of the operation, from 0.
        operation: usize,
        /// Error of the parser.
        source: FilterError,
    },
    /// A bind with a certificate has none.
    #[error("bind: external needs a client certificate: set tls.cert and tls.key")]
    NoCertificate,
    /// A bind with a certificate without TLS.
    #[error("bind: external needs TLS, and endpoint {0} has none: use an ldaps:// URL, or start_tls: true")]
    NoTls(String),
    /// TLS would begin twice.
    #[error("start_tls: endpoint {0} already uses TLS (ldaps://): leave start_tls out, or use ldap://")]
    TlsTwice(String),
}

/// Why a transaction failed.
pub(super) enum SearchError {
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

impl From<Failure> for SearchError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<LdapProtocolError> for SearchError {
    fn from(error: LdapProtocolError) -> Self {
        let code = match error {
            LdapProtocolError::Invalid => "bad response",
            LdapProtocolError::TooLong(_) => "answer too long",
        };
        Self::Refused {
            outcome: Outcome::Error,
            code: Cow::Borrowed(code),
            message: error.to_string(),
        }
    }
}

impl SearchError {
    /// The server refused an operation.
    pub(super) fn refused(outcome: Outcome, result: LdapResult) -> Self {
        Self::Refused {
            outcome,
            code: code(&result),
            message: result.message,
        }
    }
}

/// The code of a result: the text of RFC 4511, or the number of a result that it does not define.
fn code(result: &LdapResult) -> Cow<'static, str> {
    match result.name() {
        Some(name) => Cow::Borrowed(name),
        // The dictionary keeps every code for the whole run: a server must not add arbitrary texts.
        None if result.code < 1000 => Cow::Owned(format!("LDAP result {}", result.code)),
        None => Cow::Borrowed("LDAP result unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_a_text_has_its_number() {
        let result = |code| LdapResult {
            code,
            message: String::new(),
            referrals: 0,
        };
        for (number, text) in [
            (10, "referral"),
            (51, "busy"),
            (52, "unavailable"),
            (53, "unwilling to perform"),
            (119, "LDAP result 119"),
            (4096, "LDAP result unknown"),
        ] {
            assert_eq!(code(&result(number)), text);
        }
    }
}
