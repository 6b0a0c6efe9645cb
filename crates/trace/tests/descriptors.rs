//! The open files to which descriptors refer: small logs with a known answer, and real programs,
//! for which strace itself reports it.
#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in a helper"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plimsoll_trace::event::OpenId;
use plimsoll_trace::follow::{Follower, Observation, Trouble};
use plimsoll_trace::kernel::Kernel;

mod held;

/// For each call on an open file: its thread, its name, and the index of the open file in the order
/// of their first use, with `?` if it was opened before the trace.
fn uses_of_open_files(log: &str) -> Vec<String> {
    let mut follower = Follower::new();
    let mut known: Vec<OpenId> = Vec::new();
    let mut uses = Vec::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
        let (Some(open), Some(call)) = (seen.event.open, seen.call) else {
            return;
        };
        if call.name == b"pipe2" {
            return;
        }
        let index = known.iter().position(|&known| known == open).unwrap_or_else(|| {
            known.push(open);
            known.len() - 1
        });
        let mark = if descriptor_before_trace(kernel, seen).is_some() {
            "?"
        } else {
            ""
        };
        let name = String::from_utf8_lossy(call.name);
        uses.push(format!("{} {name} {index}{mark}", call.pid));
    };
    for line in log.lines() {
        follower.line(line.trim_start().as_bytes(), 1, &mut hear);
    }
    follower.end(&mut hear);
    assert_eq!((follower.trouble(), follower.endless()), (&Trouble::default(), 0));
    uses
}

/// The number of a descriptor that was open before the trace began.
fn descriptor_before_trace(kernel: &Kernel, seen: &Observation<'_>) -> Option<i32> {
    let file = kernel.names().files()[seen.event.file?.index()];
    let path = String::from_utf8_lossy(kernel.names().path(file.path)).into_owned();
    path.strip_prefix("unknown:")?.split(':').nth(1)?.parse().ok()
}

#[test]
fn numbers_are_reused_and_duplicates_refer_to_the_same_open_file() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 dup(3) = 4
        7 close(3) = 0
        7 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 read(4, "", 9) = 0
        7 read(3, "", 9) = 0
        7 dup2(3, 4) = 4
        7 read(4, "", 9) = 0
        7 fcntl(3, F_DUPFD_CLOEXEC, 10) = 10
        7 read(10, "", 9) = 0
        7 read(0, "", 9) = 0
        7 close(99) = -1 EBADF (Bad file descriptor)"#;
    assert_eq!(
        uses_of_open_files(log),
        [
            "7 openat 0",
            "7 dup 0",
            "7 close 0",
            "7 openat 1",
            "7 read 0",
            "7 read 1",
            "7 dup2 1",
            "7 read 1",
            "7 fcntl 1",
            "7 read 1",
            "7 read 2?",
        ]
    );
}

#[test]
fn threads_share_a_table_and_processes_copy_it() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8
        7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 9
        8 close(3) = 0
        8 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 read(3, "", 9) = 0
        9 read(3, "", 9) = 0
        8 unshare(CLONE_FILES) = 0
        8 close(3) = 0
        8 openat(AT_FDCWD, "c", O_RDONLY) = 3
        7 read(3, "", 9) = 0"#;
    assert_eq!(
        uses_of_open_files(log),
        [
            "7 openat 0",
            "8 close 0",
            "8 openat 1",
            "7 read 1",
            "9 read 0",
            "8 close 1",
            "8 openat 2",
            "7 read 1"
        ]
    );
}

