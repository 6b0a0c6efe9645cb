//! The http driver with small servers, with correct and with invalid responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_model::{Cache, Outcome};
use serde_json::{Value, json};

use crate::harness::*;
use crate::tls::{pki, serve_tls, tls};

pub fn settings(connection: &str) -> Value {
    json!({"connection": connection, "tls": null, "token_file": null, "proxies": [], "keep_body": false})
}

pub fn get(path: &str) -> Value {
    json!({"method": "GET", "path": path, "headers": [], "body": null, "body_file": null,
        "expect": {"status": [], "contains": null, "regex": null}})
}

fn http(server: &Server, transactions: u64) -> Value {
    let end = json!({"transactions": transactions});
    spec(
        "http",
        &server.url("http"),
        settings("kept"),
        get("/x"),
        closed(1),
        end,
    )
}

fn request(spec: &mut Value) -> &mut Value {
    &mut spec["workloads"][0]["operations"][0]["request"]
}

/// A server that responds to every request with the same bytes, in pieces, and closes the
/// connection if `close` is set.
pub fn canned(answer: impl Into<Vec<u8>>, piece: usize, close: bool) -> Server {
    let answer = answer.into();
    Server::start(move |mut stream| {
        while read_request(&mut stream).is_some() {
            for piece in answer.chunks(piece) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                if answer.len() > piece.len() {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
            if close {
                return;
            }
        }
    })
}

#[test]
fn bodies_of_all_framings_are_counted_in_pieces_of_any_size() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n6;x=y\r\npedia!\r\n0\r\nT: 1\r\n\r\n";
    let interim = "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for (answer, close, payload, sessions) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 5, 1),
        (chunked, false, 10, 1),
        (interim, false, 3, 1),
        ("HTTP/1.1 204 No\r\n\r\n", false, 0, 1),
        ("HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n", false, 0, 1),
        ("HTTP/1.1 200 OK\r\n\r\nto the end", true, 10, 3),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
            true,
            2,
            3,
        ),
    ] {
        for piece in [1, 7, 1_000] {
            let server = canned(answer, piece, close);
            let ran = run(http(&server, 3));
            assert_eq!(
                ran.counters.succeeded,
                3,
                "{answer:?} by {piece}: {:?}",
                ran.results()
            );
            for t in &ran.transactions {
                assert_eq!(
                    (t.payload, t.received, t.items),
                    (payload, answer.len() as u64, 1)
                );
                assert!(t.first_byte >= t.start && t.first_byte <= t.end);
            }
            assert_eq!(ran.transactions[2].session, sessions);
            assert_eq!(server.connections.load(Ordering::SeqCst), sessions as usize);
        }
    }
}

#[test]
fn large_bodies_and_heads_just_below_the_limit_are_read() {
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
        3_000_000,
        "z".repeat(3_000_000)
    );
    let server = canned(large.as_bytes(), 100_000, false);
    assert_eq!(run(http(&server, 2)).counters.payload, 6_000_000);
    let head = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
        "y".repeat(60_000)
    );
    assert_eq!(
        run(http(&canned(head, 1_000_000, false), 2)).counters.succeeded,
        2
    );
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(70_000));
    let ran = run(http(&canned(head, 1_000_000, false), 2));
    assert_eq!(ran.results(), [(Outcome::Error, "bad response"); 2]);
}

