//! Random programs are run in a directory, and their calls noted as a trace. What a check says of
//! an empty root is made there; a second check then says nothing, the program does there what it
//! did before, also a second time, and what was made can be taken away.
#![allow(clippy::unwrap_used)] // a test may panic, also in its helpers

mod common;
mod program;

use common::{Scratch, Snapshot};
use plimsoll_replay::check::{Beneath, Fill, Options, PrepareOptions, Report, check, clean, prepare, reset};
use plimsoll_replay::names::{Links, Rules, Table};
use program::Program;

/// A trace with what it takes to check it.
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

fn is_explained(report: &Report, trace: &Trace, context: &str) {
    let calls = report.examples.iter().map(|one| {
        format!(
            "call {}: {}: {}\n",
            one.event,
            String::from_utf8_lossy(&one.path),
            one.why
        )
    });
    let said: String = calls.collect();
    assert_eq!(
        report.unexplained,
        0,
        "{context}:\n{said}{}",
        trace.program.listing()
    );
}

fn says_nothing(report: &Report, trace: &Trace, context: &str) {
    let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        said.is_empty(),
        "{context}: {said:#?}\n{}",
        trace.program.listing()
    );
    is_explained(report, trace, context);
}

fn lives(seed: u64, length: usize) -> usize {
    lives_with(seed, length, false)
}

fn lives_with(seed: u64, length: usize, dots: bool) -> usize {
    let scratch = Scratch::new();
    let trace = Trace::record(seed, length, dots, &scratch);
    let path = scratch.make("root");
    // What a user has there stays, whatever is prepared beside it.
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
        is_explained(&report, &trace, &context);
        let prepared = prepare(&root, &report, WANTED).unwrap();
        assert!(prepared.left.is_empty(), "{context}: {:#?}", prepared.left);
        made += prepared.made;
        says_nothing(&trace.check(&root), &trace, &context);
        trace.program.repeat(&path.join("x/y/z"), &context);
    }
    let cleaned = clean(&root).unwrap();
    assert!(cleaned.left.is_empty(), "seed {seed}: {:?}", cleaned.left);
    assert_eq!(Snapshot::of(&path), before, "seed {seed}");
    made
}

#[test]
fn what_a_check_asks_for_is_enough_and_can_be_undone() {
    let made: usize = (0..40).map(|seed| lives(seed, 40)).sum();
    assert!(made > 150, "the programs need hardly anything: {made}");
}

#[test]
fn names_with_dots_behind_what_is_missing_are_understood() {
    for seed in 0..40 {
        lives_with(seed, 40, true);
    }
}

/// An exchange of a name with one beneath it; a file on the way of a name of which that was told
/// before it was known where; a size that was told before it was known that it is a file's; a name
/// beneath what is elsewhere later.
#[test]
fn what_is_told_late_is_understood() {
    for seed in [1059, 1320, 1460, 3612, 4204, 4421, 4428] {
        lives(seed, 20 + usize::try_from(seed % 200).unwrap());
    }
}

#[test]
#[ignore = "long: takes a minute: the same with more and longer programs"]
fn long_many_programs_find_what_they_need() {
    for seed in 1000..1500 {
        lives(seed, 20 + usize::try_from(seed % 200).unwrap());
    }
}
