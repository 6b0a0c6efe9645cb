//! The wall clock is set during a run, one hour forward at an agent and one hour back at the
//! controller. This is reported as events and changes no measured value. libfaketime changes the
//! wall clock of single processes; the clock of the host is the same for all processes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Lab, TestDirectory, spec, summary};
use crate::hosts::{Far, SECOND, local, run, run_directory};

const HOUR_NS: f64 = 3_600e9;
const LIBRARY: &str = "libfaketime.so.1";

/// Path of the library in the usual directories. If it is missing, `None` with a message; under CI
/// that is a failure.
fn library() -> Option<PathBuf> {
    let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let directories = multiarch.map(|entry| entry.path().join("faketime"));
    let library = directories
        .chain(["/usr/lib64/faketime".into()])
        .map(|directory| directory.join(LIBRARY))
        .find(|path| path.exists());
    if library.is_none() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{LIBRARY} is missing: install the package faketime"
        );
        eprintln!("SKIPPED: {LIBRARY} is missing: install the package faketime");
    }
    library
}

/// The wall clock of processes with its environment: the file contains its offset. Other clocks are
/// not changed.
struct Wall {
    file: PathBuf,
    preload: PathBuf,
}

impl Wall {
    fn new(temp: &TestDirectory, name: &str, library: &Path) -> Self {
        let wall = Self {
            file: temp.0.join(name),
            preload: library.to_owned(),
        };
        wall.set("+0");
        wall
    }

    fn set(&self, offset: &str) {
        // Replaced in one step, because an empty file is an error.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset}\n")).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    fn environment(&self) -> [(&'static str, &Path); 4] {
        [
            ("LD_PRELOAD", &self.preload),
            ("FAKETIME_TIMESTAMP_FILE", &self.file),
            ("FAKETIME_DONT_FAKE_MONOTONIC", Path::new("1")),
            ("FAKETIME_NO_CACHE", Path::new("1")),
        ]
    }
}

/// Time (s) and text of the events about steps of an agent's clock.
fn steps<'a>(events: &'a [Value], agent: &str) -> Vec<(f64, &'a str)> {
    let words = format!("agent {agent}: the wall clock of the host was set");
    let of = |event: &&Value| event["kind"] == "clock-step";
    events
        .iter()
        .filter(of)
        .map(|event| (event["t_s"].as_f64().unwrap(), event["text"].as_str().unwrap()))
        .filter(|(_, text)| text.starts_with(&words))
        .collect()
}

#[test]
fn a_step_of_the_wall_clock_is_reported_and_changes_no_measured_value() {
    let Some(library) = library() else { return };
    let temp = TestDirectory::new("wall");
    let directory = run_directory(&temp);
    let (here, there) = (
        Wall::new(&temp, "here", &library),
        Wall::new(&temp, "there", &library),
    );
    let far = Far::start_in(&temp, "far", &[], &there.environment());
    let mut lab = Lab::start_in(&here.environment());
    run(
        &mut lab,
        &spec(&directory, 8 * SECOND),
        &[local("near"), far.spec()],
        &json!({}),
    );
    let mut events = Vec::new();
    for second in 0..5 {
        events.extend(lab.until("second"));
        match second {
            2 => there.set("+3600"),
            4 => here.set("-3600"),
            _ => {}
        }
    }
    events.extend(lab.until("finished"));

    let (near, far_steps) = (steps(&events, "near"), steps(&events, "far"));
    let [(back_s, back)] = near[..] else {
        panic!("{events:?}")
    };
    let [(forth_s, forth)] = far_steps[..] else {
        panic!("{events:?}")
    };
    assert!(
        back.contains("set back by 36") || back.contains("set back by 3599."),
        "{back}"
    );
    assert!(
        forth.contains("set forward by 36") || forth.contains("set forward by 3599."),
        "{forth}"
    );
    assert!(
        (2.0..8.0).contains(&forth_s) && forth_s < back_s,
        "{forth} {back}"
    );
    assert!(
        !events.iter().any(|event| event["kind"] == "clock-jump"),
        "{events:?}"
    );
    check_values(&directory, &events[events.len() - 1]);
}

fn check_values(directory: &Path, finished: &Value) {
    assert_eq!(
        (&finished["status"], &finished["balanced"], &finished["damage"]),
        (&json!("done"), &json!(true), &json!([])),
        "{finished}"
    );
    let summary = summary(directory);
    assert_eq!(
        summary["rows"]["counters"]["started"],
        summary["counters"]["started"]
    );
    for agent in summary["agents"].as_array().unwrap() {
        // The measured times are of a clock that cannot be set: no window differs by an hour.
        let window_ns = agent["window_ns"].as_f64().unwrap();
        assert!((6e9..HOUR_NS / 60.0).contains(&window_ns), "{agent}");
    }
    let clocks: Value = serde_json::from_slice(&fs::read(directory.join("clock.json")).unwrap()).unwrap();
    let far = &clocks["agents"]["far"];
    // Both processes have the clock of one host: the clock map does not contain the hour.
    for piece in far["pieces"].as_array().unwrap() {
        let off_ns = piece["offset_ns"].as_f64().unwrap().abs();
        assert!(off_ns <= far["bound_ns"].as_f64().unwrap(), "{far}");
    }
}
