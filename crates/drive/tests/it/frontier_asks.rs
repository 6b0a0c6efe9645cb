//! Requests of `frontier`: batches, chatter, uncached requests, and the head of the public client.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use plimsoll_model::Outcome;
use plimsoll_wire::frontier::request::{decode_p1, parse_target};
use serde_json::{Value, json};

use crate::database::ROWS;
use crate::frontier::{ALL, ALL_BYTES, EXAMPLE, Gateway, frontier, http, request};
use crate::harness::*;

/// A server that stores the requests that it receives.
fn logging() -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (server, _) = http_server(move |request| {
        log.lock().unwrap().push(request.to_owned());
        Some(http("HTTP/1.1 200 OK", EXAMPLE))
    });
    (server, seen)
}

fn target(request: &str) -> &str {
    request.split(' ').nth(1).unwrap()
}

fn queries(request: &str) -> Vec<String> {
    let commands = parse_target(target(request)).unwrap();
    let query = |p1: Option<String>| decode_p1(p1.as_deref().unwrap()).unwrap();
    commands.into_iter().map(|command| query(command.p1)).collect()
}

fn freshkey(request: &str) -> Option<&str> {
    Some(target(request).split_once("&freshkey=")?.1)
}

#[test]
fn a_batch_is_one_request_with_the_rows_of_all_its_queries() {
    let gateway = Gateway::start();
    let mut batch = request(ALL, 5);
    batch["queries"] = json!([ALL, "SELECT string FROM t_string WHERE id <= {n} + 1", ALL]);
    let ran = run(frontier(&gateway.url, batch.clone(), 1, 2));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    let head = ALL_BYTES - ROWS * 106;
    for (n, t) in (1..).zip(&ran.transactions) {
        let rows = 2 * ROWS + n;
        assert_eq!((t.items, t.payload), (rows, 3 * head + 106 * rows));
    }
    assert_eq!(gateway.count(), 2);
    batch["queries"][1] = json!("SELECT * FROM nowhere");
    let ran = run(frontier(&gateway.url, batch.clone(), 1, 1));
    assert_eq!(ran.results(), [(Outcome::Error, "frontier error")]);
    batch["queries"] = json!(vec!["SELECT 1"; 33]);
    let message = refused(frontier(&gateway.url, batch, 1, 1));
    assert!(
        message.contains("expected at most 32, the payloads of one request, got 33"),
        "{message}"
    );
}

#[test]
fn the_server_receives_the_exact_uncached_share() {
    let (server, seen) = logging();
    let mut spec = frontier(&server.url("http"), request("SELECT {n}", 0), 4, 100);
    spec["workloads"][0]["settings"]["uncached"] = json!(0.05);
    let ran = run(spec.clone());
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 400]);
    let first = std::mem::take(&mut *seen.lock().unwrap());
    let keys: Vec<&str> = first.iter().filter_map(|request| freshkey(request)).collect();
    assert_eq!(keys.len(), 20);
    assert_eq!(
        keys.iter().collect::<BTreeSet<_>>().len(),
        20,
        "no two are the same"
    );
    assert_eq!(ran.metric("uncached"), [1.0; 20]);
    for tester in 0..4 {
        let mine = ran
            .metric_rows("uncached")
            .into_iter()
            .filter(|row| row.tester == tester);
        assert_eq!(mine.count(), 5, "of each tester");
    }
    // The same requests again, with keys that the first run did not use.
    run(spec);
    let second = seen.lock().unwrap();
    let asked = |all: &[String]| -> BTreeSet<(Vec<String>, bool)> {
        all.iter()
            .map(|request| (queries(request), freshkey(request).is_some()))
            .collect()
    };
    assert_eq!(asked(&first), asked(&second));
    let fresh = second.iter().filter_map(|request| freshkey(request));
    assert!(fresh.into_iter().all(|key| !keys.contains(&key)));
}

#[test]
fn the_freshkey_of_a_workload_is_filled_and_escaped() {
    let (server, seen) = logging();
    let mut keyed = request("SELECT 1", 0);
    keyed["freshkey"] = json!("a b/{n}");
    let mut spec = frontier(&server.url("http"), keyed, 1, 2);
    run(spec.clone());
    spec["workloads"][0]["settings"]["uncached"] = json!(1.0);
    run(spec);
    let seen = seen.lock().unwrap();
    let keys: Vec<_> = seen.iter().map(|request| freshkey(request).unwrap()).collect();
    assert_eq!(keys[..2], ["a%20b%2F0", "a%20b%2F1"]);
    assert!(keys[2].ends_with("-0-0") && keys[3].ends_with("-0-1"), "{keys:?}");
}

