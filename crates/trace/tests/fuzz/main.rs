//! For all inputs, the readers return without a panic and hold an amount of memory that is
//! proportional to the input.
//!
//! The functions in `targets` are also the targets of cargo-fuzz (`fuzz/`), which searches for new
//! inputs without a time limit. Here they get slightly malformed inputs, the same in each run.
//! `PLIMSOLL_FUZZ_TIMES=100` runs 100 times as many.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in a helper"
)]

use std::collections::BTreeSet;

use plimsoll_trace::event::Event;
use plimsoll_trace::file::{FileError, Reader, Writer};
use plimsoll_trace::header::{FORMAT, Footer};

mod allocated;
mod bounded;
mod changed;
mod targets {
    pub mod preload_log;
    pub mod strace_text;
    pub mod trace_file;
}

use bounded::{MemoryBound, fuzz};
use targets::{preload_log, strace_text, trace_file};

#[test]
fn changed_text_of_strace_is_read_within_the_memory_limit() {
    let whole = [
        include_bytes!("corpus/strace_text/processes.log").to_vec(),
        include_bytes!("corpus/strace_text/descriptors.log").to_vec(),
        include_bytes!("corpus/strace_text/options.log").to_vec(),
    ];
    let special = b"<>()[]{}\",\\ .0=-9+?\n";
    let bound = MemoryBound {
        any: 16 << 10,
        each: 32,
    };
    fuzz(&whole, special, 20_000, bound, strace_text::run);
}

/// Paths above the limit of Linux, paths with thousands of directories, and a program that enters
/// as many.
#[test]
fn memory_of_long_and_deep_paths_is_proportional_to_the_input() {
    let long = |depth: usize| {
        let name = "A/".repeat(depth);
        format!("7 openat(AT_FDCWD, \"/{name}f\", O_RDONLY) = -1 ENAMETOOLONG (File name too long)\n")
    };
    let deep = (0..500).map(|number| {
        let name = format!("own-{number:04}/").repeat(100);
        format!("7 openat(AT_FDCWD, \"/{name}f\", O_RDONLY) = 3\n7 close(3) = 0\n")
    });
    let down = "7 mkdir(\"directory\", 0777) = 0\n7 chdir(\"directory\") = 0\n".repeat(4_000);
    let renamed = format!(
        "7 openat(AT_FDCWD, \"/a/{0}\", O_RDONLY) = 3\n7 rename(\"/a\", \"/{0}\") = 0\n",
        "b/".repeat(2_000)
    );
    // Each directory that a program enters makes its paths longer, up to a limit.
    for (log, each) in [
        (long(90_000), 8),
        (long(2_000), 24),
        (deep.collect(), 8),
        (down, 300),
        (renamed, 24),
    ] {
        let most = allocated::peak_during(|| strace_text::run(log.as_bytes()));
        let allowed = (64 << 10) + each * log.len();
        assert!(
            most <= allowed,
            "{most} bytes are allocated, at most {allowed} are allowed, for {} bytes",
            log.len()
        );
    }
}

#[test]
fn changed_logs_of_the_preload_recorder_are_read_within_the_memory_limit() {
    let whole = [include_bytes!("corpus/preload_log/one").to_vec()];
    let special = b"\0\x01\x02\x08\x7f\x80\xff";
    let bound = MemoryBound {
        any: 16 << 10,
        each: 32,
    };
    fuzz(&whole, special, 50_000, bound, preload_log::run);
}

const SPECIAL_OF_FILES: &[u8] = b"\0\x01\x7f\x80\xff";
/// A block of events, and the memory of zstd.
const BOUND_OF_FILES: MemoryBound = MemoryBound {
    any: 3 << 20,
    each: 300,
};

#[test]
fn changed_trace_files_are_read_within_the_memory_limit() {
    let file = include_bytes!("../data/version-1.trace");
    let whole = [file.to_vec(), unframed(file), unframed(&in_small_blocks(file, 5))];
    fuzz(&whole, SPECIAL_OF_FILES, 5_000, BOUND_OF_FILES, trace_file::run);
}

/// Files of a faulty or malicious writer. Columns of small blocks are not compressed, so that
/// changes reach the code that reads them.
#[test]
fn malformed_trace_files_with_valid_checksums_are_read_within_the_memory_limit() {
    let file = include_bytes!("../data/version-1.trace");
    let whole = [5, 1, 7].map(|events| unframed(&in_small_blocks(file, events)));
    let (mut good, mut reasons) = (0, BTreeSet::new());
    fuzz(
        &whole,
        SPECIAL_OF_FILES,
        5_000,
        BOUND_OF_FILES,
        |data| match trace_file::read(&trace_file::framed(data)) {
            Ok(()) => good += 1,
            Err(FileError::Damaged { why, .. }) => drop(reasons.insert(why)),
            Err(error) => panic!("{error}"),
        },
    );
    // Some changes result in another valid trace, and the others are detected at each step of
    // reading.
    assert!(good > 100 && reasons.len() > 12, "{good} {reasons:?}");
}

/// The first and last events of a file, written again with this number of events per block.
fn in_small_blocks(file: &[u8], events: usize) -> Vec<u8> {
    let mut reader = Reader::new(file).unwrap();
    let mut all: Vec<Event> = Vec::new();
    while let Some(block) = reader.next().unwrap() {
        all.extend_from_slice(block);
    }
    let header = reader.header().clone();
    let mut names = reader.into_names();
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    // The ends of the list contain a call of each kind.
    let ends = all[..20].iter().chain(&all[all.len() - 20..]);
    for (number, event) in ends.enumerate() {
        writer.write(&mut names, event).unwrap();
        if number % events == events - 1 {
            writer.flush(&mut names).unwrap();
        }
    }
    writer.finish(&mut names, &Footer::default()).unwrap()
}

/// The input of [`trace_file::framed`] for this file, without its header.
fn unframed(file: &[u8]) -> Vec<u8> {
    /// Kind, number, length, and two checksums.
    const HEAD: usize = 17;
    let mut bytes = Vec::new();
    let mut remaining = &file[FORMAT.len() + 1..];
    while let [kind, ..] = remaining {
        let length = u32::from_le_bytes(remaining[5..9].try_into().unwrap()) as usize;
        if let Some(index) = trace_file::KINDS.iter().position(|known| known == kind) {
            bytes.push(index as u8);
            bytes.extend(u16::try_from(length).unwrap().to_le_bytes());
            bytes.extend(&remaining[HEAD..HEAD + length]);
        }
        remaining = &remaining[HEAD + length..];
    }
    bytes
}
