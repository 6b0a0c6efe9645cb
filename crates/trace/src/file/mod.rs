//! The trace file: a stream of events in columns, a few bytes each. `docs/trace-format.md`
//! describes it for other programs.
//!
//! ```text
//! plimsoll.trace/1\n   frame of the header   (frame of names)* frame of events ...   frame of the footer
//! ```
//!
//! One module per step: `walk` contains the order of an event's fields and the expected value of
//! each, for writing and reading; `block` contains the columns; `tables` contains the tables to
//! which the ids in them refer; `frame` reads and writes frames with checksums. [`Writer`] and
//! [`Reader`] combine them.

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

/// Maximum number of events in a block. A reader holds one block: less than 3 MiB.
pub const BLOCK: usize = 16_384;

/// Maximum length of a path or text, bytes. Linux limits paths to 4,096 bytes, but text that is not
/// a path (the target of a link) is stored in the same table.
pub const MAX_NAME: usize = 1 << 20;

/// Why a trace file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file does not begin like a trace file.
    #[error(
        "not a trace file: it does not begin with \"plimsoll.trace/\". To read the text of strace, use `plimsoll trace import`"
    )]
    NotATrace,
    /// The file has a version that this engine does not read.
    #[error(
        "the trace file has format \"{found}\", this engine reads \"{FORMAT}\": use the version that wrote it, or a newer one"
    )]
    Version {
        /// The version in the file.
        found: String,
    },
    /// The file ends before its header is complete, so nothing can be read.
    #[error(
        "the trace file ends within its header: nothing was recorded, or the copy is incomplete. Copy or record it again"
    )]
    NoHeader,
    /// The bytes of the file were changed, or its writer has a fault. The data before this point
    /// are correct.
    #[error(
        "the trace file is damaged at byte {at}: {why}. The data before it are correct. Copy the file again from its source"
    )]
    Damaged {
        /// Offset of the damaged frame, bytes.
        at: u64,
        /// The fault.
        why: &'static str,
    },
    /// Writing: an event, or an entry of a table, refers to an entry that its tables do not
    /// contain.
    #[error(
        "cannot write an event: it refers to entry {id} of a table with {entries} entries. The tables are those of another trace"
    )]
    Stray {
        /// The index of the entry, from 0.
        id: u64,
        /// Number of entries in the table.
        entries: u64,
    },
    /// Writing: a path exceeds [`MAX_NAME`].
    #[error("cannot write a path of {0} bytes: the maximum is {MAX_NAME} bytes")]
    LongName(usize),
    /// Writing: a header or footer cannot be represented in JSON (a number that is not finite).
    #[error("cannot write the header or footer of the trace file: {0}")]
    Json(#[from] serde_json::Error),
}
