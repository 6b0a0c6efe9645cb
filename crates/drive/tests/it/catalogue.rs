//! The driver `catalogue` with Plimsoll's catalogue, plain and with client certificates, and with
//! servers that answer something else.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_grid_proxy::{Delegator, Language, ProxyInformation};
use plimsoll_model::Outcome;
use plimsoll_services::catalogue::{CatalogueConfig, serve};
use plimsoll_services::data::{self, DataConfig, DataSet};
use plimsoll_services::{SecurityMode, bind};
use plimsoll_wire::catalogue::{Frame, Reply, Request, Status};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::*;
use crate::http::directory;
use crate::tls::{pki, tls};

pub const ENTRIES: u64 = 250;
pub const OK: (Outcome, &str) = (Outcome::Ok, "");

/// Plimsoll's catalogue with a data set. It ends when it is dropped.
pub struct Catalogue {
    port: u16,
    file: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Catalogue {
    pub fn start(name: &str, change: impl FnOnce(&mut CatalogueConfig)) -> Self {
        let file = directory(name).join("catalogue.db");
        let set = DataSet::Catalogue(data::CatalogueConfig {
            entries: ENTRIES,
            directory: 100,
            replicas: 2,
            seed: 3,
            owner: "/O=Plimsoll/CN=owner".into(),
        });
        data::write(&DataConfig {
            database: file.clone(),
            tables: vec![set],
        })
        .unwrap();
        let mut config = CatalogueConfig::new(&file);
        change(&mut config);
        let (stop, stopped) = oneshot::channel::<()>();
        let (told, port) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
                told.send(listener.local_addr().unwrap().port()).unwrap();
                serve(listener, config, async { stopped.await.unwrap_or(()) })
                    .await
                    .unwrap();
            });
        });
        Self {
            port: port.recv().unwrap(),
            file,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn query(&self, sql: &str) -> u64 {
        let connection = rusqlite::Connection::open(&self.file).unwrap();
        let count: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        count as u64
    }

    pub fn spec(&self, scheme: &str, settings: Value, requests: &[Value], transactions: u64) -> Value {
        let url = format!("{scheme}://127.0.0.1:{}", self.port);
        workload(&url, settings, requests, transactions)
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn workload(url: &str, settings: Value, requests: &[Value], transactions: u64) -> Value {
    let end = json!({"transactions": transactions});
    let mut whole = spec("catalogue", url, settings, requests[0].clone(), closed(1), end);
    let operations: Vec<Value> = requests
        .iter()
        .enumerate()
        .map(|(index, request)| json!({"name": format!("op-{index}"), "weight": 1.0, "request": request}))
        .collect();
    whole["workloads"][0]["operations"] = json!(operations);
    whole
}

pub fn settings(change: impl Fn(&mut Value)) -> Value {
    let mut settings = json!({
        "connection": "kept", "data": {"entries": ENTRIES, "directory": 100, "replicas": 2, "seed": 3},
        "keys": {"kind": "uniform"}, "round_trips": "one", "transactions": false,
        "subject": "/O=Lab/CN=tester", "verify": 1.0, "tls": null,
    });
    change(&mut settings);
    settings
}

pub fn request(operation: &str, bulk: u32) -> Value {
    json!({"operation": operation, "by": "name", "bulk": bulk, "page": 30})
}

pub fn by(by: &str, bulk: u32) -> Value {
    json!({"operation": "query", "by": by, "bulk": bulk, "page": 30})
}

pub fn every_operation() -> Vec<Value> {
    vec![
        by("name", 1),
        by("guid", 1),
        by("replica", 1),
        by("name", 20),
        request("insert", 1),
        request("insert", 20),
        request("list", 1),
        request("delete", 1),
        request("delete", 3),
        request("chmod", 2),
        request("forbidden", 1),
        by("link", 3),
        request("link", 2),
        request("set-acl", 2),
        request("get-acl", 1),
        request("forbidden-acl", 2),
    ]
}

#[test]
fn every_operation_is_verified_in_every_mode() {
    let service = Catalogue::start("catalogue-modes", |_| {});
    for (connection, round_trips, transactions) in [
        ("kept", "one", false),
        ("kept", "one", true),
        ("kept", "lfc", false),
        ("per-request", "one", false),
        ("per-request", "lfc", false),
    ] {
        let settings = settings(|settings| {
            settings["connection"] = json!(connection);
            settings["round_trips"] = json!(round_trips);
            settings["transactions"] = json!(transactions);
        });
        let ran = run(service.spec("catalogue", settings, &every_operation(), 96));
        let mode = (connection, round_trips, transactions);
        assert_eq!(ran.results(), vec![OK; 96], "{mode:?} {:?}", ran.notes);
        let items: BTreeSet<u64> = ran.transactions.iter().map(|t| t.items).collect();
        assert!(
            items.is_subset(&BTreeSet::from([1, 2, 3, 20, 50, 100])),
            "{items:?}"
        );
        let sessions: BTreeSet<u32> = ran.transactions.iter().map(|t| t.session).collect();
        let expected = u32::from(connection == "kept");
        assert_eq!(sessions, BTreeSet::from([expected]), "{mode:?}");
    }
    let data = "SELECT count(*) FROM Cns_file_metadata m JOIN Cns_file_metadata d ON m.parent_fileid = d.fileid \
                WHERE d.name LIKE 'd0%'";
    assert_eq!(service.query(data), ENTRIES, "the data set is not changed");
    let changed = "SELECT count(*) FROM Cns_file_metadata WHERE owner_uid = 101 AND acl IS NOT NULL";
    assert_eq!(service.query(changed), 0);
    for made in [
        "Cns_symlinks",
        "Cns_file_metadata WHERE acl LIKE 'A6%,C4%,D_101,E_0,F_0'",
    ] {
        assert!(
            service.query(&format!("SELECT count(*) FROM {made}")) > 0,
            "{made}"
        );
    }
    let private = "SELECT count(*) FROM Cns_file_metadata WHERE parent_fileid = 5";
    assert_eq!(service.query(private), 0);
}

#[test]
fn keys_can_be_popular() {
    let service = Catalogue::start("catalogue-keys", |_| {});
    for keys in [json!({"kind": "zipf", "s": 1.2}), json!({"kind": "single"})] {
        let settings = settings(|settings| settings["keys"] = keys.clone());
        let ran = run(service.spec("catalogue", settings, &[by("name", 50)], 5));
        assert_eq!(ran.results(), vec![OK; 5]);
        assert!(
            ran.transactions
                .iter()
                .all(|t| t.payload > 0 && t.received > t.payload)
        );
    }
}

#[test]
fn a_client_certificate_is_required_and_identifies_the_tester() {
    let pki = pki("catalogue-tls", true);
    let file = |name: &str| Some(pki.directory.join(name));
    let service = Catalogue::start("catalogue-tls-data", |config| {
        config.security = SecurityMode::Tls;
        (config.cert_file, config.key_file) = (file("server.pem"), file("server.key"));
        config.ca_file = file("cas/0123abcd.0");
    });
    let with = |connection: &str| {
        settings(|settings| {
            settings["connection"] = json!(connection);
            settings["tls"] = tls(&pki.directory, |tls| {
                tls["cert"] = json!(pki.directory.join("client.pem"));
                tls["key"] = json!(pki.directory.join("client.key"));
            });
        })
    };
    for (connection, handshakes) in [("kept", 1), ("per-request", 12)] {
        let requests = [by("name", 1), request("insert", 1)];
        let ran = run(service.spec("catalogues", with(connection), &requests, 12));
        assert_eq!(ran.results(), vec![OK; 12], "{:?}", ran.notes);
        assert_eq!(ran.metric("tls_handshake_s").len(), handshakes, "{connection}");
    }
    // The subject of the session does not count: that of the certificate does.
    let users = "SELECT count(*) FROM Cns_userinfo WHERE username = '/CN=rcgen self signed cert'";
    assert_eq!(service.query(users), 1);
    let stated = "SELECT count(*) FROM Cns_userinfo WHERE username = '/O=Lab/CN=tester'";
    assert_eq!(service.query(stated), 0);

    let without = settings(|settings| settings["tls"] = tls(&pki.directory, |_| {}));
    let message = refused(service.spec("catalogues", without, &[by("name", 1)], 1));
    assert!(message.contains("client certificate"), "{message}");
}

/// A file with a proxy, its key and the certificate of its issuer, as `grid-proxy-init` writes it.
fn proxy_file(directory: &Path) -> PathBuf {
    let file = |name: &str| directory.join(name);
    let issuer = CertificateDer::from_pem_file(file("client.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("client.key")).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let information = ProxyInformation {
        path_length: Some(0),
        language: Language::Limited,
    };
    let proxy = Delegator::new(vec![issuer], key)
        .unwrap()
        .delegate(7, information, UnixTime::now())
        .unwrap();
    let text = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n{}{}",
        STANDARD.encode(&proxy[0]),
        std::fs::read_to_string(file("client.key")).unwrap(),
        std::fs::read_to_string(file("client.pem")).unwrap(),
    );
    std::fs::write(file("proxy"), text).unwrap();
    file("proxy")
}

#[test]
fn a_proxy_identifies_the_end_entity() {
    let pki = pki("catalogue-proxy", true);
    let file = |name: &str| pki.directory.join(name);
    let service = Catalogue::start("catalogue-proxy-data", |config| {
        config.security = SecurityMode::Tls;
        (config.cert_file, config.key_file) = (Some(file("server.pem")), Some(file("server.key")));
        config.ca_file = Some(file("cas/0123abcd.0"));
    });
    let with = |change: &dyn Fn(&mut Value)| {
        settings(|settings| {
            settings["tls"] = tls(&pki.directory, |tls| {
                (tls["cert"], tls["key"]) = (json!(file("client.pem")), json!(file("client.key")));
                change(tls);
            });
        })
    };
    let ended = proxy_file(&pki.directory);
    let changes: [&dyn Fn(&mut Value); 3] = [
        &|tls| tls["proxy"] = json!("run"),
        &|tls| tls["proxy"] = json!("tester"),
        &|tls| (tls["cert"], tls["key"]) = (json!(ended), Value::Null),
    ];
    for change in changes {
        let mut spec = service.spec("catalogues", with(change), &[request("insert", 1)], 6);
        spec["workloads"][0]["load"] = closed(2);
        let ran = run(spec);
        assert_eq!(ran.results(), vec![OK; 6], "{:?}", ran.notes);
    }
    let users = "SELECT count(*) FROM Cns_userinfo WHERE username LIKE '/CN=rcgen self signed cert%'";
    assert_eq!(service.query(users), 1, "testers with proxies are their issuer");

    // The path length of the proxy in the file is 0.
    let below = with(&|tls| {
        (tls["cert"], tls["key"]) = (json!(ended), Value::Null);
        tls["proxy"] = json!("run");
    });
    let ran = run(service.spec("catalogues", below, &[by("name", 1)], 1));
    let (outcome, code) = ran.results()[0];
    assert_ne!(outcome, Outcome::Ok);
    assert!(code.contains("CertificateUnknown"), "{code}");
    let other_key = with(&|tls| (tls["cert"], tls["key"]) = (json!(ended), json!(file("server.key"))));
    let message = refused(service.spec("catalogues", other_key, &[by("name", 1)], 1));
    assert!(message.contains("tls.cert and tls.key"), "{message}");
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

/// Answers every request with the reply of `answer`; none closes the connection.
fn answering(answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Server {
    Server::start(move |mut stream| {
        let mut input = Vec::new();
        let mut piece = [0; 4096];
        loop {
            while let Some(frame) = Frame::parse(&input).unwrap() {
                let (request, length) = (Request::decode(frame).unwrap(), frame.length());
                input.drain(..length);
                let Some(reply) = answer(&request) else { return };
                let mut bytes = Vec::new();
                reply.encode(&mut bytes);
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => return,
                Ok(count) => input.extend_from_slice(&piece[..count]),
            }
        }
    })
}

fn result(status: Status) -> Reply {
    Reply::Result(status, "a reason".into())
}

fn is_start(request: &Request) -> bool {
    matches!(request, Request::StartSession { .. })
}

#[test]
fn an_answer_that_is_not_correct_is_wrong_or_an_error() {
    for (work, reply, expected) in [
        (
            by("name", 1),
            Reply::Entries(vec![None]),
            (Outcome::Wrong, "missing entry"),
        ),
        (
            by("name", 1),
            Reply::Replicas(vec![]),
            (Outcome::Error, "bad response"),
        ),
        (by("name", 1), result(Status::BUSY), (Outcome::Error, "busy")),
        (
            by("name", 1),
            result(Status(77)),
            (Outcome::Error, "unknown result"),
        ),
        (
            request("insert", 1),
            Reply::Results(vec![Status::EXISTS]),
            (Outcome::Error, "entry exists"),
        ),
        (
            request("forbidden", 1),
            Reply::Results(vec![Status::OK]),
            (Outcome::Wrong, "not refused"),
        ),
        (
            request("list", 1),
            Reply::Directory {
                entries: vec![],
                is_last: true,
            },
            (Outcome::Wrong, "unexpected entries"),
        ),
        (
            request("forbidden-acl", 1),
            result(Status::OK),
            (Outcome::Wrong, "not refused"),
        ),
        (
            request("get-acl", 1),
            Reply::Acl {
                owner: String::new(),
                group: String::new(),
                acl: "user::rwx\ngroup::rwx\nother::rwx".into(),
            },
            (Outcome::Wrong, "wrong ACL"),
        ),
        (
            request("link", 1),
            result(Status::EXISTS),
            (Outcome::Error, "entry exists"),
        ),
    ] {
        let server = answering(move |request| {
            Some(if is_start(request) {
                result(Status::OK)
            } else {
                reply.clone()
            })
        });
        let url = server.url("catalogue");
        let ran = run(workload(&url, settings(|_| {}), std::slice::from_ref(&work), 2));
        assert_eq!(ran.results(), vec![expected; 2], "{work}");
        assert!(ran.transactions.iter().all(|t| t.items == 0));
    }
    let server = answering(|_| Some(result(Status::FORBIDDEN)));
    let url = server.url("catalogue");
    let ran = run(workload(&url, settings(|_| {}), &[by("name", 1)], 1));
    assert_eq!(ran.results(), [(Outcome::Refused, "permission denied")]);
}

#[test]
fn an_insertion_that_was_not_carried_out_is_wrong() {
    let server = answering(|request| {
        Some(match request {
            Request::Register(_) => Reply::Results(vec![Status::OK]),
            Request::Lookup(_) => Reply::Entries(vec![None]),
            _ => result(Status::OK),
        })
    });
    let url = server.url("catalogue");
    let ran = run(workload(&url, settings(|_| {}), &[request("insert", 1)], 2));
    assert_eq!(ran.results(), vec![(Outcome::Wrong, "missing entry"); 2]);
    let trusting = settings(|settings| settings["verify"] = json!(0.0));
    let ran = run(workload(&url, trusting, &[request("insert", 1)], 2));
    assert_eq!(ran.results(), vec![OK; 2]);
}

#[test]
fn an_acl_or_a_link_that_was_not_made_is_wrong() {
    let server = answering(|request| {
        Some(match request {
            Request::Register(_) => Reply::Results(vec![Status::OK]),
            Request::Lookup(_) => Reply::Entries(vec![None]),
            Request::GetAcl { .. } => Reply::Acl {
                owner: "a".into(),
                group: "b".into(),
                acl: "user::rw-\ngroup::r--\nother::r--".into(),
            },
            _ => result(Status::OK),
        })
    });
    let url = server.url("catalogue");
    for (operation, code) in [("set-acl", "wrong ACL"), ("link", "missing entry")] {
        let ran = run(workload(&url, settings(|_| {}), &[request(operation, 1)], 2));
        assert_eq!(ran.results(), vec![(Outcome::Wrong, code); 2]);
    }
}

#[test]
fn a_peer_that_closes_or_sends_garbage_is_an_error() {
    let server = answering(|request| is_start(request).then(|| result(Status::OK)));
    let url = server.url("catalogue");
    let ran = run(workload(&url, settings(|_| {}), &[by("name", 1)], 2));
    assert_eq!(ran.results(), vec![(Outcome::Error, "closed early"); 2]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);

    let server = Server::start(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let ran = run(workload(
        &server.url("catalogue"),
        settings(|_| {}),
        &[by("name", 1)],
        1,
    ));
    assert_eq!(ran.results(), [(Outcome::Error, "bad response")]);

    let silent = Server::start(|stream| {
        let _ = (&stream).read(&mut [0; 4096]);
        std::thread::sleep(std::time::Duration::from_secs(2));
    });
    let mut wanted = workload(&silent.url("catalogue"), settings(|_| {}), &[by("name", 1)], 1);
    wanted["workloads"][0]["timeout_ns"] = json!(200 * MS);
    let ran = run(wanted);
    assert_eq!(ran.results(), [(Outcome::Timeout, "timeout first byte")]);
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let url = "catalogue://127.0.0.1:1";
    let message = |settings: Value, work: Value| refused(workload(url, settings, &[work], 1));
    let per_request = settings(|settings| {
        settings["connection"] = json!("per-request");
        settings["transactions"] = json!(true);
    });
    assert!(message(per_request, by("name", 1)).contains("connection: kept"));
    assert!(message(settings(|_| {}), by("name", 1001)).contains("1 to 1,000"));
    assert!(message(settings(|_| {}), request("get-acl", 2)).contains("get-acl"));
    let linked = json!({"operation": "delete", "by": "link", "bulk": 1, "page": 30});
    assert!(message(settings(|_| {}), linked).contains("by: link"));
    let empty = settings(|settings| settings["data"]["entries"] = json!(0));
    assert!(message(empty, by("name", 1)).contains("data.entries"));
    let other = workload("http://127.0.0.1:1", settings(|_| {}), &[by("name", 1)], 1);
    assert!(refused(other).contains("catalogue://HOST:PORT"));
}
