//! The ldap driver with small servers: results, pages, TLS, and peers that are no LDAP servers.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::harness::*;
use crate::tls::{pki, tls};

const BIND: u8 = 0x60;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const EXTENDED: u8 = 0x77;

/// A request: its number, the tag of its operation, and all its bytes.
pub struct Received {
    id: u8,
    operation: u8,
    bytes: Vec<u8>,
}

/// Reads one request; none at the end of the stream.
pub fn read_message(stream: &mut impl Read) -> Option<Received> {
    let mut bytes = vec![0; 2];
    stream.read_exact(&mut bytes).ok()?;
    let length = match bytes[1] {
        length @ 0..0x80 => usize::from(length),
        long => {
            let mut length = vec![0; usize::from(long - 0x80)];
            stream.read_exact(&mut length).ok()?;
            bytes.extend_from_slice(&length);
            length
                .iter()
                .fold(0, |length, &byte| length << 8 | usize::from(byte))
        }
    };
    let start = bytes.len();
    bytes.resize(start + length, 0);
    stream.read_exact(&mut bytes[start..]).ok()?;
    Some(Received {
        id: bytes[start + 2],
        operation: bytes[start + 3],
        bytes,
    })
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = (content.len() as u32).to_be_bytes();
    [&[tag, 0x84], length.as_slice(), content.as_slice()].concat()
}

fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&[2, 1, id], operation])
}

/// An entry whose attribute `cn` has these values.
fn entry(id: u8, values: &[&str]) -> Vec<u8> {
    let values: Vec<u8> = values
        .iter()
        .flat_map(|value| element(4, &[value.as_bytes()]))
        .collect();
    let attribute = element(0x30, &[&element(4, &[b"cn"]), &element(0x31, &[&values])]);
    message(
        id,
        &element(0x64, &[&element(4, &[b"cn=x"]), &element(0x30, &[&attribute])]),
    )
}

/// The end of an operation, with the tag of its response.
fn done(id: u8, tag: u8, code: u8, text: &str) -> Vec<u8> {
    message(
        id,
        &element(tag, &[&[10, 1, code, 4, 0], &element(4, &[text.as_bytes()])]),
    )
}

/// Serves a connection: accepts binds, and answers searches with `answer`, which returns none to
/// close the connection.
fn serve(stream: &mut (impl Read + Write), answer: &impl Fn(&Received) -> Option<Vec<u8>>) {
    while let Some(request) = read_message(stream) {
        let bytes = match request.operation {
            BIND => Some(done(request.id, 0x61, 0, "")),
            UNBIND => None,
            _ => answer(&request),
        };
        let Some(bytes) = bytes else { return };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn answering(answer: impl Fn(&Received) -> Option<Vec<u8>> + Send + Sync + 'static) -> Server {
    Server::start(move |mut stream| serve(&mut stream, &answer))
}

fn settings(connection: &str) -> Value {
    json!({"connection": connection, "bind": {"kind": "anonymous"}, "start_tls": false, "tls": null})
}

/// Answers a bind, or a search with one entry; none to close the connection.
pub fn answer_search(request: &Received) -> Option<Vec<u8>> {
    match request.operation {
        BIND => Some(done(request.id, 0x61, 0, "")),
        SEARCH => Some([entry(request.id, &["x"]), done(request.id, 0x65, 0, "")].concat()),
        _ => None,
    }
}

/// Accepts a request to begin TLS.
pub fn serve_start_tls(stream: &mut std::net::TcpStream) {
    let request = read_message(stream).unwrap();
    assert_eq!(request.operation, EXTENDED);
    assert!(request.bytes.ends_with(b"1.3.6.1.4.1.1466.20037"));
    stream.write_all(&done(request.id, 0x78, 0, "")).unwrap();
}

pub fn search(filter: &str) -> Value {
    json!({
        "base": "o=grid", "scope": "sub", "filter": filter, "attributes": [], "size_limit": 0,
        "time_limit_s": 0, "page_size": null, "expect_entries": null,
    })
}

fn ldap(server: &Server, settings: Value, request: Value, transactions: u64) -> Value {
    let end = json!({"transactions": transactions});
    spec("ldap", &server.url("ldap"), settings, request, closed(1), end)
}

#[test]
fn entries_and_their_bytes_are_counted_and_a_kept_connection_is_bound_once() {
    let binds = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&binds);
    let server = Server::start(move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        serve(&mut stream, &|request| {
            let entries = [entry(request.id, &["abc", "de"]), entry(request.id, &[])];
            Some([entries.concat(), done(request.id, 0x65, 0, "")].concat())
        });
    });
    for (connection, new) in [("kept", 1), ("per-request", 4)] {
        let ran = run(ldap(&server, settings(connection), search("(cn=*)"), 4));
        assert_eq!(ran.results(), vec![(Outcome::Ok, ""); 4]);
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload), (2, 5));
        }
        let opened = ran.transactions.iter().filter(|t| t.connected >= 0).count();
        assert_eq!(opened, new, "{connection}");
        assert_eq!(binds.swap(0, Ordering::SeqCst), new, "{connection}");
        let (first, last) = (&ran.transactions[0], &ran.transactions[3]);
        let response = 2 * entry(1, &[]).len() + entry(1, &["abc", "de"]).len() - entry(1, &[]).len()
            + done(1, 0x65, 0, "").len();
        let bind = done(1, 0x61, 0, "").len();
        assert_eq!(first.received, (response + bind) as u64);
        let expected = if connection == "kept" {
            response
        } else {
            response + bind
        };
        assert_eq!(last.received, expected as u64);
        assert!(first.first_byte > first.connected);
    }
}

