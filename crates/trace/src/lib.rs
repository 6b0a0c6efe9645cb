//! What an application did to its files.
//!
//! [`text`] reads what strace has written: lines, calls that other threads have interrupted, arguments. [`syscalls`] knows
//! what each call does, and [`kernel`] which open file a descriptor stands for; [`follow`] puts
//! them together. Nothing here executes anything, and no bytes make it panic or hold more than they are.
#![forbid(unsafe_code)]

pub mod follow;
pub mod kernel;
pub mod syscalls;
pub mod text;
