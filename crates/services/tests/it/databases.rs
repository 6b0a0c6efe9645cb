//! The gateway with real `PostgreSQL` and `MariaDB` servers.

use std::io::Read;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use plimsoll_services::frontier::{self, FrontierConfig};
use plimsoll_wire::frontier::document::{Reader, Summary};
use plimsoll_wire::frontier::payload::{Field, visit_records};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use crate::servers::{self, Kind, Server};
use crate::support::{Response, Running, start};

const ID: &str = "X-Frontier-Id: test 1.0\r\n";
const EXAMPLE: &str = "SELECT iov_since,iov_until,payload FROM f0001_iovs WHERE channel_id=7 ORDER BY 1";
const TABLES: &str = "
    CREATE TABLE f0001_iovs (channel_id bigint, iov_since bigint, iov_until bigint, payload text);
    INSERT INTO f0001_iovs VALUES (7, 0, 100, 'v=1'), (7, 100, 9223372036854775807, NULL);
    CREATE TABLE digits (d int);
    INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
    CREATE TABLE t_string (id bigint primary key, string text);
    INSERT INTO t_string SELECT 1000 * a.d + 100 * b.d + 10 * c.d + d.d, repeat('s', 100)
      FROM digits a, digits b, digits c, digits d;
    CREATE TABLE changes (table_owner varchar(99), table_name varchar(99), change_time timestamp NULL);
    INSERT INTO changes VALUES ('LAB', 'T_STRING', '2023-12-31 23:59:59'), ('Lab', 'Digits', '2024-01-02 03:04:05');";

fn gateway(url: &str, change: impl FnOnce(&mut FrontierConfig)) -> Running {
    let mut config = FrontierConfig::new(url);
    change(&mut config);
    start(2, move |listener, shutdown| {
        frontier::serve(listener, config, shutdown.into_future())
    })
}

/// A gateway to a new database, and the name of the database.
fn lab(server: &Server, change: impl FnOnce(&mut FrontierConfig)) -> (Running, String) {
    let name = server.database(TABLES);
    (gateway(&server.url(&name), change), name)
}

fn target(sql: &str) -> String {
    build_url("/Lab", Form::Slash, &[sql], Encoding::Blob, Ttl::Long, None)
}

fn ask(service: &Running, sql: &str) -> Response {
    service.connect().request("GET", &target(sql), ID, b"")
}

fn verified(response: &Response) -> Summary {
    assert!(response.complete);
    assert_eq!(response.status, 200);
    Reader::new(1 << 30).verify(&response.body).unwrap()
}

fn error_of(response: &Response) -> String {
    verified(response).error.expect("an error").message
}

/// All records as text, fields separated by `|`.
fn records(response: &Response) -> Vec<String> {
    let mut records = Vec::new();
    Reader::new(1 << 30)
        .read(&response.body, |_, plain| {
            visit_records(plain, |_, fields| {
                let text = |field: &Field<'_>| match field {
                    Field::Bytes(bytes) => bytes.escape_ascii().to_string(),
                    other => format!("{other:?}"),
                };
                records.push(fields.iter().map(text).collect::<Vec<_>>().join("|"));
                ControlFlow::Continue(())
            })
            .unwrap();
        })
        .unwrap();
    records
}

/// A query that runs for a minute before its first row.
fn sleep(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "SELECT pg_sleep(60)",
        Kind::Mariadb => "SELECT sleep(60)",
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_worked_example_is_returned_byte_for_byte_from_postgresql() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let (service, _) = lab(&server, |_| {});
    let response = ask(&service, EXAMPLE);
    assert_eq!(response.text(), include_str!("worked_example_blob.xml"));
}

