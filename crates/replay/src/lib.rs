//! Replays what a trace has recorded, beneath a directory of one's own.
//!
//! [`names`] says which name of the trace becomes which one beneath that directory, and which are left out. [`check`] tells what
//! the directory lacks, makes it, and takes away again what was made.
#![forbid(unsafe_code)]

pub mod check;
pub mod names;
