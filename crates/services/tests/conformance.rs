//! The protocol behaviour of servlet 3.42, tested with the gateway header by header.
//!
//! The name of each test is a statement about the servlet. If the gateway differs intentionally, a
//! comment of the test describes the difference.

#![allow(
    clippy::unwrap_used,
    reason = "all of this crate is a test; clippy sees that of functions marked so only"
)]

#[path = "it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod support;

mod conformance {
    mod caching;
    mod files;
    pub mod lab;
    mod requests;
    mod responses;
    mod signing;
}
