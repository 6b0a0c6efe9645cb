//! Reads the logs of the preload recorder: one for each thread of a program, with a head and
//! records. It works on bytes and does no I/O.
//!
//! All numbers, including `O_*`, are those of the host, and little-endian, as every supported host
//! is. All data are aligned to 8 bytes.
//!
//! **Head**: `plimcall`, u32 version, u32 length of the head in bytes, u32 pid, u32 parent's pid,
//! u32 tid, u32 1 for the first log of a program, u64 `CLOCK_MONOTONIC` ns, u64 `CLOCK_REALTIME`
//! ns. Then parts follow: u32 kind, u32 length, the bytes, padding. Kind 1: the names of the calls,
//! each with a newline. The first log of a program also has 2: its command line, each argument with
//! a 0; 3: its working directory; 4, for each open descriptor: i32 number, u32 flags of its open
//! file, u32 whether execve closes it, u32 0, i64 offset or -1, the target of its link in
//! `/proc/PID/fd`; 5: node, release and machine of uname(2), each with a 0.
//!
//! **Record**: u16 length in words of 8 bytes, including this one, u16 call (the index of its
//! name), u16 errno, u8 bits of the arguments that are present, u8 bits of the optional parts; u64
//! start ns, u64 duration ns, i64 value. Then the optional parts follow: u64 processor time ns (bit
//! 0), u64 thread if it is not that of the log (bit 5), the arguments in their order, u64 mode and
//! u64 size of a file (bit 3), two i32 (bit 4), one or two texts (bits 1, 2): u64 length, the
//! bytes, padding. Bit 6: the call had not ended. Bit 7: the call is inferred. A record whose first
//! word is 0 was never written: the log ends there. The value of call 65535 is the number of
//! records that were lost before it.

mod follow;
mod head;
mod machine;
mod merge;
mod record;

pub use follow::{UnusedRecords, follow};
pub use head::{Head, Image, OpenDescriptor};
pub use merge::{Merge, Moment, When};
pub use record::{Record, Records, Status};

/// Version of the logs that this module reads.
pub const VERSION: u32 = 1;

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
