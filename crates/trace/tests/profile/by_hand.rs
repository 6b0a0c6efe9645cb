//! The contribution of single kinds of events to the profile.

use plimsoll_trace::event::{OpenId, Outcome};
use plimsoll_trace::header::{Footer, Recorder};
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::json::Profile;
use plimsoll_trace::profile::{Choice, Profiler};

use crate::scene::{MS, Scene, assert_close, file};

#[test]
fn an_empty_trace_has_a_profile() {
    let profile = Scene::new().profile();
    assert_eq!(
        (profile.totals.calls, profile.files.len(), profile.processes.len()),
        (0, 0, 0)
    );
    assert_eq!((profile.time.wall.recorded_s, profile.findings.len()), (0.0, 0));
    assert_eq!(profile.totals.io.sequential_share, None);
}

#[test]
fn a_profile_is_restored_from_its_json() {
    let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
    let one = scene.file("/data/one", Kind::File);
    let mut handle = scene.open(one);
    scene.data(&mut handle, "read", 4096, 100);
    scene.fail("stat", "/none", 2);
    let profile = scene.profile();
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["format"], "plimsoll.profile/1");
    assert_eq!(json["totals"]["read_bytes"], 100);
    let of_file = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"] == "/data/one")
        .unwrap();
    for key in [
        "opens",
        "reads",
        "read_bytes",
        "writes",
        "write_bytes",
        "seeks",
        "useless_seeks",
        "unique_read_bytes",
        "read_s",
        "write_s",
        "sequential_share",
    ] {
        assert!(of_file[key].is_number(), "{key}: {}", of_file[key]);
    }
}

#[test]
fn times_are_corrected_call_by_call_and_absent_without_durations() {
    let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
    let one = scene.file("/one", Kind::File);
    let mut handle = scene.open(one);
    for duration in [10_000, 5_000, 1_000_000] {
        scene.duration = Some(duration);
        scene.data(&mut handle, "read", 100, 100);
    }
    let time = file(&scene.profile(), "/one").io.read_time.unwrap();
    assert_close(time.recorded_s, 1_015e-6);
    // At most 12 us are subtracted, at least 3 us. The second read never takes less than 0.
    assert_close(time.low_s.unwrap(), 988e-6);
    assert_close(time.corrected_s.unwrap(), (4.0 + 994.0) * 1e-6);
    assert_close(time.high_s.unwrap(), (7.0 + 2.0 + 997.0) * 1e-6);
    let profile = scene.profile();
    let duration = file(&profile, "/one")
        .io
        .read
        .clone()
        .unwrap()
        .duration_s
        .unwrap();
    assert_close(duration.max, 994e-6);
    assert_eq!(duration.min, 0.0);
    // Nothing remains of the second read, so it has no speed.
    assert_eq!(
        file(&profile, "/one")
            .io
            .read
            .clone()
            .unwrap()
            .speed
            .unwrap()
            .count,
        2
    );
    assert_close(
        profile
            .calls
            .iter()
            .find(|call| call.name == "read")
            .unwrap()
            .mean_s
            .unwrap(),
        998e-6 / 3.0,
    );

    scene.header.has_durations = false;
    scene.events.iter_mut().for_each(|event| event.duration_ns = None);
    let profile = scene.profile();
    let io = &file(&profile, "/one").io;
    assert_eq!(
        (io.read_time, io.read_s, io.run_share, profile.time.calls),
        (None, None, None, None)
    );
    assert_eq!(
        (profile.calls[0].time, profile.calls[0].p50_s, io.reads),
        (None, None, 3)
    );
}

#[test]
fn a_run_that_is_mostly_tracing_has_a_range_of_times() {
    for (gap, most) in [(10_000, true), (200_000, false)] {
        let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
        let one = scene.file("/one", Kind::File);
        let mut handle = scene.open(one);
        for _ in 0..1000 {
            scene.now += 30_000 + gap;
            scene.data(&mut handle, "read", 100, 100);
        }
        let time = scene.profile().time;
        assert_eq!(time.interval_only, most, "{time:?}");
        assert!(time.wall.low_s < time.wall.corrected_s && time.wall.corrected_s < time.wall.high_s);
    }
}