#[test]
fn values_are_sent_as_the_text_of_the_server_with_their_types() {
    let expected: [(&str, &[&str]); 2] = [
        (
            "SELECT 1 AS a, 'x' AS b, NULL AS c, 1.50 AS d, cast(2.5 AS float8) AS e, '\\x0102'::bytea AS f, true AS g, \
             timestamp '2024-01-02 03:04:05' AS h, 5::numeric AS i, ''::varchar AS j",
            &[
                "a|int4|b|text|c|text|d|numeric|e|float8|f|bytea|g|bool|h|timestamp|i|numeric|j|varchar",
                "1|x|Null|1.50|2.5|\\\\x0102|t|2024-01-02 03:04:05|5|",
            ],
        ),
        (
            "SELECT cast(1 AS int) AS a, 'x' AS b, NULL AS c, 1.50 AS d, cast(2.5 AS double) AS e, x'01ff' AS f, \
             timestamp '2024-01-02 03:04:05' AS h, '' AS j, string, id FROM t_string WHERE id = 1",
            &[
                "a|int|b|varchar|c|null|d|decimal|e|double|f|varbinary|h|datetime|j|varchar|string|text|id|bigint",
                &format!(
                    "1|x|Null|1.50|2.5|\\x01\\xff|2024-01-02 03:04:05||{}|1",
                    "s".repeat(100)
                ),
            ],
        ),
    ];
    for server in servers::all() {
        let (service, _) = lab(&server, |_| {});
        let (sql, expected) = expected[server.kind as usize];
        assert_eq!(records(&ask(&service, sql)), expected);
        assert_eq!(
            records(&ask(&service, EXAMPLE))[1..],
            ["0|100|v=1", "100|9223372036854775807|Null"]
        );
    }
}

#[test]
fn parameters_are_bound_as_literals_with_any_content() {
    for server in servers::all() {
        let (service, _) = lab(&server, |_| {});
        let nasty = r#"o'b"r\i'\'e;n -- /* $$ ? "#;
        let response = ask(&service, &format!("SELECT ? AS a, '?' AS b, ? AS c:{nasty}:2"));
        let expected = format!("{}|?|2", nasty.as_bytes().escape_ascii());
        assert_eq!(records(&response)[1], expected, "{:?}", server.kind);
        let sql = "SELECT iov_since FROM f0001_iovs WHERE payload = ? AND channel_id = ?:v=1:7";
        assert_eq!(records(&ask(&service, sql))[1..], ["0"]);
        assert_eq!(
            verified(&ask(&service, &sql.replace(":v=1", ":' OR 1=1 --"))).rows,
            0
        );
    }
}

#[test]
fn large_responses_and_large_values_are_streamed() {
    for server in servers::all() {
        let (service, _) = lab(&server, |_| {});
        for encoding in [Encoding::Blob, Encoding::BlobZipLevel(1)] {
            let sql = "SELECT string FROM t_string a, (SELECT 1 FROM digits) b";
            let target = build_url("", Form::Slash, &[sql], encoding, Ttl::Long, None);
            let response = service.connect().request("GET", &target, ID, b"");
            let summary = verified(&response);
            assert_eq!((summary.rows, summary.payload_bytes), (100_000, 10_600_021));
        }
        let wide = ask(
            &service,
            "SELECT repeat('ab', 2500000) AS x, repeat('c', 100000) AS y, 1",
        );
        assert_eq!(verified(&wide).rows, 1);
        assert!(verified(&wide).payload_bytes > 5_100_000);
        let stats = service.stats();
        assert_eq!(stats["queries"], 3);
        assert_eq!(stats["rows"], 200_001);
        assert!(stats["payload_bytes"].as_u64().unwrap() > 26_000_000);
        assert_eq!(
            (&stats["database_errors"], &stats["connections_in_use"]),
            (&0.into(), &0.into())
        );
    }
}

/// A row is held in memory as a whole, so its length is limited.
#[test]
fn a_row_that_is_too_long_is_an_error_and_the_next_query_works() {
    for server in servers::all() {
        let (service, _) = lab(&server, |config| config.connections = 1);
        let half = "repeat('abcdefgh', 1100000)";
        let response = ask(&service, &format!("SELECT {half}, {half}, {half}"));
        let message = error_of(&response);
        assert!(message.contains("a row has more than 16 MiB"), "{message}");
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
    }
}

#[test]
fn errors_of_the_server_are_reported_and_the_connection_is_reused() {
    for server in servers::all() {
        let (service, name) = lab(&server, |config| config.connections = 1);
        let before = server.sql("", connections_of(server.kind, &name).as_str());
        for (sql, expected) in [
            ("SELECT x FROM nowhere", "nowhere"),
            ("SELECT (", "syntax"),
            ("SELECT 1; SELECT 2", "several statements"),
            ("UPDATE t_string SET id = 1", "only SELECT"),
            ("SET @x = 1", "only SELECT"),
            ("", "only SELECT"),
            ("SELECT '", "no end"),
            ("SELECT 'delete '", "Query cancelled"),
        ] {
            let message = error_of(&ask(&service, sql));
            assert!(
                message.starts_with("plimsoll ") && message.contains(expected),
                "{sql}: {message}"
            );
        }
        let many = format!("SELECT {}1", "1,".repeat(100_000));
        let message = error_of(&ask(&service, &many));
        assert!(
            message.contains("1664") || message.contains("columns"),
            "{message}"
        );
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
        let after = server.sql("", connections_of(server.kind, &name).as_str());
        assert_eq!((before.as_str(), after.as_str()), ("0", "1"));
        assert_eq!(service.stats()["database_errors"], 3);
    }
}

