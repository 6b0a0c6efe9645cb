//! What an application did to its files.
//!
//! [`event`] has the core type, which every source of a trace makes and every reader takes.
//!
//! [`text`] reads what strace has written: lines, calls that other threads have interrupted,
//! arguments. [`syscalls`] knows what each call does, and [`kernel`] which open file a descriptor
//! stands for; [`follow`] puts them together; [`preload`] reads what the preload recorder has
//! written, by the same kernel. [`mod@file`] keeps events on disk, [`profile`] tells what came of
//! them, [`export`] writes them for other programs. Nothing here executes anything, and no bytes
//! make it panic or hold more than they are.
#![forbid(unsafe_code)]

pub mod constants;
pub mod cost;
pub mod event;
pub mod export;
pub mod file;
pub mod follow;
pub mod header;
pub mod import;
pub mod kernel;
mod memo;
mod mixed;
pub mod names;
mod one_core;
pub mod preload;
pub mod profile;
pub mod syscalls;
mod telling;
pub mod text;
pub mod timeline;
