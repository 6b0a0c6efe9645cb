//! Transaction blocks with failed queries, on kept connections.

use std::io::{Read, Write};

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use super::filled::*;
use crate::harness::*;
use crate::servers::{Database, Kind};

const DEADLOCKS: u32 = 40;

fn of(url: &str, queries: &[String], testers: u32, each: u32) -> Value {
    let settings = json!({"connection": "kept"});
    let end = json!({"each_tester": each});
    let mut spec = spec("sql", url, settings, json!({}), closed(testers), end);
    let operation = |(number, query): (usize, &String)| json!({"name": format!("q{number}"), "weight": 1.0, "request": {"query": query}});
    spec["workloads"][0]["operations"] = queries.iter().enumerate().map(operation).collect();
    spec["workloads"][0]["timeout_ns"] = json!(60 * SECOND);
    spec
}

/// A transaction that locks row `first`, waits, and locks row `second`.
fn two_rows(kind: Kind, first: u32, second: u32) -> String {
    let update = |row| format!("UPDATE pair SET v = v + 1 WHERE n = {row}");
    let (first, second) = (update(first), update(second));
    match kind {
        Kind::Postgres => format!(
            "BEGIN; SET LOCAL deadlock_timeout = '5ms'; {first}; SELECT pg_sleep(0.003); {second}; COMMIT"
        ),
        Kind::Mariadb => {
            format!("BEGIN NOT ATOMIC START TRANSACTION; {first}; DO sleep(0.003); {second}; COMMIT; END")
        }
    }
}

fn table(server: &Database, name: &str, columns: &str, rows: &str) {
    let engine = match server.kind {
        Kind::Postgres => "",
        Kind::Mariadb => "ENGINE=InnoDB",
    };
    ask(server, &format!("CREATE TABLE {name} ({columns}) {engine}"));
    if !rows.is_empty() {
        ask(server, &format!("INSERT INTO {name} VALUES {rows}"));
    }
}

#[test]
fn testers_continue_after_a_deadlock() {
    for server in servers() {
        table(server, "pair", "n int PRIMARY KEY, v int", "(1, 0), (2, 0)");
        let queries = [two_rows(server.kind, 1, 2), two_rows(server.kind, 2, 1)];
        let ran = run(of(&server.url(), &queries, 6, DEADLOCKS));
        let failed = ran.transactions.iter().filter(|t| t.outcome != Outcome::Ok);
        let codes: Vec<&str> = failed.map(|t| ran.code(t)).collect();
        assert!(!codes.is_empty(), "{:?}: no deadlock came about", server.kind);
        assert!(
            codes.iter().all(|code| *code == "deadlock"),
            "{codes:?} {:?}",
            ran.notes
        );
        assert_eq!(ran.transactions.len() as u32, 6 * DEADLOCKS);
        assert!(
            ran.transactions.iter().all(|t| t.session == 1),
            "connections are kept"
        );
        let done = ran.transactions.len() - codes.len();
        let counted = ask(server, "SELECT v FROM pair WHERE n = 1").unwrap();
        assert_eq!(counted, done.to_string(), "what failed has left nothing");
        // MariaDB has itself rolled back the transaction that it chose to fail.
        let rolled_back = if server.kind == Kind::Postgres {
            codes.len()
        } else {
            0
        };
        assert_eq!(ran.metric("rollback_s").len(), rolled_back);
    }
}

