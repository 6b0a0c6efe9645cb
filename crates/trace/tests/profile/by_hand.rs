//! What single kinds of events come to.

use plimsoll_trace::event::{OpenId, Outcome};
use plimsoll_trace::header::{Footer, Recorder};
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::json::Profile;
use plimsoll_trace::profile::{Choice, Profiler};

use crate::scene::{MS, Scene, file, is};

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
fn json_gives_the_profile_back() {
    let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
    let one = scene.file("/data/one", Kind::File);
    let mut handle = scene.open(one);
    scene.data(&mut handle, "read", 4096, 100);
    scene.fails("stat", "/none", 2);
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
    is(time.recorded_s, 1_015e-6);
    // 12 us are taken off at most, 3 us at least; the second read never takes less than nothing.
    is(time.low_s.unwrap(), 988e-6);
    is(time.corrected_s.unwrap(), (4.0 + 994.0) * 1e-6);
    is(time.high_s.unwrap(), (7.0 + 2.0 + 997.0) * 1e-6);
    let profile = scene.profile();
    let duration = file(&profile, "/one")
        .io
        .read
        .clone()
        .unwrap()
        .duration_s
        .unwrap();
    is(duration.max, 994e-6);
    assert_eq!(duration.min, 0.0);
    // Nothing is left of the second one: it has no speed.
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
    is(
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
fn where_tracing_was_most_of_the_run_there_is_an_interval() {
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
    // The id is given out again, to a child of the thread.
    scene.thread(200, 200, Some(2));
    let compiler = scene.path("/bin/cc");
    scene.call(3, "execve", Outcome::Returned(0)).path = Some(compiler);
    scene.call(3, "wait4", Outcome::Failed(10));
    let profile = scene.profile();
    let seen: Vec<_> = profile
        .processes
        .iter()
        .map(|it| {
            (
                it.pid,
                it.parent,
                it.program.as_deref(),
                it.threads.len(),
                it.work.read_bytes,
                it.executes,
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
    is(third.work.waiting_time.unwrap().recorded_s, 10e-6);
    assert_eq!((third.work.failed_calls, profile.totals.failed_calls), (1, 1));
    assert!(third.start_s > profile.processes[1].end_s - 1e-9);
    let used = file(&profile, "/data");
    assert_eq!(
        (used.threads, used.process_count, &used.processes),
        (3, 2, &vec![0, 1])
    );
}

#[test]
fn failures_are_counted_by_call_and_error_and_names_by_how_often_they_were_missing() {
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.fails("openat", "/lib/a.so", 2);
    }
    scene.fails("stat", "/lib/a.so", 20);
    scene.fails("stat", "/secret", 13);
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
        .map(|it| (it.call.as_str(), it.error.as_str(), it.count))
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
fn files_that_bear_a_name_one_after_another_are_put_together() {
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

/// Data from file to file are read from the one and written to the other; the call took its time
/// once.
#[test]
fn a_transfer_has_two_sides() {
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
    is(from.read_time.unwrap().recorded_s, 30e-6);
    assert_eq!(to.write_time.unwrap().recorded_s, 0.0);
    assert_eq!(profile.totals.calls, 5);
}

#[test]
fn pipes_are_no_files() {
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
    is(profile.time.waiting.unwrap().recorded_s, 10e-6);
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
        .map(|it| (it.kind.as_str(), it.file.as_deref(), it.count, it.bytes))
        .collect();
    assert_eq!(spots, [("mapped", Some("/data.root"), 2, Some((2 << 20) + 4096))]);
    assert!(file(&profile, "/lib.so").executable);
    assert_eq!(file(&profile, "/lib.so").io.maps, 2);
}

#[test]
fn the_preload_recorder_does_not_see_static_programs() {
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

/// `cp` asks until there is nothing left.
#[test]
fn a_copy_at_the_end_of_its_source_writes_nothing() {
    let mut scene = Scene::new();
    let (from, to) = (scene.file("/from", Kind::File), scene.file("/to", Kind::File));
    let (source, target) = (scene.open(from), scene.open(to));
    for (at, done) in [(0, 100), (100, 0)] {
        let event = scene.of(&source, "copy_file_range", Outcome::Returned(done));
        (event.open2, event.file2) = (Some(target.open), Some(target.file));
        (event.offset, event.offset2, event.length) = (Some(at), Some(at), Some(4096));
    }
    let profile = scene.profile();
    let (from, to) = (&file(&profile, "/from").io, &file(&profile, "/to").io);
    assert_eq!((from.reads, from.end_reads, from.read_bytes), (2, 1, 100));
    assert_eq!((to.writes, to.write_bytes), (1, 100));
}

/// A ring whose requests are handed over without a call.
#[test]
fn a_ring_that_no_request_was_seen_of_is_told() {
    let mut scene = Scene::new();
    scene.call(0, "io_uring_setup", Outcome::Returned(5));
    scene.call(0, "io_uring_register", Outcome::Returned(0));
    let spots = scene.profile().blind_spots;
    assert_eq!(
        (spots.len(), spots[0].kind.as_str(), spots[0].count),
        (1, "io-uring", 1)
    );
    // Of liburing, that recorder has the second call alone.
    scene.header.recorder = Recorder::Preload;
    assert_eq!(scene.profile().blind_spots[0].count, 2);
    scene.call(0, "io_uring_enter", Outcome::Returned(4));
    let spots = scene.profile().blind_spots;
    assert_eq!((spots.len(), spots[0].count), (2, 4));
}

#[test]
fn an_open_file_from_before_the_trace_has_unknown_places() {
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
    is(file(&profile, "unknown:7:3").open_s, 20e-6);
}

/// One of two descriptors is closed: the open file stays, and so does the seek's chance of being
/// used.
#[test]
fn a_close_of_one_descriptor_of_two_ends_nothing() {
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
    scene.fails("stat", "/later", 2);
    let profile = scene.profile();
    let found = file(&profile, "/one");
    assert_eq!((found.io.seeks, found.io.useless_seeks), (2, 1));
    assert!(found.open_s < 0.001);
    assert!(!found.io.metadata.contains_key("+released"));
}

#[test]
fn a_cut_trace_says_so() {
    let mut scene = Scene::new();
    scene.fails("stat", "/none", 2);
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
