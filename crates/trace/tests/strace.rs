//! Lines of the strace that is here, with every option that changes them: each is understood, and
//! no call is lost.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_trace::text::value::{self, Arguments};
use plimsoll_trace::text::{Call, Calls, LineContent, Stamp, line};

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-trace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ODD_NAME: &str = "a, b\") = 3 <0.1> <unfinished ...>";
/// Reads and writes files with names that mislead, and has children that speak while it does.
const PROGRAM: &str = r#"
    for i in 1 2 3; do
        cat "$1" | wc -c >"$1.$i" &
    done
    wait
    exec 7<"$1"
    read word <&7
    (exit 3)
    exec cat "$1.1"
"#;

/// Runs the program below strace. None with a message where strace is missing, which CI takes for a
/// failure.
fn traced(place: &Place, options: &[&str]) -> Option<Vec<u8>> {
    let (log, file) = (place.0.join("log"), place.0.join(ODD_NAME));
    fs::write(&file, "one two\nthree\n").unwrap();
    let strace = Command::new("strace")
        .args(options)
        .arg("-o")
        .arg(&log)
        .args(["sh", "-c", PROGRAM, "program"])
        .arg(&file)
        .output();
    if strace.is_ok_and(|done| done.status.success()) {
        return Some(fs::read(&log).unwrap());
    }
    eprintln!("SKIPPED: strace is missing, or may trace nothing here");
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "under CI what is missing is a failure");
    None
}

/// Gives every line to `hear`; all are understood, and every call ends.
fn read(log: &[u8], what: &str, mut hear: impl FnMut(&LineContent<'_>, Option<Stamp>)) {
    let mut calls = Calls::new();
    for text in log.split(|&byte| byte == b'\n') {
        let line = line::parse(text);
        let line = line.unwrap_or_else(|| panic!("{what}: {}", String::from_utf8_lossy(text)));
        let stamp = line.stamp;
        let said = calls.take(&line, 1, 0);
        assert!(!matches!(said, LineContent::End(_)), "{what}: {said:?}");
        hear(&said, stamp);
    }
    assert_eq!((calls.endless(), calls.going_on()), (0, Vec::new()), "{what}");
}

fn is_of_file(call: &Call<'_>, file: &Path) -> bool {
    let name = Arguments::of(call.arguments).nth(1).and_then(value::text);
    call.name == b"openat" && name.is_some_and(|name| *name.bytes == *file.as_os_str().as_encoded_bytes())
}

#[test]
fn every_option_of_strace_is_understood() {
    let place = Place::new("options");
    let sets: [&[&str]; 14] = [
        &[],
        &["-ttt", "-T"],
        &["-tt"],
        &["-t", "-T"],
        &["-r"],
        &["-r", "-ttt"],
        &["-y"],
        &["-yy", "-T"],
        &["-x"],
        &["-xx", "-s", "4096"],
        &["-i", "-n"],
        &["-Y", "-ttt"],
        &[
            "--absolute-timestamps=format:unix,precision:ns",
            "--syscall-times=ns",
        ],
        &["-s", "0", "-v", "-q", "-a", "1"],
    ];
    for more in sets {
        let options = [&["-f"], more].concat();
        let Some(log) = traced(&place, &options) else {
            return;
        };
        let what = options.join(" ");
        let (mut ended, mut opened, mut threads) = (0, 0, 0);
        read(&log, &what, |said, stamp| match said {
            LineContent::Call(call) => {
                ended += 1;
                opened += u32::from(is_of_file(call, &place.0.join(ODD_NAME)));
                let took = call.ended.unwrap().duration_ns.is_some();
                let is_timed = more
                    .iter()
                    .any(|one| *one == "-T" || one.starts_with("--syscall"));
                // exit_group(0) = ? has none.
                assert!(
                    took == is_timed || call.ended.unwrap().value.is_none(),
                    "{what}: {call:?}"
                );
                let is_stamped = more
                    .iter()
                    .any(|one| one.starts_with("-t") || *one == "-r" || one.starts_with("--abs"));
                assert_eq!(stamp.is_some(), is_stamped || more.contains(&"-ttt"), "{what}");
            }
            LineContent::Exited { .. } => threads += 1,
            _ => {}
        });
        assert!(
            ended > 150 && threads >= 8,
            "{what}: {ended} calls of {threads} threads"
        );
        // By three times cat, and by the shell.
        assert_eq!(opened, 4, "{what}");
    }
}

#[test]
fn names_of_descriptors_are_those_that_were_opened() {
    let place = Place::new("names");
    let file = place.0.join(ODD_NAME);
    let Some(log) = traced(&place, &["-f", "-y"]) else {
        return;
    };
    let mut read_bytes = 0;
    read(&log, "-y", |said, _| {
        let LineContent::Call(call) = said else { return };
        let of = Arguments::of(call.arguments).next().and_then(value::descriptor);
        let name = of.and_then(|one| one.name).map(value::unescaped);
        if call.name == b"read" && name.is_some_and(|name| *name == *file.as_os_str().as_encoded_bytes()) {
            read_bytes += call.ended.unwrap().value.unwrap();
        }
    });
    // Three times all of it, and by the shell at least the first line.
    assert!((3 * 14 + 8..=4 * 14).contains(&read_bytes), "{read_bytes}");
}

#[test]
fn a_log_that_was_cut_anywhere_loses_only_its_last_line() {
    let place = Place::new("cut");
    let Some(log) = traced(&place, &["-f", "-ttt", "-T", "-y"]) else {
        return;
    };
    for length in (0..log.len()).step_by(log.len() / 300) {
        let lines: Vec<&[u8]> = log[..length].split(|&byte| byte == b'\n').collect();
        let whole = &lines[..lines.len() - 1];
        assert!(whole.iter().all(|text| line::parse(text).is_some()), "{length}");
    }
}
