//! Bytes that are not the protocol.

use super::frame::{MAX_BODY, VERSION};
use super::reply::Status;

/// Why bytes are not a message of the protocol. The connection cannot be used afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerProtocolError {
    /// The first bytes are not those of a message.
    #[error("expected a message of the broker protocol, got other bytes")]
    Magic,
    /// The version is another one.
    #[error("expected version {VERSION} of the broker protocol, got version {0}")]
    Version(u8),
    /// The body is too long.
    #[error("expected a message with a body of at most {MAX_BODY} bytes, got one of {0} bytes")]
    TooLong(u32),
    /// The type is not one that this side receives.
    #[error("a message has the unexpected type {0}")]
    Type(u8),
    /// The body does not have the form of its type.
    #[error("the body of a message of type {0} does not have the form of this type")]
    Body(u8),
    /// Bytes follow a reply, although the client has sent only one request.
    #[error("{0} bytes follow the reply")]
    Excess(usize),
    /// The body of a response over HTTP is not a reply.
    #[error("the body of the response with status {status} is not a reply: {why}")]
    Json {
        /// Status of HTTP.
        status: u16,
        /// Error of the parser.
        why: String,
    },
}

impl BrokerProtocolError {
    /// The status with which a point refuses such bytes.
    pub fn status(&self) -> Status {
        match self {
            Self::Version(_) => Status::UnsupportedVersion,
            _ => Status::InvalidMessage,
        }
    }
}
