//! Caches are notified when their objects are outdated. The databases are real; the caches record
//! the requests that they receive.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_services::frontier::{self, CacheConfig, FrontierConfig, InvalidationConfig, On, Triggers};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use crate::servers::{self, Kind, Server};
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

#[test]
fn a_change_purges_only_the_objects_that_depend_on_its_table() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        assert!(kept(&service, TWO));
        let changes = [
            "UPDATE one SET text = 'x' WHERE id = 1",
            "INSERT INTO one VALUES (3, 'c')",
            "DELETE FROM one WHERE id = 2",
            "BEGIN; UPDATE one SET text = 'y' WHERE id = 1; UPDATE one SET text = 'z' WHERE id = 1; COMMIT",
            "TRUNCATE TABLE one",
        ];
        for (turn, change) in changes.into_iter().enumerate() {
            assert!(kept(&service, ONE) && kept(&service, BOTH));
            server.sql(&name, change);
            let are_purged = || caches.count(0, ONE) > turn && caches.count(0, BOTH) > turn;
            wait_until(change, are_purged);
        }
        assert_eq!(caches.count(0, TWO), 0);
        server.sql(&name, "UPDATE two SET text = 'x'");
        wait_until("a change of the other table", || caches.count(0, TWO) == 1);
        wait_until("all counted", || number(&service, "purged") >= 11);
        assert_eq!(number(&service, "unkept"), 0);
        assert_eq!(number(&service, "purge_failures"), 0);
        assert!(number(&service, "changes") >= 6);
        let stats = service.stats();
        let delay = |key: &str| stats[key].as_f64().unwrap();
        assert!(0.0 < delay("purge_delay_most_ms"));
        assert!(delay("purge_delay_most_ms") <= delay("purge_delay_ms"));
    }
}

#[test]
fn a_rollback_or_an_unrelated_change_purges_nothing() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        assert!(kept(&service, ONE) && kept(&service, "SELECT 1 AS two_plus_two"));
        assert_eq!(number(&service, "keys"), 1);
        server.sql(&name, "BEGIN; UPDATE one SET text = 'x'; ROLLBACK");
        server.sql(&name, "UPDATE two SET text = 'x'");
        assert!(kept(&service, TWO));
        server.sql(&name, "UPDATE two SET text = 'y'");
        wait_until("the other", || caches.count(0, TWO) >= 1);
        assert_eq!(caches.count(0, ONE), 0);
        let short = build_url("/Lab", Form::Slash, &[ONE], Encoding::Blob, Ttl::Short, None);
        service.connect().request("GET", &short, ID, b"");
        assert_eq!(
            number(&service, "keys"),
            1,
            "what may not be kept is not remembered"
        );
    }
}

#[test]
fn caches_are_purged_in_their_order() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(2);
    let service = gateway(&server.url(&name), caches.config());
    let queries: Vec<String> = (0..100)
        .map(|id| format!("SELECT text FROM one WHERE id = {id}"))
        .collect();
    for sql in &queries {
        assert!(kept(&service, sql));
    }
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("both caches", || number(&service, "purged") == 200);
    let purges = caches.purges.lock().unwrap();
    for sql in &queries {
        let url = format!("http://h{}", target(sql));
        let at = |number| {
            purges
                .iter()
                .position(|purge| *purge == (number, url.clone()))
                .unwrap()
        };
        assert!(at(0) < at(1));
    }
}

#[test]
fn a_response_in_transit_is_purged_again() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        assert!(kept(&service, ONE));
        let slow = match server.kind {
            Kind::Postgres => "SELECT text, pg_sleep(2) FROM one WHERE id = 1",
            Kind::Mariadb => "SELECT text, sleep(2) FROM one WHERE id = 1",
        };
        let mut client = service.connect();
        client.send(format!("GET {} HTTP/1.1\r\nHost: h\r\n{ID}\r\n", target(slow)).as_bytes());
        wait_until("the query", || server.busy(&name) == 1);
        server.sql(&name, "UPDATE one SET text = 'new' WHERE id = 1");
        wait_until("the first time", || caches.count(0, slow) == 1);
        assert_eq!(server.busy(&name), 1, "the answer is still on its way");
        assert!(client.response().complete);
        wait_until("the second time", || caches.count(0, slow) >= 2);
    }
}

