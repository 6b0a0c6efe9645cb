//! Random programs run in a directory, and their calls are recorded as a trace. The files that the
//! check of an empty root reports as missing are made. A second check then reports nothing, the
//! program has the same results as before, also in a second run, and everything that was made can
//! be removed.
#![allow(clippy::unwrap_used)] // a test may panic, also in its helpers

mod common;
mod program;

use common::{Scratch, Snapshot};
use plimsoll_replay::check::{Beneath, Fill, Options, PrepareOptions, Report, check, clean, prepare, reset};
use plimsoll_replay::names::{Links, Rules, Table};
use program::Program;

/// A trace with everything that its check needs.
struct Trace {
    program: Program,
    links: Links,
    table: Table,
}

impl Trace {
    fn record(seed: u64, length: usize, dots: bool, scratch: &Scratch) -> Self {
        let program = Program::record(seed, length, dots, scratch);
        let links = Links::of(&program.events, &program.names);
        let mut rules = Rules::new();
        rules.read_map("/rec => x/y/z").unwrap();
        let table = Table::new(&rules, &program.names, &links);
        Self {
            program,
            links,
            table,
        }
    }

    fn check(&self, root: &Beneath) -> Report {
        let Trace {
            program,
            links,
            table,
        } = self;
        check(
            &program.events,
            &program.names,
            table,
            links,
            root,
            Options::default(),
        )
        .unwrap()
    }
}

const WANTED: PrepareOptions = PrepareOptions {
    fill: Fill::Sparse,
    force: false,
};

fn assert_explained(report: &Report, trace: &Trace, context: &str) {
    let calls = report.examples.iter().map(|example| {
        format!(
            "call {}: {}: {}\n",
            example.event,
            String::from_utf8_lossy(&example.path),
            example.why
        )
    });
    let explanations: String = calls.collect();
    assert_eq!(
        report.unexplained,
        0,
        "{context}:\n{explanations}{}",
        trace.program.listing()
    );
}

fn assert_no_findings(report: &Report, trace: &Trace, context: &str) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty(),
        "{context}: {findings:#?}\n{}",
        trace.program.listing()
    );
    assert_explained(report, trace, context);
}

fn check_and_repeat(seed: u64, length: usize) -> usize {
    check_and_repeat_with(seed, length, false)
}

fn check_and_repeat_with(seed: u64, length: usize, dots: bool) -> usize {
    let scratch = Scratch::new();
    let trace = Trace::record(seed, length, dots, &scratch);
    let path = scratch.make("root");
    // A file of the user is not changed.
    std::fs::write(path.join("mine"), "of the user").unwrap();
    let before = Snapshot::of(&path);
    let root = Beneath::open(&path).unwrap();
    let mut made = 0;
    for round in 0..2 {
        let context = format!("seed {seed}, round {round}");
        let left = reset(&root).unwrap().left;
        assert!(
            left.is_empty(),
            "{context}: {left:?}\n{}",
            trace.program.listing()
        );
        let report = trace.check(&root);
        assert_explained(&report, &trace, &context);
        let prepared = prepare(&root, &report, WANTED).unwrap();
        assert!(prepared.left.is_empty(), "{context}: {:#?}", prepared.left);
        made += prepared.made;
        assert_no_findings(&trace.check(&root), &trace, &context);
        trace.program.repeat(&path.join("x/y/z"), &context);
    }
    let cleaned = clean(&root).unwrap();
    assert!(cleaned.left.is_empty(), "seed {seed}: {:?}", cleaned.left);
    assert_eq!(Snapshot::of(&path), before, "seed {seed}");
    made
}

#[test]
fn the_required_files_suffice_and_can_be_removed() {
    let made: usize = (0..40).map(|seed| check_and_repeat(seed, 40)).sum();
    assert!(made > 150, "the programs need too few files: {made}");
}

#[test]
fn names_with_dots_after_missing_directories_are_explained() {
    for seed in 0..40 {
        check_and_repeat_with(seed, 40, true);
    }
}

/// These seeds contain: an exchange of a name with one beneath it; a file in a path, reported
/// before the component was known; a size that was reported before the file was known to be
/// regular; a name beneath a directory that is moved later.
#[test]
fn evidence_from_later_calls_is_used() {
    for seed in [1059, 1320, 1460, 3612, 4204, 4421, 4428] {
        check_and_repeat(seed, 20 + usize::try_from(seed % 200).unwrap());
    }
}

#[test]
#[ignore = "long: takes a minute: the same with more and longer programs"]
fn long_the_required_files_suffice_for_many_programs() {
    for seed in 1000..1500 {
        check_and_repeat(seed, 20 + usize::try_from(seed % 200).unwrap());
    }
}
