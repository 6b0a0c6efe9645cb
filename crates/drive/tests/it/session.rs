//! Sessions of testers: emulated application jobs.

use std::time::Instant;

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::database::{Database, KINDS};
use crate::harness::*;

fn session(start: &[&str], compute_ms: (i64, i64), busy: bool, queries: (u32, u32)) -> Value {
    let (from, to) = compute_ms;
    json!({
        "start": start, "compute": {"kind": "uniform", "from_ns": from * MS, "to_ns": to * MS}, "busy": busy,
        "min_queries": queries.0, "max_queries": queries.1,
    })
}

fn with_session(mut spec: Value, session: Value) -> Value {
    spec["workloads"][0]["session"] = session;
    spec
}

fn null(testers: u32, session: Value) -> Value {
    let end = json!({"duration_ns": 900 * MS});
    with_session(
        spec("null", "null:", json!({}), json!({}), closed(testers), end),
        session,
    )
}

fn sqlite(database: &Database, query: &str, session: Value) -> Value {
    let (settings, request) = (json!({"connection": "kept"}), json!({"query": query}));
    let end = json!({"duration_ns": 900 * MS});
    with_session(
        spec("sql", &database.url(), settings, request, closed(2), end),
        session,
    )
}

const ENDS: [&str; 4] = [
    "session_s",
    "session_work_failed_s",
    "session_query_failed_s",
    "session_unfinished_s",
];

/// Numbers of sessions by how they ended, in the order of [`ENDS`].
fn counts(ran: &RunResult) -> [usize; 4] {
    ENDS.map(|name| ran.metric(name).len())
}

/// Start and end of each recorded session of a tester, in order.
fn sessions(ran: &RunResult, tester: u32) -> Vec<(i64, i64)> {
    let rows = ENDS.iter().flat_map(|name| ran.metric_rows(name));
    let mut all: Vec<(i64, i64)> = rows
        .filter(|row| row.tester == tester)
        .map(|row| (row.start, row.start + (row.value * 1e9).round() as i64))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_session_begins_with_the_first_operations_and_has_its_number_of_transactions() {
    for busy in [false, true] {
        let mut spec = null(2, session(&[], (5, 15), busy, (1, 3)));
        spec["workloads"][0]["operations"] = json!([
            {"name": "often", "weight": 1.0, "request": {}},
            {"name": "begin", "weight": 0.0, "first": 2, "request": {}},
        ]);
        let ran = run(spec);
        let [done, .., unfinished] = counts(&ran);
        // On a busy machine, computing may get no core at all.
        assert!((done > 0 || busy) && unfinished <= 2, "{:?}", counts(&ran));
        assert!(ran.metric("session_s").iter().all(|&s| s >= 0.005));
        for tester in 0..2 {
            let sessions = sessions(&ran, tester);
            assert!(
                sessions.windows(2).all(|pair| pair[0].1 <= pair[1].0),
                "{sessions:?}"
            );
            for (number, &(start, end)) in (1..).zip(&sessions) {
                let of = |t: &&plimsoll_model::Transaction| t.tester == tester && t.session == number;
                let mine: Vec<_> = ran.transactions.iter().filter(of).collect();
                assert!(
                    mine.iter().all(|t| start <= t.start && t.end <= end),
                    "{number}: {mine:?}"
                );
                let operations: Vec<u16> = mine.iter().map(|t| t.operation).collect();
                let is_last = number as usize == sessions.len();
                assert!(is_last || (3..=5).contains(&operations.len()), "{operations:?}");
                assert!(
                    operations
                        .iter()
                        .enumerate()
                        .all(|(k, &operation)| operation == u16::from(k < 2)),
                    "{operations:?}"
                );
            }
        }
    }
}

#[test]
fn a_session_has_its_own_connection() {
    let database = Database::new();
    let ran = run(sqlite(&database, KINDS, session(&[], (0, 10), false, (3, 3))));
    assert!(counts(&ran)[0] > 0);
    for tester in 0..2 {
        let mine: Vec<_> = ran.transactions.iter().filter(|t| t.tester == tester).collect();
        for pair in mine.windows(2) {
            assert_eq!(pair[1].connected != -1, pair[0].session != pair[1].session);
        }
    }
}

#[test]
fn a_failed_transaction_ends_its_session() {
    let database = Database::new();
    let ran = run(sqlite(
        &database,
        "SELECT * FROM nothing",
        session(&[], (1, 5), false, (3, 3)),
    ));
    let [done, work, failed, unfinished] = counts(&ran);
    assert!((done, work) == (0, 0) && failed > 0 && unfinished <= 2);
    assert_eq!(ran.transactions.len(), failed, "one transaction each");
    assert!(ran.transactions.iter().all(|t| t.outcome == Outcome::Error));
}

#[test]
fn a_program_that_fails_ends_its_session_before_its_transactions() {
    for (start, text) in [
        (
            vec!["/bin/sh", "-c", "echo no licence >&2; exit 3"],
            "/bin/sh failed (exit 3): no licence",
        ),
        (vec!["/no/such/program"], "/no/such/program cannot be started"),
    ] {
        let ran = run(null(2, session(&start, (0, 0), false, (1, 1))));
        assert_eq!(counts(&ran), [0, 2, 0, 0], "a pause of a second follows");
        assert!(ran.transactions.is_empty());
        assert!(
            ran.notes.iter().any(|(_, note)| note.contains(text)),
            "{:?}",
            ran.notes
        );
    }
}

#[test]
fn work_in_progress_ends_with_the_run() {
    for (start, compute) in [
        (vec!["/bin/sleep", "60"], (0, 0)),
        (vec!["/bin/true"], (60_000, 60_000)),
    ] {
        let begun = Instant::now();
        let ran = run(null(2, session(&start, compute, true, (0, 0))));
        assert_eq!(counts(&ran), [0, 0, 0, 2]);
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_session_without_queries_is_done_when_it_has_computed() {
    let ran = run(null(1, session(&["/bin/true"], (1, 2), false, (0, 0))));
    assert!(counts(&ran)[0] > 0 && ran.transactions.is_empty());
}

#[test]
fn loads_and_ends_without_sessions_are_refused() {
    let mut spec = null(1, session(&[], (1, 1), false, (1, 1)));
    spec["workloads"][0]["load"] = open(10.0, 1, "wait");
    assert!(refused(spec).contains("workloads.0.load: sessions need testers"));
    let mut spec = null(1, session(&[], (1, 1), false, (1, 1)));
    spec["end"]["each_tester"] = json!(1);
    assert!(refused(spec).contains("end: sessions end with the time"));
    let spec = null(1, session(&[], (1, 1), false, (2, 1)));
    assert!(refused(spec).contains("workloads.0.session: expected min_queries"));
}
