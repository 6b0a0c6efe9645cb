//! The metrics `tcp_rtt` and `tcp_retransmits`, `tcp_connect_s` and `tls_handshake_s`: which
//! drivers have them, and how often.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use plimsoll_model::{NOT_HAPPENED, Outcome, Transaction};
use serde_json::{Value, json};

use crate::database::{Database, KINDS};
use crate::frontier::{ALL, EXAMPLE, Gateway, frontier, http, request};
use crate::harness::*;
use crate::http::{get, settings};
use crate::sql::filled::servers;
use crate::tls::{pki, serve_tls, tls};

const THINK: i64 = 10 * MS;

/// A run of two testers for longer than a second, so that `TCP_INFO` is read again for each.
fn over_a_second(driver: &str, url: &str, settings: Value, request: Value) -> Value {
    let load = json!({"kind": "closed", "testers": 2, "think": {"kind": "fixed", "ns": THINK}});
    spec(
        driver,
        url,
        settings,
        request,
        load,
        json!({"duration_ns": 1300 * MS}),
    )
}

/// Runs `spec`, in which every transaction succeeds. Checks that `TCP_INFO` was read exactly after
/// the transactions for which it was due (see [`expected`]), and that a reading is not part of a
/// transaction and does not make one late.
fn run_and_check_readings(spec: Value) -> RunResult {
    let secure = spec["workloads"][0]["endpoints"][0]["url"]
        .as_str()
        .is_some_and(|url| url.starts_with("https:"));
    let ran = run(spec);
    let good = |t: &Transaction| t.outcome == Outcome::Ok;
    assert!(ran.transactions.iter().all(good), "{:?}", ran.results());
    let wanted = expected(&ran.transactions);
    for name in ["tcp_rtt", "tcp_retransmits"] {
        let mut read: Vec<(i64, u32)> = ran
            .metric_rows(name)
            .iter()
            .map(|row| (row.start, row.tester))
            .collect();
        read.sort_unstable();
        assert_eq!(read, wanted, "{name}");
    }
    for row in ran.metric_rows("tcp_rtt") {
        // The kernel measured the time within one of the tester's requests; its clock is up to
        // 0.05 % faster or slower.
        let mine = |t: &&Transaction| t.tester == row.tester && t.start <= row.start;
        let longest = ran
            .transactions
            .iter()
            .filter(mine)
            .map(|t| t.end - t.start)
            .max();
        let longest = longest.unwrap() as f64 * 1.001e-9 + 2e-6;
        assert!(row.value > 0.0 && row.value <= longest, "{} {longest}", row.value);
    }
    let whole = |&value: &f64| value >= 0.0 && value.fract() == 0.0;
    assert!(ran.metric("tcp_retransmits").iter().all(whole));
    check_times_of_new_connections(&ran, secure);
    ran
}

/// Checks that exactly the transactions that opened a connection have its times, and that both
/// times together are at most the duration of the transaction.
fn check_times_of_new_connections(ran: &RunResult, secure: bool) {
    let opened: HashMap<(i64, u32), i64> = ran
        .transactions
        .iter()
        .filter(|t| t.connected != NOT_HAPPENED)
        .map(|t| ((t.start, t.tester), t.connected - t.start))
        .collect();
    assert!(!opened.is_empty());
    let mut spent: HashMap<(i64, u32), f64> = HashMap::new();
    for (name, wanted) in [("tcp_connect_s", true), ("tls_handshake_s", secure)] {
        let rows = ran.metric_rows(name);
        let timed: HashSet<_> = rows.iter().map(|row| (row.start, row.tester)).collect();
        let all: HashSet<_> = opened.keys().copied().collect();
        assert_eq!(timed, if wanted { all } else { HashSet::new() }, "{name}");
        for row in rows {
            assert!(row.value > 0.0, "{name}");
            *spent.entry((row.start, row.tester)).or_default() += row.value;
        }
    }
    for (which, seconds) in spent {
        // If a transaction has several connections, the last one ends it.
        let within = opened[&which] as f64 * 1e-9;
        assert!(seconds <= within + 1e-6, "{seconds} s of {within} s");
    }
}

