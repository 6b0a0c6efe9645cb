//! Tests of handmade plans: time, stopping, abandoned waits, refusals.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails; its helpers are tests as well"
)]

mod common;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Scratch;
use plimsoll_replay::action::{Action, Operation, RecordedResult, mark};
use plimsoll_replay::order::Edge;
use plimsoll_replay::plan::{Plan, Worker};
use plimsoll_replay::result::ReplayResult;
use plimsoll_replay::root::{Name, Root};
use plimsoll_replay::run::{RunError, Settings, run};
use plimsoll_replay::timing::Timing;
use plimsoll_trace::event::{OpenId, PathId};
use plimsoll_trace::header::{Calibration, Header, Recorder};
use plimsoll_trace::names::{Names, ThreadEntry};
use plimsoll_trace::profile::json::Times;

const MS: u64 = 1_000_000;

fn header(calibration: Option<Calibration>) -> Header {
    Header {
        calibration,
        ..Header::new(Recorder::Strace, 1000)
    }
}

/// A plan with these names, which are those beneath the root and of the trace, and with the actions
/// of each worker.
fn plan(names: &[&str], workers: Vec<Vec<Action>>) -> (Plan, Names) {
    let mut table = Names::default();
    for name in names {
        table.add_path(name.as_bytes()).unwrap();
    }
    for tid in 0..workers.len() as u32 {
        let entry = ThreadEntry {
            tid: 100 + tid,
            pid: 100,
            parent: None,
        };
        table.add_thread(entry).unwrap();
    }
    let worker = |actions: Vec<Action>| Worker {
        longest_read: 4096,
        longest_write: 4096,
        actions,
        ..Worker::default()
    };
    let plan = Plan {
        workers: workers.into_iter().map(worker).collect(),
        names: names.iter().map(|name| Name::new(name.as_bytes())).collect(),
        opens: 8,
        ..Plan::default()
    };
    (plan, table)
}

fn action(operation: Operation, recorded: i64) -> Action {
    Action::new(operation, RecordedResult::returned(recorded))
}

fn on_name(operation: Operation, recorded: i64, path: usize) -> Action {
    Action {
        path: PathId::new(path),
        ..action(operation, recorded)
    }
}

fn replay((plan, names): &(Plan, Names), scratch: &Scratch, settings: Settings) -> ReplayResult {
    let root = Root::open(scratch.path()).unwrap();
    run(
        plan,
        &root,
        names,
        &header(None),
        &settings,
        &AtomicBool::new(false),
    )
    .unwrap()
}

fn settings(timing: Timing) -> Settings {
    Settings {
        timing,
        allow_root: true,
        ..Settings::default()
    }
}

#[test]
fn root_is_refused_unless_allowed() {
    let scratch = Scratch::new();
    let root = Root::open(scratch.path()).unwrap();
    let (plan, names) = plan(&["/made"], vec![vec![on_name(Operation::Mkdir, 0, 0)]]);
    let result = run(
        &plan,
        &root,
        &names,
        &header(None),
        &Settings::default(),
        &AtomicBool::new(false),
    );
    let is_root = nix::unistd::geteuid().is_root();
    assert_eq!(matches!(result, Err(RunError::IsRoot)), is_root);
    assert_eq!(scratch.path().join("made").exists(), !is_root);
}

#[test]
fn think_times_are_kept_in_diff_and_omitted_in_afap() {
    let scratch = Scratch::new();
    let thinking = Action {
        computing_ns: 40 * MS,
        waiting_ns: 30 * MS,
        ..on_name(Operation::Stat, 0, 0)
    };
    let slept = Action {
        duration_ns: 20 * MS,
        ..action(Operation::Wait, 0)
    };
    let caused = Action {
        duration_ns: 3_600_000 * MS,
        marks: mark::CAUSED,
        ..action(Operation::Wait, 0)
    };
    let plan = plan(&["/"], vec![vec![thinking, slept, caused]]);
    let whole = replay(&plan, &scratch, settings(Timing::Diff { scale: 1.0 }));
    assert!(whole.wall_s >= 0.09, "{whole:#?}");
    assert_eq!(whole.lateness.count, 2);
    let half = replay(&plan, &scratch, settings(Timing::Diff { scale: 0.5 }));
    assert!(half.wall_s >= 0.07, "{half:#?}");
    // Even a slow machine needs less time than the sleep alone.
    let fast = replay(&plan, &scratch, settings(Timing::Afap));
    assert_eq!((fast.performed, fast.lateness.count), (1, 0));
}

