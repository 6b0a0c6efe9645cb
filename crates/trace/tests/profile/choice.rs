//! Files by their names, and times.

use plimsoll_trace::event::Outcome;
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::Choice;
use regex::Regex;

use crate::scene::{MS, Scene, is};

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
    scene.fails("stat", "/data/none.root", 2);
    scene.call(0, "futex", Outcome::Returned(0));
    scene
}

#[test]
fn files_are_chosen_by_their_names_as_they_are_shown() {
    let by = |text: &str| {
        let profile = scene().chosen(Choice {
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

#[test]
fn the_run_stays_as_long_as_it_was() {
    let all = scene().profile();
    let one = scene().chosen(Choice {
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
    is(share(&one), share(&all));
    assert_eq!(one.processes.len(), 1);
}

#[test]
fn times_choose_the_calls_that_began_in_them() {
    let scene = scene();
    let (from, to) = (5 * MS, 16 * MS);
    let choice = Choice {
        from_ns: Some(from),
        to_ns: Some(to),
        ..Choice::default()
    };
    let profile = scene.chosen(choice);
    let inside = scene
        .events
        .iter()
        .filter(|event| (from..to).contains(&event.start_ns));
    assert_eq!(profile.totals.calls, inside.count() as u64);
    assert_eq!(profile.chosen.from_s, Some(0.005));
    assert!(profile.time.start_s >= 0.005 && profile.time.wall.recorded_s < 0.0111);
    // The process is as old as it is.
    is(profile.processes[0].start_s, 0.0);
}