#[test]
fn each_result_has_its_outcome_and_its_code() {
    for (code, entries, outcome, expected) in [
        (0, 0, Outcome::Ok, ""),
        (4, 2, Outcome::Ok, "size limit exceeded"),
        (4, 0, Outcome::Error, "size limit exceeded"),
        (3, 2, Outcome::Error, "time limit exceeded"),
        (10, 0, Outcome::Error, "referral"),
        (32, 0, Outcome::Error, "no such object"),
        (51, 0, Outcome::Error, "busy"),
        (52, 0, Outcome::Error, "unavailable"),
        (53, 0, Outcome::Error, "unwilling to perform"),
        (100, 0, Outcome::Error, "LDAP result 100"),
    ] {
        let server = answering(move |request| {
            let entry = entry(request.id, &["x"]);
            Some([entry.repeat(entries), done(request.id, 0x65, code, "a reason")].concat())
        });
        let ran = run(ldap(&server, settings("kept"), search("(cn=*)"), 2));
        assert_eq!(ran.results(), vec![(outcome, expected); 2], "{code}");
        let is_ok = outcome == Outcome::Ok;
        assert_eq!(ran.transactions[0].items, if is_ok { entries as u64 } else { 0 });
        assert_eq!(ran.notes.iter().any(|(_, text)| text == "ldap: a reason"), !is_ok);
        assert_eq!(
            ran.transactions[1].session, 1,
            "a result does not end the connection"
        );
    }
}

#[test]
fn a_bind_that_is_refused_is_no_connection() {
    let server = Server::start(|mut stream| {
        while let Some(request) = read_message(&mut stream) {
            assert!(request.bytes.ends_with(b"\x04\x04cn=a\x80\x06secret"));
            let _ = stream.write_all(&done(request.id, 0x61, 49, ""));
        }
    });
    let mut simple = settings("kept");
    simple["bind"] = json!({"kind": "simple", "dn": "cn=a", "password": "secret"});
    let ran = run(ldap(&server, simple, search("(cn=*)"), 2));
    assert_eq!(ran.results(), [(Outcome::Refused, "invalid credentials"); 2]);
}

#[test]
fn a_search_by_pages_is_one_transaction() {
    let cookies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&cookies);
    let server = answering(move |request| {
        let is_second = request.bytes.ends_with(b"\x04\x02p2");
        seen.lock().unwrap().push(is_second);
        let cookie: &[u8] = if is_second { b"" } else { b"p2" };
        let value = element(0x30, &[&[2, 1, 0], &element(4, &[cookie])]);
        let oid = element(4, &[b"1.2.840.113556.1.4.319"]);
        let control = element(0x30, &[&oid, &element(4, &[&value])]);
        let end = element(0x65, &[&[10, 1, 0, 4, 0, 4, 0]]);
        let end = message(request.id, &[end, element(0xa0, &[&control])].concat());
        Some([entry(request.id, &["x"]).repeat(3), end].concat())
    });
    let mut request = search("(cn=*)");
    request["page_size"] = json!(3);
    let ran = run(ldap(&server, settings("kept"), request, 2));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2]);
    assert!(ran.transactions.iter().all(|t| t.items == 6));
    assert_eq!(ran.metric("ldap_pages"), [2.0, 2.0]);
    assert_eq!(*cookies.lock().unwrap(), [false, true, false, true]);
}