#[test]
fn a_block_that_a_failed_query_leaves_open_is_rolled_back_after_the_end() {
    for server in servers() {
        table(server, "once", "n int PRIMARY KEY", "");
        let twice = "INSERT INTO once VALUES (1); INSERT INTO once VALUES (1); COMMIT";
        let query = match server.kind {
            Kind::Postgres => format!("BEGIN; {twice}"),
            Kind::Mariadb => format!("BEGIN NOT ATOMIC START TRANSACTION; {twice}; END"),
        };
        // The second tester would wait for the first one's lock for as long as its connection
        // lives.
        let ran = run(of(&server.url(), &[query], 2, 20));
        let code = match server.kind {
            Kind::Postgres => "SQLSTATE 23505",
            Kind::Mariadb => "SQLSTATE 23000",
        };
        let expected = [(Outcome::Error, code); 40];
        assert_eq!(ran.results(), expected, "{:?}", ran.notes);
        let rollbacks = ran.metric_rows("rollback_s");
        assert_eq!(rollbacks.len(), 40);
        assert!(rollbacks.iter().all(|row| row.value > 0.0));
        for tester in 0..2 {
            let own = ran.transactions.iter().filter(|t| t.tester == tester);
            let own: Vec<_> = own.collect();
            assert!(
                own.windows(2).all(|pair| pair[1].scheduled > pair[0].end),
                "planned after the rollback, which is no lateness"
            );
        }
        assert_eq!(ask(server, "SELECT count(*) FROM once").as_deref(), Some("0"));
    }
}

#[test]
fn a_block_that_a_successful_query_leaves_open_is_noted_once_and_ends_with_the_next_failure() {
    for server in servers() {
        let begin = "START TRANSACTION".to_owned();
        let mut spec = of(&server.url(), &[begin, "SELECT absent FROM t".to_owned()], 1, 4);
        // Three queries that leave the block open, then the failure.
        spec["workloads"][0]["operations"][0]["weight"] = json!(0.0);
        spec["workloads"][0]["operations"][0]["first"] = json!(3);
        let ran = run(spec);
        let ok = (Outcome::Ok, "");
        let expected = [ok, ok, ok, (Outcome::Error, "no such column")];
        assert_eq!(ran.results(), expected, "{:?}", ran.notes);
        let notes = ran
            .notes
            .iter()
            .filter(|(_, text)| text.contains("left a transaction open"));
        assert_eq!(notes.count(), 1, "{:?}", ran.notes);
        assert_eq!(ran.metric("rollback_s").len(), 1);
    }
}

/// Response to a query in a block: the error of a deadlock, then a status.
const DEADLOCK: &[u8] = b"E\0\0\0\x0fC40P01\0Mx\0\0Z\0\0\0\x05E";

/// A server that fails every query, and then does not respond to the ROLLBACK, or closes the
/// connection on it.
fn without_rollback(close: bool) -> Server {
    Server::start(move |mut stream| {
        let mut buffer = [0; 1000];
        for answer in [b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".as_slice(), DEADLOCK] {
            if stream.read(&mut buffer).is_err() || stream.write_all(answer).is_err() {
                return;
            }
        }
        let _ = stream.read(&mut buffer);
        assert!(buffer.windows(8).any(|part| part == b"ROLLBACK"));
        if !close {
            let _ = stream.read(&mut buffer);
        }
    })
}

#[test]
fn a_connection_whose_rollback_fails_is_replaced_and_the_outcome_does_not_change() {
    for close in [true, false] {
        let server = without_rollback(close);
        let url = format!("postgresql://a@127.0.0.1:{}/x", server.port);
        let mut spec = of(&url, &["BEGIN; UPDATE t SET n = 1; COMMIT".to_owned()], 1, 3);
        spec["workloads"][0]["timeout_ns"] = json!(SECOND);
        let ran = run(spec);
        assert_eq!(
            ran.results(),
            [(Outcome::Error, "deadlock"); 3],
            "{:?}",
            ran.notes
        );
        let sessions: Vec<u32> = ran.transactions.iter().map(|t| t.session).collect();
        assert_eq!(sessions, [1, 2, 3]);
        for pair in ran.transactions.windows(2) {
            let after = if close {
                1
            } else {
                pair[0].start + SECOND - pair[0].end
            };
            assert!(
                pair[1].scheduled >= pair[0].end + after,
                "the rollback is no part of it: {pair:?}"
            );
        }
        assert!(ran.metric("rollback_s").is_empty());
    }
}