#[test]
fn execve_closes_marked_descriptors_and_makes_the_table_private() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY|O_CLOEXEC) = 3
        7 openat(AT_FDCWD, "b", O_RDONLY) = 4
        7 pipe2([5, 6], O_CLOEXEC) = 0
        7 fcntl(4, F_SETFD, FD_CLOEXEC) = 0
        7 openat(AT_FDCWD, "c", O_RDONLY) = 8
        7 execve("/none", ["none"], 0x7ffe /* 2 vars */) = -1 ENOENT (No such file or directory)
        7 read(3, "", 9) = 0
        7 execve("/bin/true", ["true"], 0x7ffe /* 2 vars */) = 0
        7 read(3, "", 9) = -1 EBADF (Bad file descriptor)
        7 read(8, "", 9) = 0
        7 openat(AT_FDCWD, "d", O_RDONLY) = 3
        7 close_range(3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0
        7 execve("/bin/true", ["true"], 0x7ffe /* 2 vars */) = 0
        7 read(8, "", 9) = -1 EBADF (Bad file descriptor)"#;
    assert_eq!(
        uses_of_open_files(log),
        [
            "7 openat 0",
            "7 openat 1",
            "7 fcntl 1",
            "7 openat 2",
            "7 read 0",
            "7 read 2",
            "7 openat 3"
        ]
    );
}

#[test]
fn lines_of_a_child_may_precede_the_return_of_its_parent() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 vfork( <unfinished ...>
        8 read(3, "", 9) = 0
        8 close(3) = 0
        8 exit_group(0) = ?
        8 +++ exited with 0 +++
        7 <... vfork resumed>) = 8
        7 read(3, "", 9) = 0"#;
    assert_eq!(
        uses_of_open_files(log),
        ["7 openat 0", "8 read 0", "8 close 0", "7 read 0"]
    );
}

#[test]
fn lines_of_a_child_wait_until_its_parent_is_known() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone(child_stack=NULL, flags=SIGCHLD) = 8
        8 close(3) = 0
        8 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
        8 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
        9 read(3, "", 9) = 1
        10 read(3, "", 9) = 2
        7 <... clone resumed>) = 10
        8 <... clone resumed>) = 9
        9 read(3, "", 9) = 3"#;
    assert_eq!(
        uses_of_open_files(log),
        [
            "7 openat 0",
            "8 close 0",
            "8 openat 1",
            "10 read 0",
            "9 read 1",
            "9 read 1"
        ]
    );
}

#[test]
fn a_descriptor_is_released_when_its_close_begins() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8
        7 close(3 <unfinished ...>
        8 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 <... close resumed>) = 0
        7 read(3, "", 9) = 0"#;
    assert_eq!(
        uses_of_open_files(log),
        ["7 openat 0", "8 openat 1", "7 close 0", "7 read 1"]
    );
}

#[test]
fn a_thread_that_executes_a_program_keeps_its_table() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8
        7 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>
        8 execve("/bin/true", ["true"], 0x7ffe /* 24 vars */ <unfinished ...>
        7 +++ superseded by execve in pid 8 +++
        7 <... execve resumed>) = 0
        7 read(3, "", 9) = 0"#;
    assert_eq!(uses_of_open_files(log), ["7 openat 0", "7 read 0"]);
}

/// git calls fstat on its standard output after it has closed it.
#[test]
fn a_descriptor_that_is_not_open_has_no_open_file() {
    let log = r#"7 openat(AT_FDCWD, "a", O_WRONLY) = 3
        7 close(3) = 0
        7 newfstatat(3, "", 0x7ffe, AT_EMPTY_PATH) = -1 EBADF (Bad file descriptor)
        7 fstat(3, 0x7ffe) = -1 EBADF (Bad file descriptor)
        7 openat(9, "b", O_RDONLY) = -1 EBADF (Bad file descriptor)
        7 exit_group(0) = ?"#;
    assert_eq!(uses_of_open_files(log), ["7 openat 0", "7 close 0"]);
    let mut follower = Follower::new();
    for line in log.lines() {
        follower.line(
            line.trim_start().as_bytes(),
            1,
            &mut |_: &mut Kernel, _: &Observation<'_>| {},
        );
    }
    let names = follower.kernel().names();
    let unknown = names.paths().iter().filter(|path| path.starts_with(b"unknown:"));
    assert_eq!(unknown.count(), 0);
}

