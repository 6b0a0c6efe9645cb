//! Carrying out plans that are made by hand: time, stopping, letting go, refusing.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

mod common;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Scratch;
use plimsoll_replay::action::{Action, Operation, Recorded, mark};
use plimsoll_replay::order::Edge;
use plimsoll_replay::plan::{Plan, Worker};
use plimsoll_replay::result::Replayed;
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

/// Names beneath the root, which are also those of the trace; each worker's actions.
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
    let of = |actions: Vec<Action>| Worker {
        longest_read: 4096,
        longest_write: 4096,
        actions,
        ..Worker::default()
    };
    let plan = Plan {
        workers: workers.into_iter().map(of).collect(),
        names: names.iter().map(|name| Name::new(name.as_bytes())).collect(),
        opens: 8,
        ..Plan::default()
    };
    (plan, table)
}

fn action(operation: Operation, recorded: i64) -> Action {
    Action::new(operation, Recorded::returned(recorded))
}

fn on_name(operation: Operation, recorded: i64, path: usize) -> Action {
    Action {
        path: PathId::new(path),
        ..action(operation, recorded)
    }
}

fn replay((plan, names): &(Plan, Names), scratch: &Scratch, settings: Settings) -> Replayed {
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
fn root_is_refused_unless_it_is_meant() {
    let scratch = Scratch::new();
    let root = Root::open(scratch.path()).unwrap();
    let (plan, names) = plan(&["/made"], vec![vec![on_name(Operation::Mkdir, 0, 0)]]);
    let said = run(
        &plan,
        &root,
        &names,
        &header(None),
        &Settings::default(),
        &AtomicBool::new(false),
    );
    let is_root = nix::unistd::geteuid().is_root();
    assert_eq!(matches!(said, Err(RunError::IsRoot)), is_root);
    assert_eq!(scratch.path().join("made").exists(), !is_root);
}

#[test]
fn think_times_are_kept_in_diff_and_left_out_in_afap() {
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
    // That it is shorter than the sleep alone needs no fast machine.
    let fast = replay(&plan, &scratch, settings(Timing::Afap));
    assert_eq!((fast.performed, fast.lateness.count), (1, 0));
}

#[test]
fn exact_never_begins_before_its_time() {
    let scratch = Scratch::new();
    let at = |ms: u64| Action {
        start_ns: 1_000 * MS as i64 + (ms * MS) as i64,
        ..on_name(Operation::Stat, 0, 0)
    };
    let (mut plan, names) = plan(&["/"], vec![vec![at(0), at(20), at(50)]]);
    plan.zero_ns = 1_000 * MS as i64;
    let found = replay(&(plan, names), &scratch, settings(Timing::Exact));
    assert!(found.wall_s >= 0.05, "{found:#?}");
    assert_eq!(found.lateness.count, 3);
}

#[test]
fn a_replay_that_sleeps_or_waits_can_be_stopped() {
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
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        let settings = settings(Timing::Diff { scale: 1.0 });
        run(&plan, &root, &names, &header(None), &settings, &stop).unwrap()
    });
    assert!(found.stopped && !found.is_faithful());
    assert_eq!(found.performed, 0);
    assert!(
        begun.elapsed() < Duration::from_secs(600),
        "an hour was asked for"
    );
}