/// Start and tester of the transactions after which `TCP_INFO` is due.
fn expected(transactions: &[Transaction]) -> Vec<(i64, u32)> {
    let mut last: HashMap<(u32, u16), i64> = HashMap::new();
    let is_due = |t: &&Transaction| {
        let last = last.entry((t.tester, t.endpoint)).or_insert(t.end - SECOND);
        let due = t.end >= *last + SECOND;
        if due {
            *last = t.end;
        }
        due
    };
    let due = transactions.iter().filter(is_due);
    let mut due: Vec<_> = due.map(|t| (t.start, t.tester)).collect();
    due.sort_unstable();
    due
}

/// Checks that the time of a reading belongs to the tester: the next start is planned from its end.
fn check_readings_are_after_the_end(ran: &RunResult) {
    let looked = ran.metric_rows("tcp_rtt");
    for tester in 0..2 {
        let mine: Vec<_> = ran.transactions.iter().filter(|t| t.tester == tester).collect();
        for pair in mine.windows(2) {
            let after = looked
                .iter()
                .any(|row| (row.tester, row.start) == (tester, pair[0].start));
            let planned = pair[1].scheduled - pair[0].end;
            assert!(
                if after { planned > THINK } else { planned == THINK },
                "{after} {planned}"
            );
        }
    }
}

fn line_server() -> Server {
    Server::start(|mut stream| {
        while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {
            if stream.write_all(b"ok\n").is_err() {
                return;
            }
        }
    })
}

fn tcp(server: &Server, connection: &str) -> Value {
    over_a_second(
        "tcp",
        &server.url("tcp"),
        json!({"connection": connection}),
        json!({"send": "get\n", "expect": {"kind": "line"}}),
    )
}

#[test]
fn tcp_info_of_tcp_is_read_at_most_once_per_second() {
    let server = line_server();
    for connection in ["kept", "per-request"] {
        let ran = run_and_check_readings(tcp(&server, connection));
        check_readings_are_after_the_end(&ran);
    }
    let other = line_server();
    let mut spec = tcp(&server, "kept");
    spec["workloads"][0]["endpoints"] =
        json!([{"name": "a", "url": server.url("tcp")}, {"name": "b", "url": other.url("tcp")}]);
    spec["workloads"][0]["choose"] = json!("per-request");
    let ran = run_and_check_readings(spec);
    assert!(ran.metric("tcp_rtt").len() >= 4, "each of either tester's ways");
}

#[test]
fn tcp_info_of_http_is_read_at_most_once_per_second() {
    let answer = || Some(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let (server, _) = http_server(move |_| answer());
    for connection in ["kept", "per-request"] {
        let ran = run_and_check_readings(over_a_second(
            "http",
            &server.url("http"),
            settings(connection),
            get("/"),
        ));
        check_readings_are_after_the_end(&ran);
    }
    // A server that closes after each response, although the client keeps connections: `TCP_INFO`
    // is read before the connection is closed.
    let closing = Server::start(move |mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    });
    run_and_check_readings(over_a_second(
        "http",
        &closing.url("http"),
        settings("kept"),
        get("/"),
    ));
}

