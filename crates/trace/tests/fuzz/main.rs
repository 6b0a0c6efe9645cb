//! Whatever bytes come in, what reads them answers, does not panic, and holds no more memory than
//! they are worth.
//!
//! The bodies in `targets` are those of cargo-fuzz (`fuzz/`), which looks for new inputs for as
//! long as one likes; here they get inputs that are a little wrong, always the same ones.
//! `PLIMSOLL_FUZZ_TIMES=100` runs a hundred times as many.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use plimsoll_trace::event::Event;
use plimsoll_trace::file::{FileError, Reader, Writer};
use plimsoll_trace::header::{FORMAT, Footer};

mod allocated;
mod changed;
mod targets {
    pub mod preload_log;
    pub mod strace_text;
    pub mod trace_file;
}

use changed::Changes;
use targets::{preload_log, strace_text, trace_file};

/// Bytes that work may hold: so many in any case, and so many more for each of the input.
#[derive(Clone, Copy)]
struct Bound {
    any: usize,
    each: usize,
}

/// Gives a target inputs, so many times.
fn fuzz(whole: &[Vec<u8>], special: &[u8], times: usize, bound: Bound, mut target: impl FnMut(&[u8])) {
    let more = std::env::var("PLIMSOLL_FUZZ_TIMES").ok();
    let times = times * more.map_or(1, |more| more.parse().unwrap());
    // Tables that are made once, at their first use, are nobody's input.
    for input in whole {
        target(input);
    }
    let mut changes = Changes::new(whole, special);
    for number in 0..times {
        let input = changes.next();
        let mut most = 0;
        let done = catch_unwind(AssertUnwindSafe(|| {
            most = allocated::most_during(|| target(&input));
        }));
        let say = || format!("input {number}: b\"{}\"", input.escape_ascii());
        if let Err(panic) = done {
            eprintln!("{}", say());
            resume_unwind(panic);
        }
        let allowed = bound.any + bound.each * input.len();
        assert!(
            most <= allowed,
            "{most} bytes are held, {allowed} may be, by {}",
            say()
        );
    }
}

#[test]
fn text_of_strace() {
    let whole = [
        include_bytes!("corpus/strace_text/processes.log").to_vec(),
        include_bytes!("corpus/strace_text/descriptors.log").to_vec(),
        include_bytes!("corpus/strace_text/options.log").to_vec(),
    ];
    let special = b"<>()[]{}\",\\ .0=-9+?\n";
    let bound = Bound {
        any: 16 << 10,
        each: 32,
    };
    fuzz(&whole, special, 20_000, bound, strace_text::run);
}

/// Names above what Linux takes, names of thousands of directories, and a program that goes down
/// through as many.
#[test]
fn names_that_are_long_or_deep_cost_no_more_than_their_bytes() {
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
    // What a program enters makes each of its names as long as the place where it is, to a bound.
    for (log, each) in [
        (long(90_000), 8),
        (long(2_000), 24),
        (deep.collect(), 8),
        (down, 300),
        (renamed, 24),
    ] {
        let most = allocated::most_during(|| strace_text::run(log.as_bytes()));
        let allowed = (64 << 10) + each * log.len();
        assert!(
            most <= allowed,
            "{most} bytes are held, {allowed} may be, by {} bytes",
            log.len()
        );
    }
}

#[test]
fn logs_of_the_preload_recorder() {
    let whole = [include_bytes!("corpus/preload_log/one").to_vec()];
    let special = b"\0\x01\x02\x08\x7f\x80\xff";
    let bound = Bound {
        any: 16 << 10,
        each: 32,
    };
    fuzz(&whole, special, 50_000, bound, preload_log::run);
}

const SPECIAL_OF_FILES: &[u8] = b"\0\x01\x7f\x80\xff";
/// A block of events, and what zstd needs.
const BOUND_OF_FILES: Bound = Bound {
    any: 3 << 20,
    each: 300,
};

#[test]
fn trace_files() {
    let file = include_bytes!("../data/version-1.trace");
    let whole = [file.to_vec(), unframed(file), unframed(&in_small_blocks(file, 5))];
    fuzz(&whole, SPECIAL_OF_FILES, 5_000, BOUND_OF_FILES, trace_file::run);
}

/// What a faulty or hostile writer may send. Columns of small blocks are not compressed, so that
/// changes reach what reads them.
#[test]
fn trace_files_behind_their_checksums() {
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
    // Some changes make another trace, and others are found at every step of reading.
    assert!(good > 100 && reasons.len() > 12, "{good} {reasons:?}");
}

/// The last events of a file, again, so many in a block.
fn in_small_blocks(file: &[u8], events: usize) -> Vec<u8> {
    let mut reader = Reader::new(file).unwrap();
    let mut all: Vec<Event> = Vec::new();
    while let Some(block) = reader.next().unwrap() {
        all.extend_from_slice(block);
    }
    let header = reader.header().clone();
    let mut names = reader.into_names();
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    // The ends of the list have a call of each kind.
    let ends = all[..20].iter().chain(&all[all.len() - 20..]);
    for (number, event) in ends.enumerate() {
        writer.write(&mut names, event).unwrap();
        if number % events == events - 1 {
            writer.flush(&mut names).unwrap();
        }
    }
    writer.finish(&mut names, &Footer::default()).unwrap()
}

/// What [`trace_file::framed`] makes this file of, but for its header.
fn unframed(file: &[u8]) -> Vec<u8> {
    /// Kind, number, length, and two checksums.
    const HEAD: usize = 17;
    let mut bytes = Vec::new();
    let mut rest = &file[FORMAT.len() + 1..];
    while let [kind, ..] = rest {
        let length = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
        if let Some(place) = trace_file::KINDS.iter().position(|one| one == kind) {
            bytes.push(place as u8);
            bytes.extend(u16::try_from(length).unwrap().to_le_bytes());
            bytes.extend(&rest[HEAD..HEAD + length]);
        }
        rest = &rest[HEAD + length..];
    }
    bytes
}
