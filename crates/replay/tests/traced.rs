//! Programs run under strace, and their replay beneath another directory: both trees are the same, and so is every result.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

#[path = "traced/blocks.rs"]
mod blocks;
mod common;
#[path = "traced/program.rs"]
mod program;

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
use plimsoll_trace::follow::{Follower, Seen};
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

/// What strace has seen of a command. None with a message where strace is missing, which CI takes for a failure.
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
    let mut hear = |_: &mut Kernel, seen: &Seen<'_>| events.push(*seen.event);
    for (at, line) in fs::read(&log).unwrap().split(|&byte| byte == b'\n').enumerate() {
        follower.line(line, 1, &mut hear);
        if at == 0 {
            let pid = String::from_utf8_lossy(line);
            let pid = pid.split(' ').next().unwrap().parse().unwrap();
            follower.kernel().is_in(pid, here.as_os_str().as_bytes());
        }
    }
    follower.end(&mut hear);
    let names = follower.kernel().names().clone();
    Some((events, names))
}

/// Replays what was done in `from` beneath `to`. Everything else is ignored.
fn replayed(trace: &(Vec<Event>, Names), from: &Path, to: &Path, order: Ordering, root: &Root) -> Replayed {
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
    let plan = Plan::new(events.iter().copied(), names, place, options).unwrap();
    let settings = Settings {
        timing: Timing::Afap,
        allow_root: true,
        ..Settings::default()
    };
    assert!(to.is_dir());
    let header = Header::new(Recorder::Strace, 1000);
    run(&plan, root, names, &header, &settings, &AtomicBool::new(false)).unwrap()
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
    copies: [PathBuf; 3],
}

impl Rooms {
    /// The same beginning for the original and its replays.
    fn new() -> Self {
        let scratch = Scratch::new();
        let base = fs::canonicalize(scratch.path()).unwrap();
        let original = base.join("original");
        let copies = ["kernel", "walk", "by-time"].map(|name| base.join(name));
        for room in copies.iter().chain([&original]) {
            fs::create_dir_all(room.join("d0")).unwrap();
            fs::write(room.join("f0"), vec![7; 30_000]).unwrap();
            fs::write(room.join("d0/f1"), b"seven").unwrap();
        }
        Self {
            scratch,
            original,
            copies,
        }
    }

    /// Replays by every way, and compares.
    fn compare(&self, trace: &(Vec<Event>, Names), what: &str) -> Replayed {
        let wanted = tree(&self.original);
        let mut last = None;
        for (copy, way) in self.copies.iter().zip(0..) {
            let root = if way == 1 {
                Root::open_walking(copy)
            } else {
                Root::open(copy)
            };
            let order = if way == 2 {
                Ordering::Trace
            } else {
                Ordering::Resource
            };
            let found = replayed(trace, &self.original, copy, order, &root.unwrap());
            assert!(found.is_faithful(), "{what}, way {way}: {found:#?}");
            assert_eq!(tree(copy), wanted, "{what}, way {way}");
            last = Some(found);
        }
        last.unwrap()
    }
}

/// One of the programs above, run under strace.
fn traced_self(program: &str, job: &str, scratch: &Path) -> Option<(Vec<Event>, Names)> {
    let this = std::env::current_exe().unwrap();
    let words = ["--exact", program, "--ignored"].map(OsStr::new);
    let command: Vec<_> = [this.as_os_str()].into_iter().chain(words).collect();
    traced(&command, job, scratch)
}

fn compare(seed: u64, threads: usize) {
    let rooms = Rooms::new();
    let job = format!("{},{seed},{threads}", rooms.original.display());
    let Some(trace) = traced_self("traced_program", &job, rooms.scratch.path()) else {
        return;
    };
    let found = rooms.compare(&trace, &format!("seed {seed}, {threads} threads"));
    // A few calls were folded into one another's time; the rest must have been made.
    assert!(found.performed > 400, "{found:#?}");
    let edges = found.waits.edges;
    assert!(threads == 1 || edges > 10, "{edges} edges");
}

#[test]
fn one_thread_is_replayed_call_by_call() {
    for seed in 0..6 {
        compare(seed, 1);
    }
}

/// Known to be wrong: on a busy machine one or so in a hundred of these replays finds a result that is not the trace's. The cause is
/// not known yet; strace's own threads tell of calls in another order than the kernel has made them, which is one that may be.
#[test]
#[ignore = "now and then a replay is not faithful, see above: to be mended, not to be passed over"]
fn threads_that_share_everything_are_replayed_in_order() {
    for seed in 0..6 {
        compare(seed, 3);
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