#[test]
fn processes_form_a_tree() {
    let mut scene = Scene::new();
    let program = scene.path("/bin/make");
    scene.call(0, "execve", Outcome::Returned(0)).path = Some(program);
    let child = scene.thread(200, 200, Some(0));
    scene.call(0, "vfork", Outcome::Returned(200)).other = Some(child);
    let thread = scene.thread(201, 200, Some(1));
    let data = scene.file("/data", Kind::File);
    let mut handle = scene.open(data);
    handle.thread = 1;
    scene.data(&mut handle, "read", 50, 50);
    handle.thread = thread.index();
    scene.data(&mut handle, "read", 70, 70);
    // The id is reused for a child of the thread.
    scene.thread(200, 200, Some(2));
    let compiler = scene.path("/bin/cc");
    scene.call(3, "execve", Outcome::Returned(0)).path = Some(compiler);
    scene.call(3, "wait4", Outcome::Failed(10));
    let profile = scene.profile();
    let seen: Vec<_> = profile
        .processes
        .iter()
        .map(|process| {
            (
                process.pid,
                process.parent,
                process.program.as_deref(),
                process.threads.len(),
                process.work.read_bytes,
                process.executes,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (100, None, Some("/bin/make"), 1, 0, 1),
            (200, Some(0), Some("/bin/make"), 2, 120, 0),
            (200, Some(1), Some("/bin/cc"), 1, 0, 1),
        ]
    );
    let third = &profile.processes[2];
    assert_close(third.work.waiting_time.unwrap().recorded_s, 10e-6);
    assert_eq!((third.work.failed_calls, profile.totals.failed_calls), (1, 1));
    assert!(third.start_s > profile.processes[1].end_s - 1e-9);
    let used = file(&profile, "/data");
    assert_eq!(
        (used.threads, used.process_count, &used.processes),
        (3, 2, &vec![0, 1])
    );
}

#[test]
fn failures_are_counted_by_call_and_error_and_lookups_by_path() {
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.fail("openat", "/lib/a.so", 2);
    }
    scene.fail("stat", "/lib/a.so", 20);
    scene.fail("stat", "/secret", 13);
    let later = scene.file("/lib/a.so", Kind::File);
    scene.open(later);
    let profile = scene.profile();
    assert_eq!(profile.missing.len(), 1);
    assert_eq!(
        (profile.missing[0].path.as_str(), profile.missing[0].count),
        ("/lib/a.so", 6)
    );
    let found = file(&profile, "/lib/a.so");
    let failed: Vec<_> = found
        .io
        .failed
        .iter()
        .map(|failed| (failed.call.as_str(), failed.error.as_str(), failed.count))
        .collect();
    assert_eq!(failed, [("openat", "ENOENT", 5), ("stat", "ENOTDIR", 1)]);
    assert_eq!(
        (found.kind.as_str(), found.incarnations, found.io.opens),
        ("file", 1, 1)
    );
    assert_eq!(
        (
            file(&profile, "/secret").kind.as_str(),
            file(&profile, "/secret").incarnations
        ),
        ("name", 0)
    );
    let opens = profile.calls.iter().find(|call| call.name == "openat").unwrap();
    assert_eq!(
        (opens.count, opens.errors["ENOENT"], opens.effect.as_str()),
        (6, 5, "open")
    );
}

#[test]
fn files_that_had_a_path_one_after_another_are_combined() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        let one = scene.file("/lock", Kind::File);
        let mut handle = scene.open(one);
        scene.data(&mut handle, "write", 10, 10);
        scene.close(&handle);
        let to = scene.path("/config");
        let event = scene.call(0, "rename", Outcome::Returned(0));
        (event.file, event.path, event.path2) = (Some(one), None, Some(to));
    }
    let profile = scene.profile();
    let lock = file(&profile, "/config");
    assert_eq!(
        (
            lock.incarnations,
            lock.io.opens,
            lock.io.unique_write_bytes,
            lock.io.overwritten_bytes
        ),
        (3, 3, 30, 0)
    );
    assert_eq!(lock.other_names, ["/lock"]);
    assert_eq!(lock.io.metadata["rename"], 3);
    assert_eq!(profile.totals.files, 1);
}

