//! For all inputs, the codecs of the catalogue return without a panic and hold an amount of memory
//! that is proportional to the input.
//!
//! The functions in `targets` are also the targets of cargo-fuzz (`fuzz/`). Here they get slightly
//! malformed inputs, the same in each run. `PLIMSOLL_FUZZ_TIMES=100` runs 100 times as many.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in a helper"
)]

#[path = "../../../trace/tests/fuzz/allocated.rs"]
mod allocated;
#[path = "../../../trace/tests/fuzz/bounded.rs"]
mod bounded;
#[path = "../../../trace/tests/fuzz/changed.rs"]
mod changed;
mod targets {
    pub mod catalogue_frames;
    pub mod catalogue_soap;
}

use bounded::{MemoryBound, fuzz};
use targets::{catalogue_frames, catalogue_soap};

#[test]
fn changed_messages_of_the_stateful_protocol_are_read_within_the_memory_limit() {
    let whole = [
        include_bytes!("corpus/catalogue_frames/requests").to_vec(),
        include_bytes!("corpus/catalogue_frames/bulk").to_vec(),
        include_bytes!("corpus/catalogue_frames/replies").to_vec(),
    ];
    let bound = MemoryBound {
        any: 16 << 10,
        each: 64,
    };
    fuzz(
        &whole,
        b"\0\x01\x02\x03\x04\x7f\x80\xff",
        50_000,
        bound,
        catalogue_frames::run,
    );
}

#[test]
fn changed_soap_messages_are_read_within_the_memory_limit() {
    let whole = [
        include_bytes!("corpus/catalogue_soap/create.xml").to_vec(),
        include_bytes!("corpus/catalogue_soap/list.xml").to_vec(),
        include_bytes!("corpus/catalogue_soap/read.xml").to_vec(),
        include_bytes!("corpus/catalogue_soap/found.xml").to_vec(),
        include_bytes!("corpus/catalogue_soap/fault.xml").to_vec(),
    ];
    let bound = MemoryBound {
        any: 32 << 10,
        each: 64,
    };
    fuzz(&whole, b"<>&;/\"'= :![]-?", 10_000, bound, catalogue_soap::run);
}
