//! Selections by path and by time.

use plimsoll_trace::event::Outcome;
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::Choice;
use regex::Regex;

use crate::scene::{MS, Scene, assert_close};

fn scene() -> Scene {
    let mut scene = Scene::new();
    for path in ["/data/a.root", "/data/b\n.root", "/lib/c.so"] {
        let one = scene.file(path, Kind::File);
        let mut handle = scene.open(one);
        for _ in 0..10 {
            scene.now += MS;
            scene.data(&mut handle, "read", 100, 100);
        }
        scene.close(&handle);
    }
    scene.fail("stat", "/data/none.root", 2);
    scene.call(0, "futex", Outcome::Returned(0));
    scene
}

#[test]
fn files_are_selected_by_their_paths_as_shown() {
    let by = |text: &str| {
        let profile = scene().profile_of(Choice {
            file: Some(Regex::new(text).unwrap()),
            ..Choice::default()
        });
        let mut paths: Vec<_> = profile.files.iter().map(|file| file.path.clone()).collect();
        paths.sort();
        (paths, profile.totals.calls, profile.totals.io.read_bytes)
    };
    let all = ["/data/a.root", r"/data/b\x0a.root", "/data/none.root"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(by("^/data/.*root$"), (all, 25, 2000));
    assert_eq!(by(r"b\\x0a"), (vec![r"/data/b\x0a.root".to_owned()], 12, 1000));
    assert_eq!(by("nothing"), (vec![], 0, 0));
}

/// A file that is written and renamed with its directory, one that has two paths, and two that
/// exchange their paths.
#[test]
fn a_file_is_selected_by_each_path_that_it_had() {
    let mut scene = Scene::new();
    let directory = scene.file("/d", Kind::Directory);
    let [whole, linked, one, two] =
        ["/d/.part", "/tmp/x", "/one", "/two"].map(|path| scene.file(path, Kind::File));
    for file in [whole, linked, one, two] {
        let mut handle = scene.open(file);
        scene.data(&mut handle, "write", 100, 100);
        scene.close(&handle);
    }
    let later = scene.file("/d/.part", Kind::File);
    // The trace contains the paths beneath a renamed directory.
    scene.path("/e/file");
    for (call, file, other, from, to) in [
        ("rename", whole, None, "/d/.part", "/d/file"),
        ("link", linked, Some(linked), "/tmp/x", "/y"),
        ("unlink", linked, None, "/tmp/x", ""),
        ("rename", directory, None, "/d", "/e"),
        ("renameat2", one, Some(two), "/one", "/two"),
    ] {
        let [from, to] = [from, to].map(|path| (!path.is_empty()).then(|| scene.path(path)));
        let event = scene.call(0, call, Outcome::Returned(0));
        (event.file, event.file2, event.path, event.path2) = (Some(file), other, from, to);
        event.flags = (call == "renameat2").then_some(2);
    }
    let mut handle = scene.open(later);
    scene.data(&mut handle, "write", 7, 7);
    let names = |profile: &plimsoll_trace::profile::Profile| {
        let files = profile.files.iter().filter(|file| file.kind != "directory");
        let mut all: Vec<_> = files
            .map(|file| (file.path.clone(), file.other_names.join(" "), file.io.write_bytes))
            .collect();
        all.sort();
        all
    };
    let row = |path: &str, others: &str, bytes| (path.to_owned(), others.to_owned(), bytes);
    let (whole, linked) = (row("/e/file", "/d/.part /d/file", 100), row("/y", "/tmp/x", 100));
    let exchanged = [row("/one", "/two", 100), row("/two", "/one", 100)];
    let later = row("/d/.part", "", 7);
    assert_eq!(
        names(&scene.profile()),
        [
            &[later.clone(), whole.clone()][..],
            &exchanged,
            std::slice::from_ref(&linked)
        ]
        .concat()
    );
    for (regex, expected) in [
        ("part$", vec![later, whole.clone()]),
        ("^/d/file$", vec![whole.clone()]),
        ("^/e/", vec![whole]),
        ("^/tmp/x$|^/y$", vec![linked]),
        ("^/one$", exchanged.to_vec()),
    ] {
        assert_eq!(names(&scene.of_files(regex)), expected, "{regex}");
    }
}

#[test]
fn a_selection_does_not_change_the_duration_of_the_run() {
    let all = scene().profile();
    let one = scene().profile_of(Choice {
        file: Some(Regex::new("a.root").unwrap()),
        ..Choice::default()
    });
    assert_eq!(all.time.wall, one.time.wall);
    let share = |profile: &plimsoll_trace::profile::Profile| {
        profile
            .files
            .iter()
            .find(|file| file.path.contains('a'))
            .unwrap()
            .io
            .run_share
            .unwrap()
    };
    assert_close(share(&one), share(&all));
    assert_eq!(one.processes.len(), 1);
}

#[test]
fn a_time_range_selects_the_calls_that_began_in_it() {
    let scene = scene();
    let (from, to) = (5 * MS, 16 * MS);
    let choice = Choice {
        from_ns: Some(from),
        to_ns: Some(to),
        ..Choice::default()
    };
    let profile = scene.profile_of(choice);
    let inside = scene
        .events
        .iter()
        .filter(|event| (from..to).contains(&event.start_ns));
    assert_eq!(profile.totals.calls, inside.count() as u64);
    assert_eq!(profile.chosen.from_s, Some(0.005));
    assert!(profile.time.start_s >= 0.005 && profile.time.wall.recorded_s < 0.0111);
    // The start of the process does not depend on the selection.
    assert_close(profile.processes[0].start_s, 0.0);
}