fn connections_of(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Postgres => format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"),
        Kind::Mariadb => format!("SELECT count(*) FROM information_schema.processlist WHERE db = '{name}'"),
    }
}

#[test]
fn a_query_cannot_write() {
    for server in servers::all() {
        let (service, name) = lab(&server, |config| config.connections = 1);
        let attempts: &[&str] = match server.kind {
            Kind::Postgres => &[
                "WITH a AS (UPDATE t_string SET string = 'x' RETURNING 1) SELECT count(*) FROM a",
                "SELECT set_config('default_transaction_read_only', 'off', false)",
                // A function that executes a text can change the session. The next transaction
                // is read-only nevertheless.
                "SELECT query_to_xml('SELECT set_'||'config(''default_transaction_read_only'',''off'',false)',true,true,'')",
                "WITH a AS (UPDATE t_string SET string = 'x' RETURNING 1) SELECT count(*) FROM a",
                "SELECT nextval('s')",
                "SELECT 1 AS a INTO other",
                "EXPLAIN ANALYZE UPDATE t_string SET string = 'x'",
            ],
            Kind::Mariadb => &[
                "SELECT 1 INTO OUTFILE '/tmp/x'",
                "WITH a AS (SELECT 1) UPDATE t_string SET string = 'x'",
            ],
        };
        if server.kind == Kind::Postgres {
            server.sql(&name, "CREATE SEQUENCE s");
        }
        for sql in attempts {
            let response = ask(&service, sql);
            let summary = verified(&response);
            assert!(summary.error.is_some() || sql.contains("to_xml"), "{sql}");
        }
        assert_eq!(
            server.sql(&name, "SELECT count(*) FROM t_string WHERE string = 'x'"),
            "0"
        );
    }
}

#[test]
fn a_query_is_cancelled_on_the_server_after_its_timeout() {
    for server in servers::all() {
        let (service, name) = lab(&server, |config| {
            config.connections = 1;
            config.query_timeout_s = 0.6;
            config.keepalive_s = 0.1;
            config.ages.short = 60;
        });
        let response = ask(&service, sleep(server.kind));
        let summary = verified(&response);
        let error = summary.error.unwrap();
        assert!(error.message.contains("stopped after 0.6 s"), "{}", error.message);
        assert_eq!(error.max_age, Some(60));
        assert!(summary.keepalives >= 3);
        // The only connection is free when the server has stopped the query.
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
        wait_until("the end of the query on the server", || server.busy(&name) == 0);
    }
}

#[test]
fn a_query_is_cancelled_on_the_server_when_its_client_disconnects() {
    for server in servers::all() {
        let (service, name) = lab(&server, |config| config.connections = 1);
        let mut client = service.connect();
        client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", target(sleep(server.kind))).as_bytes());
        wait_until("the query", || server.busy(&name) == 1);
        drop(client);
        wait_until("its end", || server.busy(&name) == 0);
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
        // The same during a response of several GB.
        let mut client = service.connect();
        let endless = "SELECT a.string FROM t_string a, t_string b, digits c";
        client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", target(endless)).as_bytes());
        client.stream.read_exact(&mut vec![0; 1_000_000]).unwrap();
        drop(client);
        wait_until("its end", || server.busy(&name) == 0);
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
        wait_until("no request", || service.stats()["in_progress"] == 0);
    }
}

#[test]
fn the_end_of_the_gateway_cancels_its_queries() {
    for server in servers::all() {
        let (service, name) = lab(&server, |_| {});
        let mut client = service.connect();
        client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", target(sleep(server.kind))).as_bytes());
        wait_until("the query", || server.busy(&name) == 1);
        service.finish().unwrap();
        wait_until("its end", || server.busy(&name) == 0);
    }
}

