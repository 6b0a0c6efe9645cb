//! The recorder in processes and threads that start, end and are killed.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use common::{TestDirectory, strace, text};
use plimsoll_trace::event::Outcome;
use plimsoll_trace::preload::Record;

#[test]
fn records_survive_a_kill_of_the_program() {
    let directory = TestDirectory::new("kill");
    let program = directory.compile("kill.c");
    let file = directory.file("a", 300_000);
    for (how, signal) in [("k", Some(9)), ("a", Some(6)), ("e", None)] {
        let run = directory.record(Command::new(&program).arg(&file).arg(how));
        assert_eq!(run.status.signal(), signal, "{run:?}");
        let recording = directory.recording();
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
        std::fs::remove_dir_all(directory.logs()).unwrap();
        std::fs::create_dir(directory.logs()).unwrap();
    }
}

#[test]
fn a_thread_that_has_ended_leaves_its_log_but_no_descriptor_or_mapping() {
    check_threads(1000);
}

#[test]
#[ignore = "long: 10,000 files take half a minute on a slow disk"]
fn long_ten_thousand_threads_leave_their_logs_but_no_descriptors_or_mappings() {
    check_threads(10_000);
}

fn check_threads(count: usize) {
    let directory = TestDirectory::new(&format!("threads-{count}"));
    let program = directory.compile("threads.c");
    let file = directory.file("a", 1000);
    let bare = Command::new(&program)
        .arg(&file)
        .arg(count.to_string())
        .output()
        .unwrap();
    let run = directory.record(Command::new(&program).arg(&file).arg(count.to_string()));
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

    let recording = directory.recording();
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
        "the log of a thread that has ended is cut to its contents"
    );
}

#[test]
fn records_of_children_of_vfork_and_clone_name_the_right_process() {
    let directory = TestDirectory::new("children");
    let program = directory.compile("children.c");
    let file = directory.file("a", 1000);
    let run = directory.record(Command::new(&program).arg(&file));
    let printed = text(&run.stdout);
    let words: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').collect()).collect();
    let child = |line: usize| words[line][1].parse::<u32>().unwrap();
    assert_eq!(
        [words[0][2], words[1][2], words[2][2]],
        ["3", "2", "4"],
        "{run:?}"
    );

    let recording = directory.recording();
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

    // The executed program has a log of its own, whose head contains its command and descriptors.
    let shell = logs.iter().find(|log| log.head.pid == child(0)).unwrap();
    assert_eq!(shell.head.parent, main.head.pid);
    let image = shell.head.image.as_ref().unwrap();
    assert_eq!(image.command, [&b"sh"[..], b"-c", b"exit 3"]);
    assert_eq!(image.directory, directory.0.to_str().unwrap().as_bytes());
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
fn a_call_in_a_signal_handler_is_recorded_or_counted_as_lost() {
    let directory = TestDirectory::new("signals");
    let program = directory.compile("signals.c");
    let file = directory.file("a", 1000);
    let run = directory.record(Command::new(&program).arg(&file).arg("b"));
    let counts: Vec<u64> = text(&run.stdout)
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(counts[0], 200_000);

    let recording = directory.recording();
    let (mut calls, mut lost) = (0, 0);
    for mut log in recording.logs() {
        let is_counted = |record: &Record<'_>| {
            ["pread64", "write"].contains(&record.call.name) && record.arguments[0] != Some(1)
        };
        calls += log.records.by_ref().filter(is_counted).count() as u64;
        lost += log.records.lost();
        assert_eq!(log.records.cut_bytes(), None);
    }
    // The line that the program prints on standard output is excluded.
    assert_eq!(calls + lost, counts[0] + counts[1]);
    assert!(lost < 1000, "{lost} lost");
}

#[test]
fn stdio_transfers_the_recorded_bytes() {
    let directory = TestDirectory::new("stdio-c");
    let program = directory.compile("stdio.c");
    let Some(expected) = strace(&directory, &[program.to_str().unwrap()]) else {
        return;
    };
    for name in ["made", "other", "left"] {
        std::fs::remove_file(directory.0.join(name)).unwrap();
    }
    let run = directory.record(&mut Command::new(&program));
    assert!(run.status.success(), "{run:?}");
    let recording = directory.recording();
    let seen = recording.done_to_files(&directory.0);
    for name in ["made", "other", "left"] {
        let path = directory.0.join(name).to_str().unwrap().to_owned();
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
fn without_a_usable_directory_a_program_runs_unchanged() {
    let directory = TestDirectory::new("nowhere");
    let file = directory.file("a", 100_000);
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
fn if_a_log_cannot_grow_the_program_continues() {
    let directory = TestDirectory::new("limit");
    let program = directory.compile("kill.c");
    let file = directory.file("a", 300_000);
    let script = "ulimit -f 128; exec \"$@\"";
    let run = directory.record(
        Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&program)
            .arg(&file)
            .arg("e"),
    );
    assert_eq!(run.status.code(), Some(7), "{run:?}");
    let recording = directory.recording();
    let log = recording.logs().pop().unwrap();
    let count = log.records.filter(|record| record.call.name == "pread64").count();
    assert!((100..10_000).contains(&count), "{count}");
}

#[test]
fn processor_time_excludes_the_time_of_waiting() {
    let directory = TestDirectory::new("time");
    let program = "
import os, time
fd = os.open('/dev/null', os.O_RDONLY)
time.sleep(0.2)
os.lseek(fd, 1, 0)
end = time.thread_time() + 0.2
while time.thread_time() < end: pass
os.lseek(fd, 2, 0)
";
    let run = directory.record(Command::new("python3").args(["-c", program]));
    assert!(run.status.success(), "{run:?}");
    let recording = directory.recording();
    let all = recording.records();
    let used = |offset| {
        let is_it = |record: &&Record<'_>| record.call.name == "lseek" && record.arguments[1] == Some(offset);
        all.iter().rev().find(is_it).unwrap().cpu_ns.unwrap()
    };
    assert!(used(1) < 150_000_000, "{}", used(1));
    // The recorder and the program read the clock at different moments.
    assert!((190_000_000..400_000_000).contains(&used(2)), "{}", used(2));
}

#[test]
fn each_executed_program_has_one_head_with_its_command() {
    let directory = TestDirectory::new("images");
    directory.file("a", 10);
    let run = directory.record(Command::new("sh").args(["-c", "(cat a; :); cat a; exec cat a"]));
    assert!(run.status.success());
    let recording = directory.recording();
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
        "the shell, its child and their programs have 4 threads: {threads:?}"
    );
}
