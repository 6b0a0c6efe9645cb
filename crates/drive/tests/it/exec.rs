//! The exec driver with small shell programs.

use std::collections::HashSet;
use std::time::Duration;

use plimsoll_drive::AgentPortion;
use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::harness::*;

fn exec(mode: &str, command: &[&str], bytes: Value, load: Value, end: Value) -> Value {
    let settings = json!({"mode": mode, "env": {"EXTRA": "e{n}"}, "cwd": null});
    let request = json!({"command": command, "stdin": null, "bytes": bytes});
    spec("exec", "exec:", settings, request, load, end)
}

fn shell(script: &str, bytes: Value, transactions: u64) -> Value {
    exec(
        "per-transaction",
        &["/bin/sh", "-c", script],
        bytes,
        closed(1),
        json!({"transactions": transactions}),
    )
}

fn none() -> Value {
    json!({"kind": "none"})
}

#[test]
fn the_end_of_a_program_determines_outcome_and_code() {
    for (script, outcome, code) in [
        ("exit 0", Outcome::Ok, ""),
        ("echo trouble >&2; exit 3", Outcome::Error, "exit 3"),
        ("kill -9 $$", Outcome::Error, "signal 9"),
    ] {
        let ran = run(shell(script, none(), 2));
        assert_eq!(ran.results(), [(outcome, code); 2], "{script}");
        assert_eq!(ran.metric("cpu_s").len(), 2);
        assert!(ran.metric("max_rss_bytes").iter().all(|&bytes| bytes > 100_000.0));
        assert_eq!(ran.metric("program_s (estimated)").len(), 2);
        if outcome == Outcome::Error && code == "exit 3" {
            assert!(
                ran.notes.iter().any(|(_, text)| text.contains("trouble")),
                "{:?}",
                ran.notes
            );
        }
    }
    let ran = run(exec(
        "per-transaction",
        &["/no/such/program"],
        none(),
        closed(1),
        json!({"transactions": 1}),
    ));
    assert_eq!(ran.results(), [(Outcome::Error, "not found")]);
    let ran = run(exec(
        "per-transaction",
        &["/etc/passwd"],
        none(),
        closed(1),
        json!({"transactions": 1}),
    ));
    assert_eq!(ran.results(), [(Outcome::Error, "not executable")]);
}

#[test]
fn arguments_and_environment_are_filled() {
    let script = r#"test "$0 $PLIMSOLL_TESTER $PLIMSOLL_N $PLIMSOLL_ENDPOINT $EXTRA" = "1-$PLIMSOLL_N 1 $1 exec: e$1""#;
    let command = [
        "/bin/sh",
        "-c",
        &format!("test $PLIMSOLL_TESTER = 0 || {script}"),
        "{tester}-{n}",
        "{n}",
    ];
    let ran = run(exec(
        "per-transaction",
        &command,
        none(),
        closed(2),
        json!({"each_tester": 3}),
    ));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 6]);
}

#[test]
fn bytes_are_fixed_matched_or_reported() {
    let report = r#"echo starting; echo '{"bytes":10,"items":2,"metrics":{"depth":4.5},"start_ns":1000,"end_ns":3000}'"#;
    for (script, bytes, outcome, code, payload, items) in [
        (
            "true",
            json!({"kind": "fixed", "bytes": 77}),
            Outcome::Ok,
            "",
            77,
            1,
        ),
        (
            "echo 5 bytes; echo 123 bytes",
            json!({"kind": "regex", "pattern": "([0-9]+) bytes"}),
            Outcome::Ok,
            "",
            123,
            1,
        ),
        (
            "echo x",
            json!({"kind": "regex", "pattern": "([0-9]+) bytes"}),
            Outcome::Wrong,
            "no byte count",
            0,
            0,
        ),
        (report, json!({"kind": "json"}), Outcome::Ok, "", 10, 2),
        (
            "echo '{bad'",
            json!({"kind": "json"}),
            Outcome::Wrong,
            "no report",
            0,
            0,
        ),
        (
            r#"echo '{"ok":false,"code":"denied"}'"#,
            json!({"kind": "json"}),
            Outcome::Error,
            "denied",
            0,
            0,
        ),
    ] {
        let ran = run(shell(script, bytes, 1));
        assert_eq!(ran.results(), [(outcome, code)], "{script}");
        let t = &ran.transactions[0];
        assert_eq!(
            (t.payload, t.items, t.sent, t.received),
            (payload, items, 0, 0),
            "{script}"
        );
        if script == report {
            assert_eq!(ran.metric("depth"), [4.5]);
            assert!((ran.metric("program_s")[0] - 2e-6).abs() < 1e-12);
            assert!(ran.metric("program_s (estimated)").is_empty());
        }
    }
}

#[test]
fn standard_input_and_large_outputs_do_not_block() {
    let mut spec = shell(
        "cat; head -c 3000000 /dev/zero; echo; cat >&2",
        json!({"kind": "regex", "pattern": "\n(.*)$"}),
        2,
    );
    let text = "x".repeat(500_000);
    spec["workloads"][0]["operations"][0]["request"]["stdin"] = json!(text);
    spec["workloads"][0]["operations"][0]["request"]["bytes"] = json!({"kind": "fixed", "bytes": 1});
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2]);
    assert!(ran.transactions.iter().all(|t| t.first_byte >= t.connected));
}

fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