#[test]
fn nothing_is_cached_while_changes_are_not_detected_and_everything_is_purged_afterwards() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(server) = Server::new(kind) else { continue };
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        assert!(kept(&service, ONE) && kept(&service, TWO));
        server.end();
        wait_until("the loss", || number(&service, "watching") == 0);
        assert_eq!(ask(&service, ONE).field("cache-control"), Some("max-age=0"));
        assert_eq!((caches.count(0, ONE), number(&service, "unkept")), (0, 1));
        server.begin();
        wait_until("everything purged", || {
            caches.count(0, ONE) >= 1 && caches.count(0, TWO) >= 1
        });
        let keeps = || ask(&service, ONE).field("cache-control") == Some("max-age=604800");
        wait_until("an answer to be kept", keeps);
        let before = caches.count(0, ONE);
        server.sql(&name, "UPDATE one SET text = 'x'");
        wait_until("a change after it", || caches.count(0, ONE) > before);
    }
}

#[test]
fn relations_that_are_created_again_are_detected() {
    for server in servers::all() {
        let name = server.database(TABLES);
        server.sql(
            &name,
            "CREATE VIEW v AS SELECT text FROM one; CREATE VIEW vv AS SELECT * FROM v",
        );
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        let view = "SELECT text FROM vv";
        assert!(kept(&service, view) && kept(&service, TWO));
        server.sql(&name, "UPDATE one SET text = 'x'");
        wait_until("a change under a view", || caches.count(0, view) >= 1);
        assert_eq!(caches.count(0, TWO), 0);
        // A table that is created later.
        server.sql(&name, "CREATE TABLE later (id int, text varchar(9))");
        let later = "SELECT text FROM later";
        catch_up(
            &server,
            &name,
            &service,
            &caches,
            (TWO, "UPDATE two SET text = 'x'"),
        );
        std::thread::sleep(Duration::from_millis(1100)); // at least READ_INTERVAL
        assert!(kept(&service, later));
        server.sql(&name, "INSERT INTO later VALUES (1, 'a')");
        wait_until("a change of a new table", || caches.count(0, later) >= 1);
        let behind = (later, "INSERT INTO later VALUES (2, 'b')");
        // A view that is replaced by another one.
        assert!(kept(&service, view));
        let before = caches.count(0, view);
        server.sql(&name, "CREATE OR REPLACE VIEW v AS SELECT text FROM two");
        wait_until("another view", || caches.count(0, view) > before);
        catch_up(&server, &name, &service, &caches, behind);
        assert!(kept(&service, view));
        let before = caches.count(0, view);
        server.sql(&name, "UPDATE two SET text = 'y'");
        wait_until("a change under another view", || caches.count(0, view) > before);
        // A table that is replaced.
        assert!(kept(&service, ONE));
        let before = caches.count(0, ONE);
        server.sql(
            &name,
            "DROP TABLE one; CREATE TABLE one (id int primary key, text varchar(99))",
        );
        wait_until("another table", || caches.count(0, ONE) > before);
        catch_up(&server, &name, &service, &caches, behind);
        assert!(kept(&service, ONE));
        let before = caches.count(0, ONE);
        server.sql(&name, "INSERT INTO one VALUES (1, 'a')");
        wait_until("a change of another table", || caches.count(0, ONE) > before);
    }
}

/// Shortly after a change, a query may return the data from before it.
#[test]
fn a_response_shortly_after_a_change_is_purged_without_another_change() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let config = InvalidationConfig {
            settle_ms: Some(600_000),
            ..caches.config()
        };
        let service = gateway(&server.url(&name), config);
        assert!(kept(&service, ONE) && kept(&service, TWO));
        server.sql(&name, "UPDATE one SET text = 'x'");
        wait_until("the change", || caches.count(0, ONE) >= 1);
        let before = caches.count(0, ONE);
        assert!(kept(&service, ONE) && kept(&service, TWO));
        wait_until("the answer behind it", || caches.count(0, ONE) > before);
        assert_eq!(caches.count(0, TWO), 0);
    }
}