/// A transfer between files counts as a read of one and a write of the other. The time of the call
/// counts once.
#[test]
fn a_transfer_is_a_read_and_a_write() {
    let mut scene = Scene::new();
    let (from, to) = (scene.file("/from", Kind::File), scene.file("/to", Kind::File));
    let (from, to) = (scene.open(from), scene.open(to));
    for step in 0..3 {
        let event = scene.of(&from, "copy_file_range", Outcome::Returned(100));
        (event.open2, event.file2, event.length) = (Some(to.open), Some(to.file), Some(100));
        (event.offset, event.offset2) = (Some(step * 100), Some(step * 100));
    }
    let profile = scene.profile();
    let (from, to) = (&file(&profile, "/from").io, &file(&profile, "/to").io);
    assert_eq!(
        (from.reads, from.read_bytes, from.unique_read_bytes, from.writes),
        (3, 300, 300, 0)
    );
    assert_eq!(
        (to.writes, to.write_bytes, to.unique_write_bytes, to.reads),
        (3, 300, 300, 0)
    );
    assert_eq!(
        (from.sequential_share, to.sequential_share),
        (Some(1.0), Some(1.0))
    );
    assert_close(from.read_time.unwrap().recorded_s, 30e-6);
    assert_eq!(to.write_time.unwrap().recorded_s, 0.0);
    assert_eq!(profile.totals.calls, 5);
}

#[test]
fn data_of_pipes_are_counted_separately() {
    let mut scene = Scene::new();
    let pipe = scene.file("pipe:", Kind::Pipe);
    let event = scene.call(0, "read", Outcome::Returned(70));
    (event.file, event.open, event.length) = (Some(pipe), OpenId::new(9), Some(100));
    scene.call(0, "sendto", Outcome::Returned(5)).file = Some(pipe);
    let profile = scene.profile();
    assert_eq!((profile.files.len(), profile.totals.io.reads), (0, 0));
    let elsewhere = profile.totals.elsewhere;
    assert_eq!(
        (
            elsewhere.reads,
            elsewhere.read_bytes,
            elsewhere.writes,
            elsewhere.write_bytes
        ),
        (1, 70, 1, 5)
    );
    assert_close(profile.time.waiting.unwrap().recorded_s, 10e-6);
    assert_eq!(profile.timeline.other.iter().sum::<u64>(), 2);
}

#[test]
fn a_mapped_file_is_a_blind_spot_unless_it_is_a_program() {
    let mut scene = Scene::new();
    for (path, protection) in [("/data.root", 1), ("/lib.so", 5)] {
        let mapped = scene.file(path, Kind::File);
        let handle = scene.open(mapped);
        for offset in [0, 4096] {
            let event = scene.of(&handle, "mmap", Outcome::Returned(0x7f00_0000));
            (event.offset, event.length, event.mode) = (Some(offset), Some(2 << 20), Some(protection));
        }
    }
    let profile = scene.profile();
    let spots: Vec<_> = profile
        .blind_spots
        .iter()
        .map(|spot| (spot.kind.as_str(), spot.file.as_deref(), spot.count, spot.bytes))
        .collect();
    assert_eq!(spots, [("mapped", Some("/data.root"), 2, Some((2 << 20) + 4096))]);
    assert!(file(&profile, "/lib.so").executable);
    assert_eq!(file(&profile, "/lib.so").io.maps, 2);
}

#[test]
fn a_program_without_recorded_calls_is_a_blind_spot_of_the_preload_recorder() {
    let mut scene = Scene::new();
    scene.header.recorder = Recorder::Preload;
    let (seen, unseen) = (scene.path("/bin/dynamic"), scene.path("/bin/static"));
    scene.call(0, "execve", Outcome::Returned(0)).path = Some(seen);
    scene.call(0, "getcwd", Outcome::Returned(2));
    scene.thread(200, 200, Some(0));
    scene.call(1, "execve", Outcome::Returned(0)).path = Some(unseen);
    scene.call(1, "+exited", Outcome::Returned(0)).duration_ns = None;
    let event = scene.call(0, "io_uring_enter", Outcome::Returned(4));
    event.open = OpenId::new(5);
    let spots: Vec<_> = scene
        .profile()
        .blind_spots
        .into_iter()
        .map(|spot| (spot.kind, spot.count))
        .collect();
    assert_eq!(
        spots,
        [
            ("io-uring".to_owned(), 4),
            ("silent-program".to_owned(), 1),
            ("past-libc".to_owned(), 0)
        ]
    );
    scene.header.recorder = Recorder::Strace;
    assert_eq!(scene.profile().blind_spots.len(), 1);
}