#[test]
fn methods_can_be_those_of_a_log() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (server, _) = http_server(move |request| {
        log.lock()
            .unwrap()
            .push(request.split(" HTTP").next().unwrap_or_default().to_owned());
        let body = if request.starts_with("HEAD") { "" } else { "ok" };
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").into_bytes())
    });
    let mut spec = http(&server, 5);
    spec["workloads"][0]["values"] = json!({
        "m": {"kind": "recorded", "items": ["GET", "HEAD", "G E\r\nT"], "order": [0, 1, 1, 0, 2]},
        "p": {"kind": "recorded", "items": ["/a", "/b"], "order": [0, 1, 0, 1, 0]},
    });
    request(&mut spec)["method"] = json!("{m}");
    request(&mut spec)["path"] = json!("{p}");
    assert_eq!(run(spec).results(), [(Outcome::Ok, "200"); 5]);
    let expected = ["GET /a", "HEAD /b", "HEAD /a", "GET /b", "GET /a"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn requests_contain_the_settings() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (server, _) = http_server(move |request| {
        log.lock().unwrap().push(request.to_owned());
        let body = if request.starts_with("HEAD") { "" } else { "ok" };
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").into_bytes())
    });
    let host = format!("127.0.0.1:{}", server.port);
    let common = format!("Host: {host}\r\nUser-Agent: plimsoll/0.1.0\r\nAccept: */*\r\n");
    for (base, method, path, headers, body, expected) in [
        (
            "",
            "GET",
            "",
            json!([]),
            Value::Null,
            format!("GET / HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "/b/",
            "HEAD",
            "/p",
            json!([]),
            Value::Null,
            format!("HEAD /b/p HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "/b",
            "GET",
            "?q=a b{x}",
            json!([]),
            Value::Null,
            format!("GET /b?q=a%20b{{x}} HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "/file.html",
            "GET",
            "/",
            json!([]),
            Value::Null,
            format!("GET /file.html HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "/b/?q=1",
            "GET",
            "/",
            json!([]),
            Value::Null,
            format!("GET /b/?q=1 HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "/b/",
            "GET",
            "/",
            json!([]),
            Value::Null,
            format!("GET /b/ HTTP/1.1\r\n{common}\r\n"),
        ),
        (
            "",
            "POST",
            "/{tester}/{n}/{id}",
            json!([["X-Id", "{id}"], ["accept", "text/plain"]]),
            json!("n={n}"),
            format!(
                "POST /0/0/42 HTTP/1.1\r\nHost: {host}\r\nUser-Agent: plimsoll/0.1.0\r\nX-Id: 42\r\naccept: \
                 text/plain\r\nContent-Length: 3\r\n\r\nn=0"
            ),
        ),
    ] {
        let mut spec = http(&server, 1);
        spec["workloads"][0]["endpoints"][0]["url"] = json!(format!("http://{host}{base}"));
        spec["workloads"][0]["values"] = json!({"id": {"kind": "uniform", "from": 42, "to": 42}});
        let request = request(&mut spec);
        request["method"] = json!(method);
        request["path"] = json!(path);
        request["headers"] = headers;
        request["body"] = body;
        let ran = run(spec);
        assert_eq!(ran.counters.succeeded, 1, "{:?}", ran.results());
        let sent = seen.lock().unwrap().pop().unwrap();
        assert_eq!(sent, expected);
        assert_eq!(ran.transactions[0].sent, sent.len() as u64);
    }
}

#[test]
fn an_unexpected_status_or_body_is_wrong() {
    let server = canned("HTTP/1.1 203 Odd\r\nContent-Length: 5\r\n\r\nhello", 1_000, false);
    for (expect, outcome, code) in [
        (
            json!({"status": [], "contains": null, "regex": null}),
            Outcome::Ok,
            "203",
        ),
        (
            json!({"status": [200], "contains": null, "regex": null}),
            Outcome::Wrong,
            "203",
        ),
        (
            json!({"status": [203], "contains": "ell", "regex": "^h.*o$"}),
            Outcome::Ok,
            "203",
        ),
        (
            json!({"status": [], "contains": "bye", "regex": null}),
            Outcome::Wrong,
            "unexpected body",
        ),
        (
            json!({"status": [], "contains": null, "regex": "^x"}),
            Outcome::Wrong,
            "unexpected body",
        ),
    ] {
        let mut spec = http(&server, 2);
        request(&mut spec)["expect"] = expect.clone();
        assert_eq!(run(spec).results(), [(outcome, code); 2], "{expect}");
    }
}

#[test]
fn each_failure_of_a_server_has_its_code() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for (answer, close, outcome, code) in [
        (
            &b"SSH-2.0-OpenSSH_9.2\r\n\0\0\0"[..],
            false,
            Outcome::Error,
            "bad response",
        ),
        (b"", true, Outcome::Error, "closed early"),
        (b"HTTP/1.1 200 OK\r\nConte", true, Outcome::Error, "closed early"),
        (length.as_bytes(), true, Outcome::Error, "closed early"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            false,
            Outcome::Error,
            "bad response",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            true,
            Outcome::Error,
            "closed early",
        ),
        (
            b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            false,
            Outcome::Wrong,
            "500",
        ),
    ] {
        let server = canned(answer, 1_000, close);
        let ran = run(http(&server, 2));
        assert_eq!(
            ran.results(),
            [(outcome, code); 2],
            "{:?}",
            String::from_utf8_lossy(answer)
        );
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = Server {
        port,
        connections: Arc::default(),
    };
    assert_eq!(
        run(http(&nobody, 2)).results(),
        [(Outcome::Refused, "refused"); 2]
    );
    let resetting = Server::start(|mut stream| {
        // A close with unread bytes is a reset.
        let _ = stream.read(&mut [0; 1]);
    });
    assert_eq!(run(http(&resetting, 2)).results(), [(Outcome::Error, "reset"); 2]);
}

/// A server that responds to the first request of each connection, reads the next one, and closes
/// the connection. It counts requests.
fn forgetful() -> (Server, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = Server::start(move |mut stream| {
        if read_request(&mut stream).is_some() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            if read_request(&mut stream).is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (server, count)
}

#[test]
fn a_request_that_is_not_idempotent_is_sent_once() {
    let lost = (Outcome::Error, "kept connection closed");
    let ok = (Outcome::Ok, "200");
    for (method, asked, expected, received) in [
        ("POST", false, [ok, lost, ok, lost], 4),
        ("PATCH", false, [ok, lost, ok, lost], 4),
        ("POST", true, [ok; 4], 7),
        ("PUT", false, [ok; 4], 7),
        ("DELETE", false, [ok; 4], 7),
        ("OPTIONS", false, [ok; 4], 7),
        ("HEAD", false, [ok; 4], 7),
    ] {
        let (server, count) = forgetful();
        let mut spec = http(&server, 4);
        request(&mut spec)["method"] = json!(method);
        if asked {
            request(&mut spec)["resend_non_idempotent"] = json!(true);
        }
        let ran = run(spec);
        assert_eq!(ran.results(), expected, "{method} {asked}");
        assert_eq!(count.load(Ordering::SeqCst), received, "{method} {asked}");
        assert!(
            ran.transactions
                .iter()
                .all(|t| t.outcome == Outcome::Ok || t.attempt == 0)
        );
    }
}

#[test]
fn a_stale_connection_is_replaced_once_and_not_reused_after_a_timeout() {
    let server = Server::start(|mut stream| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            let _ = read_request(&mut stream);
        }
    });
    let ran = run(http(&server, 4));
    assert_eq!(ran.counters.succeeded, 4);
    assert_eq!(
        ran.transactions.iter().map(|t| t.attempt).collect::<Vec<_>>(),
        [0, 1, 1, 1]
    );
    assert_eq!(
        ran.transactions.iter().map(|t| t.session).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    let slow = canned(
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nxxxxxxxxxxxxxxx",
        1,
        false,
    );
    let mut spec = http(&slow, 2);
    spec["workloads"][0]["timeout_ns"] = json!(60 * MS);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Timeout, "timeout body"); 2]);
    assert_eq!(ran.transactions[1].session, 2);
}

#[test]
fn counts_equal_those_of_the_server() {
    let (server, served) = http_server(|_| {
        Some(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Cache: HIT from x\r\n\r\nok".to_vec())
    });
    for connection in ["kept", "per-request"] {
        served.store(0, Ordering::SeqCst);
        let before = server.connections.load(Ordering::SeqCst);
        let mut spec = http(&server, 1);
        spec["workloads"][0]["settings"] = settings(connection);
        spec["workloads"][0]["load"] = closed(20);
        spec["end"] = json!({"duration_ns": 300 * MS, "each_tester": null, "transactions": null});
        let ran = run(spec);
        assert!(ran.counters.started > 100);
        assert_eq!(ran.counters.succeeded, ran.counters.started);
        assert_eq!(served.load(Ordering::SeqCst) as u64, ran.counters.started);
        assert!(ran.transactions.iter().all(|t| t.cache == Cache::Hit));
        let connections = (server.connections.load(Ordering::SeqCst) - before) as u64;
        let new = ran.transactions.iter().filter(|t| t.connected >= 0).count() as u64;
        assert_eq!(connections, new);
        assert_eq!(
            new,
            if connection == "kept" {
                20
            } else {
                ran.counters.started
            }
        );
    }
}

/// A new directory for one test.
pub fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("plimsoll-drive-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_token_file_is_read_again_when_it_changes() {
    let directory = directory("token");
    let file = directory.join("token");
    std::fs::write(&file, "first\n").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let written = file.clone();
    let (server, _) = http_server(move |request| {
        let line = request
            .lines()
            .find(|line| line.starts_with("Authorization"))
            .unwrap_or("none")
            .to_owned();
        log.lock().unwrap().push(line);
        // A different time stamp, even on file systems with a resolution of one second.
        std::fs::write(&written, "second").unwrap();
        std::fs::File::open(&written)
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        Some(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let mut spec = http(&server, 2);
    spec["workloads"][0]["settings"]["token_file"] = json!(file);
    spec["workloads"][0]["load"] =
        json!({"kind": "closed", "testers": 1, "think": {"kind": "fixed", "ns": 1_100 * MS}});
    run(spec);
    assert_eq!(
        *seen.lock().unwrap(),
        ["Authorization: Bearer first", "Authorization: Bearer second"]
    );
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn proxies_receive_absolute_urls_or_tunnel_requests() {
    let pki = pki("proxy", false);
    let served = Arc::new(AtomicUsize::new(0));
    let (config, count) = (Arc::clone(&pki.server), Arc::clone(&served));
    let origin = Server::start(move |stream| serve_tls(&config, stream, &count));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let target = origin.port;
    let proxy = Server::start(move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            log.lock()
                .unwrap()
                .push(request.lines().next().unwrap().to_owned());
            if !request.starts_with("CONNECT") {
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Cache: MISS from p\r\n\r\n");
                continue;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
            let mut up = TcpStream::connect(("127.0.0.1", target)).unwrap();
            let (mut from, mut to) = (stream.try_clone().unwrap(), up.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let _ = std::io::copy(&mut up, &mut stream);
            return;
        }
    });
    let with = |url: &str| {
        let mut settings = settings("kept");
        settings["proxies"] = json!([proxy.url("http")]);
        settings["tls"] = tls(&pki.directory, |_| {});
        run(spec(
            "http",
            url,
            settings,
            get("/p?q"),
            closed(1),
            json!({"transactions": 2}),
        ))
    };
    // The proxy looks up the names, not the tester.
    let ran = with("http://origin.invalid:81/base");
    assert_eq!(ran.counters.succeeded, 2, "{:?}", ran.results());
    assert!(ran.transactions.iter().all(|t| t.cache == Cache::Miss));
    let ran = with(&origin.url("https"));
    assert_eq!(
        (ran.counters.succeeded, served.load(Ordering::SeqCst)),
        (2, 2),
        "{:?}",
        ran.results()
    );
    let whole = "GET http://origin.invalid:81/base/p?q HTTP/1.1".to_owned();
    let connect = format!("CONNECT 127.0.0.1:{target} HTTP/1.1");
    assert_eq!(*seen.lock().unwrap(), [whole.clone(), whole, connect]);
    std::fs::remove_dir_all(&pki.directory).unwrap();
}
