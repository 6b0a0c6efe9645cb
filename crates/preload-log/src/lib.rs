//! The format of the logs of the preload recorder: its constants, and the description of the
//! layout. The crate `plimsoll-preload` writes the logs, the module `preload` of the crate
//! `plimsoll-trace` reads them.
//!
//! A program has one log for each thread, with a head and records. All numbers, including `O_*`,
//! are those of the host, and little-endian, as every supported host is. All data are aligned to
//! 8 bytes.
//!
//! # Head
//!
//! | type | contents |
//! |---|---|
//! | 8 bytes | [`MAGIC`] |
//! | u32 | [`VERSION`] |
//! | u32 | length of the head, bytes |
//! | u32 | process id |
//! | u32 | process id of the parent |
//! | u32 | thread id |
//! | u32 | 1 for the first log of a program, otherwise 0 |
//! | u64 | `CLOCK_MONOTONIC`, ns |
//! | u64 | `CLOCK_REALTIME`, ns |
//!
//! Then parts follow: u32 kind ([`part`]), u32 length in bytes, the bytes, padding. The first log
//! of a program has parts of all kinds, other logs have only [`part::CALLS`]. A reader skips parts
//! of unknown kinds.
//!
//! # Record
//!
//! | type | contents |
//! |---|---|
//! | u16 | length in words of 8 bytes, including this one |
//! | u16 | call: the index of its name in [`part::CALLS`], or [`LOST`] |
//! | u16 | errno, or 0 |
//! | u8 | arguments that are present: bit 0 is the first one |
//! | u8 | optional parts ([`extra`]) |
//! | u64 | start: `CLOCK_MONOTONIC`, ns |
//! | u64 | duration, ns |
//! | i64 | value: the result of the call |
//!
//! Then follow, if they are present:
//!
//! | type | contents | bit |
//! |---|---|---|
//! | u64 | processor time, ns | [`extra::PROCESSOR`] |
//! | u64 | thread id, if it is not that of the log | [`extra::OTHER_THREAD`] |
//! | i64 each | the arguments in their order | |
//! | u64, u64 | mode and size of a file, bytes | [`extra::STATUS`] |
//! | i32, i32 | two descriptors | [`extra::PAIR`] |
//! | u64, bytes, padding | length of a text in bytes, and the text | [`extra::FIRST_TEXT`] |
//! | u64, bytes, padding | length of a text in bytes, and the text | [`extra::SECOND_TEXT`] |
//!
//! A record whose first word is 0 was never written: the log ends there.

#![no_std]
#![forbid(unsafe_code)]

/// The first bytes of a log. The recorder writes them last, so a file without them belongs to a
/// process that was killed while it wrote the head.
pub const MAGIC: &[u8; 8] = b"plimcall";

/// Version of the format.
pub const VERSION: u32 = 1;

/// The call number of a record that reports lost records. Its value is the number of records that
/// were lost before it.
pub const LOST: u16 = u16::MAX;

/// The word of an unknown result. The recorder also uses it for an absent argument, which is not
/// written.
pub const ABSENT: i64 = i64::MIN;

/// The kinds of the parts of a head.
pub mod part {
    /// The names of the calls, each with a newline.
    pub const CALLS: u32 = 1;
    /// The command line, each argument with a 0.
    pub const COMMAND: u32 = 2;
    /// The working directory.
    pub const DIRECTORY: u32 = 3;
    /// An open descriptor: i32 number, u32 flags of its open file, u32 whether execve closes it,
    /// u32 0, i64 offset or -1, the target of its link in `/proc/PID/fd`.
    pub const DESCRIPTOR: u32 = 4;
    /// Node, release and machine of uname(2), each with a 0.
    pub const HOST: u32 = 5;
}

/// The bits of the optional parts of a record, and of its properties.
pub mod extra {
    /// Processor time of the thread since the previous call, ns.
    pub const PROCESSOR: u8 = 1;
    /// A text.
    pub const FIRST_TEXT: u8 = 2;
    /// Another text.
    pub const SECOND_TEXT: u8 = 4;
    /// Mode and size of a file.
    pub const STATUS: u8 = 8;
    /// The two descriptors that the call made.
    pub const PAIR: u8 = 16;
    /// The thread is not that of the log: a child of vfork, which shares the memory of its parent.
    pub const OTHER_THREAD: u8 = 32;
    /// The call had not ended when the record was written.
    pub const UNFINISHED: u8 = 64;
    /// The call was made inside libc and was inferred from its effect.
    pub const INFERRED: u8 = 128;
}
