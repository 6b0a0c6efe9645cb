//! Chains of grid proxies: the table of refusals, the opinion of OpenSSL, hostile bytes, and TLS.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in a helper"
)]

mod delegate;
mod handshake;
mod hostile;
mod make;
mod openssl;
mod rows;
mod table;
mod targets {
    pub mod proxy_chain;
}
