//! Lines of the installed strace with each option that changes them: all are parsed, and no call is
//! lost.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in a helper"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_trace::text::value::{self, Arguments};
use plimsoll_trace::text::{Call, Calls, LineContent, Stamp, line};

/// A directory that is removed when the test ends.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-trace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ODD_NAME: &str = "a, b\") = 3 <0.1> <unfinished ...>";
/// Reads and writes files with misleading names, and has children that write lines at the same
/// time.
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

/// Runs the program under strace. If strace is missing: None and a message; in CI a failure.
fn traced(directory: &TestDirectory, options: &[&str]) -> Option<Vec<u8>> {
    let (log, file) = (directory.0.join("log"), directory.0.join(ODD_NAME));
    fs::write(&file, "one two\nthree\n").unwrap();
    let strace = Command::new("strace")
        .args(options)
        .arg("-o")
        .arg(&log)
        .args(["sh", "-c", PROGRAM, "program"])
        .arg(&file)
        .output();
    if strace.is_ok_and(|output| output.status.success()) {
        return Some(fs::read(&log).unwrap());
    }
    eprintln!("SKIPPED: strace is missing, or tracing is not permitted here");
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "in CI a missing strace is a failure");
    None
}

/// Passes each line to `hear`. Asserts that all are parsed and that every call ends.
fn read(log: &[u8], options_text: &str, mut hear: impl FnMut(&LineContent<'_>, Option<Stamp>)) {
    let mut calls = Calls::new();
    for text in log.split(|&byte| byte == b'\n') {
        let line = line::parse(text);
        let line = line.unwrap_or_else(|| panic!("{options_text}: {}", String::from_utf8_lossy(text)));
        let stamp = line.stamp;
        let content = calls.take(&line, 1, 0);
        assert!(
            !matches!(content, LineContent::End(_)),
            "{options_text}: {content:?}"
        );
        hear(&content, stamp);
    }
    assert_eq!(
        (calls.endless(), calls.unfinished()),
        (0, Vec::new()),
        "{options_text}"
    );
}

fn is_of_file(call: &Call<'_>, file: &Path) -> bool {
    let name = Arguments::of(call.arguments).nth(1).and_then(value::text);
    call.name == b"openat" && name.is_some_and(|name| *name.bytes == *file.as_os_str().as_encoded_bytes())
}

#[test]
fn lines_of_each_option_of_strace_are_parsed() {
    let directory = TestDirectory::new("options");
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
        let Some(log) = traced(&directory, &options) else {
            return;
        };
        let options_text = options.join(" ");
        let (mut ended, mut opened, mut threads) = (0, 0, 0);
        read(&log, &options_text, |content, stamp| match content {
            LineContent::Call(call) => {
                ended += 1;
                opened += u32::from(is_of_file(call, &directory.0.join(ODD_NAME)));
                let took = call.ended.unwrap().duration_ns.is_some();
                let is_timed = more
                    .iter()
                    .any(|option| *option == "-T" || option.starts_with("--syscall"));
                // exit_group(0) = ? has no duration.
                assert!(
                    took == is_timed || call.ended.unwrap().value.is_none(),
                    "{options_text}: {call:?}"
                );
                let is_stamped = more
                    .iter()
                    .any(|option| option.starts_with("-t") || *option == "-r" || option.starts_with("--abs"));
                assert_eq!(
                    stamp.is_some(),
                    is_stamped || more.contains(&"-ttt"),
                    "{options_text}"
                );
            }
            LineContent::Exited { .. } => threads += 1,
            _ => {}
        });
        assert!(
            ended > 150 && threads >= 8,
            "{options_text}: {ended} calls of {threads} threads"
        );
        // Three times by cat, and once by the shell.
        assert_eq!(opened, 4, "{options_text}");
    }
}

#[test]
fn paths_after_descriptors_are_those_of_the_opened_files() {
    let directory = TestDirectory::new("names");
    let file = directory.0.join(ODD_NAME);
    let Some(log) = traced(&directory, &["-f", "-y"]) else {
        return;
    };
    let mut read_bytes = 0;
    read(&log, "-y", |content, _| {
        let LineContent::Call(call) = content else { return };
        let of = Arguments::of(call.arguments).next().and_then(value::descriptor);
        let name = of.and_then(|descriptor| descriptor.name).map(value::unescaped);
        if call.name == b"read" && name.is_some_and(|name| *name == *file.as_os_str().as_encoded_bytes()) {
            read_bytes += call.ended.unwrap().value.unwrap();
        }
    });
    // Three times the whole file, and at least the first line by the shell.
    assert!((3 * 14 + 8..=4 * 14).contains(&read_bytes), "{read_bytes}");
}

#[test]
fn a_cut_log_loses_only_its_last_line() {
    let directory = TestDirectory::new("cut");
    let Some(log) = traced(&directory, &["-f", "-ttt", "-T", "-y"]) else {
        return;
    };
    for length in (0..log.len()).step_by(log.len() / 300) {
        let lines: Vec<&[u8]> = log[..length].split(|&byte| byte == b'\n').collect();
        let whole = &lines[..lines.len() - 1];
        assert!(whole.iter().all(|text| line::parse(text).is_some()), "{length}");
    }
}