/// `cp` repeats the call until it returns 0.
#[test]
fn a_copy_at_the_end_of_its_source_writes_nothing() {
    let mut scene = Scene::new();
    let (from, to) = (scene.file("/from", Kind::File), scene.file("/to", Kind::File));
    let (source, target) = (scene.open(from), scene.open(to));
    for (at, returned) in [(0, 100), (100, 0)] {
        let event = scene.of(&source, "copy_file_range", Outcome::Returned(returned));
        (event.open2, event.file2) = (Some(target.open), Some(target.file));
        (event.offset, event.offset2, event.length) = (Some(at), Some(at), Some(4096));
    }
    let profile = scene.profile();
    let (from, to) = (&file(&profile, "/from").io, &file(&profile, "/to").io);
    assert_eq!((from.reads, from.end_reads, from.read_bytes), (2, 1, 100));
    assert_eq!((to.writes, to.write_bytes), (1, 100));
}

/// An `io_uring` instance whose requests are submitted without a call.
#[test]
fn an_io_uring_without_recorded_requests_is_a_blind_spot() {
    let mut scene = Scene::new();
    scene.call(0, "io_uring_setup", Outcome::Returned(5));
    scene.call(0, "io_uring_register", Outcome::Returned(0));
    let spots = scene.profile().blind_spots;
    assert_eq!(
        (spots.len(), spots[0].kind.as_str(), spots[0].count),
        (1, "io-uring", 1)
    );
    // For liburing, that recorder records only the second call.
    scene.header.recorder = Recorder::Preload;
    assert_eq!(scene.profile().blind_spots[0].count, 2);
    scene.call(0, "io_uring_enter", Outcome::Returned(4));
    let spots = scene.profile().blind_spots;
    assert_eq!((spots.len(), spots[0].count), (2, 4));
}

#[test]
fn requests_of_a_file_from_before_the_trace_have_unknown_offsets() {
    let mut scene = Scene::new();
    let log = scene.file("unknown:7:3", Kind::File);
    let event = scene.call(0, "read", Outcome::Returned(10));
    (event.open, event.file, event.length) = (OpenId::new(0), Some(log), Some(10));
    let event = scene.call(0, "read", Outcome::Returned(10));
    (event.open, event.file, event.length, event.offset) = (OpenId::new(0), Some(log), Some(10), Some(500));
    scene.now += MS;
    let profile = scene.profile();
    let io = &file(&profile, "unknown:7:3").io;
    assert_eq!(
        (
            io.read_bytes,
            io.unique_read_bytes,
            io.reread_bytes,
            io.unknown_offsets
        ),
        (20, 10, 0, 1)
    );
    assert_eq!((io.sequential_share, io.consecutive_share), (None, Some(0.0)));
    assert_close(file(&profile, "unknown:7:3").open_s, 20e-6);
}

/// One of two descriptors is closed: the open file stays open, and its seek can still be used.
#[test]
fn closing_one_of_two_descriptors_keeps_the_open_file() {
    let mut scene = Scene::new();
    let one = scene.file("/one", Kind::File);
    let mut handle = scene.open(one);
    scene.seek(&mut handle, 100);
    scene.of(&handle, "close", Outcome::Returned(0)).length = Some(1);
    scene.data(&mut handle, "read", 10, 10);
    scene.seek(&mut handle, 200);
    let event = scene.of(&handle, "+released", Outcome::Returned(0));
    event.duration_ns = None;
    scene.now += MS;
    scene.fail("stat", "/later", 2);
    let profile = scene.profile();
    let found = file(&profile, "/one");
    assert_eq!((found.io.seeks, found.io.useless_seeks), (2, 1));
    assert!(found.open_s < 0.001);
    assert!(!found.io.metadata.contains_key("+released"));
}

#[test]
fn a_trace_without_footer_is_reported_as_cut() {
    let mut scene = Scene::new();
    scene.fail("stat", "/none", 2);
    let mut profiler = Profiler::new(&scene.header, Choice::default());
    profiler.take(&scene.names, &scene.events);
    assert!(!profiler.finish(&scene.names, None).unparsed.whole);
    let mut profiler = Profiler::new(&scene.header, Choice::default());
    profiler.take(&scene.names, &scene.events);
    let footer = Footer {
        lines: 10,
        odd_lines: 2,
        status: Some(-9),
        ..Footer::default()
    };
    let profile = profiler.finish(&scene.names, Some(&footer));
    assert!(profile.unparsed.whole);
    assert_eq!((profile.unparsed.odd_lines, profile.source.status), (2, Some(-9)));
}