fn chatting(url: &str, asked: u32, list: Value, testers: u32, each: u32) -> Value {
    let mut spec = frontier(url, request(ALL, 1), testers, each);
    spec["workloads"][0]["settings"]["chatter"] = json!({"requests": asked, "queries": list});
    spec
}

#[test]
fn chatter_precedes_each_query_and_is_counted_separately() {
    let gateway = Gateway::start();
    let list = json!(["SELECT 1", "SELECT 2", "SELECT count(*) FROM t_string"]);
    let quiet = run(frontier(&gateway.url, request(ALL, 1), 2, 5));
    let before = gateway.count();
    let ran = run(chatting(&gateway.url, 4, list, 2, 5));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 10], "{:?}", ran.notes);
    assert_eq!(gateway.count() - before, 50);
    assert_eq!(ran.metric("chatter requests"), [4.0; 10]);
    for t in &ran.transactions {
        assert_eq!((t.items, t.payload, t.attempt), (ROWS, ALL_BYTES, 0));
        let plain = &quiet.transactions[0];
        assert!(t.sent > 4 * plain.sent && t.received > plain.received + 4 * 300);
    }
}

#[test]
fn chatter_uses_its_queries_in_turn_and_its_failure_ends_the_transaction() {
    let (server, seen) = logging();
    let list = json!(["SELECT 'a'", "SELECT '{tester}'", "SELECT 'c'"]);
    run(chatting(&server.url("http"), 2, list, 1, 2));
    let asked: Vec<String> = seen
        .lock()
        .unwrap()
        .iter()
        .flat_map(|request| queries(request))
        .collect();
    assert_eq!(
        asked,
        ["SELECT 'a'", "SELECT '0'", ALL, "SELECT 'c'", "SELECT 'a'", ALL]
    );
    let gateway = Gateway::start();
    let list = json!(["SELECT 1", "SELECT * FROM all_tab_columns"]);
    let ran = run(chatting(&gateway.url, 2, list, 1, 1));
    assert_eq!(ran.results(), [(Outcome::Error, "frontier error")]);
    assert_eq!((gateway.count(), ran.metric("chatter requests")), (2, vec![2.0]));
    assert!(
        ran.notes[0].1.contains("no such table: all_tab_columns"),
        "{:?}",
        ran.notes
    );
    let message = refused(chatting(&gateway.url, 2, json!([]), 1, 1));
    assert!(
        message.contains("chatter: expected at least one query"),
        "{message}"
    );
}

/// Validation queries that pass every cache, before queries that caches answer.
#[test]
fn chatter_has_its_own_refresh_and_ttl() {
    let (server, seen) = logging();
    let mut spec = chatting(&server.url("http"), 1, json!(["SELECT 'a'"]), 1, 1);
    run(spec.clone());
    spec["workloads"][0]["settings"]["chatter"]["refresh"] = json!("no-cache");
    spec["workloads"][0]["settings"]["chatter"]["ttl"] = json!("short");
    run(spec.clone());
    spec["workloads"][0]["settings"]["chatter"]["ttl"] = json!("forever");
    run(spec);
    let seen = seen.lock().unwrap();
    let asked: Vec<_> = seen
        .iter()
        .map(|request| {
            let ttl = ["short", "forever"].map(|ttl| request.contains(&format!("&ttl={ttl}")));
            (ttl, request.contains("no-cache"))
        })
        .collect();
    let query = ([false, false], false);
    let expected = [
        query,
        query,
        ([true, false], true),
        query,
        ([false, true], true),
        query,
    ];
    assert_eq!(asked, expected);
}