#[test]
fn exact_actions_never_begin_before_their_time() {
    let scratch = Scratch::new();
    let at = |ms: u64| Action {
        start_ns: 1_000 * MS as i64 + (ms * MS) as i64,
        ..on_name(Operation::Stat, 0, 0)
    };
    let (mut plan, names) = plan(&["/"], vec![vec![at(0), at(20), at(50)]]);
    plan.zero_ns = 1_000 * MS as i64;
    let replayed = replay(&(plan, names), &scratch, settings(Timing::Exact));
    assert!(replayed.wall_s >= 0.05, "{replayed:#?}");
    assert_eq!(replayed.lateness.count, 3);
}

#[test]
fn a_sleeping_or_waiting_replay_can_be_stopped() {
    let scratch = Scratch::new();
    let sleeper = Action {
        waiting_ns: 3_600_000 * MS,
        ..on_name(Operation::Stat, 0, 0)
    };
    let burner = Action {
        computing_ns: 3_600_000 * MS,
        ..on_name(Operation::Stat, 0, 0)
    };
    let (mut plan, names) = plan(
        &["/"],
        vec![vec![sleeper], vec![burner], vec![on_name(Operation::Stat, 0, 0)]],
    );
    plan.workers[2].edges.push(Edge {
        at: 0,
        worker: 0,
        until: 1,
    });
    let root = Root::open(scratch.path()).unwrap();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let replayed = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        let settings = settings(Timing::Diff { scale: 1.0 });
        run(&plan, &root, &names, &header(None), &settings, &stop).unwrap()
    });
    assert!(replayed.stopped && !replayed.is_faithful());
    assert_eq!(replayed.performed, 0);
    assert!(
        begun.elapsed() < Duration::from_secs(600),
        "the plan lasts an hour"
    );
}

#[test]
fn a_wait_without_end_is_abandoned_and_reported() {
    let scratch = Scratch::new();
    let stat = on_name(Operation::Stat, 0, 0);
    let (mut plan, names) = plan(&["/"], vec![vec![stat], vec![stat], vec![stat]]);
    // The second worker is started by no fork. The third ends before it has completed the number of
    // actions that the first waits for.
    plan.workers[1].is_forked = true;
    for (worker, until) in [(1, 1), (2, 9)] {
        plan.workers[0].edges.push(Edge { at: 0, worker, until });
    }
    let settings = Settings {
        patience: Duration::from_millis(100),
        ..settings(Timing::Afap)
    };
    let replayed = replay(&(plan, names), &scratch, settings);
    assert_eq!((replayed.waits.let_go, replayed.performed), (2, 2));
    let first = &replayed.waits.examples[0];
    assert_eq!((first.thread, first.awaited_thread), (100, 101));
    assert_eq!((first.call.as_str(), first.path.as_deref()), ("stat", Some("/")));
    assert!(!replayed.is_faithful());
}

#[test]
fn differences_and_refusals_are_counted_with_examples() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("short"), b"12345").unwrap();
    let open = OpenId::new(0);
    let opens = Action {
        open,
        ..on_name(Operation::Open, 3, 0)
    };
    let reads = Action {
        open,
        length: 100,
        ..action(Operation::Read, 100)
    };
    let lost = Action {
        open: OpenId::new(1),
        ..reads
    };
    let out = on_name(Operation::Unlink, 0, 2);
    let missing = on_name(Operation::Stat, 0, 1);
    let chown = Action {
        length: plimsoll_trace::syscalls::find(b"chown").unwrap().index() as u64 + 1,
        ..action(Operation::Refuse, 0)
    };
    let actions = vec![
        opens,
        reads,
        lost,
        out,
        missing,
        action(Operation::Refuse, 0),
        chown,
    ];
    let plan = plan(&["/short", "/missing", "/../outside"], vec![actions]);
    let replayed = replay(&plan, &scratch, settings(Timing::Afap));
    let mismatches: Vec<_> = replayed
        .mismatches
        .iter()
        .map(|mismatch| {
            (
                mismatch.call.as_str(),
                mismatch.recorded.as_str(),
                mismatch.got.as_str(),
                mismatch.count,
            )
        })
        .collect();
    assert_eq!(
        mismatches,
        [
            ("read", "ok", "fewer bytes", 1),
            ("stat", "ok", "ENOENT", 1),
            // After its possible causes.
            ("read", "ok", "not open", 1)
        ]
    );
    assert_eq!(replayed.mismatches[0].examples[0].got, 5);
    // A call on a descriptor has no path: the path of the opened file is reported.
    assert_eq!(replayed.mismatches[0].examples[0].path, "/short");
    assert_eq!(
        replayed.mismatches[2].examples[0].path, "",
        "no call has opened it"
    );
    assert_eq!(replayed.mismatches[1].examples[0].path, "/missing");
    let why: Vec<_> = replayed
        .refusals
        .iter()
        .map(|refusal| (refusal.call.as_str(), refusal.count))
        .collect();
    assert_eq!(why, [("unlink", 1), ("chown", 1), ("refused", 1)]);
    assert_eq!(replayed.refusals[0].examples, ["/../outside"]);
    assert_eq!((replayed.read_bytes, replayed.lost), (5, 1));
    // Files that the plan leaves open are closed.
    let inside = fs::canonicalize(scratch.path()).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let still_open = open.filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path());
        target.is_ok_and(|target| target.starts_with(&inside))
    });
    assert_eq!(still_open.count(), 0);
    let text = serde_json::to_string(&replayed).unwrap();
    assert_eq!(serde_json::from_str::<ReplayResult>(&text).unwrap(), replayed);
}

