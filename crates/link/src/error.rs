//! Why a link ends.

use std::io;
use std::time::Duration;

use crate::codec::FrameError;
use crate::message::VersionError;
use crate::numbered::{Full, Gap};

/// Why a link, or the attempt to make one, ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The stream or the line is closed.
    #[error("the connection was closed")]
    Closed,
    /// Nothing was received, or nothing could be written, for this time.
    #[error("no data was received for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The link was down for longer than allowed. Contains the time.
    #[error("the link was down for {:.1} s", .0.as_secs_f64())]
    Down(Duration),
    /// A command that should provide a link printed other text. Contains the description.
    #[error("{0}")]
    NoLink(String),
    /// A system call failed.
    #[error("the link broke: {0}")]
    Io(#[from] io::Error),
    /// The other side sent bytes that are not a valid frame.
    #[error("the other side sent {0}")]
    Frame(#[from] FrameError),
    /// The other side does not number its messages in order.
    #[error("the other side sent {0}")]
    Gap(#[from] Gap),
    /// The other side acknowledges no messages.
    #[error(transparent)]
    Full(#[from] Full),
    /// The other side has another version.
    #[error("{0}")]
    Version(#[from] VersionError),
    /// The controller accepts the connection and closes it before its greeting.
    #[error(
        "the controller closes the connection of this agent: another agent has the same name (give each agent its own \
         name), or the name is invalid (use letters, digits, `.`, `_` and `-`; do not begin with a dot)"
    )]
    Refused,
    /// The first frame of the other side is not a greeting.
    #[error("the first frame of the other side is not a greeting")]
    NoGreeting,
    /// Another process answers in place of the known one.
    #[error("a new process answers in its place: the previous process has ended")]
    NewProcess,
}