#[test]
fn references_are_counted_and_an_unexpected_number_of_entries_is_wrong() {
    let server = answering(|request| {
        let reference = message(request.id, &element(0x73, &[&element(4, &[b"ldap://other"])]));
        let entries = [entry(request.id, &["x"]), reference].concat();
        Some([entries, done(request.id, 0x65, 0, "")].concat())
    });
    for (expected, result) in [
        (1, (Outcome::Ok, "")),
        (2, (Outcome::Wrong, "unexpected entries")),
    ] {
        let mut request = search("(cn=*)");
        request["expect_entries"] = json!(expected);
        let ran = run(ldap(&server, settings("kept"), request, 1));
        assert_eq!(ran.results(), [result]);
        assert_eq!(ran.metric("ldap_references"), [1.0]);
    }
}

#[test]
fn values_are_filled_into_base_and_filter() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let server = answering(move |request| {
        seen.lock().unwrap().push(request.bytes.clone());
        Some(done(request.id, 0x65, 0, ""))
    });
    let mut request = search("(&(objectClass=GlueCE)(GlueCEUniqueID=ce-{key}\\2a))");
    request["base"] = json!("site={tester},o=grid");
    let mut wanted = ldap(&server, settings("kept"), request, 2);
    wanted["workloads"][0]["values"] =
        json!({"key": {"kind": "list", "items": ["a)(b", "c*"], "order": "round-robin"}});
    assert_eq!(run(wanted).counters.succeeded, 2);
    let requests = requests.lock().unwrap();
    for (request, value) in requests.iter().zip([&b"ce-a)(b*"[..], b"ce-c**"]) {
        let contains = |part: &[u8]| request.windows(part.len()).any(|window| window == part);
        assert!(contains(b"\x04\x0dsite=0,o=grid"), "{request:x?}");
        let attribute = b"\x04\x0eGlueCEUniqueID\x04";
        let compare = [attribute.as_slice(), &[value.len() as u8], value].concat();
        assert!(contains(&compare), "{request:x?}");
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_within_the_transaction() {
    // The server answers one search on each connection, and closes at the next.
    let server = Server::start(|mut stream| {
        let answered = AtomicUsize::new(0);
        serve(&mut stream, &|request| {
            let is_first = answered.fetch_add(1, Ordering::SeqCst) == 0;
            is_first.then(|| done(request.id, 0x65, 0, ""))
        });
    });
    let ran = run(ldap(&server, settings("kept"), search("(cn=*)"), 3));
    assert_eq!(ran.counters.succeeded, 3);
    let attempts: Vec<u16> = ran.transactions.iter().map(|t| t.attempt).collect();
    assert_eq!(attempts, [0, 1, 1]);
}

#[test]
fn a_notice_of_disconnection_states_why() {
    let server = answering(|_| {
        let oid = element(0x8a, &[b"1.3.6.1.4.1.1466.20036"]);
        Some(message(0, &element(0x78, &[&[10, 1, 52, 4, 0, 4, 0], &oid])))
    });
    let mut wanted = ldap(&server, settings("kept"), search("(cn=*)"), 1);
    wanted["workloads"][0]["timeout_ns"] = json!(300 * MS);
    assert_eq!(run(wanted).results(), [(Outcome::Timeout, "timeout body")]);
    let closing = Server::start(|mut stream| {
        let bind = read_message(&mut stream).unwrap();
        stream.write_all(&done(bind.id, 0x61, 0, "")).unwrap();
        let _ = read_message(&mut stream);
        let oid = element(0x8a, &[b"1.3.6.1.4.1.1466.20036"]);
        let notice = message(0, &element(0x78, &[&[10, 1, 52, 4, 0, 4, 0], &oid]));
        let _ = stream.write_all(&notice);
    });
    let ran = run(ldap(&closing, settings("kept"), search("(cn=*)"), 1));
    assert_eq!(ran.results(), [(Outcome::Error, "unavailable")]);
}

#[test]
fn peers_that_are_no_ldap_servers_end_the_transaction() {
    let silent = Server::start(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let halting = answering(|request| Some(entry(request.id, &["x"])));
    let nonsense = Server::start(|mut stream| {
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let closing = Server::start(|mut stream| drop(read_message(&mut stream)));
    let answers_another = answering(|request| Some(done(request.id + 1, 0x65, 0, "")));
    // An entry that never ends: its bytes arrive until the timeout, and are discarded.
    let endless = Server::start(|mut stream| {
        let bind = read_message(&mut stream).unwrap();
        stream.write_all(&done(bind.id, 0x61, 0, "")).unwrap();
        let id = read_message(&mut stream).unwrap().id;
        let begin = [
            &[0x30, 0x86, 1, 0, 0, 0, 1, 0, 2, 1, id][..],
            &[0x64, 0x86, 1, 0, 0, 0, 0, 0, 4, 0, 4, 0x85, 0xf0, 0, 0, 0, 0],
        ]
        .concat();
        let zeros = vec![0; 1 << 20];
        let mut result = stream.write_all(&begin);
        while result.is_ok() {
            result = stream.write_all(&zeros);
        }
    });
    let long_result = answering(|request| {
        let begin = [
            0x30, 0x84, 0x40, 0, 0, 0, 2, 1, request.id, 0x65, 0x84, 0x3f, 0, 0, 0,
        ];
        Some(begin.to_vec())
    });
    for (server, outcome, code) in [
        (&silent, Outcome::Timeout, "timeout connect"),
        (&halting, Outcome::Timeout, "timeout body"),
        (&endless, Outcome::Timeout, "timeout body"),
        (&nonsense, Outcome::Error, "bad response"),
        (&answers_another, Outcome::Error, "bad response"),
        (&long_result, Outcome::Error, "answer too long"),
        (&closing, Outcome::Error, "closed early"),
    ] {
        let mut wanted = ldap(server, settings("kept"), search("(cn=*)"), 1);
        wanted["workloads"][0]["timeout_ns"] = json!(300 * MS);
        let ran = run(wanted);
        assert_eq!(ran.results(), [(outcome, code)]);
        assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
    }
}

#[test]
fn tls_begins_with_the_connection_or_by_a_request() {
    let pki = pki("ldap", true);
    let config = Arc::clone(&pki.server);
    let within_tls = move |stream: std::net::TcpStream| {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream);
        serve(&mut stream, &|request| {
            assert_eq!(request.operation, SEARCH);
            Some([entry(request.id, &["x"]), done(request.id, 0x65, 0, "")].concat())
        });
    };
    let secure = within_tls.clone();
    let ldaps = Server::start(secure);
    let start_tls = Server::start(move |mut stream| {
        serve_start_tls(&mut stream);
        within_tls(stream);
    });
    let mut wanted = settings("per-request");
    wanted["tls"] = tls(&pki.directory, |tls| {
        tls["cert"] = json!(pki.directory.join("client.pem"));
        tls["key"] = json!(pki.directory.join("client.key"));
    });
    wanted["bind"] = json!({"kind": "external"});
    let end = json!({"transactions": 3});
    let secured = run(spec(
        "ldap",
        &ldaps.url("ldaps"),
        wanted.clone(),
        search("(cn=*)"),
        closed(1),
        end.clone(),
    ));
    assert_eq!(secured.results(), [(Outcome::Ok, ""); 3]);
    wanted["start_tls"] = json!(true);
    let started = run(spec(
        "ldap",
        &start_tls.url("ldap"),
        wanted.clone(),
        search("(cn=*)"),
        closed(1),
        end,
    ));
    assert_eq!(started.results(), [(Outcome::Ok, ""); 3]);
    assert_eq!(started.metric("tls_handshake_s").len(), 3);
    // StartTLS is the only difference between the bytes of the two.
    let of_start_tls = done(1, 0x78, 0, "").len() as u64;
    assert_eq!(
        started.transactions[0].received,
        secured.transactions[0].received + of_start_tls
    );
    wanted["tls"]["verify"] = json!(true);
    wanted["tls"]["ca_dir"] = json!("/etc/ssl/certs");
    let end = json!({"transactions": 1});
    let refused = run(spec(
        "ldap",
        &start_tls.url("ldap"),
        wanted,
        search("(cn=*)"),
        closed(1),
        end,
    ));
    assert_eq!(refused.results()[0].0, Outcome::Error);
    assert!(refused.results()[0].1.starts_with("tls invalid peer certificate"));
}

/// The URL of a service that has made certificates for its clients contains their directory.
#[test]
fn certificates_that_the_service_has_made_are_found_by_its_url() {
    let pki = pki("ldap-made", true);
    let made = pki.directory.join("credentials");
    std::fs::create_dir(&made).unwrap();
    for (from, to) in [
        ("cas/0123abcd.0", "ca.pem"),
        ("client.pem", "user.pem"),
        ("client.key", "user.key"),
    ] {
        std::fs::copy(pki.directory.join(from), made.join(to)).unwrap();
    }
    let config = Arc::clone(&pki.server);
    let server = Server::start(move |stream| {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream);
        serve(&mut stream, &answer_search);
    });
    let mut wanted = settings("per-request");
    wanted["bind"] = json!({"kind": "external"});
    let spec_of = |directory: &std::path::Path| {
        let url = format!("{}{}", server.url("ldaps"), directory.display());
        let end = json!({"transactions": 3});
        spec("ldap", &url, wanted.clone(), search("(cn=*)"), closed(1), end)
    };
    assert_eq!(run(spec_of(&made)).results(), [(Outcome::Ok, ""); 3]);
    // On another host, the directory does not exist.
    let message = refused(spec_of(std::path::Path::new("/nonexistent/credentials")));
    assert!(message.contains("external"), "{message}");
    let message = refused(spec_of(&pki.directory));
    assert!(message.contains("external"), "{message}");
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

#[test]
fn a_server_cannot_add_bytes_before_tls() {
    let server = Server::start(|mut stream| {
        let request = read_message(&mut stream).unwrap();
        let answer = [done(request.id, 0x78, 0, ""), done(2, 0x61, 0, "")].concat();
        let _ = stream.write_all(&answer);
        std::thread::sleep(Duration::from_millis(200));
    });
    let mut wanted = settings("kept");
    wanted["start_tls"] = json!(true);
    wanted["tls"] = json!({"ca_file": null, "ca_dir": null, "cert": null, "key": null, "verify": false});
    let ran = run(ldap(&server, wanted, search("(cn=*)"), 1));
    assert_eq!(ran.results(), [(Outcome::Error, "bad response")]);
}

#[test]
fn settings_that_cannot_be_used_are_refused_before_the_run() {
    let server = answering(|_| None);
    let external = json!({"kind": "external"});
    for (change, message) in [
        (
            json!({"filter": "(cn=x"}),
            "filter of operation 0: expected ) at character 6 of \"(cn=x\"",
        ),
        (
            json!({"bind": external}),
            "bind: external needs a client certificate",
        ),
        (
            json!({"url": "ldap://127.0.0.1:1/o=grid"}),
            "expected ldap://HOST:PORT or ldaps://HOST:PORT",
        ),
        (
            json!({"url": "http://127.0.0.1:1"}),
            "expected ldap://HOST:PORT or ldaps://HOST:PORT",
        ),
        (
            json!({"url": "ldaps://127.0.0.1:1", "start_tls": true}),
            "already uses TLS",
        ),
    ] {
        let mut wanted = ldap(&server, settings("kept"), search("(cn=*)"), 1);
        let workload = &mut wanted["workloads"][0];
        for (key, value) in change.as_object().unwrap() {
            match key.as_str() {
                "filter" => workload["operations"][0]["request"][key] = value.clone(),
                "url" => workload["endpoints"][0][key] = value.clone(),
                _ => workload["settings"][key] = value.clone(),
            }
        }
        let refusal = refused(wanted);
        assert!(refusal.contains(message), "{refusal}");
    }
}