#[test]
fn the_cost_of_tracing_is_subtracted_and_reported() {
    let scratch = Scratch::new();
    let root = Root::open(scratch.path()).unwrap();
    let thinking = Action {
        computing_ns: 100_000,
        duration_ns: 50_000,
        ..on_name(Operation::Stat, 0, 0)
    };
    let (mut plan, names) = plan(&["/"], vec![vec![thinking; 10]]);
    plan.calls = 10;
    (plan.zero_ns, plan.end_ns) = (0, 1_500_000);
    let header = header(Some(Calibration {
        call_ns: [60_000.0, 50_000.0, 80_000.0],
        duration_ns: [40_000.0, 30_000.0, 55_000.0],
        calls: 1000,
    }));
    let settings = settings(Timing::Afap);
    let replayed = run(&plan, &root, &names, &header, &settings, &AtomicBool::new(false)).unwrap();
    let untraced = replayed.untraced_s;
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(replayed.recorded_s, 0.0015));
    // Per call: 100 - 20 and 50 - 40; 100 - 20 and 50 - 30; 100 - 25 and 0, where the remaining 5
    // are subtracted from the gap of the next call.
    assert!(close(untraced.middle_s, 0.0009), "{untraced:?}");
    assert!(
        close(untraced.high_s, 0.001) && close(untraced.low_s, 0.000_705),
        "{untraced:?}"
    );
    assert!(close(replayed.tracing[0].subtracted_ns, 600_000.0));
    assert!(close(replayed.tracing[2].clipped_ns, 5_000.0));
    let times = &replayed.by_call["stat"];
    assert!(close(times.recorded_s, 0.0005) && close(times.untraced_s, 0.0001));
    // For a trace it is the estimate of its profile; for one core the range includes both.
    plan.times = Some(Times {
        recorded_s: 0.0015,
        low_s: Some(0.0003),
        corrected_s: Some(0.0005),
        high_s: Some(0.0008),
    });
    let mut ends = |on_one_core| {
        plan.on_one_core = on_one_core;
        let replayed = run(&plan, &root, &names, &header, &settings, &AtomicBool::new(false)).unwrap();
        assert!(close(replayed.planned_s, 0.0009));
        [
            replayed.untraced_s.low_s,
            replayed.untraced_s.middle_s,
            replayed.untraced_s.high_s,
        ]
        .map(|seconds| (seconds * 1e6).round() as i64)
    };
    assert_eq!(ends(false), [300, 500, 800]);
    assert_eq!(ends(true), [300, 900, 1000]);
}

/// If storage cannot be shared, data are copied, and the result states which was done.
#[test]
fn clones_are_made_or_replaced_by_copies() {
    let scratch = Scratch::new();
    let data: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    fs::write(scratch.path().join("from"), &data).unwrap();
    fs::write(scratch.path().join("to"), b"").unwrap();
    let open = |file: usize| Action {
        open: OpenId::new(file),
        flags: libc::O_RDWR as u32,
        ..on_name(Operation::Open, 3, file)
    };
    let clone = |[from, length, to]: [u64; 3]| Action {
        open: OpenId::new(0),
        open2: OpenId::new(1),
        offset: from as i64,
        offset2: to as i64,
        length,
        ..action(Operation::Clone, 0)
    };
    let actions = vec![open(0), open(1), clone([0, 0, 0]), clone([4096, 8192, 65536])];
    let replayed = replay(
        &plan(&["/from", "/to"], vec![actions]),
        &scratch,
        settings(Timing::Afap),
    );
    assert!(replayed.is_faithful(), "{replayed:#?}");
    let made = |name: &str| replayed.by_call.get(name).map_or(0, |times| times.count);
    assert_eq!(made("ioctl (FICLONE)") + made("copy_file_range (for FICLONE)"), 2);
    let mut expected = data.clone();
    expected[65536..65536 + 8192].copy_from_slice(&data[4096..4096 + 8192]);
    assert_eq!(fs::read(scratch.path().join("to")).unwrap(), expected);
}
