//! Programs are run under strace and replayed beneath another directory: both trees and all results
//! are equal.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails; its helpers are tests as well"
)]

#[path = "traced/blocks.rs"]
mod blocks;
mod common;
#[path = "traced/program.rs"]
mod program;
#[path = "traced/shuffle.rs"]
mod shuffle;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use common::Scratch;
use plimsoll_replay::plan::{Options, Ordering, Plan};
use plimsoll_replay::result::ReplayResult;
use plimsoll_replay::root::Root;
use plimsoll_replay::run::{Settings, run};
use plimsoll_replay::timing::Timing;
use plimsoll_trace::event::Event;
use plimsoll_trace::follow::{Follower, Observation};
use plimsoll_trace::header::{Header, Recorder};
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::names::Names;

/// Environment variable of the traced program: its directory, seed and number of threads.
const JOB: &str = "PLIMSOLL_MODEL_JOB";

/// Not a test, but the program that tests run under strace: this binary again.
#[test]
#[ignore = "the program that the other tests trace"]
fn traced_program() {
    let job = std::env::var(JOB).unwrap();
    let parts: Vec<_> = job.split(',').collect();
    let [directory, seed, threads] = parts[..] else {
        panic!("{job}")
    };
    program::run(
        Path::new(directory),
        seed.parse().unwrap(),
        threads.parse().unwrap(),
        600,
    );
}

/// As `traced_program`, with requests of `io_submit`.
#[test]
#[ignore = "the program that another test traces"]
fn traced_blocks() {
    blocks::run(Path::new(&std::env::var(JOB).unwrap()));
}

/// The events of a command under strace. None with a message if strace is missing, which is a
/// failure under CI.
fn traced(command: &[&OsStr], job: &str, scratch: &Path) -> Option<(Vec<Event>, Names)> {
    let log = scratch.join("log");
    let done = Command::new("strace")
        .args(["-f", "-y", "-ttt", "-T", "-q", "-v", "-o"])
        .arg(&log)
        .args(command)
        .env(JOB, job)
        .output();
    if !done.as_ref().is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: strace is missing, or not permitted here: {done:?}");
        let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!ci, "under CI a skipped test is a failure");
        return None;
    }
    let (mut follower, mut events) = (Follower::new(), Vec::new());
    let here = std::env::current_dir().unwrap();
    let mut hear = |_: &mut Kernel, seen: &Observation<'_>| events.push(*seen.event);
    for (at, line) in fs::read(&log).unwrap().split(|&byte| byte == b'\n').enumerate() {
        follower.line(line, 1, &mut hear);
        if at == 0 {
            let pid = String::from_utf8_lossy(line);
            let pid = pid.split(' ').next().unwrap().parse().unwrap();
            follower.kernel().set_directory(pid, here.as_os_str().as_bytes());
        }
    }
    follower.end(&mut hear);
    let names = follower.kernel().names().clone();
    Some((events, names))
}

/// The plan of the calls on files in `from`. All other calls are ignored.
fn planned(trace: &(Vec<Event>, Names), from: &Path, order: Ordering) -> Plan {
    let (events, names) = trace;
    let from = from.as_os_str().as_bytes();
    let path_beneath = |path| {
        let rest = names.path(path).strip_prefix(from)?;
        (rest.is_empty() || rest[0] == b'/').then(|| rest.to_vec())
    };
    let options = Options {
        order,
        ..Options::default()
    };
    Plan::new(&header(), events.iter().copied(), names, path_beneath, options).unwrap()
}

fn header() -> Header {
    Header::new(Recorder::Strace, 1000)
}

fn replayed(plan: &Plan, names: &Names, root: &Root) -> ReplayResult {
    let settings = Settings {
        timing: Timing::Afap,
        allow_root: true,
        ..Settings::default()
    };
    let header = header();
    run(plan, root, names, &header, &settings, &AtomicBool::new(false)).unwrap()
}

/// Every name beneath a directory, with its type, permissions, size, links, target and attributes.
fn tree(directory: &Path) -> Vec<String> {
    let mut entries = Vec::new();
    let mut remaining = vec![PathBuf::new()];
    while let Some(at) = remaining.pop() {
        for entry in fs::read_dir(directory.join(&at)).unwrap() {
            let name = at.join(entry.unwrap().file_name());
            let whole = directory.join(&name);
            let metadata = fs::symlink_metadata(&whole).unwrap();
            let (mut size, mut mode) = (metadata.len(), metadata.mode());
            let mut target = PathBuf::new();
            if metadata.is_dir() {
                remaining.push(name.clone());
                size = 0;
            } else if metadata.is_symlink() {
                let text = fs::read_link(&whole).unwrap();
                // An absolute target begins at the directory.
                target = text.strip_prefix(directory).map(Path::to_owned).unwrap_or(text);
                (size, mode) = (0, 0);
            }
            let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
            entries.push(format!(
                "{} {mode:o} {size} {links} {} {}",
                name.display(),
                target.display(),
                blocks(&metadata)
            ));
        }
    }
    entries.sort();
    entries
}

/// Whether a file has allocated blocks: holes must be at the same offsets.
fn blocks(metadata: &fs::Metadata) -> bool {
    metadata.is_file() && metadata.blocks() > 0
}

struct Workspace {
    scratch: Scratch,
    original: PathBuf,
}

/// The settings with which each trace is replayed.
const VARIANTS: [Variant; 3] = [
    Variant {
        walks: false,
        order: Ordering::Resource,
    },
    Variant {
        walks: true,
        order: Ordering::Resource,
    },
    Variant {
        walks: false,
        order: Ordering::Trace,
    },
];

#[derive(Debug)]
struct Variant {
    /// Whether names are resolved component by component.
    walks: bool,
    order: Ordering,
}

