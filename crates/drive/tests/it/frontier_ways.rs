//! Failover of `frontier` with servers and proxies that refuse connections, do not respond, or send
//! invalid responses.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_model::Outcome;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::frontier::{ALL, ALL_BYTES, EXAMPLE, Gateway, frontier, http, request};
use crate::harness::*;

/// A port without a listener.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Listens, but accepts no connection: its queue of one is full.
struct FullListener {
    _listener: Socket,
    _waiting: Vec<Socket>,
    url: String,
}

impl FullListener {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = (0..3)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&address);
                socket
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20));
        let url = format!("http://{}", address.as_socket().unwrap());
        Self {
            _listener: listener,
            _waiting: waiting,
            url,
        }
    }
}

/// Reads requests and does not respond.
fn hanging() -> Server {
    Server::start(|mut stream| {
        let _ = read_request(&mut stream);
        std::thread::sleep(Duration::from_secs(10));
    })
}

/// A run of `each` transactions of one tester over these servers and proxies, with the client's
/// failover.
fn spec(servers: &[&str], proxies: &[&str], each: u32, change: Value) -> Value {
    let mut spec = frontier("http://x", request(ALL, 1), 1, each);
    let workload = &mut spec["workloads"][0];
    workload["endpoints"] = servers
        .iter()
        .enumerate()
        .map(|(number, url)| json!({"name": format!("server-{number}"), "url": url}))
        .collect();
    workload["settings"]["proxies"] = json!(proxies);
    workload["settings"]["failover"] = json!("client");
    for (key, value) in change.as_object().unwrap() {
        workload["settings"][key] = value.clone();
    }
    spec
}

/// Endpoint and attempt of every transaction.
fn endpoints(ran: &RunResult) -> Vec<(u16, u16)> {
    ran.transactions.iter().map(|t| (t.endpoint, t.attempt)).collect()
}

#[test]
fn after_a_refusal_the_next_proxy_is_used_and_the_first_is_not_tried_again() {
    // The gateway also accepts requests for a proxy, because their URL contains all parts.
    let (proxy, server) = (Gateway::start(), nobody());
    let ran = run(spec(&[&server], &[&nobody(), &proxy.url], 3, json!({})));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
    assert_eq!(endpoints(&ran), [(0, 1), (0, 0), (0, 0)]);
    assert_eq!((ran.metric("tries"), proxy.count()), (vec![2.0], 3));
    assert_eq!(ran.metric("direct"), [0.0; 0]);
    let note = "server-0 through proxy 1: refused";
    assert!(
        ran.notes.iter().any(|(_, text)| text.contains(note)),
        "{:?}",
        ran.notes
    );
}

#[test]
fn after_the_last_proxy_the_servers_are_tried_directly_unless_failover_to_server_is_false() {
    let server = Gateway::start();
    let dead = [nobody(), nobody()];
    let proxies = [dead[0].as_str(), dead[1].as_str()];
    let ran = run(spec(&[&nobody(), &server.url], &proxies, 2, json!({})));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    // Both proxies, the first server, the second; then that one at once.
    assert_eq!(endpoints(&ran), [(1, 3), (1, 0)]);
    assert_eq!(
        (ran.metric("tries"), ran.metric("direct")),
        (vec![4.0], vec![1.0; 2])
    );

    let ran = run(spec(
        &[&server.url],
        &proxies,
        2,
        json!({"failover_to_server": false}),
    ));
    assert_eq!(ran.results(), [(Outcome::Refused, "refused"); 2]);
    // No route remained: the second request begins with the first route.
    assert_eq!(endpoints(&ran), [(0, 1), (0, 1)]);
    assert_eq!(server.count(), 2);
}

#[test]
fn a_proxy_without_responses_causes_a_read_timeout_for_each_server() {
    let (proxy, server) = (hanging(), Gateway::start());
    let limits = json!({"read_timeout_ns": 500 * MS});
    let ran = run(spec(
        &[&server.url, &server.url],
        &[&proxy.url("http")],
        2,
        limits,
    ));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    assert_eq!(endpoints(&ran), [(0, 2), (0, 0)]);
    let took = ran.requests();
    assert!(took[1] >= SECOND, "{took:?}");
    assert!(ran.metric("failed_tries_s")[0] >= 1.0);
    let first = &ran.transactions[0];
    assert!(
        first.first_byte - first.start >= SECOND,
        "of the answer that counts"
    );
    assert_eq!((first.items, first.payload), (1_000, ALL_BYTES));
}

