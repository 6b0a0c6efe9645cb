//! Which open file a descriptor stands for: small logs with a known answer, and real programs,
//! where strace itself says it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plimsoll_trace::event::OpenId;
use plimsoll_trace::follow::{Follower, Observation, Trouble};
use plimsoll_trace::kernel::Kernel;

mod held;

/// Of each call that touches an open file: its thread, its name, and the number of the file in
/// order of their first use, with `?` where it was open before the trace.
fn followed(log: &str) -> Vec<String> {
    let mut follower = Follower::new();
    let mut known: Vec<OpenId> = Vec::new();
    let mut told = Vec::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
        let (Some(open), Some(call)) = (seen.event.open, seen.call) else {
            return;
        };
        if call.name == b"pipe2" {
            return;
        }
        let place = known.iter().position(|&one| one == open).unwrap_or_else(|| {
            known.push(open);
            known.len() - 1
        });
        let mark = if was_there(kernel, seen).is_some() {
            "?"
        } else {
            ""
        };
        let name = String::from_utf8_lossy(call.name);
        told.push(format!("{} {name} {place}{mark}", call.pid));
    };
    for line in log.lines() {
        follower.line(line.trim_start().as_bytes(), 1, &mut hear);
    }
    follower.end(&mut hear);
    assert_eq!((follower.trouble(), follower.endless()), (&Trouble::default(), 0));
    told
}

/// The number of a descriptor that was there before the trace began.
fn was_there(kernel: &Kernel, seen: &Observation<'_>) -> Option<i32> {
    let file = kernel.names().files()[seen.event.file?.index()];
    let path = String::from_utf8_lossy(kernel.names().path(file.path)).into_owned();
    path.strip_prefix("unknown:")?.split(':').nth(1)?.parse().ok()
}

#[test]
fn numbers_are_given_out_again_and_duplicates_are_the_same_file() {
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
        followed(log),
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
        followed(log),
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
fn execve_closes_what_is_marked_and_leaves_the_table_to_itself() {
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
        followed(log),
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
fn a_child_may_speak_before_its_parent_has_returned() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 vfork( <unfinished ...>
        8 read(3, "", 9) = 0
        8 close(3) = 0
        8 exit_group(0) = ?
        8 +++ exited with 0 +++
        7 <... vfork resumed>) = 8
        7 read(3, "", 9) = 0"#;
    assert_eq!(followed(log), ["7 openat 0", "8 read 0", "8 close 0", "7 read 0"]);
}

#[test]
fn whose_child_it_is_is_waited_for_where_it_can_be_that_of_two() {
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
        followed(log),
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
fn a_number_is_free_when_its_close_begins() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8
        7 close(3 <unfinished ...>
        8 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 <... close resumed>) = 0
        7 read(3, "", 9) = 0"#;
    assert_eq!(
        followed(log),
        ["7 openat 0", "8 openat 1", "7 close 0", "7 read 1"]
    );
}

#[test]
fn a_thread_that_executes_a_program_takes_its_table_along() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8
        7 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>
        8 execve("/bin/true", ["true"], 0x7ffe /* 24 vars */ <unfinished ...>
        7 +++ superseded by execve in pid 8 +++
        7 <... execve resumed>) = 0
        7 read(3, "", 9) = 0"#;
    assert_eq!(followed(log), ["7 openat 0", "7 read 0"]);
}

/// git looks at its standard output after it has closed it.
#[test]
fn a_descriptor_that_was_none_stands_for_nothing() {
    let log = r#"7 openat(AT_FDCWD, "a", O_WRONLY) = 3
        7 close(3) = 0
        7 newfstatat(3, "", 0x7ffe, AT_EMPTY_PATH) = -1 EBADF (Bad file descriptor)
        7 fstat(3, 0x7ffe) = -1 EBADF (Bad file descriptor)
        7 openat(9, "b", O_RDONLY) = -1 EBADF (Bad file descriptor)
        7 exit_group(0) = ?"#;
    assert_eq!(followed(log), ["7 openat 0", "7 close 0"]);
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

/// Lines are lost where a log was cut in the middle, or was written by several straces.
#[test]
fn a_close_after_a_call_whose_end_is_lost_closes() {
    let mut follower = Follower::new();
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY) = 3
        7 read(3,  <unfinished ...>
        7 close(3) = 0
        7 openat(AT_FDCWD, "b", O_RDONLY) = 3
        7 close(3 <unfinished ...>
        7 openat(AT_FDCWD, "c", O_RDONLY) = 3
        7 close(3) = 0"#;
    let mut told = Vec::new();
    for line in log.lines() {
        follower.line(
            line.trim_start().as_bytes(),
            1,
            &mut |kernel: &mut Kernel, seen: &Observation<'_>| {
                let file = seen
                    .event
                    .file
                    .map(|file| String::from_utf8_lossy(kernel.name_of(file)).into_owned());
                told.push(format!("{} {}", seen.event.call.name, file.unwrap_or_default()));
            },
        );
    }
    assert_eq!(told, ["openat a", "close a", "openat b", "openat c", "close c"]);
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
fn real_programs_are_followed_as_strace_follows_them() {
    let place: PathBuf = std::env::temp_dir().join(format!("plimsoll-descriptors-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("program.sh"), SHELL).unwrap();
    fs::write(place.join("program.py"), PYTHON).unwrap();
    for (program, size, least) in [
        (["sh", "program.sh"], "32", 150),
        (["sh", "program.sh"], "0", 150), // pipe([...])
        (["python3", "program.py"], "0", 1_000),
    ] {
        let log = place.join("log");
        let strace = Command::new("strace")
            .args(["-f", "-y", "-s", size, "-o"])
            .arg(&log)
            .args(program)
            .current_dir(&place)
            .output();
        if !strace.is_ok_and(|done| done.status.success()) {
            eprintln!(
                "SKIPPED: strace or {} is missing, or may trace nothing here",
                program[0]
            );
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "under CI what is missing is a failure"
            );
            break;
        }
        let held = held::held(&fs::read(&log).unwrap());
        assert_eq!((&held.trouble, held.endless), (&Trouble::default(), 0));
        assert!(held.others.is_empty(), "{program:?}: {:#?}", held.others);
        assert!(held.misnamed.is_empty(), "{program:?}: {:#?}", held.misnamed);
        assert!(
            held.same >= least && held.named * 3 > held.same,
            "{program:?}: {} names only",
            held.same
        );
    }
    let _ = fs::remove_dir_all(&place);
}