impl Workspace {
    fn new() -> Self {
        let scratch = Scratch::new();
        let base = fs::canonicalize(scratch.path()).unwrap();
        let original = base.join("original");
        create_initial_files(&original);
        Self { scratch, original }
    }

    /// Replays with each setting and compares the trees.
    fn compare(&self, trace: &(Vec<Event>, Names), context: &str) -> ReplayResult {
        let expected = tree(&self.original);
        let mut last = None;
        for variant in &VARIANTS {
            let plan = planned(trace, &self.original, variant.order);
            last = Some(self.assert_same(
                &plan,
                &trace.1,
                variant.walks,
                &expected,
                &format!("{context}, {variant:?}"),
            ));
        }
        last.unwrap()
    }

    /// Replays in orders that the edges allow, and compares the trees.
    fn compare_shuffled(&self, trace: &(Vec<Event>, Names), orders: std::ops::Range<u64>, context: &str) {
        let expected = tree(&self.original);
        for order in orders {
            let mut plan = planned(trace, &self.original, Ordering::Resource);
            shuffle::shuffle(&mut plan, order);
            self.assert_same(
                &plan,
                &trace.1,
                false,
                &expected,
                &format!("{context}, order {order}"),
            );
        }
    }

    fn assert_same(
        &self,
        plan: &Plan,
        names: &Names,
        walks: bool,
        expected: &[String],
        context: &str,
    ) -> ReplayResult {
        let copy = self.original.with_file_name("copy");
        create_initial_files(&copy);
        let root = if walks {
            Root::open_walking(&copy)
        } else {
            Root::open(&copy)
        };
        let result = replayed(plan, names, &root.unwrap());
        assert!(result.is_faithful(), "{context}: {result:#?}");
        assert_eq!(tree(&copy), expected, "{context}");
        fs::remove_dir_all(copy).unwrap();
        result
    }
}

/// Runs one of the programs above under strace.
fn traced_self(program: &str, job: &str, scratch: &Path) -> Option<(Vec<Event>, Names)> {
    let this = std::env::current_exe().unwrap();
    let words = ["--exact", program, "--ignored"].map(OsStr::new);
    let command: Vec<_> = [this.as_os_str()].into_iter().chain(words).collect();
    traced(&command, job, scratch)
}

/// Creates the initial files of the original and of its replays.
fn create_initial_files(directory: &Path) {
    fs::create_dir_all(directory.join("d0")).unwrap();
    fs::write(directory.join("f0"), vec![7; 30_000]).unwrap();
    fs::write(directory.join("d0/f1"), b"seven").unwrap();
}

/// Traces a random program and replays it with all settings, and in `orders` shuffled orders.
fn compare(seed: u64, threads: usize, orders: u64) {
    let workspace = Workspace::new();
    let job = format!("{},{seed},{threads}", workspace.original.display());
    let Some(trace) = traced_self("traced_program", &job, workspace.scratch.path()) else {
        return;
    };
    let context = format!("seed {seed}, {threads} threads");
    let replayed = workspace.compare(&trace, &context);
    workspace.compare_shuffled(&trace, 0..orders, &context);
    // A few calls are folded into the time of others; the rest must be made.
    assert!(replayed.performed > 400, "{replayed:#?}");
    let edges = replayed.waits.edges;
    assert!(threads == 1 || edges > 10, "{edges} edges");
}

#[test]
fn a_program_of_one_thread_is_replayed_with_equal_results() {
    for seed in 0..6 {
        compare(seed, 1, 0);
    }
}

/// The threads alternate, so the trace contains the order of all calls. Only the order of calls
/// without an edge differs between replays.
#[test]
fn threads_that_share_all_files_are_replayed_with_equal_results() {
    for seed in 0..6 {
        compare(seed, 3, 6);
    }
}

#[test]
#[ignore = "long: takes minutes: the same with more programs"]
fn long_many_programs_of_threads_are_replayed_with_equal_results() {
    for seed in 1000..1400 {
        compare(seed, 3, 12);
    }
}

#[test]
fn submitted_requests_are_made() {
    let workspace = Workspace::new();
    let job = workspace.original.display().to_string();
    let Some(trace) = traced_self("traced_blocks", &job, workspace.scratch.path()) else {
        return;
    };
    let replayed = workspace.compare(&trace, "blocks");
    let of = |call: &str| replayed.by_call.get(call).map(|times| (times.count, times.bytes));
    assert_eq!(of("pwrite64"), Some((2, 8000)));
    assert_eq!(of("pread64"), Some((3, 4096 + 1000)));
    assert_eq!(of("fdatasync"), Some((1, 0)));
}

const SHELL: &str = r#"
    cd "$1"
    cat f0 d0/f1 | wc -c >count
    (umask 077; mkdir -p deep/er; cp f0 deep/er/copy; exec 5>>deep/er/copy; echo more >&5) &
    for i in 1 2 3; do cp f0 "f0.$i"; done
    wait
    mv deep deeper; ln -s deeper/er/copy link; ln f0 hard; cat link >all; rm f0.2
    dd if=f0 of=sparse bs=1000 seek=50 count=3 conv=notrunc 2>/dev/null
"#;

#[test]
fn a_shell_and_its_children_are_replayed_with_equal_results() {
    let workspace = Workspace::new();
    let words = ["sh", "-c", SHELL, "shell"].map(OsStr::new);
    let mut command = words.to_vec();
    command.push(workspace.original.as_os_str());
    let Some(trace) = traced(&command, "", workspace.scratch.path()) else {
        return;
    };
    let replayed = workspace.compare(&trace, "shell");
    assert!(replayed.threads > 8, "{replayed:#?}");
}