/// Lines are lost if a log is cut in the middle, or is written by several instances of strace.
#[test]
fn a_close_after_a_lost_line_releases_its_descriptor() {
    let mut follower = Follower::new();
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 read(3,  <unfinished ...>
        7 close(3) = 0
        7 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 close(3 <unfinished ...>
        7 openat(AT_FDCWD, "c", O_RDONLY) = 3
        7 close(3) = 0"#;
    let mut calls = Vec::new();
    for line in log.lines() {
        follower.line(
            line.trim_start().as_bytes(),
            1,
            &mut |kernel: &mut Kernel, seen: &Observation<'_>| {
                let file = seen
                    .event
                    .file
                    .map(|file| String::from_utf8_lossy(kernel.name_of(file)).into_owned());
                calls.push(format!("{} {}", seen.event.call.name, file.unwrap_or_default()));
            },
        );
    }
    assert_eq!(calls, ["openat a", "close a", "openat b", "openat c", "close c"]);
    assert_eq!(follower.endless(), 2);
}

const SHELL: &str = r#"
    exec 9<"$0"
    for i in 1 2 3; do (cat <&9 | sort | head -n 2 >"out.$i"; cat "out.$i") & done
    wait
    exec 9<&- 8<>rw
    echo x >&8; read y <"out.1"; exec cat out.1
"#;
const PYTHON: &str = r"
import os, subprocess, threading, fcntl
shared = os.open('shared', os.O_RDWR | os.O_CREAT)
def work(k):
    for i in range(60):
        fd = os.open(f'own{k}', os.O_RDWR | os.O_CREAT)
        os.write(fd, b'x' * i); os.pread(shared, 10, i); os.close(fd)
        other = os.dup(shared); os.write(other, b'y'); os.close(other)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[one.start() for one in threads]; [one.join() for one in threads]
high = fcntl.fcntl(shared, fcntl.F_DUPFD_CLOEXEC, 100); os.dup2(shared, 50); os.set_inheritable(50, True)
subprocess.run(['cat', '/proc/self/fd/50'], close_fds=False, stdout=subprocess.DEVNULL)
subprocess.run(['true']); os.closerange(50, 200)
if os.fork() == 0:
    os.write(shared, b'child'); os._exit(0)
os.wait(); os.write(shared, b'z')
";

#[test]
fn descriptors_of_real_programs_agree_with_strace() {
    let directory: PathBuf =
        std::env::temp_dir().join(format!("plimsoll-descriptors-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("program.sh"), SHELL).unwrap();
    fs::write(directory.join("program.py"), PYTHON).unwrap();
    for (program, size, min_descriptors) in [
        (["sh", "program.sh"], "32", 150),
        (["sh", "program.sh"], "0", 150), // pipe([...])
        (["python3", "program.py"], "0", 1_000),
    ] {
        let log = directory.join("log");
        let strace = Command::new("strace")
            .args(["-f", "-y", "-s", size, "-o"])
            .arg(&log)
            .args(program)
            .current_dir(&directory)
            .output();
        if !strace.is_ok_and(|output| output.status.success()) {
            eprintln!(
                "SKIPPED: strace or {} is missing, or tracing is not permitted here",
                program[0]
            );
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "in CI a missing program is a failure"
            );
            break;
        }
        let result = held::compare_with_names(&fs::read(&log).unwrap());
        assert_eq!((&result.trouble, result.endless), (&Trouble::default(), 0));
        assert!(result.others.is_empty(), "{program:?}: {:#?}", result.others);
        assert!(result.misnamed.is_empty(), "{program:?}: {:#?}", result.misnamed);
        assert!(
            result.same >= min_descriptors && result.named * 3 > result.same,
            "{program:?}: only {} descriptors",
            result.same
        );
    }
    let _ = fs::remove_dir_all(&directory);
}
