//! What an application did to its files.
//!
//! [`text`] reads what strace has written: lines, calls that other threads have interrupted, arguments. Nothing here
//! executes anything, and no bytes make it panic or hold more than they are.
#![forbid(unsafe_code)]

pub mod text;
