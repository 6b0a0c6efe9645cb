//! What becomes of the recorder in processes and threads that begin, end, and are ended.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use common::{Place, strace, text};
use plimsoll_trace::event::Outcome;
use plimsoll_trace::preload::Record;

#[test]
fn what_was_recorded_outlives_a_kill() {
    let place = Place::new("kill");
    let program = place.compile("kill.c");
    let file = place.file("a", 300_000);
    for (how, signal) in [("k", Some(9)), ("a", Some(6)), ("e", None)] {
        let run = place.record(Command::new(&program).arg(&file).arg(how));
        assert_eq!(run.status.signal(), signal, "{run:?}");
        let recording = place.recording();
        let reads = recording.named("pread64");
        assert_eq!(reads.len(), 10_000);
        for (turn, read) in (0..).zip(&reads) {
            let offset = Some(turn % 500 * 512);
            assert_eq!(
                (read.arguments[2], read.arguments[3], read.outcome),
                (Some(512), offset, Outcome::Returned(512))
            );
        }
        let exits = recording.named("exit_group");
        assert_eq!(
            exits.iter().map(|exit| exit.arguments[0]).collect::<Vec<_>>(),
            if how == "e" { vec![Some(7)] } else { vec![] }
        );
        std::fs::remove_dir_all(place.logs()).unwrap();
        std::fs::create_dir(place.logs()).unwrap();
    }
}

#[test]
fn threads_that_come_and_go_leave_their_logs_and_nothing_else() {
    threads(1000);
}

#[test]
#[ignore = "long: ten thousand files take a slow disk half a minute"]
fn long_ten_thousand_threads_leave_their_logs_and_nothing_else() {
    threads(10_000);
}

fn threads(count: usize) {
    let place = Place::new(&format!("threads-{count}"));
    let program = place.compile("threads.c");
    let file = place.file("a", 1000);
    let bare = Command::new(&program)
        .arg(&file)
        .arg(count.to_string())
        .output()
        .unwrap();
    let run = place.record(Command::new(&program).arg(&file).arg(count.to_string()));
    let numbers = |bytes: &[u8]| -> Vec<u32> {
        text(bytes)
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    };
    let (bare, run) = (numbers(&bare.stdout), numbers(&run.stdout));
    assert_eq!(run[1], bare[1], "descriptors");
    assert!(
        run[0] < bare[0] + 20,
        "maps: {run:?}, without the recorder {bare:?}"
    );

    let recording = place.recording();
    let (mut threads, mut bytes) = (0, 0);
    for (log, file) in recording.logs().into_iter().zip(&recording.0) {
        if log.head.tid == log.head.pid {
            continue;
        }
        threads += 1;
        bytes += file.len();
        let calls: Vec<&str> = log.records.map(|record| record.call.name).collect();
        assert_eq!(calls, ["open", "read", "close"]);
    }
    assert_eq!(threads, count);
    assert!(
        bytes < count * 4096,
        "logs of threads that have ended are cut to what they hold"
    );
}

#[test]
fn children_of_vfork_and_of_unknown_forks_are_told_apart() {
    let place = Place::new("children");
    let program = place.compile("children.c");
    let file = place.file("a", 1000);
    let run = place.record(Command::new(&program).arg(&file));
    let said = text(&run.stdout);
    let words: Vec<Vec<&str>> = said.lines().map(|line| line.split(' ').collect()).collect();
    let child = |line: usize| words[line][1].parse::<u32>().unwrap();
    assert_eq!(
        [words[0][2], words[1][2], words[2][2]],
        ["3", "2", "4"],
        "{run:?}"
    );

    let recording = place.recording();
    let logs = recording.logs();
    let main = logs
        .iter()
        .find(|log| {
            log.head
                .image
                .as_ref()
                .is_some_and(|image| image.command.len() == 2)
        })
        .unwrap();
    let records: Vec<Record<'_>> = main.records.clone().collect();
    let vforks: Vec<_> = records
        .iter()
        .filter(|record| record.call.name == "vfork")
        .collect();
    let made = vforks.iter().map(|record| record.outcome).collect::<Vec<_>>();
    assert_eq!(
        made,
        [child(0), child(1)].map(|pid| Outcome::Returned(i64::from(pid)))
    );
    assert!(vforks.iter().all(|record| record.other_thread.is_none()));
    let of = |pid| {
        records
            .iter()
            .filter(move |record| record.other_thread == Some(pid))
            .map(|record| (record.call.name, record.outcome))
    };
    let executed = ("execve", Outcome::Unknown);
    assert_eq!(
        of(child(0)).collect::<Vec<_>>(),
        [("dup2", Outcome::Returned(9)), executed]
    );
    assert_eq!(
        of(child(1)).collect::<Vec<_>>(),
        [executed, ("exit_group", Outcome::Unknown)]
    );

    // The program that was executed has a log of its own, and says what it was given.
    let shell = logs.iter().find(|log| log.head.pid == child(0)).unwrap();
    assert_eq!(shell.head.parent, main.head.pid);
    let image = shell.head.image.as_ref().unwrap();
    assert_eq!(image.command, [&b"sh"[..], b"-c", b"exit 3"]);
    assert_eq!(image.directory, place.0.to_str().unwrap().as_bytes());
    let given = image.open.iter().find(|open| open.number == 9).unwrap();
    assert_eq!(
        (text(given.name), given.offset),
        (file.to_str().unwrap().to_owned(), Some(0))
    );

    let clone = logs.into_iter().find(|log| log.head.pid == child(2)).unwrap();
    let calls: Vec<_> = clone
        .records
        .map(|record| (record.call.name, record.outcome))
        .collect();
    assert_eq!(
        calls,
        [("read", Outcome::Returned(7)), ("exit_group", Outcome::Unknown)]
    );
    assert!(clone.head.image.is_none());
}

