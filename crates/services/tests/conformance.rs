//! What servlet 3.42 does on the wire, statement by statement, asked of the gateway header by
//! header.
//!
//! Each test's name is the statement. Where the gateway differs on purpose, the test says so and
//! shows what it does.

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
