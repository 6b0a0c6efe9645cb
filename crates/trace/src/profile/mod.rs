//! What an application did to its files, told from the events of its trace.
//!
//! [`json`] has what comes out.
//!
//! Memory is that of what is told apart, not of the length of the trace: files, threads, open files, names, and for each file a
//! bounded number of pieces that were read and written, and of bins of time.

mod axis;
pub mod json;
mod ranges;
pub mod shown;
mod tally;
mod time;

/// Names looked for in vain that are kept in a profile.
pub const MISSING: usize = 50;
/// Other names of a file that are kept.
pub const OTHER_NAMES: usize = 8;
/// Processes that used a file of which the places are told.
pub const USERS: usize = 64;
/// Below, a request is a small one: bytes. A page, the least that a disk or the kernel's cache moves.
pub const SMALL_REQUEST: u64 = 4096;
