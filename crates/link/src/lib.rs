//! What controller and agent say to each other, and how: frames over a stream that both ends trust.
//!
//! [`codec`] is pure (bytes in, frames out), [`message`] holds the vocabulary, [`stream`] the blocking transport over a
//! socket pair. Neither side believes a frame that is too large, unknown, or of another version.
#![forbid(unsafe_code)]

pub mod codec;
mod message;
mod stream;

pub use codec::{Decoder, FrameError, MOST};
pub use message::{Greeting, Prepare, ToAgent, ToController, VersionError};
pub use stream::{LinkError, Reader, SILENCE, Writer, pair};