#[test]
fn changes_of_dependent_tables_are_detected() {
    for server in servers::all() {
        let name = server.database(TABLES);
        server.sql(
            &name,
            "CREATE TABLE child (id int, parent int, FOREIGN KEY (parent) REFERENCES one (id) ON DELETE CASCADE);
             INSERT INTO child VALUES (1, 1)",
        );
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), caches.config());
        let child = "SELECT id FROM child";
        assert!(kept(&service, child));
        server.sql(&name, "DELETE FROM one WHERE id = 1");
        wait_until("the cascade", || caches.count(0, child) >= 1);
        if server.kind == Kind::Postgres {
            server.sql(
                &name,
                "CREATE TABLE parted (id int) PARTITION BY RANGE (id);
                 CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10)",
            );
            std::thread::sleep(Duration::from_millis(1100));
            let (whole, part) = ("SELECT id FROM parted", "SELECT id FROM part");
            for (turn, table) in ["parted", "part"].into_iter().enumerate() {
                assert!(kept(&service, whole) && kept(&service, part));
                server.sql(&name, &format!("INSERT INTO {table} VALUES (1)"));
                wait_until(table, || {
                    caches.count(0, whole) > turn && caches.count(0, part) > turn
                });
            }
        }
    }
}

#[test]
fn responses_from_tables_that_cannot_be_watched_are_not_cached() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    server.sql(
        &name,
        &format!(
            "CREATE ROLE reader_{name} LOGIN; GRANT SELECT ON one, two TO reader_{name};
             CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM one';
             CREATE MATERIALIZED VIEW m AS SELECT * FROM one"
        ),
    );
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), caches.config());
    for sql in [
        "SELECT reads()",
        "SELECT text FROM m",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
    ] {
        assert!(!kept(&service, sql), "{sql}");
    }
    assert_eq!(number(&service, "unkept"), 3);
    // The user has no right to create triggers, until an administrator has created one.
    let url = server.url(&name).replace("lab@", &format!("reader_{name}@"));
    let service = gateway(&url, caches.config());
    assert!(!kept(&service, ONE) && !kept(&service, ONE));
    assert_eq!(number(&service, "unkept"), 2);
    let config = InvalidationConfig {
        triggers: Triggers::Present,
        ..caches.config()
    };
    let service = gateway(&url, config);
    assert!(!kept(&service, ONE));
    server.sql(
        &name,
        "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM pg_notify(''plimsoll_changes'', TG_TABLE_SCHEMA || ''.'' || TG_TABLE_NAME); RETURN NULL; END';
         CREATE TRIGGER plimsoll_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON one
           FOR EACH STATEMENT EXECUTE FUNCTION told()",
    );
    wait_until("the trigger to be seen", || kept(&service, ONE));
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("a change by it", || caches.count(0, ONE) >= 1);
    assert!(!kept(&service, TWO));
}

#[test]
fn a_full_table_of_keys_accepts_no_further_key() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(1);
    let config = InvalidationConfig {
        most_keys: 1,
        ..caches.config()
    };
    let service = gateway(&server.url(&name), config);
    assert!(kept(&service, ONE));
    assert!(!kept(&service, TWO));
    assert!(kept(&service, ONE), "a known key is always accepted");
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("free capacity for keys", || {
        number(&service, "keys") == 0 && number(&service, "purged") >= 1
    });
    assert!(kept(&service, TWO));
}

#[test]
fn a_cache_that_cannot_be_reached_is_purged_when_it_is_back() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let mut caches = Caches::new(1);
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    caches.proxies.insert(0, format!("http://{away}"));
    let service = gateway(&server.url(&name), caches.config());
    assert!(kept(&service, ONE));
    server.sql(&name, "UPDATE one SET text = 'x'");
    // The listening cache has the number 0. It does not wait without a time limit.
    wait_until("the next cache", || caches.count(0, ONE) == 1);
    assert!(number(&service, "purge_failures") > 0 && number(&service, "owed") == 1);
    caches.listen(7, TcpListener::bind(away).unwrap());
    wait_until("the cache that was away", || caches.count(7, ONE) == 1);
    wait_until("a second purge of the next cache", || caches.count(0, ONE) == 2);
    assert_eq!(number(&service, "owed"), 0);
}