#[test]
fn a_timeout_ends_the_whole_process_group() {
    let file = std::env::temp_dir().join(format!("plimsoll-drive-group-{}", std::process::id()));
    // The grandchild ignores SIGTERM.
    let script = format!(
        "(trap '' TERM; echo $$ > {0}; sh -c 'echo $$ > {0}; sleep 30') & wait",
        file.display()
    );
    let mut spec = shell(&script, none(), 1);
    spec["workloads"][0]["timeout_ns"] = json!(150 * MS);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Timeout, "timeout first byte")]);
    assert!(ran.requests()[0] < 400 * MS);
    let pid = std::fs::read_to_string(&file).unwrap();
    for _ in 0..100 {
        if !alive(&pid) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!alive(&pid), "process {pid} is still there");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn the_end_of_a_run_cancels_programs() {
    let mut spec = exec(
        "per-transaction",
        &["/bin/sleep", "30"],
        none(),
        closed(3),
        json!({"duration_ns": 100 * MS}),
    );
    spec["drain_ns"] = json!(100 * MS);
    spec["workloads"][0]["timeout_ns"] = json!(60 * SECOND);
    let ran = run(spec);
    assert_eq!((ran.counters.started, ran.in_flight), (3, 3));
}

const ECHO: &str = r#"while read line; do echo noise; echo "{\"bytes\":7,\"items\":1}"; done"#;

#[test]
fn a_long_lived_program_carries_out_many_transactions() {
    for load in [closed(2), open(200.0, 2, "wait")] {
        let command = ["/bin/sh", "-c", ECHO];
        let ran = run(exec(
            "long-lived",
            &command,
            json!({"kind": "json"}),
            load,
            json!({"transactions": 40}),
        ));
        assert_eq!(ran.counters.succeeded, 40, "{:?}", ran.results());
        assert_eq!(ran.counters.payload, 280);
        assert!(ran.transactions.iter().all(|t| t.session == 1));
        // On a busy host one tester can carry out all of them before the other has started.
        let testers: HashSet<u32> = ran.transactions.iter().map(|t| t.tester).collect();
        let programs = ran.transactions.iter().filter(|t| t.connected >= 0).count();
        assert_eq!(programs, testers.len(), "one program for each tester");
    }
}

#[test]
fn a_long_lived_program_that_ends_is_started_again() {
    let script = r#"read line; echo "$line" | grep -q '"n":0' && echo '{"bytes":1}'; read line; echo dying >&2; exit 4"#;
    let command = ["/bin/sh", "-c", script];
    let ran = run(exec(
        "long-lived",
        &command,
        json!({"kind": "json"}),
        closed(1),
        json!({"transactions": 3}),
    ));
    assert_eq!(
        ran.results()[..2],
        [(Outcome::Ok, ""), (Outcome::Error, "exit 4")]
    );
    assert_eq!(ran.transactions[2].session, 2);
    assert!(
        ran.notes.iter().any(|(_, text)| text.contains("dying")),
        "{:?}",
        ran.notes
    );
}

#[test]
fn a_blocked_tester_does_not_make_others_late() {
    let script = "test $PLIMSOLL_TESTER = 0 && sleep 20; exit 0";
    let load = json!({"kind": "every", "testers": 4, "every_ns": 50 * MS, "late": "skip"});
    let command = ["/bin/sh", "-c", script];
    let mut whole = exec(
        "per-transaction",
        &command,
        none(),
        load,
        json!({"duration_ns": 1_000 * MS}),
    );
    whole["drain_ns"] = json!(50 * MS);
    whole["workloads"][0]["timeout_ns"] = json!(60 * SECOND);
    // The tasks of an async driver run at the same time.
    let mut null = spec(
        "null",
        "null:",
        json!({}),
        json!({}),
        open(200.0, 2, "wait"),
        json!({}),
    )["workloads"][0]
        .clone();
    null["name"] = json!("null");
    whole["workloads"].as_array_mut().unwrap().push(null);
    let ran = run(whole);
    let of = |tester: u32| ran.transactions.iter().filter(move |t| t.tester == tester);
    assert_eq!(of(0).count(), 1);
    assert_eq!(of(0).next().unwrap().outcome, Outcome::Cancelled);
    for tester in 1..4 {
        assert!(
            of(tester).count() >= 15,
            "tester {tester}: {}",
            of(tester).count()
        );
        let mut lateness: Vec<i64> = of(tester).map(|t| t.start - t.scheduled).collect();
        lateness.sort_unstable();
        // The limit does not depend on the speed of the host: a tester that waited for the blocked
        // one would be late by seconds.
        assert!(
            lateness[lateness.len() / 2] < 20 * MS,
            "median lateness {}",
            lateness[lateness.len() / 2]
        );
    }
    // On a busy host the last arrivals may be due and not started at the end: dropped, and counted.
    let beside = ran.transactions.iter().filter(|t| t.workload == 1).count() as u64;
    assert_eq!(beside + ran.counters.dropped, 200);
    assert!(beside > 100, "{beside} of 200");
}

#[test]
fn wrong_settings_are_refused() {
    let end = || json!({"transactions": 1});
    let regex = json!({"kind": "regex", "pattern": "[0-9]+"});
    assert!(refused(exec("per-transaction", &["x"], regex, closed(1), end())).contains("no group"));
    assert!(refused(exec("per-transaction", &[], none(), closed(1), end())).contains("command"));
    let mut spec = exec("long-lived", &["x"], none(), closed(1), end());
    spec["workloads"][0]["settings"]["cwd"] = json!("/no/such/directory");
    assert!(refused(spec).contains("/no/such/directory"));
    let going = prepare(
        exec("per-transaction", &["x"], none(), closed(3), end()),
        AgentPortion { agent: 0, agents: 1 },
        Some(2),
    );
    assert!(going.is_ok(), "more lanes than needed do no harm");
}
