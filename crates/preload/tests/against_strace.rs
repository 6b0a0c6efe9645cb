//! Real programs: what the recorder saw is what strace sees.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::Command;

use common::{FileActivity, Place, strace};
use plimsoll_trace::event::Outcome;

/// Runs a program twice, and compares what was done to each file. `exactly`: also how many calls it
/// took.
fn same(name: &str, command: &[&str], again: impl Fn(&Place), exactly: bool) {
    let place = Place::new(name);
    again(&place);
    let Some(expected) = strace(&place, command) else {
        return;
    };
    again(&place);
    let run = place.record(Command::new(command[0]).args(&command[1..]));
    assert!(run.status.success(), "{run:?}");
    let mut seen = place.recording().done_to_files(&place.0);
    let is_ours = |name: &String| !name.starts_with(place.logs().to_str().unwrap());
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
        // A file of which only the end was read is one that was not read.
        let bytes = |all: std::collections::BTreeMap<String, FileActivity>| -> Vec<_> {
            let all = all.into_iter().map(|(name, done)| (name, bytes_only(&done)));
            all.filter(|(_, done)| *done != FileActivity::default()).collect()
        };
        assert_eq!(bytes(seen), bytes(expected));
    }
}

fn one_file(place: &Place) {
    place.file("a", 300_000);
}

#[test]
fn dd() {
    same("dd", &["dd", "if=a", "of=b", "bs=512"], one_file, true);
}

#[test]
fn cat() {
    same("cat", &["cat", "a", "a"], one_file, true);
}

#[test]
fn cp() {
    same("cp", &["cp", "a", "b"], one_file, true);
}

#[test]
fn a_shell_with_pipes_and_children() {
    let script = "cat a | dd bs=1000 iflag=fullblock of=b; (cat b; head -c 777 a) > c; cat < c >> b; exec tail -c 100 b";
    same("sh", &["sh", "-c", script], one_file, true);
}

#[test]
fn python_with_threads_and_children() {
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
    let fresh = |place: &Place| {
        one_file(place);
        for number in 0..4 {
            let _ = std::fs::remove_file(place.0.join(format!("out{number}")));
        }
    };
    same("python", &["python3", "-c", program], fresh, true);
}

#[test]
fn sqlite() {
    let program = "create table t(a, b); insert into t with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) \
                   select x, hex(zeroblob(20)) from n; select count(*) from t; update t set a = a + 1; vacuum;";
    let fresh = |place: &Place| {
        let _ = std::fs::remove_file(place.0.join("base"));
    };
    same("sqlite", &["sqlite3", "base", program], fresh, true);
}

/// Its temporary files have another name each time, so that it is compared with what is there
/// afterwards.
#[test]
fn git() {
    let place = Place::new("git");
    one_file(&place);
    let script = "export GIT_CONFIG_GLOBAL=/dev/null
        git init -q . && git add a && git -c user.name=a -c user.email=a@b commit -q -m one && git clone -q --no-local . clone";
    let run = place.record(Command::new("sh").args(["-c", script]));
    assert!(run.status.success(), "{run:?}");
    let done = place.recording().done_to_files(&place.0);
    let written = |name: &str| {
        done.get(place.0.join(name).to_str().unwrap())
            .map(|done| done.written_bytes)
    };
    assert_eq!(written("clone/a"), Some(300_000));
    let packs = std::fs::read_dir(place.0.join("clone/.git/objects/pack"))
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
fn stdio_as_sort_sed_and_awk_use_it() {
    let lines = |place: &Place| {
        let lines: Vec<String> = (0..20_000)
            .map(|line| format!("{} line\n", line * 7919 % 20_000))
            .collect();
        std::fs::write(place.0.join("a"), lines.concat()).unwrap();
    };
    let script =
        "sort -n a > b; sed -e s/line/row/ -n -e 5,9000p b > c; awk '{ print $1 > \"d\" }' c; wc -l d";
    same("stdio", &["sh", "-c", script], lines, false);
}

/// libc reads directories by itself: how often it asks is seen, as is that nothing is left.
#[test]
fn directories() {
    let place = Place::new("directories");
    let many = place.0.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..2000 {
        std::fs::write(many.join(format!("a-file-with-a-rather-long-name-{number}")), "").unwrap();
    }
    if strace(&place, &["ls", "-f", "many"]).is_none() {
        return;
    }
    let said = std::fs::read_dir(place.0.join("strace"))
        .unwrap()
        .map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap());
    let asked = said.map(|log| log.matches("getdents64(").count()).sum::<usize>();
    place.record(Command::new("ls").args(["-f", "many"]));
    let recording = place.recording();
    let seen = recording.named("getdents64");
    assert_eq!(seen.len(), asked);
    assert!(asked > 2 && seen.iter().all(|record| record.is_inferred));
    assert_eq!(seen.last().unwrap().outcome, Outcome::Returned(0));
    let opened = recording
        .named("openat")
        .into_iter()
        .find(|record| record.texts[0] == Some(b"many"))
        .unwrap();
    assert_eq!(opened.outcome.value(), seen[0].arguments[0]);
}
