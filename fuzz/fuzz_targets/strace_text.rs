//! Reads arbitrary bytes as a log of strace.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/trace/tests/fuzz/targets/strace_text.rs"]
mod target;

fuzz_target!(|data: &[u8]| target::run(data));
