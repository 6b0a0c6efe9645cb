//! `frontier` with Plimsoll's gateway, and with servers that send invalid responses.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use plimsoll_model::{Cache, Outcome};
use plimsoll_services::bind;
use plimsoll_services::frontier::{FrontierConfig, serve};
use plimsoll_wire::frontier::request::{decode_p1, parse_target};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::database::{Database, ENDLESS, ROWS};
use crate::harness::*;

pub const ALL: &str = "SELECT string FROM t_string";
/// The names of the columns, and type and length of each text.
pub const ALL_BYTES: u64 = (5 + 6 + 5 + 4 + 1) + ROWS * (5 + 100 + 1);
/// Two records, 125 bytes.
pub const EXAMPLE: &str = include_str!("../../../services/tests/it/worked_example_blob.xml");

/// Plimsoll's gateway with a database whose rows are known. It ends when it is dropped.
pub struct Gateway {
    pub url: String,
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _database: Database,
}

impl Gateway {
    pub fn start() -> Self {
        let database = Database::new();
        let config = FrontierConfig::new(&database.file);
        let (stop, stopped) = oneshot::channel::<()>();
        let (told, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                serve(listener, config, async { stopped.await.unwrap_or(()) })
                    .await
                    .unwrap();
            });
        });
        let address = address.recv().unwrap();
        Self {
            url: format!("http://{address}/Lab"),
            address,
            stop: Some(stop),
            thread: Some(thread),
            _database: database,
        }
    }

    /// A count of the gateway.
    pub fn count(&self) -> u64 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .write_all(b"GET /plimsoll/count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().last().unwrap().trim().parse().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

pub fn request(query: &str, zip: u8) -> Value {
    json!({"queries": [query], "zip": zip, "ttl": "long", "refresh": "none", "freshkey": null})
}

/// The default settings of the lab.
pub fn settings() -> Value {
    json!({
        "connection": "kept", "http": "1.1", "id": "test 1.0", "proxies": [], "choose": "per-request",
        "order": "round-robin", "failover": "none", "failover_to_server": true, "load_balance": "none",
        "connect_timeout_ns": 5 * SECOND, "read_timeout_ns": 10 * SECOND, "uncached": 0.0,
        "chatter": {"requests": 0, "queries": []},
    })
}

pub fn frontier(url: &str, request: Value, testers: u32, each: u32) -> Value {
    let settings = settings();
    spec(
        "frontier",
        url,
        settings,
        request,
        closed(testers),
        json!({"each_tester": each}),
    )
}

#[test]
fn responses_of_every_level_have_their_rows_and_the_gateway_counts_all_requests() {
    let gateway = Gateway::start();
    let (mut total, mut received) = (0, Vec::new());
    for zip in [0, 1, 5] {
        let ran = run(frontier(&gateway.url, request(ALL, zip), 3, 4));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 12], "{:?}", ran.notes);
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload, t.cache), (ROWS, ALL_BYTES, Cache::None));
            assert!(t.first_byte <= t.end && t.session == 1);
        }
        total += ran.counters.started;
        assert_eq!(gateway.count(), total);
        received.push(ran.transactions[0].received);
    }
    assert!(received[0] > ALL_BYTES * 4 / 3, "{received:?}");
    assert!(
        received[1] < received[0] && received[2] < received[0],
        "{received:?}"
    );
}

/// Otherwise the verification of a response would make the next request late.
#[test]
fn verification_is_not_part_of_response_time_or_lateness() {
    let gateway = Gateway::start();
    let ran = run(frontier(&gateway.url, request(ALL, 5), 1, 10));
    for pair in ran.transactions.windows(2) {
        assert!(pair[1].scheduled > pair[0].end, "planned after the verification");
    }
}

#[test]
fn templates_are_filled_and_connections_can_be_per_request() {
    let gateway = Gateway::start();
    let query =
        "SELECT id, string FROM t_string WHERE id <= {n} + 1 + {tester} * 0 AND '{endpoint}' LIKE 'http%'";
    let mut spec = frontier(&gateway.url, request(query, 1), 2, 3);
    spec["workloads"][0]["settings"]["connection"] = json!("per-request");
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
    for tester in 0..2 {
        let mine = ran.transactions.iter().filter(|t| t.tester == tester);
        let seen: Vec<_> = mine
            .map(|t| (t.items, t.session, t.connected >= t.start))
            .collect();
        assert_eq!(seen, [(1, 0, true), (2, 0, true), (3, 0, true)]);
    }
}

