//! Reads the logs of the preload recorder: one for each thread of a program, with a head and
//! records. It works on bytes and does no I/O.
//!
//! The crate `plimsoll-preload-log` describes the format.

mod follow;
mod head;
mod machine;
mod merge;
mod record;

use plimsoll_preload_log::VERSION;

pub use follow::{UnusedRecords, follow};
pub use head::{Head, Image, OpenDescriptor};
pub use merge::{Merge, Moment, MomentKind};
pub use record::{Record, Records, Status};

/// The reason why bytes are not a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Another file, or a file that a kill has cut in its head.
    #[error("not a log of the preload recorder, or a log that was cut before its first record")]
    NoLog,
    /// A log of another version of the recorder.
    #[error(
        "the log of the preload recorder has version {0}, this engine reads version {VERSION}: record again with the same version of Plimsoll"
    )]
    Version(u32),
    /// A part of the head is malformed.
    #[error("the head of the log of the preload recorder is damaged: record again")]
    Head,
}

/// The log of one thread.
#[derive(Debug)]
pub struct Log<'a> {
    /// The head of the log.
    pub head: Head<'a>,
    /// The records of the log.
    pub records: Records<'a>,
}

impl<'a> Log<'a> {
    /// Parses the bytes of a whole file, which may be longer than the written part.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LogError> {
        let (head, calls, rest) = head::parse(bytes)?;
        Ok(Self {
            head,
            records: Records::new(calls, rest),
        })
    }
}

/// Reads numbers from bytes. None past the end.
#[derive(Debug, Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// And what fills up a multiple of 8.
    fn padded(&mut self, length: usize) -> Option<&'a [u8]> {
        let padded = length.checked_next_multiple_of(8)?;
        self.take(padded)?.get(..length)
    }
}

#[cfg(test)]
mod tests;
