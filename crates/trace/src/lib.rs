//! Traces: the calls of an application to the kernel that concern its files.
//!
//! [`event`] contains the core type. Each source of a trace produces it, and each reader takes it.
//!
//! [`text`] parses the output of strace: lines, interrupted calls, arguments. [`syscalls`]
//! describes the effect of each call, and [`kernel`] follows which open file a descriptor refers
//! to; [`follow`] combines them. [`preload`] reads the logs of the preload recorder and uses the
//! same `kernel`. [`mod@file`] stores events on disk, [`profile`] computes the figures of a trace,
//! and [`export`] writes traces in the formats of other programs. Nothing here executes a program.
//! No input causes a panic, and memory is bounded by the size of the input.
#![forbid(unsafe_code)]

pub mod constants;
pub mod cost;
pub mod event;
pub mod export;
pub mod file;
pub mod follow;
mod hash;
pub mod header;
mod implied;
pub mod import;
pub mod kernel;
mod memo;
pub mod names;
mod one_core;
pub mod preload;
pub mod profile;
pub mod syscalls;
pub mod text;
pub mod timeline;
