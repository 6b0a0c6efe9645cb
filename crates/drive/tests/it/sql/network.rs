//! `sql` against real `PostgreSQL` and `MariaDB` servers.

use std::io::{Read, Write};
use std::time::Duration;

use plimsoll_drive::AgentPortion;
use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::harness::*;
use crate::servers::{Database, Kind, PASSWORD_ENCODED};
use crate::sql::filled::*;

fn sql(url: &str, connection: &str, query: &str, testers: u32, end: Value) -> Value {
    let (settings, request) = (json!({"connection": connection}), json!({"query": query}));
    spec("sql", url, settings, request, closed(testers), end)
}

fn once(url: &str, query: &str) -> RunResult {
    run(sql(url, "kept", query, 1, json!({"each_tester": 1})))
}

/// Runs on one lane.
fn on_one_lane(spec: Value) -> RunningDrive {
    prepare(spec, AgentPortion { agent: 0, agents: 1 }, Some(1)).unwrap()
}

#[test]
fn rows_and_bytes_are_counted_on_kept_and_new_connections() {
    for server in servers() {
        let bytes: u64 = ask(
            server,
            "SELECT sum(length(n) + length(s)) FROM t"
                .replace(
                    "length(n)",
                    if server.kind == Kind::Postgres {
                        "length(n::text)"
                    } else {
                        "length(n)"
                    },
                )
                .as_str(),
        )
        .unwrap()
        .parse()
        .unwrap();
        let mut sent = Vec::new();
        for connection in ["kept", "per-query"] {
            let ran = run(sql(
                &server.url(),
                connection,
                "SELECT n, s, NULL FROM t",
                2,
                json!({"each_tester": 3}),
            ));
            assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
            for tester in 0..2 {
                for (n, t) in ran.transactions.iter().filter(|t| t.tester == tester).enumerate() {
                    assert_eq!((t.items, t.payload), (1000, bytes));
                    let new = n == 0 || connection == "per-query";
                    assert_eq!(t.connected != -1, new, "{connection} {n}");
                    assert!(t.first_byte > t.connected.max(t.start) && t.end >= t.first_byte);
                    assert_eq!(t.session, u32::from(connection == "kept"));
                    assert!(t.received > bytes && t.sent > 24, "{t:?}");
                    sent.push((new, t.sent));
                }
            }
        }
        // The bytes of the query are always the same; a login adds more.
        let query = sent.iter().find(|(new, _)| !new).unwrap().1;
        assert!(
            sent.iter().all(|(new, sent)| *new == (*sent != query)),
            "{sent:?}"
        );
    }
}

#[test]
fn closing_is_not_part_of_response_time_or_lateness() {
    for server in servers() {
        let ran = run(sql(
            &server.url(),
            "per-query",
            "SELECT 1",
            1,
            json!({"each_tester": 20}),
        ));
        for pair in ran.transactions.windows(2) {
            assert!(
                pair[1].scheduled > pair[0].end,
                "planned after the connection was closed"
            );
        }
    }
}

#[test]
fn templates_are_filled_and_passwords_are_used() {
    for server in servers() {
        let user = if server.kind == Kind::Postgres {
            "scram"
        } else {
            "native"
        };
        let url = server.url_of(&format!("{user}:{PASSWORD_ENCODED}"));
        let query = "SELECT '{word}{tester}' UNION ALL SELECT '{n}'";
        let mut spec = sql(&url, "kept", query, 1, json!({"each_tester": 2}));
        spec["workloads"][0]["values"] = json!({"word": {"kind": "list", "items": ["é"], "order": "random"}});
        let ran = run(spec);
        let seen: Vec<_> = ran
            .transactions
            .iter()
            .map(|t| (t.outcome, t.items, t.payload))
            .collect();
        assert_eq!(seen, [(Outcome::Ok, 2, 4); 2], "{:?}", ran.notes);
        let ran = once(&server.url_of(&format!("{user}:wrong")), "SELECT 1");
        assert_eq!(
            ran.results(),
            [(Outcome::Refused, "login refused")],
            "{:?}",
            ran.notes
        );
        assert_eq!(ran.transactions[0].connected, -1);
        assert!(ran.transactions[0].received > 0);
    }
}

