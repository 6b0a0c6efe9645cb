//! The protocols of a decision point: a compact binary protocol, and JSON over HTTP. Both transfer
//! a [`JobRequest`] and its [`Reply`].
//!
//! All numbers of the binary protocol are big-endian, and a message is
//!
//! ```text
//! u16 magic   u8 version   u8 type   u32 length of the body   body
//! ```
//!
//! | type | sender | body |
//! |---|---|---|
//! | 1, job | client | u16 organisation, u16 group, u32 CPUs, u64 run time in ms |
//! | 2, placed | point | u64 job, u32 site, f64 accuracy, u8 misplaced (0 or 1) |
//! | 3, refused | point | u8 status, u8 quality (0: none, 1: an accuracy follows, 3: it follows and the job is misplaced), f64 accuracy, text to the end |
//!
//! A client sends one request at a time. A point answers bytes that are not a message of its
//! version with a refusal, and closes the connection.
//!
//! With HTTP, a request is `POST /decide` with the job as JSON ([`Reply::http_status`],
//! [`Reply::to_json`]).

mod error;
mod frame;
#[cfg(test)]
mod fuzz;
mod job;
mod json;
mod reply;

pub use error::BrokerProtocolError;
pub use frame::{FIRST_BYTE, Frame, HEADER, MAX_BODY, VERSION};
pub use job::JobRequest;
pub use json::{DECIDE_PATH, MEDIA_TYPE};
pub use reply::{Quality, Reply, Status};
