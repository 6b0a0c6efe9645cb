//! Runs a target with slightly malformed inputs, and limits its memory.
//!
//! The tests of other crates include this file, `allocated.rs` and `changed.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::allocated;
use crate::changed::Changes;

/// The maximum memory, bytes.
#[derive(Clone, Copy)]
pub struct MemoryBound {
    /// For any input.
    pub any: usize,
    /// For each byte of the input.
    pub each: usize,
}

/// Runs a target with `times` inputs.
pub fn fuzz(
    whole: &[Vec<u8>],
    special: &[u8],
    times: usize,
    bound: MemoryBound,
    mut target: impl FnMut(&[u8]),
) {
    let more = std::env::var("PLIMSOLL_FUZZ_TIMES").ok();
    let times = times * more.map_or(1, |more| more.parse().unwrap());
    // The first runs create tables that are used by all inputs.
    for input in whole {
        target(input);
    }
    let mut changes = Changes::new(whole, special);
    for number in 0..times {
        let input = changes.next();
        let mut most = 0;
        let result = catch_unwind(AssertUnwindSafe(|| {
            most = allocated::peak_during(|| target(&input));
        }));
        let describe = || format!("input {number}: b\"{}\"", input.escape_ascii());
        if let Err(panic) = result {
            eprintln!("{}", describe());
            resume_unwind(panic);
        }
        let allowed = bound.any + bound.each * input.len();
        assert!(
            most <= allowed,
            "{most} bytes are allocated, at most {allowed} are allowed, for {}",
            describe()
        );
    }
}
