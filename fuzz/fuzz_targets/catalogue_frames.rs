//! Reads arbitrary bytes as messages of the stateful protocol of the catalogue.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/fuzz/targets/catalogue_frames.rs"]
mod target;

fuzz_target!(|data: &[u8]| target::run(data));
