//! Reads arbitrary bytes as a log of the preload recorder.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/trace/tests/fuzz/targets/preload_log.rs"]
mod target;

fuzz_target!(|data: &[u8]| target::run(data));
