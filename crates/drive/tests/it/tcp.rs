//! The tcp driver, and failures of connections.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::harness::*;

fn tcp(server: &Server, connection: &str, expect: Value, transactions: u64) -> Value {
    let request = json!({"send": "get\n", "expect": expect});
    let settings = json!({"connection": connection});
    spec(
        "tcp",
        &server.url("tcp"),
        settings,
        request,
        closed(1),
        json!({"transactions": transactions}),
    )
}

fn answering(answer: &'static [u8], close: bool) -> Server {
    Server::start(move |mut stream| {
        let mut bytes = [0; 100];
        while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
            for piece in answer.chunks(3) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
            if close {
                return;
            }
        }
    })
}

#[test]
fn expectations_count_their_bytes() {
    for (answer, close, expect, payload, outcome, code) in [
        (
            &b"123456"[..],
            false,
            json!({"kind": "bytes", "count": 6}),
            6,
            Outcome::Ok,
            "",
        ),
        (b"12345\n", false, json!({"kind": "line"}), 5, Outcome::Ok, ""),
        (b"12345678", true, json!({"kind": "close"}), 8, Outcome::Ok, ""),
        (
            b"1234",
            true,
            json!({"kind": "bytes", "count": 6}),
            0,
            Outcome::Error,
            "closed early",
        ),
        (
            b"",
            true,
            json!({"kind": "line"}),
            0,
            Outcome::Error,
            "closed early",
        ),
    ] {
        let server = answering(answer, close);
        let ran = run(tcp(&server, "per-request", expect.clone(), 3));
        assert_eq!(ran.results(), vec![(outcome, code); 3], "{expect}");
        for t in &ran.transactions {
            assert_eq!(
                (t.payload, t.sent, t.received, t.session),
                (payload, 4, answer.len() as u64, 0)
            );
            assert!(t.connected >= t.start);
        }
        assert_eq!(server.connections.load(std::sync::atomic::Ordering::SeqCst), 3);
    }
}

#[test]
fn a_kept_connection_is_one_session() {
    let server = answering(b"ok\n", false);
    let ran = run(tcp(&server, "kept", json!({"kind": "line"}), 5));
    assert_eq!(ran.counters.succeeded, 5);
    let sessions: Vec<(u32, bool)> = ran
        .transactions
        .iter()
        .map(|t| (t.session, t.connected >= 0))
        .collect();
    assert_eq!(
        sessions,
        [(1, true), (1, false), (1, false), (1, false), (1, false)]
    );
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_within_the_transaction() {
    // The server responds once, and closes the connection at the next request.
    let server = Server::start(|mut stream| {
        let mut bytes = [0; 100];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"ok\n");
        let _ = stream.read(&mut bytes);
    });
    let ran = run(tcp(&server, "kept", json!({"kind": "line"}), 4));
    assert_eq!(ran.counters.succeeded, 4);
    let attempts: Vec<u16> = ran.transactions.iter().map(|t| t.attempt).collect();
    assert_eq!(attempts, [0, 1, 1, 1]);
    assert_eq!(ran.transactions[3].session, 4);
}

#[test]
fn timeouts_are_punctual_and_their_codes_state_what_the_tester_waited_for() {
    let silent = Server::start(|mut stream| {
        let _ = stream.read(&mut [0; 100]);
        std::thread::sleep(Duration::from_secs(2));
    });
    let halting = Server::start(|mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(b"o");
        std::thread::sleep(Duration::from_secs(2));
    });
    for (server, code) in [(&silent, "timeout first byte"), (&halting, "timeout body")] {
        let mut spec = tcp(server, "kept", json!({"kind": "line"}), 2);
        spec["workloads"][0]["timeout_ns"] = json!(300 * MS);
        let ran = run(spec);
        assert_eq!(ran.results(), vec![(Outcome::Timeout, code); 2]);
        for request in ran.requests() {
            assert!((300 * MS..1500 * MS).contains(&request), "{request}");
        }
        assert_eq!(
            ran.transactions[1].session, 2,
            "a connection is not used again after a timeout"
        );
    }
}

#[test]
fn connections_come_from_the_source_addresses_in_turn() {
    let peers = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&peers);
    let server = Server::start(move |mut stream| {
        list.lock()
            .unwrap()
            .push(stream.peer_addr().unwrap().ip().to_string());
        let mut bytes = [0; 100];
        while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
            let _ = stream.write_all(b"ok\n");
        }
    });
    let mut wanted = tcp(&server, "per-request", json!({"kind": "line"}), 6);
    let settings = &mut wanted["workloads"][0]["settings"];
    settings["source_addresses"] = json!(["127.0.0.2", "127.0.0.9", "127.0.0.4"]);
    assert_eq!(run(wanted).counters.succeeded, 6);
    let turn = ["127.0.0.2", "127.0.0.9", "127.0.0.4"];
    assert_eq!(*peers.lock().unwrap(), [turn, turn].concat());
}

#[test]
fn source_addresses_that_cannot_be_used_are_refused_before_the_run() {
    let server = answering(b"ok\n", false);
    for (addresses, message) in [
        (
            json!(["127.0.0.2", "192.0.2.7"]),
            "does not have the address 192.0.2.7",
        ),
        (json!(["::1"]), "endpoint"),
        (json!(["127.0.0.2", "::1"]), "::1 is an IPv6 address"),
        (json!(["127.0.0.2", "x"]), "settings"),
    ] {
        let mut wanted = tcp(&server, "kept", json!({"kind": "line"}), 1);
        wanted["workloads"][0]["settings"]["source_addresses"] = addresses;
        let refusal = refused(wanted);
        assert!(refusal.contains(message), "{refusal}");
    }
}