#[test]
fn the_head_can_be_that_of_the_public_client() {
    let (server, seen) = logging();
    let mut spec = frontier(&(server.url("http") + "/Prod"), request("SELECT 1", 5), 1, 3);
    spec["workloads"][0]["settings"]["http"] = json!("1.0");
    spec["workloads"][0]["settings"]["id"] = json!("client 2.10.2 2269 root(0) root");
    let ran = run(spec.clone());
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3]);
    assert_eq!(
        server.connections.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "kept alive"
    );
    let head = seen.lock().unwrap()[0].clone();
    let (line, rest) = head.split_once("\r\n").unwrap();
    assert!(line.starts_with("GET /Prod/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOBzip5&p1="));
    assert!(line.ends_with(" HTTP/1.0"));
    assert_eq!(
        rest,
        "Host: 127.0.0.1\r\nX-Frontier-Id: client 2.10.2 2269 root(0) root\r\nCache-Control: max-stale=1\r\n\
         Connection: keep-alive\r\n\r\n"
    );
    spec["workloads"][0]["settings"]["connection"] = json!("per-request");
    run(spec);
    assert!(!seen.lock().unwrap()[3].contains("Connection"));
}

#[test]
fn both_http_versions_work_and_large_bodies_end_a_connection_of_version_1_0() {
    let gateway = Gateway::start();
    for (version, query, connections) in [("1.1", ALL, 1), ("1.0", "SELECT 1", 1), ("1.0", ALL, 3)] {
        let mut spec = frontier(&gateway.url, request(query, 0), 1, 3);
        spec["workloads"][0]["settings"]["http"] = json!(version);
        let ran = run(spec);
        assert_eq!(
            ran.results(),
            [(Outcome::Ok, ""); 3],
            "{version}: {:?}",
            ran.notes
        );
        let made = ran.transactions.iter().filter(|t| t.connected >= 0).count();
        assert_eq!(made, connections, "{version} {query}");
    }
}

#[test]
fn testers_begin_with_first_operations_and_recordings_keep_their_order() {
    let (server, seen) = logging();
    let mut spec = frontier(&server.url("http"), request("", 0), 2, 8);
    let named = |name: &str, weight: f64, first: u32, query: &str| json!({"name": name, "weight": weight, "first": first, "request": request(query, 0)});
    spec["workloads"][0]["operations"] = json!([
        named("open", 0.0, 2, "SELECT 'open'"),
        named("node", 0.0, 1, "SELECT 'node'"),
        named("rest", 1.0, 0, "{q}"),
    ]);
    let items: Vec<String> = (0..3).map(|k| format!("SELECT {k}")).collect();
    let recorded = |order: &[u32]| json!({"kind": "recorded", "items": items, "order": order});
    spec["workloads"][0]["values"] = json!({"q": recorded(&[0, 1, 2])});
    let ran = run(spec.clone());
    for tester in 0..2 {
        let mine = ran.transactions.iter().filter(|t| t.tester == tester);
        let operations: Vec<u16> = mine.map(|t| t.operation).collect();
        assert_eq!(operations, [0, 0, 1, 2, 2, 2, 2, 2]);
    }

    // An open load at the times of the recording: the query of an arrival is the recorded one,
    // independent of the slot that takes it.
    seen.lock().unwrap().clear();
    spec["workloads"][0]["operations"] = json!([named("all", 1.0, 0, "{q}")]);
    let order = [2, 2, 0, 1, 0, 1];
    spec["workloads"][0]["values"] = json!({"q": recorded(&order)});
    let at_ns: Vec<i64> = [0, 120, 240, 360, 480, 600].map(|ms| ms * MS).to_vec();
    spec["workloads"][0]["load"] =
        json!({"kind": "recorded", "at_ns": at_ns, "in_flight": 3, "when_full": "wait"});
    spec["end"] = json!({"duration_ns": SECOND, "each_tester": null, "transactions": null});
    let ran = run(spec.clone());
    let planned: Vec<i64> = ran.transactions.iter().map(|t| t.scheduled - ran.t0).collect();
    assert_eq!(planned, at_ns);
    let asked: Vec<String> = seen
        .lock()
        .unwrap()
        .iter()
        .flat_map(|request| queries(request))
        .collect();
    let expected: Vec<String> = order.iter().map(|&k| items[k as usize].clone()).collect();
    assert_eq!(asked, expected);

    spec["workloads"][0]["load"]["at_ns"] = json!([5, 3]);
    let spec: plimsoll_model::RunSpec = serde_json::from_value(spec).unwrap();
    assert!(spec.check().unwrap_err().to_string().contains("times in order"));
}
