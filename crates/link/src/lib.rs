//! What controller and agent say to each other, and how: frames over a stream that both ends trust.
//!
//! [`codec`] is pure (bytes in, frames out), [`message`] holds the vocabulary, [`numbered`] makes
//! messages survive a broken link, [`line`] speaks with a peer over as many links as it takes.
//! Neither side believes a frame that is too large, unknown, or of another version.
//!
//! [`dial`] and [`listen`] make the streams where no bootstrap channel gives one: TLS 1.3 or QUIC,
//! with the keys of [`identity`], which an agent is handed in a [`token`].
#![forbid(unsafe_code)]

pub mod codec;
pub mod dial;
mod error;
mod gate;
pub mod identity;
pub mod line;
pub mod listen;
pub mod message;
pub mod numbered;
pub mod preamble;
mod quic;
mod tcp;
pub mod token;
pub mod transport;

pub use codec::{Frame, FrameError, MAX_FRAME_BYTES};
pub use error::LinkError;
pub use line::{Line, LineEvent, LineHandler, LinkTimeouts, SILENCE_TIMEOUT, Stamps};
pub use message::{
    Baseline, ClockReport, FileInfo, Greeting, Measure, Portion, Prepare, RunKey, Spool, TimeService,
    ToAgent, ToController, UdpTime, VersionError,
};
pub use preamble::{LoginText, MAX_LOGIN_TEXT, PREAMBLE};
