//! Why settings or requests of `broker` cannot be used, and why a transaction has no decision.

use plimsoll_model::Outcome;
use plimsoll_wire::broker::{BrokerProtocolError, Status};

use crate::tester::failure::Failure;

/// Why settings or requests cannot be used. The text begins with the key.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A point with TLS requires a certificate, and there is none.
    #[error(
        "tls: endpoint {0} uses TLS (brokers:// or https://) and needs a client certificate: set tls.cert and tls.key"
    )]
    NoCertificate(String),
    /// A constant of a job is not a number.
    #[error("{key} of operation {operation}: expected {expected}, got \"{found}\"")]
    Number {
        /// The key.
        key: &'static str,
        /// Index of the operation, from 0.
        operation: usize,
        /// The permitted values.
        expected: &'static str,
        /// The text of the request.
        found: String,
    },
}

/// Why a transaction has no decision.
pub(super) enum DecisionError {
    /// A value of the job is not a number.
    Value { key: &'static str, found: String },
    /// The exchange failed.
    Failure(Failure),
    /// The response is not that of a broker: its code, and the reason.
    Response { code: String, why: String },
}

impl From<Failure> for DecisionError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<BrokerProtocolError> for DecisionError {
    fn from(error: BrokerProtocolError) -> Self {
        let code = match &error {
            BrokerProtocolError::TooLong(_) => "answer too long".to_owned(),
            // Another server, or a proxy.
            BrokerProtocolError::Json { status, .. } if *status != 200 => format!("http {status}"),
            _ => "bad response".to_owned(),
        };
        Self::Response {
            code,
            why: error.to_string(),
        }
    }
}

/// The outcome of a job that was not placed: a refusal under the policies is a complete answer.
pub(super) fn outcome_of(status: Status) -> Outcome {
    match status {
        Status::NoCapacity | Status::QueueFull | Status::GridFull => Outcome::Wrong,
        Status::GridFailure | Status::InvalidJob | Status::InvalidMessage | Status::UnsupportedVersion => {
            Outcome::Error
        }
    }
}
