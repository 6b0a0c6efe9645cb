//! The trace file: events in columns, a few bytes each, as a stream. `docs/trace-format.md`
//! describes it for other programs.
//!
//! ```text
//! plimsoll.trace/1\n   frame of the header   (frame of names)* frame of events ...   frame of the footer
//! ```
//!
//! One file per step: `walk` is the order of an event's fields and what each is expected to be, the
//! same for writing and reading; `block` has the columns that this leads to; `tables` what the ids
//! in them stand for; `frame` puts either on disk, with checksums. [`Writer`] and [`Reader`] hold
//! them together.

mod again;
mod block;
mod bytes;
mod frame;
mod reader;
mod tables;
mod walk;
mod writer;

pub use again::with_header;
pub use reader::Reader;
pub use writer::{Back, Batch, Front, Writer};

use crate::header::FORMAT;

/// The most events of a block. Times the size of an event, it is what a reader holds at a time:
/// below 3 MiB.
pub const BLOCK: usize = 16_384;

/// The longest name that fits, in bytes. Linux knows none above 4096, but text that is no name (the
/// target of a link) is kept as one.
pub const MAX_NAME: usize = 1 << 20;

/// Why a trace file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It does not begin as one.
    #[error(
        "this is no trace file: it does not begin with \"plimsoll.trace/\". Text of strace is read by `plimsoll trace import`"
    )]
    NotATrace,
    /// It was written by a version whose files this one does not know.
    #[error(
        "the trace file has format \"{found}\", this engine reads \"{FORMAT}\": use the version that wrote it, or a newer one"
    )]
    Version {
        /// What stands in it.
        found: String,
    },
    /// It was cut off before its header was complete: there is nothing to read.
    #[error("the trace file ends within its header: nothing was recorded, or it was not copied whole")]
    NoHeader,
    /// Its bytes were changed, or its writer has a fault. What was read before is right.
    #[error(
        "the trace file is damaged at byte {at}: {why}. The part before it is complete; copy the file again if there is another copy"
    )]
    Damaged {
        /// Where the frame begins that is wrong.
        at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// To be written: an event, or an entry of a table, names something that its tables do not
    /// have.
    #[error(
        "an event of thread, path or file {id} cannot be written: its tables end at {entries}. They are those of another trace"
    )]
    Stray {
        /// Its number, from 0.
        id: u64,
        /// Entries of the table.
        entries: u64,
    },
    /// To be written: a name above [`MAX_NAME`].
    #[error("a name of {0} bytes cannot be written: the longest has {MAX_NAME}")]
    LongName(usize),
    /// To be written: a header or footer that is no JSON (a number that is none).
    #[error("the head or end of the trace file cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}
