//! Programs run under strace, and their replay beneath another directory: both trees are the same,
//! and so is every result.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
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
use plimsoll_replay::result::Replayed;
use plimsoll_replay::root::Root;
use plimsoll_replay::run::{Settings, run};
use plimsoll_replay::timing::Timing;
use plimsoll_trace::event::Event;
use plimsoll_trace::follow::{Follower, Observation};
use plimsoll_trace::header::{Header, Recorder};
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::names::Names;

/// Where the program works, and how: its directory, its seed, its threads.
const JOB: &str = "PLIMSOLL_MODEL_JOB";

/// Not a test, but what the tests run under strace: this very binary again.
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

/// The same, for the program whose requests are blocks.
#[test]
#[ignore = "the program that another test traces"]
fn traced_blocks() {
    blocks::run(Path::new(&std::env::var(JOB).unwrap()));
}

/// What strace has seen of a command. None with a message where strace is missing, which CI takes
/// for a failure.
fn traced(command: &[&OsStr], job: &str, scratch: &Path) -> Option<(Vec<Event>, Names)> {
    let log = scratch.join("log");
    let done = Command::new("strace")
        .args(["-f", "-y", "-ttt", "-T", "-q", "-v", "-o"])
        .arg(&log)
        .args(command)
        .env(JOB, job)
        .output();
    if !done.as_ref().is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: strace is missing, or may trace nothing here: {done:?}");
        let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!ci, "under CI what is missing is a failure");
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

/// Of what was done in `from`. Everything else is ignored.
fn planned(trace: &(Vec<Event>, Names), from: &Path, order: Ordering) -> Plan {
    let (events, names) = trace;
    let from = from.as_os_str().as_bytes();
    let place = |path| {
        let rest = names.path(path).strip_prefix(from)?;
        (rest.is_empty() || rest[0] == b'/').then(|| rest.to_vec())
    };
    let options = Options {
        order,
        ..Options::default()
    };
    Plan::new(&header(), events.iter().copied(), names, place, options).unwrap()
}

fn header() -> Header {
    Header::new(Recorder::Strace, 1000)
}

fn replayed(plan: &Plan, names: &Names, root: &Root) -> Replayed {
    let settings = Settings {
        timing: Timing::Afap,
        allow_root: true,
        ..Settings::default()
    };
    let header = header();
    run(plan, root, names, &header, &settings, &AtomicBool::new(false)).unwrap()
}

/// Every name beneath a directory: its type, permissions, size, links, target, attributes.
fn tree(directory: &Path) -> Vec<String> {
    let mut told = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(directory.join(&at)).unwrap() {
            let name = at.join(entry.unwrap().file_name());
            let whole = directory.join(&name);
            let found = fs::symlink_metadata(&whole).unwrap();
            let (mut size, mut mode) = (found.len(), found.mode());
            let mut target = PathBuf::new();
            if found.is_dir() {
                todo.push(name.clone());
                size = 0;
            } else if found.is_symlink() {
                let text = fs::read_link(&whole).unwrap();
                // One from the root on is one that begins at the directory.
                target = text.strip_prefix(directory).map(Path::to_owned).unwrap_or(text);
                (size, mode) = (0, 0);
            }
            let links = if found.is_dir() { 0 } else { found.nlink() };
            told.push(format!(
                "{} {mode:o} {size} {links} {} {}",
                name.display(),
                target.display(),
                blocks(&found)
            ));
        }
    }
    told.sort();
    told
}

/// Whether anything is stored of it: holes are made where they were.
fn blocks(found: &fs::Metadata) -> bool {
    found.is_file() && found.blocks() > 0
}

struct Rooms {
    scratch: Scratch,
    original: PathBuf,
}

/// How a trace is replayed.
const WAYS: [Way; 3] = [
    Way {
        walks: false,
        order: Ordering::Resource,
    },
    Way {
        walks: true,
        order: Ordering::Resource,
    },
    Way {
        walks: false,
        order: Ordering::Trace,
    },
];

#[derive(Debug)]
struct Way {
    /// Names are resolved component by component.
    walks: bool,
    order: Ordering,
}

impl Rooms {
    fn new() -> Self {
        let scratch = Scratch::new();
        let base = fs::canonicalize(scratch.path()).unwrap();
        let original = base.join("original");
        furnish(&original);
        Self { scratch, original }
    }