#[test]
fn each_failure_has_a_code_and_a_note() {
    for server in servers() {
        let endless = if server.kind == Kind::Postgres {
            "SET statement_timeout = 50; SELECT pg_sleep(10)"
        } else {
            "SET STATEMENT max_statement_time = 0.05 FOR SELECT count(*) FROM t a, t b, t c"
        };
        for (query, code) in [
            ("SELEC 1", "syntax error"),
            ("SELECT * FROM nowhere", "no such table"),
            ("SELECT absent FROM t", "no such column"),
            ("SELECT nothing(1)", "no such function"),
            (endless, "query cancelled"),
            (
                "SELECT n FROM t WHERE n / (n - 5) > 0 AND n < 1/0",
                "SQLSTATE 22012",
            ),
        ] {
            if code == "SQLSTATE 22012" && server.kind == Kind::Mariadb {
                continue;
            }
            let ran = run(sql(&server.url(), "kept", query, 1, json!({"each_tester": 2})));
            assert_eq!(
                ran.results(),
                [(Outcome::Error, code); 2],
                "{query}: {:?}",
                ran.notes
            );
            assert!(
                ran.notes
                    .iter()
                    .any(|(kind, text)| *kind == "driver" && text.starts_with("sql: "))
            );
            for t in &ran.transactions {
                assert_eq!(
                    (t.items, t.payload, t.session),
                    (0, 0, 1),
                    "the connection takes another"
                );
            }
        }
        let ran = once(&server.url_to("lab", "none"), "SELECT 1");
        let expected = if server.kind == Kind::Postgres {
            "no such database"
        } else {
            "login refused"
        };
        assert_eq!(ran.results(), [(Outcome::Refused, expected)], "{:?}", ran.notes);
    }
    if let Some(server) = postgres() {
        let ran = run(sql(
            &server.url(),
            "kept",
            "COPY t FROM STDIN",
            1,
            json!({"each_tester": 2}),
        ));
        assert_eq!(ran.results(), [(Outcome::Error, "not supported"); 2]);
        let ran = once(&server.url_of("scram:x").replace("scram:x", "scram"), "SELECT 1");
        assert_eq!(ran.results(), [(Outcome::Refused, "login refused")]);
        let ran = run(sql(
            &server.url(),
            "kept",
            "SELECT pg_terminate_backend(pg_backend_pid())",
            1,
            json!({"each_tester": 2}),
        ));
        assert_eq!(
            ran.results(),
            [(Outcome::Error, "admin shutdown"); 2],
            "{:?}",
            ran.notes
        );
        assert_eq!(ran.transactions[1].session, 2);
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let ran = once(&format!("postgresql://a@127.0.0.1:{free}/x"), "SELECT 1");
    assert_eq!(ran.results(), [(Outcome::Refused, "refused")]);
}

#[test]
fn an_invalid_response_and_a_silent_server_are_failures() {
    for (scheme, bytes, outcome, code) in [
        (
            "postgresql",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
            Outcome::Error,
            "bad response",
        ),
        (
            "mariadb",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            Outcome::Error,
            "bad response",
        ),
        ("mariadb", b"SSH-2.0-OpenSSH_9.2", Outcome::Error, "bad response"),
        ("postgresql", b"", Outcome::Error, "closed early"),
    ] {
        let server = Server::start(move |mut stream| {
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let url = format!("{scheme}://a@127.0.0.1:{}/x", server.port);
        assert_eq!(once(&url, "SELECT 1").results(), [(outcome, code)], "{scheme}");
    }
}

#[test]
fn two_hundred_testers_share_a_thread() {
    for server in servers() {
        let mut going = on_one_lane(sql(
            &server.url(),
            "kept",
            "SELECT n, s FROM t WHERE n < 10",
            200,
            json!({"each_tester": 20}),
        ));
        going.go();
        let ran = going.finish();
        assert_eq!(ran.counters.succeeded, 4000, "{:?}", ran.notes);
        assert!(
            ran.transactions
                .iter()
                .all(|t| t.items == 10 && t.payload == 1010)
        );
        assert_eq!(ran.transactions.iter().filter(|t| t.connected != -1).count(), 200);
    }
}

/// Five testers of a user that may have three connections.
#[test]
fn testers_beyond_the_connection_limit_are_refused_with_its_code() {
    for server in servers() {
        let ran = run(crowd(&server.url_of(&format!("few:{PASSWORD_ENCODED}")), 5));
        assert_crowded(&ran, 3);
    }
}

/// A number of testers. Each keeps its connection for two seconds after its only query.
fn crowd(url: &str, testers: u32) -> Value {
    let mut spec = sql(
        url,
        "kept",
        "SELECT 1",
        testers,
        json!({"duration_ns": 2 * SECOND}),
    );
    spec["workloads"][0]["load"]["think"]["ns"] = json!(10 * SECOND);
    spec
}

/// The last connections may not be used: those that have just closed, or that are refused at the
/// same time, count for a while.
fn assert_crowded(ran: &RunResult, limit: usize) {
    let results = ran.results();
    let count = |expected| results.iter().filter(|result| **result == expected).count();
    let good = count((Outcome::Ok, ""));
    let refused = count((Outcome::Refused, "too many connections"));
    assert!((1..=limit).contains(&good), "{results:?} {:?}", ran.notes);
    assert_eq!(good + refused, results.len(), "{results:?} {:?}", ran.notes);
}

#[test]
fn a_timeout_closes_the_connection_and_cancels_the_query() {
    for server in servers() {
        let query = match server.kind {
            Kind::Postgres => "SELECT pg_sleep(60) AS marked_a",
            Kind::Mariadb => "SELECT sleep(60) AS marked_a",
        };
        // The timeout includes the connection, which is slow with a busy server.
        let mut spec = sql(&server.url(), "kept", query, 8, json!({"each_tester": 2}));
        spec["workloads"][0]["timeout_ns"] = json!(5 * SECOND);
        let ran = run(spec);
        assert_eq!(ran.results(), [(Outcome::Timeout, "timeout first byte"); 16]);
        assert!(
            ran.transactions.iter().all(|t| t.connected != -1),
            "each on a new connection"
        );
        assert!(ran.transactions.iter().all(|t| t.end - t.start < 30 * SECOND));
        let begun = std::time::Instant::now();
        while server.kind == Kind::Postgres && at_work(server, "marked_a") > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{} still run",
                at_work(server, "marked_a")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn queries_in_progress_at_the_end_are_cancelled() {
    let Some(server) = postgres() else { return };
    let mut spec = sql(
        &server.url(),
        "kept",
        "SELECT pg_sleep(20) AS marked_b",
        3,
        json!({"duration_ns": SECOND}),
    );
    spec["drain_ns"] = json!(50 * MS);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Cancelled, ""); 3]);
    let begun = std::time::Instant::now();
    while at_work(server, "marked_b") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_that_the_server_closed_while_idle_are_replaced() {
    for server in servers() {
        let url = server.url_of(&format!("idle:{PASSWORD_ENCODED}"));
        let mut spec = sql(&url, "kept", "SELECT 'first'", 3, json!({"each_tester": 2}));
        spec["workloads"][0]["load"]["think"]["ns"] = json!(4 * SECOND);
        let going = std::thread::spawn(move || run(spec));
        while idle(server) < 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        // MariaDB's sleep begins with the login already.
        std::thread::sleep(Duration::from_millis(500));
        close_idle(server);
        let ran = going.join().unwrap();
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
        for t in &ran.transactions {
            assert!(t.connected != -1, "each tester logs in twice");
            assert_eq!(t.attempt, 0, "that they were closed was known");
        }
    }
}

/// A server that accepts every login and responds to `answers` queries of each connection. It reads
/// the next query and closes the connection.
fn forgetful(answers: usize) -> Server {
    Server::start(move |mut stream| {
        let mut buffer = [0; 1000];
        let ready = b"Z\0\0\0\x05I".as_slice();
        let row = b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\0\0\0\0\0\0D\0\0\0\x0b\0\x01\0\0\0\x015C\0\0\0\x06S\0".as_slice();
        let welcome = [b"R\0\0\0\x08\0\0\0\0", ready].concat();
        for answer in [welcome]
            .into_iter()
            .chain((0..answers).map(|_| [row, ready].concat()))
        {
            if stream.read(&mut buffer).is_err() || stream.write_all(&answer).is_err() {
                return;
            }
        }
        let _ = stream.read(&mut buffer);
    })
}

#[test]
fn a_kept_connection_that_closes_on_the_query_is_replaced_once() {
    for (answers, results) in [
        (
            1,
            [(Outcome::Ok, "", 0), (Outcome::Ok, "", 1), (Outcome::Ok, "", 1)],
        ),
        (0, [(Outcome::Error, "closed early", 0); 3]),
    ] {
        let server = forgetful(answers);
        let url = format!("postgresql://a@127.0.0.1:{}/x", server.port);
        let ran = run(sql(&url, "kept", "SELECT 5", 1, json!({"each_tester": 3})));
        let outcomes: Vec<_> = ran
            .transactions
            .iter()
            .map(|t| (t.outcome, ran.code(t), t.attempt))
            .collect();
        assert_eq!(outcomes, results);
        let items: u64 = ran.transactions.iter().map(|t| t.items + t.payload).sum();
        assert_eq!(items, 6 * answers as u64);
    }
}

#[test]
fn a_statement_that_writes_is_not_sent_again() {
    for query in ["UPDATE t SET n = 1", "SELECT 1; DELETE FROM t"] {
        let server = forgetful(1);
        let url = format!("postgresql://a@127.0.0.1:{}/x", server.port);
        let ran = run(sql(&url, "kept", query, 1, json!({"each_tester": 4})));
        let (ok, lost) = ((Outcome::Ok, ""), (Outcome::Error, "kept connection closed"));
        assert_eq!(ran.results(), [ok, lost, ok, lost], "{query}");
        assert!(ran.transactions.iter().all(|t| t.attempt == 0));
    }
}

/// It uses a separate server, which is ended and started again.
#[test]
fn a_killed_server_causes_errors_until_it_is_started_again() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(mut server) = Database::start(kind) else {
            continue;
        };
        if kind == Kind::Mariadb {
            // The minimum. The server then refuses a connection before it knows the capabilities of
            // the client.
            as_root(&server, "SET GLOBAL max_connections = 10");
            assert_crowded(&run(crowd(&server.url(), 15)), 10);
        }
        let query = if kind == Kind::Postgres {
            "SELECT pg_sleep(0.01)"
        } else {
            "SELECT sleep(0.01)"
        };
        let spec = sql(
            &server.url(),
            "kept",
            query,
            4,
            json!({"duration_ns": 60 * SECOND}),
        );
        let mut going = prepare(spec, AgentPortion { agent: 0, agents: 1 }, None).unwrap();
        going.go();
        std::thread::sleep(Duration::from_millis(1500));
        server.down();
        std::thread::sleep(Duration::from_millis(300));
        server.up();
        std::thread::sleep(Duration::from_millis(1500));
        going.drive.stop();
        let ran = going.finish();
        let outcomes: Vec<Outcome> = ran.transactions.iter().map(|t| t.outcome).collect();
        let first = outcomes
            .iter()
            .position(|outcome| *outcome != Outcome::Ok)
            .unwrap();
        let last = outcomes
            .iter()
            .rposition(|outcome| *outcome != Outcome::Ok)
            .unwrap();
        assert!(first > 20, "worked before: {first}");
        assert!(
            outcomes.len() - last > 20,
            "and after: {} of {}",
            last,
            outcomes.len()
        );
        let mut codes: Vec<&str> = ran
            .results()
            .iter()
            .map(|(_, code)| *code)
            .filter(|code| !code.is_empty())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        let known = [
            "admin shutdown",
            "crash shutdown",
            "cannot connect now",
            "closed early",
            "refused",
            "reset",
        ];
        assert!(codes.contains(&"refused"), "{codes:?}");
        assert!(codes.iter().all(|code| known.contains(code)), "{codes:?}");
    }
}

#[test]
fn wrong_endpoints_are_refused_with_advice_and_without_passwords() {
    let end = || json!({"each_tester": 1});
    for (url, part) in [
        ("postgresql://:secret@127.0.0.1/x", "the user is missing"),
        (
            "mariadb://a:secret@127.0.0.1/x?ssl=1",
            "the parameter ssl is not known",
        ),
        ("oracle://a:secret@127.0.0.1/x", "expected sqlite:"),
        (
            "postgresql://a:secret@no.such.host.invalid/x",
            "cannot be looked up",
        ),
    ] {
        let message = refused(sql(url, "kept", "SELECT 1", 1, end()));
        assert!(message.contains(part), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    let mut spec = sql("postgresql://a@127.0.0.1/x", "kept", "SELECT 1", 1, end());
    spec["workloads"][0]["endpoints"] =
        json!([{"name": "a", "url": "postgresql://a@127.0.0.1/x"}, {"name": "b", "url": "sqlite:/x"}]);
    let message = refused(spec);
    assert!(
        message.contains("endpoints a and b are different kinds of databases"),
        "{message}"
    );
}
