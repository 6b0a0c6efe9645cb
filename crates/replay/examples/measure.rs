//! Measures the overhead of the replayer: time per call minus that of the bare system call, and
//! lateness of sleeps. Usage: `cargo run --release -p plimsoll-replay --example measure DIRECTORY`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for interactive use"
)]

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use plimsoll_replay::action::{Action, Operation, RecordedResult, mark};
use plimsoll_replay::plan::{Plan, Worker};
use plimsoll_replay::result::ReplayResult;
use plimsoll_replay::root::{Name, Root};
use plimsoll_replay::run::{Settings, run};
use plimsoll_replay::timing::Timing;
use plimsoll_trace::event::{OpenId, PathId};
use plimsoll_trace::header::{Header, Recorder};
use plimsoll_trace::names::Names;

const CALLS: usize = 1_000_000;

fn replay(root: &Path, actions: Vec<Action>, timing: Timing) -> ReplayResult {
    let worker = Worker {
        actions,
        longest_read: 4096,
        longest_write: 4096,
        ..Worker::default()
    };
    let plan = Plan {
        workers: vec![worker],
        names: vec![Name::new(b"measured/file")],
        opens: 1,
        before: vec![(OpenId::new(0).unwrap(), PathId::new(0).unwrap())],
        ..Plan::default()
    };
    let header = Header::new(Recorder::Strace, 1000);
    let settings = Settings {
        timing,
        allow_root: true,
        ..Settings::default()
    };
    let root = Root::open(root).unwrap();
    run(
        &plan,
        &root,
        &Names::default(),
        &header,
        &settings,
        &AtomicBool::new(false),
    )
    .unwrap()
}

fn action(operation: Operation, recorded: i64) -> Action {
    Action {
        open: OpenId::new(0),
        length: recorded.unsigned_abs(),
        offset: 0,
        ..Action::new(operation, RecordedResult::returned(recorded))
    }
}

/// Time of the same call without the replayer, ns.
fn bare(count: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

fn compare(name: &str, root: &Path, action: Action, count: usize, call: impl FnMut()) {
    let replayed = replay(root, vec![action; count], Timing::Afap);
    assert!(
        replayed.mismatches.is_empty() && replayed.lost == 0,
        "{replayed:#?}"
    );
    let (ours, bare) = (replayed.wall_s * 1e9 / count as f64, bare(count, call));
    println!(
        "{name:14} {ours:8.0} ns a call, bare {bare:8.0} ns: {:+8.0} ns",
        ours - bare
    );
}

fn main() {
    let root = std::env::args()
        .nth(1)
        .expect("a directory that may be written to");
    let root = Path::new(&root);
    fs::create_dir_all(root.join("measured")).unwrap();
    let path = root.join("measured/file");
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    fs::write(&path, vec![7; 4096]).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let number = file.as_raw_fd();
    let mut data = [0_u8; 4096];
    for round in 1..=3 {
        println!("round {round}");
        compare("pread 512", root, action(Operation::Pread, 512), CALLS, || {
            // SAFETY: `data` has at least 512 bytes; the same is true for the write.
            unsafe { libc::pread(number, data.as_mut_ptr().cast(), 512, 0) };
        });
        compare("pwrite 512", root, action(Operation::Pwrite, 512), CALLS, || {
            // SAFETY: as above.
            unsafe { libc::pwrite(number, data.as_ptr().cast(), 512, 0) };
        });
        compare("lseek", root, action(Operation::Seek, 0), CALLS, || {
            // SAFETY: all arguments are numbers.
            unsafe { libc::lseek(number, 0, 0) };
        });
        let named = |operation, recorded| Action {
            path: PathId::new(0),
            open: None,
            ..action(operation, recorded)
        };
        compare("stat", root, named(Operation::Stat, 0), CALLS / 10, || {
            let mut status = std::mem::MaybeUninit::uninit();
            // SAFETY: the name ends in a zero, and `status` has the size of the result.
            unsafe { libc::stat(text.as_ptr(), status.as_mut_ptr()) };
        });
        let open = Action {
            open: OpenId::new(0),
            ..named(Operation::Open, 3)
        };
        compare("open and close", root, open, CALLS / 10, || {
            // SAFETY: the name ends in a zero.
            unsafe { libc::close(libc::open(text.as_ptr(), 0)) };
        });
        for (name, timing) in [("exact", Timing::Exact), ("diff", Timing::Diff { scale: 1.0 })] {
            let actions = (0..2000).map(|at| Action {
                start_ns: at * 1_000_000,
                waiting_ns: 1_000_000,
                marks: mark::STAY,
                ..named(Operation::Stat, 0)
            });
            let lateness = replay(root, actions.collect(), timing).lateness;
            println!(
                "lateness {name:5} p50 {:.2} us, p99 {:.2} us, max {:.1} us of {}",
                lateness.p50_us, lateness.p99_us, lateness.max_us, lateness.count
            );
        }
    }
    fs::remove_dir_all(root.join("measured")).unwrap();
}
