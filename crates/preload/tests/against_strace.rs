//! Runs real programs with the recorder and with strace, and compares the results.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::process::Command;

use common::{FileActivity, TestDirectory, strace};
use plimsoll_trace::event::Outcome;

/// Runs a program twice and compares the activity per file. `exactly`: also the number of calls.
fn assert_same(name: &str, command: &[&str], prepare: impl Fn(&TestDirectory), exactly: bool) {
    let directory = TestDirectory::new(name);
    prepare(&directory);
    let Some(expected) = strace(&directory, command) else {
        return;
    };
    prepare(&directory);
    let run = directory.record(Command::new(command[0]).args(&command[1..]));
    assert!(run.status.success(), "{run:?}");
    let mut seen = directory.recording().done_to_files(&directory.0);
    let is_ours = |name: &String| !name.starts_with(directory.logs().to_str().unwrap());
    seen.retain(|name, _| is_ours(name));
    assert!(!expected.is_empty());
    let bytes_only = |done: &FileActivity| FileActivity {
        reads: 0,
        writes: 0,
        ..*done
    };
    if exactly {
        assert_eq!(seen, expected);
    } else {
        // Files without bytes are dropped: a read that only finds the end of a file is not
        // recorded.
        let bytes = |all: std::collections::BTreeMap<String, FileActivity>| -> Vec<_> {
            let all = all.into_iter().map(|(name, done)| (name, bytes_only(&done)));
            all.filter(|(_, done)| *done != FileActivity::default()).collect()
        };
        assert_eq!(bytes(seen), bytes(expected));
    }
}

fn make_file(directory: &TestDirectory) {
    directory.file("a", 300_000);
}

#[test]
fn dd_is_recorded_as_strace_sees_it() {
    assert_same("dd", &["dd", "if=a", "of=b", "bs=512"], make_file, true);
}

#[test]
fn cat_is_recorded_as_strace_sees_it() {
    assert_same("cat", &["cat", "a", "a"], make_file, true);
}

#[test]
fn cp_is_recorded_as_strace_sees_it() {
    assert_same("cp", &["cp", "a", "b"], make_file, true);
}

#[test]
fn a_shell_with_pipes_and_children_is_recorded_as_strace_sees_it() {
    let script = "cat a | dd bs=1000 iflag=fullblock of=b; (cat b; head -c 777 a) > c; cat < c >> b; exec tail -c 100 b";
    assert_same("sh", &["sh", "-c", script], make_file, true);
}

#[test]
fn python_with_threads_and_children_is_recorded_as_strace_sees_it() {
    let program = "
import os, subprocess, threading
def work(number):
    for turn in range(20):
        with open('a', 'rb', buffering=4096) as file, open(f'out{number}', 'ab') as out:
            file.seek(turn * 999)
            out.write(file.read(1000 + turn))
        fd = os.open('a', os.O_RDONLY)
        os.pread(fd, 777, 5)
        os.preadv(fd, [bytearray(10), bytearray(20)], 5)
        os.close(fd)
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
subprocess.run(['dd', 'if=a', 'of=d', 'bs=100000'], check=True, stderr=subprocess.DEVNULL)
if os.fork() == 0:
    with open('a', 'rb') as file: file.read()
    os._exit(0)
os.wait()
";
    let fresh = |directory: &TestDirectory| {
        make_file(directory);
        for number in 0..4 {
            let _ = std::fs::remove_file(directory.0.join(format!("out{number}")));
        }
    };
    assert_same("python", &["python3", "-c", program], fresh, true);
}

#[test]
fn sqlite_is_recorded_as_strace_sees_it() {
    let program = "create table t(a, b); insert into t with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) \
                   select x, hex(zeroblob(20)) from n; select count(*) from t; update t set a = a + 1; vacuum;";
    let fresh = |directory: &TestDirectory| {
        let _ = std::fs::remove_file(directory.0.join("base"));
    };
    assert_same("sqlite", &["sqlite3", "base", program], fresh, true);
}

/// git's temporary files have another name in each run, so the record is compared with the files
/// that exist afterwards.
#[test]
fn the_bytes_that_git_writes_are_recorded() {
    let directory = TestDirectory::new("git");
    make_file(&directory);
    let script = "export GIT_CONFIG_GLOBAL=/dev/null
        git init -q . && git add a && git -c user.name=a -c user.email=a@b commit -q -m one && git clone -q --no-local . clone";
    let run = directory.record(Command::new("sh").args(["-c", script]));
    assert!(run.status.success(), "{run:?}");
    let done = directory.recording().done_to_files(&directory.0);
    let written = |name: &str| {
        done.get(directory.0.join(name).to_str().unwrap())
            .map(|done| done.written_bytes)
    };
    assert_eq!(written("clone/a"), Some(300_000));
    let packs = std::fs::read_dir(directory.0.join("clone/.git/objects/pack"))
        .unwrap()
        .map(Result::unwrap);
    let pack = packs
        .into_iter()
        .find(|file| file.path().extension().is_some_and(|kind| kind == "pack"))
        .unwrap();
    let written_to = |part| -> i64 {
        done.iter()
            .filter(|(name, _)| name.contains(part))
            .map(|(_, done)| done.written_bytes)
            .sum()
    };
    assert_eq!(
        written_to("tmp_pack"),
        pack.metadata().unwrap().len() as i64,
        "{done:#?}"
    );
}

#[test]
fn stdio_of_sort_sed_and_awk_is_recorded_as_strace_sees_it() {
    let lines = |directory: &TestDirectory| {
        let lines: Vec<String> = (0..20_000)
            .map(|line| format!("{} line\n", line * 7919 % 20_000))
            .collect();
        std::fs::write(directory.0.join("a"), lines.concat()).unwrap();
    };
    let script =
        "sort -n a > b; sed -e s/line/row/ -n -e 5,9000p b > c; awk '{ print $1 > \"d\" }' c; wc -l d";
    assert_same("stdio", &["sh", "-c", script], lines, false);
}

/// libc reads directories itself. The recorder infers each request, including the last one, which
/// returns no entries.
#[test]
fn each_request_for_directory_entries_is_recorded() {
    let directory = TestDirectory::new("directories");
    let many = directory.0.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..2000 {
        std::fs::write(many.join(format!("a-file-with-a-rather-long-name-{number}")), "").unwrap();
    }
    if strace(&directory, &["ls", "-f", "many"]).is_none() {
        return;
    }
    let strace_logs = std::fs::read_dir(directory.0.join("strace"))
        .unwrap()
        .map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap());
    let requests = strace_logs
        .map(|log| log.matches("getdents64(").count())
        .sum::<usize>();
    directory.record(Command::new("ls").args(["-f", "many"]));
    let recording = directory.recording();
    let seen = recording.named("getdents64");
    assert_eq!(seen.len(), requests);
    assert!(requests > 2 && seen.iter().all(|record| record.is_inferred));
    assert_eq!(seen.last().unwrap().outcome, Outcome::Returned(0));
    let opened = recording
        .named("openat")
        .into_iter()
        .find(|record| record.texts[0] == Some(b"many"))
        .unwrap();
    assert_eq!(opened.outcome.value(), seen[0].arguments[0]);
}