/// A response of 10 GB, whose client does not read: the gateway does not read from the server
/// either.
#[test]
fn a_slow_client_slows_down_the_server() {
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    for server in servers::all() {
        let (service, _) = lab(&server, |config| config.connections = 4);
        let endless = "SELECT a.string FROM t_string a, t_string b";
        let before = resident();
        let slow: Vec<_> = (0..4)
            .map(|_| {
                let mut client = service.connect();
                client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", target(endless)).as_bytes());
                client.stream.read_exact(&mut vec![0; 100_000]).unwrap();
                client
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        let grown = resident().saturating_sub(before);
        assert!(grown < 150_000_000, "{grown} bytes for four slow readers");
        drop(slow);
        assert_eq!(verified(&ask(&service, EXAMPLE)).rows, 2);
    }
}

#[test]
fn a_restarted_server_is_used_again_after_errors() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(server) = Server::new(kind) else { continue };
        let (service, _) = lab(&server, |config| config.connections = 2);
        let mut client = service.connect();
        let mut ask = || client.request("GET", &target(EXAMPLE), ID, b"");
        assert_eq!(verified(&ask()).rows, 2);
        server.end();
        for _ in 0..3 {
            let message = error_of(&ask());
            assert!(
                message.contains("cannot connect to the database at 127.0.0.1:"),
                "{message}"
            );
        }
        server.begin();
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(verified(&ask()).rows, 2);
        // Connections that ended while they were idle do not cause an error.
        server.end();
        server.begin();
        assert_eq!(verified(&ask()).rows, 2);
        assert!(service.stats()["database_errors"].as_u64() >= Some(3));
    }
}

#[test]
fn a_server_that_dies_during_a_response_is_an_error_in_it() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(server) = Server::new(kind) else { continue };
        let (service, _) = lab(&server, |_| {});
        let mut client = service.connect();
        client.send(
            format!(
                "GET {} HTTP/1.1\r\n{ID}\r\n",
                target("SELECT a.string FROM t_string a, t_string b")
            )
            .as_bytes(),
        );
        client.stream.read_exact(&mut vec![0; 1_000_000]).unwrap();
        let reader = std::thread::spawn(move || {
            let mut rest = Vec::new();
            let mut piece = vec![0; 1 << 20];
            while !rest.ends_with(b"\r\n0\r\n\r\n") {
                let read = client.stream.read(&mut piece).unwrap();
                assert!(read > 0, "the answer has no end");
                rest.extend_from_slice(&piece[..read]);
                rest.drain(..rest.len().saturating_sub(3000));
            }
            rest
        });
        server.end();
        let text = String::from_utf8_lossy(&reader.join().unwrap()).into_owned();
        assert!(
            text.contains("<quality error=\"1\"") && text.contains("<global_error"),
            "{text}"
        );
    }
}

#[test]
fn a_gateway_without_its_server_starts_and_responds_with_errors() {
    for scheme in ["postgresql", "mysql"] {
        let unused = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let service = gateway(&format!("{scheme}://u:hunter2@{unused}/d"), |_| {});
        let message = error_of(&ask(&service, EXAMPLE));
        assert!(
            message.contains("cannot connect") && message.contains("refused"),
            "{message}"
        );
        assert!(!message.contains("hunter2"));
    }
    // A process that accepts connections without a response: an error after 5 s.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://u@{}/d", silent.local_addr().unwrap());
    let service = gateway(&url, |config| config.keepalive_s = 1.0);
    let message = error_of(&ask(&service, EXAMPLE));
    assert!(message.contains("no answer within 5 s"), "{message}");
}

#[test]
fn invalid_urls_and_logins_are_reported() {
    for url in ["postgresql://h", "oracle://u@h/d", "mysql://u:hunter2@h:1/d?x=y"] {
        let why = gateway(url, |_| {}).finish().unwrap_err().to_string();
        assert!(why.starts_with("database: ") && !why.contains("hunter2"), "{why}");
    }
    for server in servers::all() {
        let service = gateway(&server.url("nowhere"), |_| {});
        let message = error_of(&ask(&service, EXAMPLE));
        assert!(message.contains("nowhere"), "{message}");
    }
}

#[test]
fn the_time_of_the_last_change_comes_from_the_database() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let owner = match server.kind {
            Kind::Postgres => {
                server.sql(&name, "CREATE SCHEMA lab; ALTER TABLE t_string SET SCHEMA lab; ALTER TABLE digits SET SCHEMA lab");
                "lab"
            }
            Kind::Mariadb => {
                server.sql(&name, &format!("UPDATE changes SET table_owner = '{name}'"));
                name.as_str()
            }
        };
        let service = gateway(&server.url(&name), |config| {
            config.validate_last_modified_s = 100;
            config.last_modified_table = Some("changes".into());
        });
        let both = format!("SELECT string FROM {owner}.t_string a, {owner}.digits b WHERE id = d AND id < 3");
        let response = ask(&service, &both);
        assert_eq!(
            response.field("last-modified"),
            Some("Tue, 02 Jan 2024 03:04:05 GMT"),
            "{}",
            response.text()
        );
        assert_eq!(verified(&response).rows, 3);
        let fields = format!("{ID}If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT\r\n");
        let same = service.connect().request("GET", &target(&both), &fields, b"");
        assert_eq!(same.status, 304);
        let query = format!("SELECT string FROM {owner}.t_string WHERE id = 1");
        assert_eq!(
            ask(&service, &query).field("last-modified"),
            Some("Sun, 31 Dec 2023 23:59:59 GMT")
        );
        let unknown = ask(&service, &format!("SELECT 1 FROM {owner}.elsewhere"));
        assert!(error_of(&unknown).contains("ELSEWHERE not found in changes"));
        assert_eq!(service.stats()["not_modified"], 1);
    }
}