#[test]
fn on_every_purges_everything_also_without_a_server() {
    let directory = crate::support::Scratch::new();
    let file = directory.0.join("data.sqlite");
    let database = rusqlite::Connection::open(&file).unwrap();
    database
        .execute_batch("CREATE TABLE one (id int, text text)")
        .unwrap();
    let caches = Caches::new(1);
    let config = InvalidationConfig {
        on: On::Every,
        every_s: Some(0.2),
        ..caches.config()
    };
    let service = gateway(file.to_str().unwrap(), config);
    for turn in 1..=2 {
        assert!(kept(&service, ONE));
        wait_until("the time", || caches.count(0, ONE) == turn);
    }
}

#[test]
fn a_database_that_cannot_be_watched_is_an_error_at_the_start() {
    let caches = Caches::new(1);
    let why = |url: &str| gateway(url, caches.config()).finish().unwrap_err().to_string();
    assert!(why("/nowhere.sqlite").contains("/nowhere.sqlite"));
    let Some(server) = Server::with(Kind::Mariadb, &[]) else {
        return;
    };
    let name = server.database(TABLES);
    let without = why(&server.url(&name));
    assert!(
        without.contains("invalidation: ") && without.contains("--log-bin"),
        "{without}"
    );
    drop(server);
    let mixed = &["--log-bin=log", "--binlog-format=MIXED", "--server-id=1"];
    let Some(server) = Server::with(Kind::Mariadb, mixed) else {
        return;
    };
    let name = server.database(TABLES);
    assert!(why(&server.url(&name)).contains("--binlog-format=ROW"));
}

/// A gateway ends, the table changes, and the next gateway starts. It has not received the change.
#[test]
fn the_keys_of_an_earlier_gateway_are_purged_at_the_start() {
    let directory = std::env::temp_dir().join(format!("plimsoll-keys-{}", std::process::id()));
    for server in servers::all() {
        let _ = std::fs::remove_dir_all(&directory);
        let url = server.url(&server.database(TABLES));
        let caches = Caches::new(2);
        let mut config = caches.config();
        config.keys_file = Some(directory.join("below/keys"));
        let first = gateway(&url, config.clone());
        wait_until("an answer to be kept", || kept(&first, ONE));
        drop(first);
        assert_eq!(caches.count(0, ONE), 0);
        for number in 1..=2 {
            let next = gateway(&url, config.clone());
            let are_purged = || caches.count(0, ONE) >= number && caches.count(1, ONE) >= number;
            wait_until("both caches to be purged", are_purged);
            drop(next);
        }
        let last = gateway(&url, config);
        wait_until("an answer to be kept", || kept(&last, TWO));
        assert_eq!(
            caches.count(0, TWO),
            0,
            "no earlier gateway has answered this query"
        );
    }
    let _ = std::fs::remove_dir_all(&directory);
}

/// A cache that refuses PURGE is detected before caches store a response.
#[test]
fn nothing_is_cached_while_a_cache_refuses_purge() {
    let Some(server) = servers::all().next() else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}", listener.local_addr().unwrap());
    let status = Arc::new(Mutex::new("403 Forbidden"));
    let answers = status.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answers) = (stream.unwrap(), answers.clone());
            std::thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for _ in lines
                    .map_while(Result::ok)
                    .filter(|line| line.starts_with("PURGE "))
                {
                    let status = *answers.lock().unwrap();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut config = caches.config();
    config.caches.push(CacheConfig { proxy: refusing });
    let service = gateway(&server.url(&name), config);
    for _ in 0..3 {
        assert!(!kept(&service, ONE), "before the first purge");
    }
    assert_eq!(number(&service, "refusing"), 1);
    assert_eq!(number(&service, "unkept"), 3);
    *status.lock().unwrap() = "404 Not Found";
    wait_until("it to take PURGE", || kept(&service, ONE));
    assert_eq!(number(&service, "refusing"), 0);
    *status.lock().unwrap() = "405 Method Not Allowed";
    server.sql(&name, "UPDATE one SET text = 'x'");
    wait_until("the refusal", || number(&service, "refusing") == 1);
    assert!(!kept(&service, TWO));
    assert_eq!(number(&service, "owed"), 1);
    *status.lock().unwrap() = "200 OK";
    wait_until("the debt to be paid", || number(&service, "owed") == 0);
    wait_until("an answer to be kept", || kept(&service, TWO));
}