#[test]
fn a_host_that_accepts_no_connection_causes_a_connect_timeout() {
    let (deaf, server) = (FullListener::new(), Gateway::start());
    let limits = json!({"connect_timeout_ns": 80 * MS});
    let ran = run(spec(&[&server.url], &[&deaf.url], 1, limits.clone()));
    assert_eq!(ran.results(), [(Outcome::Ok, "")], "{:?}", ran.notes);
    assert_eq!(endpoints(&ran), [(0, 1)]);
    let took = ran.requests()[0];
    assert!(took >= 80 * MS, "{took}");

    let mut spec = spec(&[&deaf.url], &[], 1, limits);
    spec["workloads"][0]["settings"]["failover"] = json!("none");
    assert_eq!(run(spec).results(), [(Outcome::Timeout, "timeout connect")]);
}

#[test]
fn after_an_error_of_a_server_the_next_one_is_tried_through_the_same_proxy() {
    let bad = "http://bad.invalid:8000/Lab";
    let good = "http://good.invalid:8000/Lab";
    for (answer, code) in [
        (http("HTTP/1.1 503 Busy", "</frontier>\n"), "503"),
        (http("HTTP/1.1 404 No", ""), "404"),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let (proxy, _) = http_server(move |request| {
            let to_bad = request.contains("bad.invalid");
            log.lock().unwrap().push(to_bad);
            Some(if to_bad {
                answer.clone()
            } else {
                http("HTTP/1.1 200 OK", EXAMPLE)
            })
        });
        let change = json!({"failover_to_server": false});
        let ran = run(spec(&[bad, good], &[&proxy.url("http")], 2, change.clone()));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
        assert_eq!(
            endpoints(&ran),
            [(1, 1), (1, 0)],
            "the server that answered is the endpoint"
        );
        assert_eq!(*seen.lock().unwrap(), [true, false, false]);

        let ran = run(spec(&[bad, bad], &[&proxy.url("http")], 1, change));
        assert_eq!(
            ran.results(),
            [(Outcome::Error, code)],
            "the code of the last try"
        );
    }
}

#[test]
fn after_a_truncated_or_invalid_response_another_route_is_tried() {
    let server = Gateway::start();
    let cut = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"[..],
        &EXAMPLE.as_bytes()[..200],
    ]
    .concat();
    for (bytes, code) in [
        (cut, "closed early"),
        (http("HTTP/1.1 200 OK", "<html>login</html>"), "not frontier"),
        (b"SSH-2.0-x\r\n\r\n".to_vec(), "bad response"),
    ] {
        let proxy = Server::start(move |mut stream| {
            let _ = read_request(&mut stream);
            let _ = stream.write_all(&bytes);
        });
        let ran = run(spec(&[&server.url], &[&proxy.url("http")], 1, json!({})));
        assert_eq!(ran.results(), [(Outcome::Ok, "")], "{code}: {:?}", ran.notes);
        assert_eq!(endpoints(&ran), [(0, 1)]);
        assert!(
            ran.notes.iter().any(|(_, text)| text.contains(code)),
            "{:?}",
            ran.notes
        );
    }
}

#[test]
fn a_new_connection_that_is_closed_without_a_response_is_replaced_once() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let server = Server::start(move |mut stream: TcpStream| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        while read_request(&mut stream).is_some() && !first {
            let _ = stream.write_all(&http("HTTP/1.1 200 OK", EXAMPLE));
        }
    });
    let ran = run(spec(&[&server.url("http")], &[], 2, json!({})));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2]);
    assert_eq!(endpoints(&ran), [(0, 1), (0, 0)]);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[test]
fn an_old_invalid_response_is_first_requested_again_without_the_cache() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (cache, _) = http_server(move |request| {
        let control = request
            .lines()
            .find_map(|line| line.strip_prefix("Cache-Control: "));
        let control = control.unwrap().to_owned();
        let fresh = control.contains("no-cache");
        log.lock().unwrap().push(control);
        Some(if fresh {
            http("HTTP/1.1 200 OK", EXAMPLE)
        } else {
            http("HTTP/1.1 200 OK\r\nAge: 400", "<html>")
        })
    });
    let ran = run(spec(&[&cache.url("http")], &[], 1, json!({})));
    assert_eq!(ran.results(), [(Outcome::Ok, "")]);
    assert_eq!(endpoints(&ran), [(0, 2)]);
    assert_eq!(
        *seen.lock().unwrap(),
        ["max-stale=1", "max-stale=1,max-age=300", "max-stale=1,no-cache"]
    );
}

