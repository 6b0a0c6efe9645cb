//! The driver `broker` with Plimsoll's broker, over both of its protocols, and with servers that
//! answer something else.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_model::{NOT_HAPPENED, Outcome};
use plimsoll_services::broker::{BrokerConfig, GridConfig, serve_grid, serve_point};
use plimsoll_services::{SecurityMode, bind};
use plimsoll_wire::broker::{Frame, HEADER, JobRequest, MAX_BODY, Quality, Reply, Status};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::*;
use crate::tls::{pki, tls};

const PLACED: (Outcome, &str) = (Outcome::Ok, "");
const PROTOCOLS: [&str; 2] = ["broker", "http"];

/// A grid of two sites with 100 CPUs each, and its decision point.
struct Broker {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Broker {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut BrokerConfig) + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (sender, port) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listen = || bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let (grid, point) = (listen(), listen());
                let config = GridConfig {
                    sites: 2,
                    organisations: 3,
                    groups: 2,
                    cpus: [100, 100],
                    policies: vec!["* * 100".into()],
                    ..GridConfig::default()
                };
                let mut broker = BrokerConfig {
                    grid: config.clone(),
                    grid_address: grid.local_addr().unwrap().to_string(),
                    ..BrokerConfig::default()
                };
                change(&mut broker);
                sender.send(point.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    ended = serve_grid(grid, config, std::future::pending()) => ended.unwrap(),
                    ended = serve_point(point, broker, std::future::pending()) => ended.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            port: port.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn job(cpus: &str) -> Value {
    json!({"vo": "2", "group": "1", "cpus": cpus, "runtime_ms": 600_000})
}

fn workload(url: &str, connection: &str, request: Value, transactions: u64) -> Value {
    let settings = json!({"connection": connection});
    let end = json!({"transactions": transactions});
    spec("broker", url, settings, request, closed(1), end)
}

#[test]
fn both_protocols_have_the_same_outcomes_and_metrics() {
    for scheme in PROTOCOLS {
        for connection in ["kept", "per-request"] {
            let broker = Broker::start();
            let ran = run(workload(&broker.url(scheme), connection, job("40"), 6));
            let mut expected = vec![PLACED; 4];
            expected.extend([(Outcome::Wrong, "no capacity"); 2]);
            assert_eq!(ran.results(), expected, "{scheme} {connection}");
            assert_eq!(ran.metric("accuracy"), [1.0; 6]);
            assert_eq!(ran.metric("misplaced"), [0.0; 6]);
            assert_eq!(ran.metric("queue_full"), [0.0; 6]);
            let is_kept = connection == "kept";
            assert_eq!(ran.metric("tcp_connect_s").len(), if is_kept { 1 } else { 6 });
            for (index, t) in ran.transactions.iter().enumerate() {
                assert_eq!(t.session, u32::from(is_kept));
                assert_eq!(t.connected != NOT_HAPPENED, index == 0 || !is_kept);
                assert!(t.start <= t.first_byte && t.first_byte <= t.end);
                assert_eq!(t.items, u64::from(t.outcome == Outcome::Ok));
            }
            let placed = &ran.transactions[0];
            if scheme == "broker" {
                assert_eq!((placed.sent, placed.received, placed.payload), (24, 29, 21));
            } else {
                assert!(placed.sent > 130 && placed.received > placed.payload + 100);
                assert!((40..80).contains(&placed.payload), "{}", placed.payload);
            }
        }
    }
}

#[test]
fn both_protocols_have_tls_with_client_certificates() {
    let pki = pki("broker-tls", true);
    let directory = pki.directory.clone();
    let broker = Broker::with(move |config| {
        let file = |name: &str| Some(directory.join(name));
        config.security = SecurityMode::Tls;
        (config.cert_file, config.key_file) = (file("server.pem"), file("server.key"));
        config.ca_file = file("cas/0123abcd.0");
    });
    let secured = |scheme: &str, connection: &str, change: &dyn Fn(&mut Value)| {
        let mut spec = workload(&broker.url(scheme), connection, job("1"), 6);
        spec["workloads"][0]["settings"]["tls"] = tls(&pki.directory, |tls| {
            tls["cert"] = json!(pki.directory.join("client.pem"));
            tls["key"] = json!(pki.directory.join("client.key"));
            change(tls);
        });
        spec
    };
    for scheme in ["brokers", "https"] {
        for (connection, handshakes) in [("kept", 1), ("per-request", 6)] {
            let ran = run(secured(scheme, connection, &|_| {}));
            assert_eq!(ran.results(), vec![PLACED; 6], "{scheme} {:?}", ran.notes);
            assert_eq!(ran.metric("tls_handshake_s").len(), handshakes, "{scheme}");
            assert_eq!(ran.metric("accuracy").len(), 6);
        }
        let ran = run(secured(scheme, "kept", &|tls| tls["proxy"] = json!("tester")));
        assert_eq!(ran.results(), vec![PLACED; 6], "{scheme} {:?}", ran.notes);
        let message = refused(secured(scheme, "kept", &|tls| {
            (tls["cert"], tls["key"]) = (Value::Null, Value::Null);
        }));
        assert!(message.contains("needs a client certificate"), "{message}");
    }
    for (scheme, code) in [("broker", "invalid message"), ("http", "http 403")] {
        let ran = run(workload(&broker.url(scheme), "kept", job("1"), 2));
        assert_eq!(ran.results(), vec![(Outcome::Error, code); 2], "{:?}", ran.notes);
    }
    // A handshake that is none ends the connection and is counted. Counters need no TLS.
    let talk = |request: &[u8]| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", broker.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    talk(b"\x16\x03\x01\0\x05hello");
    let stats = talk(b"GET /plimsoll/stats HTTP/1.0\r\n\r\n");
    assert!(stats.contains("\"failed_handshakes\":1"), "{stats}");
    assert!(stats.contains("\"handshakes\":16"), "{stats}");
}

#[test]
fn values_are_filled_in_and_must_be_numbers() {
    for scheme in PROTOCOLS {
        let broker = Broker::start();
        let url = broker.url(scheme);
        let request = json!({"vo": "{vo}", "group": "{n}", "cpus": "1{cpus}", "runtime_ms": 1_000});
        let mut wanted = workload(&url, "kept", request, 6);
        wanted["workloads"][0]["values"] = json!({
            "vo": {"kind": "list", "items": ["0", "1", "2", "3", "", "70000"], "order": "round-robin"},
            "cpus": {"kind": "uniform", "from": 0, "to": 0},
        });
        let ran = run(wanted);
        // The jobs are of the groups 0 to 5. The grid has only 0 and 1.
        let invalid = (Outcome::Error, "invalid job");
        let bad = (Outcome::Error, "bad request");
        assert_eq!(
            ran.results(),
            [PLACED, PLACED, invalid, invalid, bad, bad],
            "{:?}",
            ran.notes
        );
        let texts: Vec<&str> = ran.notes.iter().map(|(_, text)| text.as_str()).collect();
        for reason in [
            "group: expected 0 to 1, got 2",
            "vo: expected a number that fits into a request, got \"70000\"",
        ] {
            assert!(texts.iter().any(|text| text.contains(reason)), "{texts:?}");
        }
        // A request that is not sent neither counts bytes nor closes the connection.
        assert!(ran.transactions[4].sent == 0 && ran.transactions[4].session == 0);
    }
}

/// Answers every request with these bytes.
fn answering(scheme: &str, answer: Vec<u8>) -> Server {
    let is_http = scheme == "http";
    Server::start(move |mut stream| {
        let mut input = Vec::new();
        let mut piece = [0; 4096];
        loop {
            if is_http {
                if read_request(&mut stream).is_none() {
                    return;
                }
            } else {
                while let Ok(None) = Frame::parse(&input) {
                    match stream.read(&mut piece) {
                        Ok(0) | Err(_) => return,
                        Ok(count) => input.extend_from_slice(&piece[..count]),
                    }
                }
                let frame = Frame::parse(&input).unwrap().unwrap();
                JobRequest::decode(frame).unwrap();
                let length = frame.length();
                input.drain(..length);
            }
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

fn encoded(scheme: &str, reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    if scheme == "broker" {
        reply.encode(&mut bytes);
    } else {
        bytes = response(reply.http_status(), &reply.to_json());
    }
    bytes
}

fn response(status: u16, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn a_refusal_has_its_status_as_code() {
    let quality = Quality {
        accuracy: 0.25,
        misplaced: true,
    };
    for (status, outcome) in [
        (Status::NoCapacity, Outcome::Wrong),
        (Status::QueueFull, Outcome::Wrong),
        (Status::GridFull, Outcome::Wrong),
        (Status::GridFailure, Outcome::Error),
        (Status::InvalidJob, Outcome::Error),
        (Status::InvalidMessage, Outcome::Error),
        (Status::UnsupportedVersion, Outcome::Error),
    ] {
        for scheme in PROTOCOLS {
            let reply = Reply::Refused {
                status,
                quality: (outcome == Outcome::Wrong).then_some(quality),
                text: "a reason".into(),
            };
            let server = answering(scheme, encoded(scheme, &reply));
            let ran = run(workload(&server.url(scheme), "kept", job("1"), 2));
            assert_eq!(ran.results(), vec![(outcome, status.text()); 2], "{scheme}");
            assert!(ran.transactions.iter().all(|t| t.items == 0 && t.payload > 0));
            let is_wrong = outcome == Outcome::Wrong;
            let quality = |value: f64| if is_wrong { vec![value; 2] } else { vec![] };
            assert_eq!(ran.metric("accuracy"), quality(0.25));
            assert_eq!(ran.metric("misplaced"), quality(1.0));
            let full = f64::from(u8::from(status == Status::QueueFull));
            assert_eq!(ran.metric("queue_full"), quality(full));
            let quoted = ran
                .notes
                .iter()
                .any(|(_, text)| text.contains("broker: a reason"));
            assert_eq!(quoted, !is_wrong, "{:?}", ran.notes);
        }
    }
}

#[test]
fn an_answer_that_is_not_the_protocol_is_an_error_with_a_reason() {
    let bad = "bad response";
    let long = "answer too long";
    let placed = encoded(
        "broker",
        &Reply::Placed {
            job: 1,
            site: 2,
            quality: Quality {
                accuracy: 1.0,
                misplaced: false,
            },
        },
    );
    let mut not_a_number = placed.clone();
    not_a_number[20..28].copy_from_slice(&f64::NAN.to_be_bytes());
    let cases = [
        (
            "broker",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            bad,
            "other bytes",
        ),
        (
            "broker",
            b"\x03B\x02\x02\0\0\0\x15".to_vec(),
            bad,
            "got version 2",
        ),
        (
            "broker",
            b"\x03B\x01\x01\0\0\0\0".to_vec(),
            bad,
            "unexpected type 1",
        ),
        (
            "broker",
            b"\x03B\x01\x02\x40\0\0\0".to_vec(),
            long,
            "1073741824 bytes",
        ),
        ("broker", not_a_number, bad, "form of this type"),
        (
            "broker",
            [placed, vec![0]].concat(),
            bad,
            "1 bytes follow the reply",
        ),
        ("http", response(200, b"<html>"), bad, "is not a reply"),
        ("http", response(200, b"{}"), bad, "is not a reply"),
        ("http", response(502, b"<html>"), "http 502", "status 502"),
        ("http", b"\x03B\x01\x02\0\0\0\x15".to_vec(), bad, ""),
    ];
    for (scheme, answer, code, reason) in cases {
        let server = answering(scheme, answer);
        let ran = run(workload(&server.url(scheme), "kept", job("1"), 2));
        assert_eq!(ran.results(), vec![(Outcome::Error, code); 2], "{reason}");
        let is_stated = ran.notes.iter().any(|(_, text)| text.contains(reason));
        assert!(is_stated || reason.is_empty(), "{reason} {:?}", ran.notes);
        assert!(ran.metric("accuracy").is_empty());
    }
}

#[test]
fn a_body_of_1_gib_is_not_kept() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".to_vec();
    let server = answering("http", [head, vec![b' '; 1 << 20]].concat());
    let ran = run(workload(&server.url("http"), "kept", job("1"), 1));
    assert_eq!(ran.results(), [(Outcome::Error, "answer too long to keep")]);
    // A message of the greatest length is still a reply.
    let longest = Reply::refused(Status::NoCapacity, "x".repeat(5_000));
    let bytes = encoded("broker", &longest);
    let server = answering("broker", bytes);
    let ran = run(workload(&server.url("broker"), "kept", job("1"), 1));
    assert_eq!(ran.results(), [(Outcome::Wrong, "no capacity")]);
    let received = ran.transactions[0].received;
    assert!(received > 1000 && received <= (HEADER as u64 + u64::from(MAX_BODY)));
}

#[test]
fn a_peer_that_closes_or_is_silent_is_an_error() {
    for scheme in PROTOCOLS {
        // The request may have been carried out, so it is not sent again.
        let server = Server::start(|mut stream| {
            let _ = stream.read(&mut [0; 4096]);
        });
        let ran = run(workload(&server.url(scheme), "kept", job("1"), 2));
        assert_eq!(
            ran.results(),
            vec![(Outcome::Error, "closed early"); 2],
            "{scheme}"
        );
        assert_eq!(server.connections.load(Ordering::SeqCst), 2);

        let silent = Server::start(|mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            std::thread::sleep(Duration::from_secs(2));
        });
        let mut wanted = workload(&silent.url(scheme), "kept", job("1"), 1);
        wanted["workloads"][0]["timeout_ns"] = json!(200 * MS);
        let ran = run(wanted);
        assert_eq!(
            ran.results(),
            [(Outcome::Timeout, "timeout first byte")],
            "{scheme}"
        );

        let half = Server::start(move |mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            let begun: &[u8] = if scheme == "http" {
                b"HTTP/1.1 2"
            } else {
                b"\x03B\x01"
            };
            let _ = stream.write_all(begun);
            std::thread::sleep(Duration::from_secs(2));
        });
        let mut wanted = workload(&half.url(scheme), "kept", job("1"), 1);
        wanted["workloads"][0]["timeout_ns"] = json!(200 * MS);
        let ran = run(wanted);
        assert_eq!(ran.results(), [(Outcome::Timeout, "timeout body")], "{scheme}");
    }
    let url = "broker://127.0.0.1:1";
    let ran = run(workload(url, "kept", job("1"), 1));
    assert_eq!(ran.results(), [(Outcome::Refused, "refused")]);
}

#[test]
fn a_kept_connection_that_closes_without_an_answer_is_not_repeated() {
    for scheme in PROTOCOLS {
        let reply = Reply::refused(Status::NoCapacity, "");
        let bytes = encoded(scheme, &reply);
        // One answer, and the end of the connection after the next request.
        let server = Server::start(move |mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&bytes);
            let _ = stream.read(&mut [0; 4096]);
        });
        let ran = run(workload(&server.url(scheme), "kept", job("1"), 2));
        let expected = [
            (Outcome::Wrong, "no capacity"),
            (Outcome::Error, "kept connection closed"),
        ];
        assert_eq!(ran.results(), expected, "{scheme}");
        assert_eq!(ran.transactions[1].attempt, 0);
    }
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let message = |url: &str, request: Value| refused(workload(url, "kept", request, 1));
    for url in [
        "ftp://127.0.0.1:1",
        "https://127.0.0.1:1/decide",
        "brokers://127.0.0.1",
        "broker://127.0.0.1",
        "broker://127.0.0.1:1/decide",
        "http://127.0.0.1:1/?x",
    ] {
        assert!(message(url, job("1")).contains("broker://HOST:PORT"), "{url}");
    }
    let text = message("broker://127.0.0.1:1", job("many"));
    assert!(
        text.contains("cpus of operation 0: expected a number from 0 to 4,294,967,295, got \"many\""),
        "{text}"
    );
    let large = json!({"vo": "65536", "group": "0", "cpus": "1", "runtime_ms": 1});
    assert!(message("http://127.0.0.1:1", large).contains("vo of operation 0"));
}
