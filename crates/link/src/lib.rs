//! The protocol between controller and agent: frames over an authenticated stream.
//!
//! [`codec`] encodes and decodes frames without I/O. [`message`] defines the messages. [`numbered`]
//! keeps messages until they are acknowledged, so that they outlive a broken link. [`line`] runs
//! the dialogue with a peer over one link after the other. Both sides reject a frame that is too
//! large, of an unknown kind, or from another version.
//!
//! [`dial`] and [`listen`] create the streams if no bootstrap channel provides one: TLS 1.3 or
//! QUIC, with the keys of [`identity`]. An agent receives its keys in a [`token`].
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
