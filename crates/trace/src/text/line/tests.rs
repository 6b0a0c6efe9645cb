//! Lines of strace 4.26 to 7.x with each option that changes them, and lines that strace does not
//! write.

use super::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Pid, stamp, and the content as short text.
fn summary(line: &str) -> Option<(Option<u32>, Option<Stamp>, String)> {
    let Line { pid, stamp, kind } = parse(line.as_bytes())?;
    let end = |ended: CallEnd<'_>| {
        let value = ended
            .value
            .map_or_else(|| "?".to_owned(), |value| value.to_string());
        let error = ended
            .error()
            .map(|error| format!(" {}", text(error)))
            .unwrap_or_default();
        let name = ended.name().and_then(|descriptor| descriptor.name);
        let name = name.map(|name| format!("<{}>", text(name))).unwrap_or_default();
        let took = ended
            .duration_ns
            .map(|ns| format!(" {ns} ns"))
            .unwrap_or_default();
        format!("{value}{name}{error}{took}")
    };
    let content = match kind {
        LineKind::Call {
            name,
            arguments,
            ended,
            ..
        } => format!("{}|{}|{}", text(name), text(arguments), end(ended)),
        LineKind::Began { name, arguments, .. } => format!("{}|{}|...", text(name), text(arguments)),
        LineKind::Resumed {
            name,
            arguments,
            ended,
            ..
        } => format!("...{}|{}|{}", text(name), text(arguments), end(ended)),
        other => format!("{other:?}"),
    };
    Some((pid, stamp, content))
}

fn content(line: &str) -> String {
    summary(line).expect(line).2
}