#[test]
fn tcp_info_of_https_is_read_from_the_socket_below_tls() {
    let pki = pki("round-trips", false);
    let (config, served) = (Arc::clone(&pki.server), AtomicUsize::new(0));
    let server = Server::start(move |stream| serve_tls(&config, stream, &served));
    let mut settings = settings("kept");
    settings["tls"] = tls(&pki.directory, |_| ());
    let url = server.url("https");
    run_and_check_readings(over_a_second("http", &url, settings.clone(), get("/")));
    settings["connection"] = json!("per-request");
    run_and_check_readings(over_a_second("http", &url, settings, get("/")));
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

#[test]
fn tcp_info_of_sql_is_read() {
    for server in servers() {
        for connection in ["kept", "per-query"] {
            let settings = json!({"connection": connection});
            let request = json!({"query": "SELECT n FROM t WHERE n < 3"});
            run_and_check_readings(over_a_second("sql", &server.url(), settings, request));
        }
    }
}

/// Default settings with the keys of `change`.
fn changed(change: &Value) -> Value {
    let mut settings = crate::frontier::settings();
    for (key, value) in change.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}

#[test]
fn tcp_info_of_frontier_is_read_after_the_whole_transaction() {
    let gateway = Gateway::start();
    for change in [
        json!({}),
        json!({"connection": "per-request"}),
        // Large responses end a connection, as with the public client.
        json!({"http": "1.0"}),
        json!({"http": "1.0", "connection": "per-request"}),
        json!({"connection": "per-request", "chatter": {"requests": 2, "queries": ["SELECT 1"]}}),
        json!({"connection": "per-request", "failover": "client"}),
    ] {
        let settings = changed(&change);
        run_and_check_readings(over_a_second("frontier", &gateway.url, settings, request(ALL, 5)));
    }
}

/// The response of the service, after 20 ms, acknowledges the request; the handshake was
/// acknowledged at once.
#[test]
fn a_slow_service_does_not_increase_the_round_trip_time() {
    let (slow, _) = http_server(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Some(http("HTTP/1.1 200 OK", "slow"))
    });
    let ran = run(spec(
        "http",
        &slow.url("http"),
        settings("kept"),
        get("/"),
        closed(2),
        json!({"each_tester": 10}),
    ));
    let ways = ran.metric("tcp_rtt");
    assert!(
        !ways.is_empty() && ways.iter().all(|&way| way < 0.010),
        "{ways:?}"
    );
}

#[test]
fn tcp_info_is_read_after_the_successful_try_and_not_after_a_failed_one() {
    let (bad, _) = http_server(|_| Some(http("HTTP/1.1 500 Trouble", "")));
    let (good, _) = http_server(|_| Some(http("HTTP/1.1 200 OK", EXAMPLE)));
    for connection in ["kept", "per-request"] {
        let mut spec = frontier(&bad.url("http"), request("SELECT 1", 0), 1, 3);
        spec["workloads"][0]["endpoints"] =
            json!([{"name": "a", "url": bad.url("http")}, {"name": "b", "url": good.url("http")}]);
        spec["workloads"][0]["settings"]["failover"] = json!("client");
        spec["workloads"][0]["settings"]["connection"] = json!(connection);
        let ran = run(spec);
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
        assert_eq!(ran.metric("tries"), [2.0]);
        let starts: Vec<i64> = ran.metric_rows("tcp_rtt").iter().map(|row| row.start).collect();
        assert_eq!(starts, [ran.transactions[0].start], "{connection}");
    }
}

#[test]
fn tcp_info_is_not_read_without_a_response() {
    let closing = Server::start(|mut stream| drop(read_request(&mut stream)));
    let spec = spec(
        "http",
        &closing.url("http"),
        settings("kept"),
        get("/"),
        closed(1),
        json!({"each_tester": 3}),
    );
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Error, "closed early"); 3]);
    assert!(ran.metric("tcp_rtt").is_empty());
}

#[test]
fn drivers_without_a_socket_have_no_round_trip_metrics() {
    let database = Database::new();
    let shell = json!({"command": ["/bin/sh", "-c", "exit 0"], "stdin": null, "bytes": {"kind": "none"}});
    for (driver, url, settings, request) in [
        ("null", "null:".to_owned(), json!({}), json!({})),
        (
            "sql",
            database.url(),
            json!({"connection": "kept"}),
            json!({"query": KINDS}),
        ),
        (
            "exec",
            "exec:".to_owned(),
            json!({"mode": "per-transaction", "env": {}, "cwd": null}),
            shell,
        ),
    ] {
        let end = json!({"each_tester": 3});
        let ran = run(spec(driver, &url, settings, request, closed(1), end));
        assert_eq!(ran.counters.succeeded, 3, "{driver} {:?}", ran.notes);
        assert!(
            !ran.has_code("tcp_rtt") && !ran.has_code("tcp_retransmits"),
            "{driver}"
        );
    }
}
