//! Reads arbitrary bytes as a trace file.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/trace/tests/fuzz/targets/trace_file.rs"]
mod target;

fuzz_target!(|data: &[u8]| target::run(data));
