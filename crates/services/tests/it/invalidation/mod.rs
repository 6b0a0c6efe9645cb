//! Caches are notified when their objects are outdated. The databases are real; the caches record
//! the requests that they receive.

mod caches;
mod changes;
mod decoding;
mod scope;
mod watching;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_services::frontier::{self, FrontierConfig, InvalidationConfig};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use crate::servers::Server;
use crate::support::{Response, Running, start};

const ID: &str = "X-Frontier-Id: test 1.0\r\n";
const TABLES: &str = "
    CREATE TABLE one (id int primary key, text varchar(99));
    CREATE TABLE two (id int primary key, text varchar(99));
    INSERT INTO one VALUES (1, 'a'), (2, 'b');
    INSERT INTO two VALUES (1, 'a'), (2, 'b');";
const ONE: &str = "SELECT text FROM one WHERE id = 1";
const TWO: &str = "SELECT text FROM two WHERE id = 1";
const BOTH: &str = "SELECT one.text FROM one, two WHERE one.id = two.id";

/// The purges that caches received, in order: the number of the cache, and the URL.
type Purges = Arc<Mutex<Vec<(usize, String)>>>;

/// Caches that answer every PURGE with 200, until the connection ends.
struct Caches {
    purges: Purges,
    proxies: Vec<String>,
}

fn serve_cache(number: usize, stream: TcpStream, purges: &Purges) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        let Some(rest) = line.strip_prefix("PURGE ") else {
            continue;
        };
        let url = rest.strip_suffix(" HTTP/1.1").unwrap().to_owned();
        purges.lock().unwrap().push((number, url));
        if stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .is_err()
        {
            return;
        }
    }
}

impl Caches {
    fn new(count: usize) -> Self {
        let mut caches = Self {
            purges: Purges::default(),
            proxies: Vec::new(),
        };
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            caches
                .proxies
                .push(format!("http://{}", listener.local_addr().unwrap()));
            caches.listen(caches.proxies.len() - 1, listener);
        }
        caches
    }

    fn listen(&self, number: usize, listener: TcpListener) {
        let purges = self.purges.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let purges = purges.clone();
                std::thread::spawn(move || serve_cache(number, stream.unwrap(), &purges));
            }
        });
    }

    /// With these settings, each change causes one purge. A second purge of a response within
    /// `settle_ms` of `MariaDB` could not be distinguished from that of the next change.
    fn config(&self) -> InvalidationConfig {
        InvalidationConfig {
            settle_ms: Some(0),
            again_ms: 0,
            ..InvalidationConfig::new(&self.proxies)
        }
    }

    /// Number of purges of a query that a cache received.
    fn count(&self, number: usize, sql: &str) -> usize {
        let url = format!("http://h{}", target(sql));
        let purges = self.purges.lock().unwrap();
        purges
            .iter()
            .filter(|purge| **purge == (number, url.clone()))
            .count()
    }
}

fn gateway(url: &str, invalidation: InvalidationConfig) -> Running {
    let mut config = FrontierConfig::new(url);
    config.invalidation = Some(invalidation);
    start(2, move |listener, shutdown| {
        frontier::serve(listener, config, shutdown.into_future())
    })
}

fn target(sql: &str) -> String {
    build_url("/Lab", Form::Slash, &[sql], Encoding::Blob, Ttl::Long, None)
}

fn ask(service: &Running, sql: &str) -> Response {
    let response = service.connect().request("GET", &target(sql), ID, b"");
    assert_eq!((response.status, response.complete), (200, true));
    response
}

/// Sends a query. Returns whether caches may store the response.
fn kept(service: &Running, sql: &str) -> bool {
    let response = ask(service, sql);
    assert!(
        response.text().contains("<quality error=\"0\""),
        "{}",
        response.text()
    );
    match response.field("cache-control") {
        Some("max-age=604800") => true,
        Some("max-age=0") => false,
        other => panic!("{other:?}"),
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the gateway has processed all changes that the database reported before this one. A
/// statement that creates a relation again is reported in several steps.
fn catch_up(server: &Server, name: &str, service: &Running, caches: &Caches, (sql, change): (&str, &str)) {
    let before = caches.count(0, sql);
    wait_until("an answer to be kept", || kept(service, sql));
    server.sql(name, change);
    wait_until(change, || caches.count(0, sql) > before);
}

fn number(service: &Running, key: &str) -> u64 {
    service.stats()[key].as_u64().unwrap()
}
