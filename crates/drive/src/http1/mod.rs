//! An HTTP/1.1 client for the drivers that use it.
//!
//! `connection` sends requests over a tester's connections, with `timeouts`. `response` parses one
//! response from bytes, with `head` and `chunks`.

pub mod chunks;
pub mod connection;
pub mod head;
pub mod response;
pub mod timeouts;
