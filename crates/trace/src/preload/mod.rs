//! What the preload recorder has written: the logs of all threads of a program, each a head and
//! records. Bytes in, values out.
//!
//! All numbers are those of the host, `O_*` too, little-endian on every one that there is;
//! everything is aligned to 8 bytes.
//!
//! **Head**: `plimcall`, u32 version, u32 bytes of the head, u32 pid, u32 parent's pid, u32 tid,
//! u32 1 for the first log of a program, u64 `CLOCK_MONOTONIC` ns, u64 `CLOCK_REALTIME` ns; then
//! parts: u32 what, u32 bytes, the bytes, padded. 1: the names of the calls, each with a newline.
//! Of the first log of a program also 2: its command line, each argument with a 0; 3: its working
//! directory; 4 for each descriptor that was open: i32 number, u32 flags of its open file, u32
//! whether execve closes it, u32 0, i64 offset or -1, its name as `/proc/PID/fd` has it; 5: the
//! host, as uname(2) names its node, release and machine, each with a 0.
//!
//! **Record**: u16 words (of 8 bytes, this one included), u16 call (its place among the names), u16
//! errno, u8 which of the six arguments follow, u8 what else follows; u64 start ns, u64 duration
//! ns, i64 value; then, as said, u64 processor time ns (bit 0), u64 the thread if it is another
//! (bit 5), the arguments in their order, u64 mode and u64 size of what was found (bit 3), two i32
//! (bit 4), and one or two names (bits 1, 2): u64 length, the bytes, padded. Bit 6: it had not
//! ended. Bit 7: inferred. A record whose first word is 0 was never written: the log ends there.
//! Call 65535 tells by its value how many records before it were lost.

mod follow;
mod head;
mod machine;
mod merge;
mod record;

pub use follow::{UnusedRecords, follow};
pub use head::{Head, Image, OpenDescriptor};
pub use merge::{Merge, Moment, When};
pub use record::{Record, Records, Status};

/// Version of the log that this reads.
pub const VERSION: u32 = 1;

/// Why bytes are no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Another file, or one that a kill has cut in its head.
    #[error("this is no log of the preload recorder, or one that was cut before its first record")]
    NoLog,
    /// By a recorder of another version.
    #[error(
        "this log of the preload recorder has version {0}, and {VERSION} can be read: record with the same version of Plimsoll"
    )]
    Version(u32),
    /// A part of its head is not what it says.
    #[error("the head of this log of the preload recorder is damaged")]
    Head,
}

/// The log of one thread.
#[derive(Debug)]
pub struct Log<'a> {
    /// Whose it is.
    pub head: Head<'a>,
    /// Its records.
    pub records: Records<'a>,
}

impl<'a> Log<'a> {
    /// Of the bytes of a whole file; it may be longer than what was written.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LogError> {
        let (head, calls, rest) = head::parse(bytes)?;
        Ok(Self {
            head,
            records: Records::new(calls, rest),
        })
    }
}

/// Numbers from bytes. None past the end.
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