#[test]
fn an_error_of_the_gateway_is_an_error_with_its_message_in_a_note() {
    let gateway = Gateway::start();
    let ran = run(frontier(&gateway.url, request("SELECT * FROM nowhere", 5), 1, 2));
    assert_eq!(ran.results(), [(Outcome::Error, "frontier error"); 2]);
    assert!(
        ran.notes
            .iter()
            .any(|(_, text)| text.contains("no such table: nowhere")),
        "{:?}",
        ran.notes
    );
    assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
    let mut spec = frontier(&gateway.url, request("SELECT 1 WHERE 0", 5), 1, 1);
    spec["workloads"][0]["operations"][0]["request"]["ttl"] = json!("forever");
    assert_eq!(run(spec).results(), [(Outcome::Error, "frontier error")]);
    let mut spec = frontier(&gateway.url, request(ENDLESS, 0), 1, 1);
    spec["workloads"][0]["timeout_ns"] = json!(60 * MS);
    let ran = run(spec);
    assert_eq!(
        ran.results(),
        [(Outcome::Timeout, ran.code(&ran.transactions[0]))]
    );
}

pub fn http(head: &str, body: &str) -> Vec<u8> {
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn damaged_responses_are_wrong_with_a_code() {
    let ok = "HTTP/1.1 200 OK";
    let changed = |from: &str, to: &str| {
        assert!(EXAMPLE.contains(from));
        http(ok, &EXAMPLE.replacen(from, to, 1))
    };
    let closing = |bytes: &[u8]| [b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", bytes].concat();
    let two = EXAMPLE.replacen(
        " <transaction payloads=\"1\">",
        " <transaction payloads=\"2\">",
        1,
    );
    let none = "<frontier><transaction payloads=\"0\"></transaction></frontier>";
    for (answer, outcome, code) in [
        (http(ok, EXAMPLE), Outcome::Ok, ""),
        (changed("8daa", "8dab"), Outcome::Wrong, "md5"),
        (changed("BgAAAAlp", "BgAAAAlq"), Outcome::Wrong, "md5"),
        (changed("BgAAAAlp", "B*AAAAlp"), Outcome::Wrong, "base64"),
        (
            changed("records=\"2\"", "records=\"3\""),
            Outcome::Wrong,
            "records",
        ),
        (changed("\"125\"", "\"124\""), Outcome::Wrong, "size"),
        (changed("\"125\"", "\"99999999999\""), Outcome::Wrong, "too big"),
        (changed("\"BLOB\"", "\"BLOBzip\""), Outcome::Wrong, "inflate"),
        (changed("\"BLOB\"", "\"GLOB\""), Outcome::Wrong, "encoding"),
        (changed("md5=", "md6="), Outcome::Wrong, "quality"),
        (changed("</frontier>", ""), Outcome::Wrong, "truncated"),
        (changed("<data>", "<payload>"), Outcome::Wrong, "misplaced"),
        (http(ok, &two), Outcome::Wrong, "payloads"),
        (http(ok, none), Outcome::Wrong, "payloads"),
        (http(ok, "<html>hello</html>"), Outcome::Wrong, "not frontier"),
        (http(ok, ""), Outcome::Wrong, "not frontier"),
        (http("HTTP/1.1 503 Busy", "</frontier>\n"), Outcome::Error, "503"),
        (http("HTTP/1.1 404 No", ""), Outcome::Error, "404"),
        (b"SSH-2.0-x\r\n\r\n".to_vec(), Outcome::Error, "bad response"),
    ] {
        let (server, _) = http_server(move |_| Some(answer.clone()));
        let ran = run(frontier(&server.url("http"), request("SELECT 1", 0), 1, 2));
        assert_eq!(ran.results(), [(outcome, code); 2], "{:?}", ran.notes);
        let (items, payload) = if outcome == Outcome::Ok { (2, 125) } else { (0, 0) };
        assert_eq!(
            (ran.transactions[0].items, ran.transactions[0].payload),
            (items, payload)
        );
    }
    let bytes = closing(&EXAMPLE.as_bytes()[..200]);
    let server = Server::start(move |mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(&bytes);
    });
    let ran = run(frontier(&server.url("http"), request("SELECT 1", 0), 1, 1));
    assert_eq!(ran.results(), [(Outcome::Error, "closed early")]);
}

#[test]
fn requests_set_cache_control_and_reports_of_caches_are_read() {
    for (header, cache) in [
        ("X-Cache: HIT from squid", Cache::Hit),
        ("X-Cache: MISS from squid", Cache::Miss),
        ("Age: 7", Cache::Hit),
    ] {
        let (server, _) = http_server(move |_| Some(http(&format!("HTTP/1.1 200 OK\r\n{header}"), EXAMPLE)));
        let ran = run(frontier(&server.url("http"), request("SELECT 1", 0), 1, 1));
        assert_eq!(ran.results(), [(Outcome::Ok, "")]);
        assert_eq!(ran.transactions[0].cache, cache, "{header}");
    }
}

#[test]
fn requests_are_those_of_a_client_directly_and_through_a_proxy() {
    for (refresh, ttl, control, suffix) in [
        ("none", "long", "max-stale=1", ""),
        ("no-cache", "short", "max-stale=1,no-cache", "&ttl=short"),
        ("max-age=0", "forever", "max-stale=1,max-age=0", "&ttl=forever"),
        ("max-age=60", "long", "max-stale=1,max-age=60", ""),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let (proxy, _) = http_server(move |request| {
            log.lock().unwrap().push(request.to_owned());
            Some(http("HTTP/1.1 200 OK", EXAMPLE))
        });
        let query = "SELECT '{tester}-{n}'";
        let request = json!({"queries": [query], "zip": 5, "ttl": ttl, "refresh": refresh, "freshkey": null});
        // The tester does not look up this name: the proxy does.
        let mut spec = frontier("http://gateway.invalid:8000/Prod/", request, 1, 2);
        spec["workloads"][0]["settings"]["proxies"] = json!([proxy.url("http"), proxy.url("http")]);
        assert_eq!(run(spec).results(), [(Outcome::Ok, ""); 2]);
        let seen = seen.lock().unwrap();
        for (n, request) in seen.iter().enumerate() {
            let lines: Vec<&str> = request.lines().collect();
            let target = lines[0]
                .strip_prefix("GET ")
                .unwrap()
                .strip_suffix(" HTTP/1.1")
                .unwrap();
            let start = "http://gateway.invalid:8000/Prod/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOBzip5&p1=";
            assert!(target.starts_with(start) && target.ends_with(suffix), "{target}");
            let command = &parse_target(target).unwrap()[0];
            let sql = decode_p1(command.p1.as_deref().unwrap()).unwrap();
            assert_eq!(sql, format!("SELECT '0-{n}'"));
            assert_eq!(
                lines[1..4],
                [
                    "Host: gateway.invalid:8000",
                    "X-Frontier-Id: test 1.0",
                    &format!("Cache-Control: {control}"),
                ]
            );
        }
    }
}

#[test]
fn a_port_without_a_server_is_refused() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let ran = run(frontier(&url, request("SELECT 1", 0), 1, 1));
    assert_eq!(ran.results(), [(Outcome::Refused, "refused")]);
}

#[test]
fn wrong_settings_are_refused_with_advice() {
    let url = "http://127.0.0.1:1/Lab";
    let with_id = |id: &str| {
        let mut spec = frontier(url, request("SELECT 1", 0), 1, 1);
        spec["workloads"][0]["settings"]["id"] = json!(id);
        refused(spec)
    };
    assert!(with_id("").contains("gateways refuse requests without X-Frontier-Id"));
    assert!(with_id("a\r\nEvil: b").contains("without line ends"));
    let message = refused(frontier(url, request("SELECT 1", 10), 1, 1));
    assert!(message.contains("expected 0 to 9, got 10"), "{message}");
    let message = refused(frontier(url, request("", 0), 1, 1));
    assert!(message.contains("got an empty text"), "{message}");
    let message = refused(frontier("http://127.0.0.1:1/x?y", request("SELECT 1", 0), 1, 1));
    assert!(message.contains("expected a URL without a query"), "{message}");
    let message = refused(frontier("sqlite:/x", request("SELECT 1", 0), 1, 1));
    assert!(message.contains("expected http:// or https://"), "{message}");
}