#[test]
fn a_handler_of_a_signal_may_come_at_any_time() {
    let place = Place::new("signals");
    let program = place.compile("signals.c");
    let file = place.file("a", 1000);
    let run = place.record(Command::new(&program).arg(&file).arg("b"));
    let counts: Vec<u64> = text(&run.stdout)
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(counts[0], 200_000);

    let recording = place.recording();
    let (mut calls, mut lost) = (0, 0);
    for mut log in recording.logs() {
        let is_one = |record: &Record<'_>| {
            ["pread64", "write"].contains(&record.call.name) && record.arguments[0] != Some(1)
        };
        calls += log.records.by_ref().filter(is_one).count() as u64;
        lost += log.records.lost();
        assert_eq!(log.records.cut_bytes(), None);
    }
    // The program's own line on standard output is not among them.
    assert_eq!(calls + lost, counts[0] + counts[1]);
    assert!(lost < 1000, "{lost} lost");
}

#[test]
fn stdio_is_seen_by_what_it_has_done() {
    let place = Place::new("stdio-c");
    let program = place.compile("stdio.c");
    let Some(expected) = strace(&place, &[program.to_str().unwrap()]) else {
        return;
    };
    for name in ["made", "other", "left"] {
        std::fs::remove_file(place.0.join(name)).unwrap();
    }
    let run = place.record(&mut Command::new(&program));
    assert!(run.status.success(), "{run:?}");
    let recording = place.recording();
    let seen = recording.done_to_files(&place.0);
    for name in ["made", "other", "left"] {
        let path = place.0.join(name).to_str().unwrap().to_owned();
        let (seen, expected) = (seen[&path], expected[&path]);
        assert_eq!(
            (seen.read_bytes, seen.written_bytes),
            (expected.read_bytes, expected.written_bytes),
            "{name}"
        );
    }
    let offsets: Vec<_> = recording
        .named("lseek")
        .iter()
        .map(|seek| (seek.is_inferred, seek.outcome))
        .collect();
    assert!(offsets.contains(&(true, Outcome::Returned(100))), "{offsets:?}");
}

#[test]
fn without_a_place_to_record_to_programs_run_as_ever() {
    let place = Place::new("nowhere");
    let file = place.file("a", 100_000);
    for directory in [
        None,
        Some("/nonexistent/directory"),
        Some("relative"),
        Some("/dev/null"),
    ] {
        let mut command = Command::new("sh");
        command
            .args(["-c", "cat \"$0\" | wc -c"])
            .arg(&file)
            .env("LD_PRELOAD", common::library())
            .env_remove("PLIMSOLL_TRACE_DIR");
        if let Some(directory) = directory {
            command.env("PLIMSOLL_TRACE_DIR", directory);
        }
        let run = command.output().unwrap();
        assert_eq!(
            (text(&run.stdout).trim(), text(&run.stderr).as_str()),
            ("100000", ""),
            "{directory:?}"
        );
    }
}

#[test]
fn a_log_that_may_not_grow_ends_and_the_program_does_not() {
    let place = Place::new("limit");
    let program = place.compile("kill.c");
    let file = place.file("a", 300_000);
    let script = "ulimit -f 128; exec \"$@\"";
    let run = place.record(
        Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&program)
            .arg(&file)
            .arg("e"),
    );
    assert_eq!(run.status.code(), Some(7), "{run:?}");
    let recording = place.recording();
    let log = recording.logs().pop().unwrap();
    let count = log.records.filter(|record| record.call.name == "pread64").count();
    assert!((100..10_000).contains(&count), "{count}");
}

#[test]
fn a_thread_has_used_the_processor_or_waited() {
    let place = Place::new("time");
    let program = "
import os, time
fd = os.open('/dev/null', os.O_RDONLY)
time.sleep(0.2)
os.lseek(fd, 1, 0)
end = time.thread_time() + 0.2
while time.thread_time() < end: pass
os.lseek(fd, 2, 0)
";
    let run = place.record(Command::new("python3").args(["-c", program]));
    assert!(run.status.success(), "{run:?}");
    let recording = place.recording();
    let all = recording.records();
    let used = |offset| {
        let is_it = |record: &&Record<'_>| record.call.name == "lseek" && record.arguments[1] == Some(offset);
        all.iter().rev().find(is_it).unwrap().cpu_ns.unwrap()
    };
    assert!(used(1) < 150_000_000, "{}", used(1));
    // The clock is not read at the same moments.
    assert!((190_000_000..400_000_000).contains(&used(2)), "{}", used(2));
}

#[test]
fn each_program_is_told_once() {
    let place = Place::new("images");
    place.file("a", 10);
    let run = place.record(Command::new("sh").args(["-c", "(cat a; :); cat a; exec cat a"]));
    assert!(run.status.success());
    let recording = place.recording();
    let logs = recording.logs();
    let commands: Vec<String> = logs
        .iter()
        .filter_map(|log| Some(text(log.head.image.as_ref()?.command[0])))
        .collect();
    assert_eq!(commands.iter().filter(|name| *name == "cat").count(), 3);
    assert_eq!(commands.iter().filter(|name| *name == "sh").count(), 1);
    let threads: BTreeSet<u32> = logs.iter().map(|log| log.head.tid).collect();
    assert_eq!(
        threads.len(),
        4,
        "the shell, its child, and what both execute or start: {threads:?}"
    );
}
