//! `sql` with `SQLite` files.

use plimsoll_model::Outcome;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::database::{BYTES, Database, ENDLESS, KINDS, ROWS};
use crate::harness::*;

fn sql(url: &str, connection: &str, query: &str, end: Value) -> Value {
    spec(
        "sql",
        url,
        json!({"connection": connection}),
        json!({"query": query}),
        closed(2),
        end,
    )
}

fn once(url: &str, query: &str) -> RunResult {
    let mut spec = sql(url, "kept", query, json!({"each_tester": 1}));
    spec["workloads"][0]["load"] = closed(1);
    run(spec)
}

#[test]
fn rows_and_bytes_of_a_table_are_counted_on_kept_and_new_connections() {
    let database = Database::new();
    for connection in ["kept", "per-query"] {
        let ran = run(sql(&database.url(), connection, KINDS, json!({"each_tester": 3})));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
        for tester in 0..2 {
            let mine: Vec<_> = ran.transactions.iter().filter(|t| t.tester == tester).collect();
            for (n, t) in mine.iter().enumerate() {
                assert_eq!((t.items, t.payload), (3, 19));
                assert_eq!((t.sent, t.received), (0, 0));
                assert!(t.first_byte >= t.connected.max(t.start) && t.end >= t.first_byte);
                assert_eq!(
                    t.connected != -1,
                    n == 0 || connection == "per-query",
                    "{connection} {n}"
                );
                assert_eq!(t.session, u32::from(connection == "kept"));
            }
        }
    }
    let ran = once(&database.url(), "SELECT string FROM t_string");
    let t = &ran.transactions[0];
    assert_eq!((t.items, t.payload), (ROWS, BYTES));
}

#[test]
fn closing_a_connection_is_not_part_of_response_time_or_lateness() {
    let database = Database::new();
    let mut spec = sql(&database.url(), "per-query", KINDS, json!({"each_tester": 5}));
    spec["workloads"][0]["load"] = closed(1);
    let ran = run(spec);
    for pair in ran.transactions.windows(2) {
        assert!(
            pair[1].scheduled > pair[0].end,
            "planned after the connection was closed"
        );
    }
}

#[test]
fn templates_are_filled() {
    let database = Database::new();
    let query = "SELECT '{tester}' UNION ALL SELECT '{word}' UNION ALL SELECT 'z' LIMIT {n}";
    let mut spec = sql(&database.url(), "kept", query, json!({"each_tester": 4}));
    spec["workloads"][0]["values"] = json!({"word": {"kind": "list", "items": ["ab"], "order": "random"}});
    let ran = run(spec);
    for tester in 0..2 {
        let mine = ran.transactions.iter().filter(|t| t.tester == tester);
        let seen: Vec<_> = mine.map(|t| (t.outcome, t.items, t.payload)).collect();
        let expected = [(0, 0), (1, 1), (2, 3), (3, 4)].map(|(items, payload)| (Outcome::Ok, items, payload));
        assert_eq!(seen, expected, "{:?}", ran.notes);
    }
}

#[test]
fn a_timeout_interrupts_the_query_and_keeps_the_connection() {
    let database = Database::new();
    let rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    for (query, code) in [(ENDLESS, "timeout first byte"), (rows, "timeout body")] {
        let mut spec = sql(&database.url(), "kept", query, json!({"each_tester": 2}));
        spec["workloads"][0]["timeout_ns"] = json!(60 * MS);
        let ran = run(spec);
        assert_eq!(ran.results(), [(Outcome::Timeout, code); 4]);
        for t in &ran.transactions {
            assert!(t.end - t.start >= 60 * MS);
            assert_eq!((t.session, t.items, t.payload), (1, 0, 0));
        }
    }
}

#[test]
fn queries_in_progress_at_the_end_are_cancelled() {
    let database = Database::new();
    let mut spec = sql(&database.url(), "kept", ENDLESS, json!({"duration_ns": SECOND}));
    spec["drain_ns"] = json!(40 * MS);
    spec["workloads"][0]["timeout_ns"] = json!(600 * SECOND);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Cancelled, ""); 2]);
    assert_eq!(ran.in_flight, 2);
    assert!(
        ran.notes.iter().all(|(kind, _)| *kind != "stuck"),
        "{:?}",
        ran.notes
    );
}

#[test]
fn each_failure_has_a_code() {
    let database = Database::new();
    for (query, code) in [
        ("SELEC 1", "syntax error"),
        ("SELECT 'x", "syntax error"),
        ("SELECT * FROM nowhere", "no such table"),
        ("SELECT absent FROM kinds", "no such column"),
        ("INSERT INTO kinds(i) VALUES (1)", "read-only"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT ?", "parameters"),
    ] {
        let ran = once(&database.url(), query);
        assert_eq!(
            ran.results(),
            [(Outcome::Error, code)],
            "{query}: {:?}",
            ran.notes
        );
        assert!(
            ran.notes
                .iter()
                .any(|(kind, text)| *kind == "driver" && text.starts_with("sql: ")),
            "{query}: {:?}",
            ran.notes
        );
    }
    let missing = format!("sqlite:{}", database.directory.join("missing").display());
    let ran = once(&missing, "SELECT 1");
    assert_eq!(ran.results(), [(Outcome::Refused, "cannot open")]);
    assert_eq!(ran.transactions[0].connected, -1);
    assert!(
        !database.directory.join("missing").exists(),
        "the file is not created"
    );
    let rubbish = database.directory.join("rubbish");
    std::fs::write(&rubbish, vec![b'x'; 10_000]).unwrap();
    let ran = once(&format!("sqlite:{}", rubbish.display()), KINDS);
    assert_eq!(ran.results(), [(Outcome::Error, "not a database")]);
}

/// Waiting for the lock of another process would hide it in the response time.
#[test]
fn a_locked_database_is_an_error_at_once() {
    let database = Database::new();
    let writer = Connection::open(&database.file).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for connection in ["kept", "per-query"] {
        let ran = run(sql(&database.url(), connection, KINDS, json!({"each_tester": 2})));
        assert_eq!(ran.results(), [(Outcome::Error, "busy"); 4]);
    }
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(once(&database.url(), KINDS).results(), [(Outcome::Ok, "")]);
}

#[test]
fn wrong_settings_are_refused_with_advice() {
    let end = || json!({"each_tester": 1});
    let message = refused(sql("sqlite:relative", "kept", KINDS, end()));
    assert!(message.contains("expected sqlite:/absolute/path"), "{message}");
    let message = refused(sql("sqlite:/x", "kept", " ", end()));
    assert!(
        message.contains("query of operation 0: expected an SQL statement"),
        "{message}"
    );
    let message = refused(sql("sqlite:/x", "pooled", KINDS, end()));
    assert!(message.contains("pooled"), "{message}");
}