    /// Replays by every way, and compares.
    fn compare(&self, trace: &(Vec<Event>, Names), what: &str) -> Replayed {
        let wanted = tree(&self.original);
        let mut last = None;
        for way in &WAYS {
            let plan = planned(trace, &self.original, way.order);
            last = Some(self.is_the_same(&plan, &trace.1, way.walks, &wanted, &format!("{what}, {way:?}")));
        }
        last.unwrap()
    }

    /// Replays in orders that the edges allow, and compares.
    fn compare_shuffled(&self, trace: &(Vec<Event>, Names), orders: std::ops::Range<u64>, what: &str) {
        let wanted = tree(&self.original);
        for order in orders {
            let mut plan = planned(trace, &self.original, Ordering::Resource);
            shuffle::shuffle(&mut plan, order);
            self.is_the_same(&plan, &trace.1, false, &wanted, &format!("{what}, order {order}"));
        }
    }

    fn is_the_same(
        &self,
        plan: &Plan,
        names: &Names,
        walks: bool,
        wanted: &[String],
        what: &str,
    ) -> Replayed {
        let copy = self.original.with_file_name("copy");
        furnish(&copy);
        let root = if walks {
            Root::open_walking(&copy)
        } else {
            Root::open(&copy)
        };
        let found = replayed(plan, names, &root.unwrap());
        assert!(found.is_faithful(), "{what}: {found:#?}");
        assert_eq!(tree(&copy), wanted, "{what}");
        fs::remove_dir_all(copy).unwrap();
        found
    }
}

/// One of the programs above, run under strace.
fn traced_self(program: &str, job: &str, scratch: &Path) -> Option<(Vec<Event>, Names)> {
    let this = std::env::current_exe().unwrap();
    let words = ["--exact", program, "--ignored"].map(OsStr::new);
    let command: Vec<_> = [this.as_os_str()].into_iter().chain(words).collect();
    traced(&command, job, scratch)
}

/// The same beginning for the original and its replays.
fn furnish(room: &Path) {
    fs::create_dir_all(room.join("d0")).unwrap();
    fs::write(room.join("f0"), vec![7; 30_000]).unwrap();
    fs::write(room.join("d0/f1"), b"seven").unwrap();
}

/// A random program is traced and replayed by all ways, and in so many shuffled orders.
fn compare(seed: u64, threads: usize, orders: u64) {
    let rooms = Rooms::new();
    let job = format!("{},{seed},{threads}", rooms.original.display());
    let Some(trace) = traced_self("traced_program", &job, rooms.scratch.path()) else {
        return;
    };
    let what = format!("seed {seed}, {threads} threads");
    let found = rooms.compare(&trace, &what);
    rooms.compare_shuffled(&trace, 0..orders, &what);
    // A few calls were folded into one another's time; the rest must have been made.
    assert!(found.performed > 400, "{found:#?}");
    let edges = found.waits.edges;
    assert!(threads == 1 || edges > 10, "{edges} edges");
}

#[test]
fn one_thread_is_replayed_call_by_call() {
    for seed in 0..6 {
        compare(seed, 1, 0);
    }
}

/// Their calls take turns, so that the trace tells the order of all of them: nothing is left to
/// chance but which of them a replay does first where no edge says so.
#[test]
fn threads_that_share_everything_are_replayed_in_order() {
    for seed in 0..6 {
        compare(seed, 3, 6);
    }
}

#[test]
#[ignore = "long: takes minutes: the same with more programs"]
fn long_many_programs_whose_threads_share_everything_are_replayed_in_order() {
    for seed in 1000..1400 {
        compare(seed, 3, 12);
    }
}

#[test]
fn requests_that_were_handed_over_are_made() {
    let rooms = Rooms::new();
    let job = rooms.original.display().to_string();
    let Some(trace) = traced_self("traced_blocks", &job, rooms.scratch.path()) else {
        return;
    };
    let found = rooms.compare(&trace, "blocks");
    let of = |call: &str| found.by_call.get(call).map(|it| (it.count, it.bytes));
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
fn a_shell_with_its_children_is_replayed() {
    let rooms = Rooms::new();
    let words = ["sh", "-c", SHELL, "shell"].map(OsStr::new);
    let mut command = words.to_vec();
    command.push(rooms.original.as_os_str());
    let Some(trace) = traced(&command, "", rooms.scratch.path()) else {
        return;
    };
    let found = rooms.compare(&trace, "shell");
    assert!(found.threads > 8, "{found:#?}");
}
