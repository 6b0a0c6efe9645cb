//! The driver `catalogue` over SOAP with Plimsoll's catalogue, plain and with client certificates,
//! and with servers that answer something else.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;

use plimsoll_model::Outcome;
use plimsoll_services::SecurityMode;
use plimsoll_services::catalogue::{CatalogueConfig, Protocol};
use plimsoll_wire::catalogue::soap::{Answer, Call, Fault, FaultCode, Message};
use plimsoll_wire::catalogue::{Reply, Request, Status};
use serde_json::json;

use crate::catalogue::{Catalogue, ENTRIES, OK, by, every_operation, request, settings, workload};
use crate::harness::*;
use crate::tls::{pki, tls};

fn soap(config: &mut CatalogueConfig) {
    config.protocol = Protocol::Soap;
}

#[test]
fn every_operation_is_verified() {
    let service = Catalogue::start("catalogue-soap", soap);
    for connection in ["kept", "per-request"] {
        let settings = settings(|settings| settings["connection"] = json!(connection));
        let ran = run(service.spec("soap", settings, &every_operation(), 96));
        assert_eq!(ran.results(), vec![OK; 96], "{connection} {:?}", ran.notes);
        let items: BTreeSet<u64> = ran.transactions.iter().map(|t| t.items).collect();
        assert!(
            items.is_subset(&BTreeSet::from([1, 2, 3, 20, 50, 100])),
            "{items:?}"
        );
        let sessions: BTreeSet<u32> = ran.transactions.iter().map(|t| t.session).collect();
        assert_eq!(sessions, BTreeSet::from([u32::from(connection == "kept")]));
        let is_whole =
            |t: &plimsoll_model::Transaction| t.sent > 300 && t.received > t.payload && t.payload > 100;
        assert!(ran.transactions.iter().all(is_whole));
    }
    let data = "SELECT count(*) FROM Cns_file_metadata m JOIN Cns_file_metadata d ON m.parent_fileid = d.fileid \
                WHERE d.name LIKE 'd0%'";
    assert_eq!(service.query(data), ENTRIES, "the data set is not changed");
    let tester = "SELECT count(*) FROM Cns_userinfo WHERE username = '/O=Lab/CN=tester'";
    assert_eq!(service.query(tester), 1);
}

#[test]
fn a_client_certificate_identifies_the_tester() {
    let pki = pki("catalogue-soap-tls", true);
    let file = |name: &str| Some(pki.directory.join(name));
    let service = Catalogue::start("catalogue-soap-tls-data", |config| {
        soap(config);
        config.security = SecurityMode::Tls;
        (config.cert_file, config.key_file) = (file("server.pem"), file("server.key"));
        config.ca_file = file("cas/0123abcd.0");
    });
    for (connection, handshakes) in [("kept", 1), ("per-request", 12)] {
        let settings = settings(|settings| {
            settings["connection"] = json!(connection);
            settings["tls"] = tls(&pki.directory, |tls| {
                tls["cert"] = json!(pki.directory.join("client.pem"));
                tls["key"] = json!(pki.directory.join("client.key"));
            });
        });
        let requests = [by("name", 1), request("insert", 20)];
        let ran = run(service.spec("soaps", settings, &requests, 12));
        assert_eq!(ran.results(), vec![OK; 12], "{:?}", ran.notes);
        assert_eq!(ran.metric("tls_handshake_s").len(), handshakes, "{connection}");
    }
    let users = "SELECT count(*) FROM Cns_userinfo WHERE username = '/CN=rcgen self signed cert'";
    assert_eq!(service.query(users), 1);
}

/// Answers every message with what `answer` returns: an answer, or the bytes of a response.
fn answering(answer: impl Fn(&Call) -> Result<Answer, &'static str> + Send + Sync + 'static) -> Server {
    Server::start(move |mut stream| {
        let mut input = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&input).into_owned();
            let Some(message) = text
                .split_once("\r\n\r\n")
                .and_then(|(_, body)| Message::decode(body.as_bytes()).ok())
            else {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => input.extend_from_slice(&piece[..count]),
                }
                continue;
            };
            input.clear();
            let response = match answer(&message.call) {
                Ok(answer) => {
                    let mut body = String::new();
                    answer.encode(message.call.operation(), 1, &mut body);
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                }
                Err(response) => response.to_owned(),
            };
            if response.is_empty() || stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn fault(status: Status) -> Answer {
    Answer::Fault(Fault::of(status, 0, "a reason".into()))
}

#[test]
fn an_answer_that_is_not_correct_is_wrong_or_an_error() {
    let done = || Answer::Done(Reply::Result(Status::OK, String::new()));
    let unreadable = Answer::Fault(Fault {
        code: FaultCode::Client,
        text: "no".into(),
        failed: None,
    });
    for (work, answer, expected) in [
        (
            by("name", 1),
            Ok(fault(Status::NO_ENTRY)),
            (Outcome::Wrong, "missing entry"),
        ),
        (
            by("name", 1),
            Ok(Answer::Done(Reply::Entries(vec![]))),
            (Outcome::Error, "bad response"),
        ),
        (by("name", 1), Ok(fault(Status::BUSY)), (Outcome::Error, "busy")),
        (by("name", 1), Ok(unreadable), (Outcome::Error, "soap fault")),
        (
            request("insert", 1),
            Ok(fault(Status::EXISTS)),
            (Outcome::Error, "entry exists"),
        ),
        (
            request("forbidden", 1),
            Ok(done()),
            (Outcome::Wrong, "not refused"),
        ),
        (
            request("list", 1),
            Ok(Answer::Done(Reply::Directory {
                entries: vec![],
                is_last: true,
            })),
            (Outcome::Wrong, "unexpected entries"),
        ),
        (
            by("name", 1),
            Err("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"),
            (Outcome::Error, "http 503"),
        ),
        (
            by("name", 1),
            Err("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<a/>"),
            (Outcome::Error, "bad response"),
        ),
        (
            by("name", 1),
            Err("220 FTP\r\n\r\n"),
            (Outcome::Error, "bad response"),
        ),
        (by("name", 1), Err(""), (Outcome::Error, "closed early")),
    ] {
        let server = answering(move |_| answer.clone());
        let url = server.url("soap");
        let ran = run(workload(&url, settings(|_| {}), std::slice::from_ref(&work), 2));
        assert_eq!(ran.results(), vec![expected; 2], "{work}");
        assert!(ran.transactions.iter().all(|t| t.items == 0));
    }
}

#[test]
fn a_change_that_was_not_carried_out_is_wrong() {
    let server = answering(|call| {
        Ok(match call.requests() {
            [Request::Register(_)] => Answer::Done(Reply::Result(Status::OK, String::new())),
            _ => fault(Status::NO_ENTRY),
        })
    });
    let ran = run(workload(
        &server.url("soap"),
        settings(|_| {}),
        &[request("insert", 1)],
        2,
    ));
    assert_eq!(ran.results(), vec![(Outcome::Wrong, "missing entry"); 2]);
    assert_eq!(
        server.connections.load(Ordering::SeqCst),
        1,
        "a fault keeps the connection"
    );
}

#[test]
fn what_the_stateless_protocol_does_not_have_is_refused() {
    for (key, value) in [("transactions", json!(true)), ("round_trips", json!("lfc"))] {
        let settings = settings(|settings| settings[key] = value.clone());
        let message = refused(workload("soap://127.0.0.1:1", settings, &[by("name", 1)], 1));
        assert!(message.contains(key) && message.contains("stateful"), "{message}");
    }
}
