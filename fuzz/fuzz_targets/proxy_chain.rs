//! Reads arbitrary bytes as the certificates of a client.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/grid-proxy/tests/it/targets/proxy_chain.rs"]
mod target;

fuzz_target!(|data: &[u8]| target::run(data));
