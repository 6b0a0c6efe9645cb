//! Why a link ends.

use std::io;
use std::time::Duration;

use crate::codec::FrameError;
use crate::message::VersionError;
use crate::numbered::{Full, Gap};

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other side has closed it, or ended; or we have.
    #[error("the other side has ended")]
    Closed,
    /// Nothing came, or nothing was taken, for a while.
    #[error("nothing was heard for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The link was away for longer than it may.
    #[error("its link was away for {:.1} s", .0.as_secs_f64())]
    Away(Duration),
    /// A command that should bring a link printed text, and no link began.
    #[error("{0}")]
    NoLink(String),
    /// The operating system refused.
    #[error("the link broke: {0}")]
    Io(#[from] io::Error),
    /// The other side sends rubbish.
    #[error("the other side sent {0}")]
    Frame(#[from] FrameError),
    /// The other side does not follow the order of numbers.
    #[error("the other side sent {0}")]
    Gap(#[from] Gap),
    /// The other side takes nothing.
    #[error(transparent)]
    Full(#[from] Full),
    /// The other side is of another version.
    #[error("{0}")]
    Version(#[from] VersionError),
    /// The controller lets us in and hangs up before a word.
    #[error(
        "the controller hangs up on it: another agent of this name is there (give each a name of its own), or its name \
         is none (letters, digits, `.`, `_` and `-`, not beginning with a dot)"
    )]
    Refused,
    /// The other side does not say who it is.
    #[error("the other side began with another word than its greeting")]
    Stranger,
    /// Another process speaks in the place of the one that we know.
    #[error("the process is another one than before: the former has ended")]
    Reborn,
}