#[test]
fn the_prefixes_of_all_options_are_parsed() {
    let wall = Some(Stamp::Wall(1_795_000_000_123_456_000));
    for (prefix, pid, stamp) in [
        ("", None, None),
        ("20229 ", Some(20_229), None),
        ("7     ", Some(7), None),
        ("[pid 20229] ", Some(20_229), None),
        ("[pid     7] ", Some(7), None),
        ("20229<cat> ", Some(20_229), None),
        ("20229<a> b> ", Some(20_229), None),
        ("[pid 20229<cat>] ", Some(20_229), None),
        ("1795000000.123456 ", None, wall),
        ("20229 1795000000.123456 ", Some(20_229), wall),
        ("[pid 20229] 1795000000.123456 ", Some(20_229), wall),
        ("20229<cat> 1795000000.123456 ", Some(20_229), wall),
        (
            "20229 1795000000.123456789 ",
            Some(20_229),
            Some(Stamp::Wall(1_795_000_000_123_456_789)),
        ),
        ("1795000000 ", None, Some(Stamp::Wall(1_795_000_000_000_000_000))),
        (
            "7 1795000000 ",
            Some(7),
            Some(Stamp::Wall(1_795_000_000_000_000_000)),
        ),
        ("01:02:03 ", None, Some(Stamp::Day(3_723_000_000_000))),
        (
            "7  23:59:60.000001 ",
            Some(7),
            Some(Stamp::Day(86_400_000_001_000)),
        ),
        ("     0.000123 ", None, Some(Stamp::Since(123_000))),
        ("7      0.000123 ", Some(7), Some(Stamp::Since(123_000))),
        ("7 1795000000.123456 (+     0.000123) ", Some(7), wall),
        ("[00007f1c2a5e4b1e] ", None, None),
        ("7 1795000000.123456 [   0] ", Some(7), wall),
        ("7 [????????????????] ", Some(7), None),
    ] {
        let line = format!(r#"{prefix}read(3, "x", 9) = 1"#);
        let found = summary(&line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(found, (pid, stamp, r#"read|3, "x", 9|1"#.to_owned()), "{line}");
    }
}

#[test]
fn results_of_all_kinds_are_parsed() {
    for (line, found) in [
        ("close(3) = 0", "close|3|0"),
        ("close(3)                = 0", "close|3|0"),
        ("close(3)= 0 <0.000007>", "close|3|0 7000 ns"),
        ("close(3) = 0 <0.000000123>", "close|3|0 123 ns"),
        (
            r#"open("x", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000007>"#,
            r#"open|"x", O_RDONLY|-1 ENOENT 7000 ns"#,
        ),
        (
            "getpriority(PRIO_PROCESS, 0) = -1",
            "getpriority|PRIO_PROCESS, 0|-1",
        ),
        (
            "mmap(NULL, 4096) = 0x7f0000001000",
            "mmap|NULL, 4096|139637976731648",
        ),
        ("exit_group(0) = ?", "exit_group|0|?"),
        ("exit_group(0) = ? <unavailable>", "exit_group|0|?"),
        (
            "read(0, 0x7ffc, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <1.5>",
            "read|0, 0x7ffc, 1|? ERESTARTSYS 1500000000 ns",
        ),
        (
            "poll([{fd=5, events=POLLIN}], 1, -1) = 1 ([{fd=5, revents=POLLIN}])",
            "poll|[{fd=5, events=POLLIN}], 1, -1|1",
        ),
        ("fcntl(3, F_GETFD) = 0x1 (flags FD_CLOEXEC)", "fcntl|3, F_GETFD|1"),
        ("close(3) = 0 (INJECTED)", "close|3|0"),
        (
            r#"openat(AT_FDCWD</h>, "x = 3", O_RDONLY) = 4</h/x = 3> <0.000010>"#,
            r#"openat|AT_FDCWD</h>, "x = 3", O_RDONLY|4</h/x = 3> 10000 ns"#,
        ),
        (
            "socket(AF_UNIX, SOCK_STREAM, 0) = 3<UNIX-STREAM:[1->2]>",
            "socket|AF_UNIX, SOCK_STREAM, 0|3<UNIX-STREAM:[1->2]>",
        ),
        (
            "restart_syscall(<... resuming interrupted read ...>) = 0",
            "restart_syscall|<... resuming interrupted read ...>|0",
        ),
        ("syscall_0x1c3(0x3, 0) = 0", "syscall_0x1c3|0x3, 0|0"),
        ("close(3) = 0\r", "close|3|0"),
    ] {
        assert_eq!(content(line), found, "{line}");
    }
    let Some(LineKind::Call { ended, .. }) =
        parse(b"read(0, 1) = ? ERESTARTNOHAND (x)").map(|line| line.kind)
    else {
        panic!("it is a call")
    };
    assert!(ended.restarts());
}

#[test]
fn the_parts_of_an_interrupted_call_are_parsed() {
    for (line, found) in [
        ("7 vfork( <unfinished ...>", "vfork||..."),
        ("7 close(5 <unfinished ...>", "close|5|..."),
        ("7 read(3</a b>,  <unfinished ...>", "read|3</a b>, |..."),
        (
            r#"7 open("<unfinished ...>",  <unfinished ...>"#,
            r#"open|"<unfinished ...>", |..."#,
        ),
        ("7 ???( <unfinished ...>", "???||..."),
        ("7 read(0 <detached ...>", "read|0|..."),
        (
            r#"7 <... read resumed>"", 5) = 0 <0.1>"#,
            r#"...read|"", 5|0 100000000 ns"#,
        ),
        (r#"7 <... read resumed> "", 5) = 0"#, r#"...read| "", 5|0"#),
        ("7 <... close resumed>)      = 0", "...close||0"),
        (
            "7 <... clone3 resumed> => {parent_tid=[9]}, 88) = 9",
            "...clone3| => {parent_tid=[9]}, 88|9",
        ),
        ("7 <... exit_group resumed>) = ?", "...exit_group||?"),
    ] {
        assert_eq!(content(line), found, "{line}");
    }
}

#[test]
fn ends_of_threads_signals_and_notes_are_parsed() {
    for (line, found) in [
        ("7 +++ exited with 3 +++", "Exited(3)"),
        ("+++ killed by SIGKILL +++", "Killed"),
        ("7 +++ killed by SIGSEGV (core dumped) +++", "Killed"),
        ("7 +++ superseded by execve in pid 8 +++", "Superseded { by: 8 }"),
        (
            "7 1795000000.1 --- SIGCHLD {si_signo=SIGCHLD, si_utime=1 /* 0.01 s */} ---",
            "Signal",
        ),
        ("7 --- stopped by SIGSTOP ---", "Signal"),
        ("strace: Process 7 attached", "Note"),
        ("[ Process PID=7 runs in 32 bit mode. ]", "Note"),
        (" > /lib/libc.so.6(read+0x1) [0xf1]", "Note"),
        ("", "Note"),
    ] {
        assert_eq!(content(line), found, "{line}");
    }
}

#[test]
fn text_that_strace_does_not_write_is_refused() {
    for line in [
        "hello",
        "7 hello",
        "read(3, \"x",
        "read(3, \"x\", 9)",
        "read(3, \"x\", 9) =",
        "read(3, \"x\", 9) = ENOENT",
        "read(3, 9) = 1x",
        "7 <... read resum",
        "7 <... read resumed>",
        "7 +++ exited",
        "7 --- SIGCHLD {",
        "(3) = 0",
        "7",
        "1795000000.123456",
        "12:60:00 read(3) = 0",
    ] {
        // A word that looks like a pid may be a part of a cut line.
        assert_eq!(summary(line), None, "{line}");
    }
}

#[test]
fn a_time_out_of_range_is_refused() {
    for seconds in ["9999999999", "9223372037", "99999999999"] {
        assert_eq!(
            parse(format!("7 {seconds}.000001 close(3) = 0").as_bytes()),
            None,
            "{seconds}"
        );
    }
    let last = parse(b"7 9223372035.999999 close(3) = 0").and_then(|line| line.stamp);
    assert_eq!(last, Some(Stamp::Wall(9_223_372_035_999_999_000)));
}
