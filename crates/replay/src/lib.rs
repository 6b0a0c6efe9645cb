//! Does to a file system what a trace tells: the same calls, by as many threads, in an order that means the same.
//!
//! [`root`] keeps everything beneath one directory.

pub mod action;
pub mod order;
pub mod root;
pub mod timing;