#[test]
fn mariadb_stores_the_times_of_changes_itself() {
    let Some(server) = servers::shared(Kind::Mariadb) else {
        return;
    };
    let (service, name) = lab(&server, |config| config.validate_last_modified_s = 100);
    let response = ask(&service, &format!("SELECT d FROM {name}.digits"));
    let time = response.field("last-modified").unwrap().to_owned();
    let fields = format!("{ID}If-Modified-Since: {time}\r\n");
    let same = service.connect().request(
        "GET",
        &target(&format!("SELECT d FROM {name}.digits")),
        &fields,
        b"",
    );
    assert_eq!(same.status, 304);
}

#[test]
fn a_thousand_simultaneous_clients_all_receive_their_response() {
    for server in servers::all() {
        let (service, name) = lab(&server, |config| {
            config.connections = 10;
            config.threads = 2000;
        });
        let mut clients: Vec<_> = (0..1000).map(|_| service.connect()).collect();
        let request = format!(
            "GET {} HTTP/1.1\r\n{ID}\r\n",
            target("SELECT string FROM t_string WHERE id < 20")
        );
        for client in &mut clients {
            client.send(request.as_bytes());
        }
        for client in &mut clients {
            assert_eq!(verified(&client.response()).rows, 20);
        }
        let most: u32 = server
            .sql("", &connections_of(server.kind, &name))
            .parse()
            .unwrap();
        assert!((1..=10).contains(&most), "{most}");
        assert_eq!(service.stats()["database_errors"], 0);
        assert_eq!(service.count(), 1000);
    }
}

/// A closed queue with a known answer: one connection, four clients without think time, and queries
/// of a known length. While one query runs, three requests wait, so each waits for three queries;
/// the first four wait for none to three.
#[test]
fn the_time_in_the_pool_is_that_of_three_queries() {
    const CLIENTS: u32 = 4;
    const EACH: u32 = 8;
    const QUERY_S: f64 = 0.03;
    for server in servers::all() {
        let sql = match server.kind {
            Kind::Postgres => "SELECT 'x' AS x FROM pg_sleep(0.03)",
            Kind::Mariadb => "SELECT sleep(0.03)",
        };
        let (service, _) = lab(&server, |config| config.connections = 1);
        let begin = Instant::now();
        let client = || {
            let mut client = service.connect();
            let responses = (0..EACH).map(|_| {
                let sent = Instant::now();
                verified(&client.request("GET", &target(sql), ID, b""));
                sent.elapsed().as_secs_f64()
            });
            responses.sum::<f64>()
        };
        let response_times: f64 = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        let elapsed = begin.elapsed().as_secs_f64();
        // The end of a request is counted after its client has the response.
        wait_until("no request", || service.stats()["in_progress"] == 0);
        let stats = service.stats();
        for step in ["request", "pool", "query", "compression", "sending"] {
            assert_eq!(stats[format!("{step}_count")], CLIENTS * EACH, "{step}");
        }
        let seconds = |step: &str| stats[format!("{step}_ns")].as_u64().unwrap() as f64 / 1e9;
        let number = f64::from(CLIENTS * EACH);
        let (pool, query, request) = (seconds("pool"), seconds("query"), seconds("request"));
        // One connection, so the queries follow each other.
        assert!(
            (QUERY_S * number..=elapsed).contains(&query),
            "{elapsed} s: {stats}"
        );
        let steps = pool + query + seconds("compression") + seconds("sending");
        assert!(steps <= request, "{stats}");
        assert!(pool <= response_times - QUERY_S * number, "{stats}");
        // Half a query per request is for the time that a client and the gateway need between the
        // end of a query and the next request.
        let waits = (3.0 - 0.5) * number - 6.0;
        assert!(pool >= waits * QUERY_S, "{stats}");
    }
}