#[test]
fn keepalives_prevent_the_read_timeout_of_a_slow_response() {
    let (head, tail) = EXAMPLE.split_once("<data>").unwrap();
    let (head, tail) = (head.to_owned() + "<data>", tail.to_owned());
    let server = Server::start(move |mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        for _ in 0..6 {
            std::thread::sleep(Duration::from_millis(150));
            let _ = stream.write_all(b"\n   <keepalive />");
        }
        let _ = stream.write_all(tail.as_bytes());
    });
    let mut slow = frontier(&server.url("http"), request("SELECT 1", 0), 1, 1);
    slow["workloads"][0]["settings"]["read_timeout_ns"] = json!(700 * MS);
    let ran = run(slow.clone());
    assert_eq!(ran.results(), [(Outcome::Ok, "")], "{:?}", ran.notes);
    assert!(ran.requests()[0] >= 900 * MS);
    slow["workloads"][0]["settings"]["read_timeout_ns"] = json!(30 * MS);
    assert_eq!(run(slow).results(), [(Outcome::Timeout, "timeout body")]);
}

#[test]
fn the_timeout_of_the_workload_covers_all_tries() {
    let (one, other) = (hanging(), hanging());
    let limits = json!({"read_timeout_ns": 400 * MS});
    let mut spec = spec(&[&one.url("http"), &other.url("http")], &[], 1, limits);
    spec["workloads"][0]["timeout_ns"] = json!(700 * MS);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Timeout, "timeout first byte")]);
    assert_eq!((endpoints(&ran), ran.metric("tries")), (vec![(1, 1)], vec![2.0]));
    assert!(ran.requests()[0] >= 700 * MS);
}

#[test]
fn without_failover_a_failed_try_ends_the_transaction() {
    let server = Gateway::start();
    let mut spec = spec(&[&server.url], &[&nobody()], 2, json!({"failover": "none"}));
    assert_eq!(run(spec.clone()).results(), [(Outcome::Refused, "refused"); 2]);
    spec["workloads"][0]["settings"]["load_balance"] = json!("proxies");
    assert!(refused(spec).contains("needs failover: client"));
}

#[test]
fn every_endpoint_is_used_with_every_proxy() {
    for (choose, testers, each) in [("per-request", 1, 8), ("per-tester", 8, 1)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let proxies: Vec<Server> = (0..2)
            .map(|number| {
                let log = Arc::clone(&seen);
                let answer = move |request: &str| {
                    let server = usize::from(request.contains("http://b.invalid"));
                    log.lock().unwrap().push((number, server));
                    Some(http("HTTP/1.1 200 OK", EXAMPLE))
                };
                http_server(answer).0
            })
            .collect();
        let urls = [proxies[0].url("http"), proxies[1].url("http")];
        let change = json!({"failover": "none", "choose": choose});
        let servers = ["http://a.invalid/Lab", "http://b.invalid/Lab"];
        let mut spec = spec(&servers, &[&urls[0], &urls[1]], each, change);
        spec["workloads"][0]["choose"] = json!(choose);
        spec["workloads"][0]["load"] = closed(testers);
        assert_eq!(run(spec).results(), [(Outcome::Ok, ""); 8]);
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        let twice = |pair| [pair, pair];
        assert_eq!(
            seen,
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(twice).concat(),
            "{choose}"
        );
    }
}

#[test]
fn balanced_servers_share_the_testers() {
    let servers = [Gateway::start(), Gateway::start()];
    let mut spec = spec(
        &[&servers[0].url, &servers[1].url],
        &[],
        4,
        json!({"load_balance": "servers"}),
    );
    spec["workloads"][0]["load"] = closed(20);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 80]);
    for (number, server) in (0..).zip(&servers) {
        let counted = ran.transactions.iter().filter(|t| t.endpoint == number).count() as u64;
        assert_eq!(
            server.count(),
            counted,
            "the endpoint is the server that answered"
        );
        assert!(counted > 12, "{counted}");
    }
}
