//! The driver `catalogue` with a server that answers as Rucio does, and with one that answers
//! something else. `tests/real/test_rucio.py` uses Rucio itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_model::Outcome;
use plimsoll_wire::catalogue::DataSet;
use serde_json::{Value, json};

use crate::catalogue::{ENTRIES, OK, by, request, settings as common, workload};
use crate::harness::*;

/// Files with their check sums and storage elements.
type Files = BTreeMap<String, (String, Vec<&'static str>)>;

fn settings(change: impl Fn(&mut Value)) -> Value {
    common(|settings| {
        settings["rucio"] =
            json!({"account": "root", "user": "me", "password": "secret", "scope": "plimsoll"});
        change(settings);
    })
}

fn data() -> Files {
    let data = DataSet {
        entries: ENTRIES,
        directory: 100,
        replicas: 2,
        seed: 3,
    };
    let file = |number| {
        let guid = data.guid(number);
        let name = data.path(number, &guid)[1..].to_owned();
        (name, (guid[..8].to_owned(), vec!["SE01", "SE02"]))
    };
    (0..ENTRIES).map(file).collect()
}

struct Rucio {
    server: Server,
    logins: Arc<AtomicUsize>,
    files: Arc<Mutex<Files>>,
}

/// `forgets`: it adds nothing and reports success.
fn rucio(forgets: bool) -> Rucio {
    let logins = Arc::new(AtomicUsize::new(0));
    let files = Arc::new(Mutex::new(data()));
    let (count, shared) = (Arc::clone(&logins), Arc::clone(&files));
    let server = Server::start(move |mut stream| {
        while let Some(text) = read_request(&mut stream) {
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let response = if head.starts_with("GET /auth/userpass ") {
                assert!(head.contains("X-Rucio-Account: root\r\nX-Rucio-Username: me\r\n"));
                count.fetch_add(1, Ordering::SeqCst);
                "HTTP/1.1 200 OK\r\nX-Rucio-Auth-Token: t-1\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else {
                assert!(head.contains("\r\nX-Rucio-Auth-Token: t-1"), "{head}");
                answer(head, body, forgets, &mut shared.lock().unwrap())
            };
            if stream.write_all(response.as_bytes()).is_err() || head.contains("Connection: close") {
                return;
            }
        }
    });
    Rucio {
        server,
        logins,
        files,
    }
}

fn answer(head: &str, body: &str, forgets: bool, files: &mut Files) -> String {
    let whole = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let list = |key: &str| body[key].as_array().cloned().unwrap_or_default();
    let name = |file: &Value| file["name"].as_str().unwrap().to_owned();
    let (path, _) = head.split_once(" HTTP/1.1").unwrap();
    match path {
        "POST /replicas" => {
            assert_eq!(body["rse"], "SE01");
            for file in list("files").iter().filter(|_| !forgets) {
                let sum = file["adler32"].as_str().unwrap().to_owned();
                files.insert(name(file), (sum, vec!["SE01"]));
            }
            whole("201 Created", "Created")
        }
        "DELETE /replicas" => {
            let all = list("files");
            if all.iter().any(|file| files.remove(&name(file)).is_none()) {
                return whole(
                    "404 Not Found",
                    r#"{"ExceptionClass": "ReplicaNotFound", "ExceptionMessage": "none"}"#,
                );
            }
            whole("200 OK", "")
        }
        "POST /replicas/list" => {
            assert_eq!(body["sort"], "random");
            let names: BTreeSet<String> = list("dids").iter().map(name).collect();
            let mut text = String::new();
            for name in names {
                if let Some((sum, elements)) = files.get(&name) {
                    let rses: BTreeMap<_, _> =
                        elements.iter().map(|element| (element, ["davs://x"])).collect();
                    let line = json!({"scope": "plimsoll", "name": name, "adler32": sum, "rses": rses});
                    text.push_str(&line.to_string());
                    text.push('\n');
                }
            }
            if text.is_empty() {
                return whole("200 OK", "");
            }
            let length = text.len();
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{text}\r\n0\r\n\r\n")
        }
        _ => {
            let directory = path
                .strip_prefix("GET /dids/plimsoll/")
                .unwrap()
                .strip_suffix("dids")
                .unwrap();
            let inside = files.keys().filter(|name| name.starts_with(directory));
            let lines: Vec<String> = inside.map(|name| json!({"name": name}).to_string()).collect();
            whole("200 OK", &lines.join("\n"))
        }
    }
}

fn operations() -> Vec<Value> {
    vec![
        by("name", 1),
        by("name", 300),
        request("insert", 1),
        request("insert", 20),
        request("list", 1),
        request("delete", 3),
    ]
}

#[test]
fn every_operation_is_verified() {
    for connection in ["kept", "per-request"] {
        let rucio = rucio(false);
        let settings = settings(|settings| settings["connection"] = json!(connection));
        let url = rucio.server.url("rucio");
        let ran = run(workload(&url, settings, &operations(), 36));
        assert_eq!(ran.results(), vec![OK; 36], "{connection} {:?}", ran.notes);
        let items: BTreeSet<u64> = ran.transactions.iter().map(|t| t.items).collect();
        assert!(
            items.is_subset(&BTreeSet::from([1, 3, 20, 50, 100, 300])),
            "{items:?}"
        );
        let trips = ran.metric("catalogue_round_trips");
        if connection == "kept" {
            assert_eq!(
                rucio.logins.load(Ordering::SeqCst),
                1,
                "one token for the session"
            );
            assert_eq!(rucio.server.connections.load(Ordering::SeqCst), 1);
            assert!(trips.is_empty());
        } else {
            // One before the first transaction, and one in each.
            assert_eq!(rucio.logins.load(Ordering::SeqCst), 37);
            assert_eq!(trips.len(), 36);
        }
        let files = rucio.files.lock().unwrap();
        let of_data = files.keys().filter(|name| name.starts_with("grid/data/"));
        assert_eq!(of_data.count() as u64, ENTRIES, "the data set is not changed");
    }
}

#[test]
fn a_file_that_was_not_added_is_wrong() {
    let rucio = rucio(true);
    let url = rucio.server.url("rucio");
    let ran = run(workload(&url, settings(|_| {}), &[request("insert", 2)], 2));
    assert_eq!(ran.results(), vec![(Outcome::Wrong, "missing entry"); 2]);
}

#[test]
fn an_answer_that_is_not_one_of_rucio_is_an_error() {
    const TOKEN: &str = "HTTP/1.1 200 OK\r\nX-Rucio-Auth-Token: t\r\nContent-Length: 0\r\n\r\n";
    let denied = r#"{"ExceptionClass": "AccessDenied", "ExceptionMessage": "no"}"#;
    let error = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (login, response, expected) in [
        (
            TOKEN.to_owned(),
            error("500 Oops", "<html>"),
            (Outcome::Error, "http 500"),
        ),
        (
            TOKEN.to_owned(),
            error("401 No", "{}"),
            (Outcome::Error, "http 401"),
        ),
        (
            TOKEN.to_owned(),
            error("401 No", denied),
            (Outcome::Error, "permission denied"),
        ),
        (
            TOKEN.to_owned(),
            error("200 OK", "{\"a\": 1}\n"),
            (Outcome::Error, "bad response"),
        ),
        (
            TOKEN.to_owned(),
            error("200 OK", ""),
            (Outcome::Wrong, "missing entry"),
        ),
        (TOKEN.to_owned(), String::new(), (Outcome::Error, "closed early")),
        (
            error("401 No", denied),
            String::new(),
            (Outcome::Refused, "permission denied"),
        ),
        (
            error("200 OK", ""),
            String::new(),
            (Outcome::Error, "bad response"),
        ),
    ] {
        let server = Server::start(move |mut stream| {
            while let Some(text) = read_request(&mut stream) {
                let is_login = text.starts_with("GET /auth/userpass ");
                let response = if is_login { &login } else { &response };
                if response.is_empty() || stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let ran = run(workload(
            &server.url("rucio"),
            settings(|_| {}),
            &[by("name", 1)],
            2,
        ));
        assert_eq!(ran.results(), vec![expected; 2], "{:?}", ran.notes);
        assert!(ran.transactions.iter().all(|t| t.items == 0));
    }
}

#[test]
fn what_rucio_does_not_have_is_refused() {
    let refuse = |request: Value, change: &dyn Fn(&mut Value)| {
        refused(workload("rucio://127.0.0.1:1", settings(change), &[request], 1))
    };
    for (request, expected) in [
        (by("guid", 1), "by: guid"),
        (by("replica", 1), "by: replica"),
        (request("chmod", 1), "operation: chmod"),
        (request("forbidden", 1), "operation: forbidden"),
    ] {
        let message = refuse(request, &|_| {});
        assert!(message.contains(expected), "{message}");
    }
    let query = || by("name", 1);
    let message = refuse(query(), &|settings| settings["transactions"] = json!(true));
    assert!(message.contains("stateful"), "{message}");
    for account in [
        json!(null),
        json!({"account": "a\r\nb", "user": "", "password": "", "scope": "s"}),
    ] {
        let message = refuse(query(), &|settings| settings["rucio"] = account.clone());
        assert!(message.contains("rucio: "), "{message}");
    }
}