#[test]
fn who_waits_for_what_never_comes_is_let_go_and_told() {
    let scratch = Scratch::new();
    let stat = on_name(Operation::Stat, 0, 0);
    let (mut plan, names) = plan(&["/"], vec![vec![stat], vec![stat], vec![stat]]);
    // The second one is begun by nobody; the third one ends before it has done as much as the first
    // one wants.
    plan.workers[1].is_forked = true;
    for (worker, until) in [(1, 1), (2, 9)] {
        plan.workers[0].edges.push(Edge { at: 0, worker, until });
    }
    let settings = Settings {
        patience: Duration::from_millis(100),
        ..settings(Timing::Afap)
    };
    let found = replay(&(plan, names), &scratch, settings);
    assert_eq!((found.waits.let_go, found.performed), (2, 2));
    let first = &found.waits.examples[0];
    assert_eq!((first.thread, first.awaited_thread), (100, 101));
    assert_eq!((first.call.as_str(), first.path.as_deref()), ("stat", Some("/")));
    assert!(!found.is_faithful());
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
    let found = replay(&plan, &scratch, settings(Timing::Afap));
    let told: Vec<_> = found
        .mismatches
        .iter()
        .map(|one| {
            (
                one.call.as_str(),
                one.recorded.as_str(),
                one.got.as_str(),
                one.count,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("read", "ok", "fewer bytes", 1),
            ("stat", "ok", "ENOENT", 1),
            // Behind whatever may have been its cause.
            ("read", "ok", "not open", 1)
        ]
    );
    assert_eq!(found.mismatches[0].examples[0].got, 5);
    // A call on a descriptor has no name of its own: it is told by what was opened.
    assert_eq!(found.mismatches[0].examples[0].path, "/short");
    assert_eq!(found.mismatches[2].examples[0].path, "", "nobody has opened it");
    assert_eq!(found.mismatches[1].examples[0].path, "/missing");
    let why: Vec<_> = found
        .refusals
        .iter()
        .map(|one| (one.call.as_str(), one.count))
        .collect();
    assert_eq!(why, [("unlink", 1), ("chown", 1), ("refused", 1)]);
    assert_eq!(found.refusals[0].examples, ["/../outside"]);
    assert_eq!((found.read_bytes, found.lost), (5, 1));
    // What was left open is closed.
    let inside = fs::canonicalize(scratch.path()).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let left = open.filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path());
        target.is_ok_and(|target| target.starts_with(&inside))
    });
    assert_eq!(left.count(), 0);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Replayed>(&text).unwrap(), found);
}

#[test]
fn what_tracing_cost_is_told() {
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
    let found = run(&plan, &root, &names, &header, &settings, &AtomicBool::new(false)).unwrap();
    let untraced = found.untraced_s;
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(found.recorded_s, 0.0015));
    // Of every call: 100 - 20 and 50 - 40; 100 - 20 and 50 - 30; 100 - 25 and nothing, where 5 more
    // should have been taken, which the next call's gap pays.
    assert!(close(untraced.middle_s, 0.0009), "{untraced:?}");
    assert!(
        close(untraced.high_s, 0.001) && close(untraced.low_s, 0.000_705),
        "{untraced:?}"
    );
    assert!(close(found.tracing[0].subtracted_ns, 600_000.0));
    assert!(close(found.tracing[2].clipped_ns, 5_000.0));
    let times = &found.by_call["stat"];
    assert!(close(times.recorded_s, 0.0005) && close(times.untraced_s, 0.0001));
    // Of a trace it is the estimate of its profile; of one core the range is that of both.
    plan.times = Some(Times {
        recorded_s: 0.0015,
        low_s: Some(0.0003),
        corrected_s: Some(0.0005),
        high_s: Some(0.0008),
    });
    let mut ends = |on_one_core| {
        plan.on_one_core = on_one_core;
        let found = run(&plan, &root, &names, &header, &settings, &AtomicBool::new(false)).unwrap();
        assert!(close(found.planned_s, 0.0009));
        [
            found.untraced_s.low_s,
            found.untraced_s.middle_s,
            found.untraced_s.high_s,
        ]
        .map(|seconds| (seconds * 1e6).round() as i64)
    };
    assert_eq!(ends(false), [300, 500, 800]);
    assert_eq!(ends(true), [300, 900, 1000]);
}

/// Where storage cannot be shared, data are copied, and it is said which it was.
#[test]
fn clones_are_made_or_copied() {
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
    let found = replay(
        &plan(&["/from", "/to"], vec![actions]),
        &scratch,
        settings(Timing::Afap),
    );
    assert!(found.is_faithful(), "{found:#?}");
    let made = |name: &str| found.by_call.get(name).map_or(0, |it| it.count);
    assert_eq!(made("ioctl (FICLONE)") + made("copy_file_range (for FICLONE)"), 2);
    let mut wanted = data.clone();
    wanted[65536..65536 + 8192].copy_from_slice(&data[4096..4096 + 8192]);
    assert_eq!(fs::read(scratch.path().join("to")).unwrap(), wanted);
}
