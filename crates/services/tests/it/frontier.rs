//! The gateway, tested with the client side of the same codec and, where required, byte by byte.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_services::data::{self, DataConfig, TableConfig};
use plimsoll_services::frontier::{self, Ages, FrontierConfig};
use plimsoll_wire::frontier::document::{Reader, Summary};
use plimsoll_wire::frontier::payload::{Field, visit_records};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};
use rusqlite::Connection;

use crate::support::{Client, Response, Running, Scratch, start};

const EXAMPLE: &str = "SELECT IOV_SINCE,IOV_UNTIL,PAYLOAD FROM F0001_IOVS WHERE CHANNEL_ID=7";
const ID: &str = "X-Frontier-Id: test 1.0\r\n";

fn database(path: &Path) {
    let connection = Connection::open(path.join("db")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE F0001_IOVS (channel_id INTEGER, iov_since int8, iov_until int8, payload text);
             INSERT INTO F0001_IOVS VALUES (7, 0, 100, 'v=1'), (7, 100, 9223372036854775807, NULL);
             CREATE TABLE kinds (i INTEGER, r REAL, t TEXT, b BLOB);
             INSERT INTO kinds VALUES (-5, 1.5, 'x', x'00ff07'), (NULL, 1e300, '', NULL), (0, 1, 'z', x'');",
        )
        .unwrap();
    drop(connection);
    let table = |name: &str, rows| TableConfig {
        name: name.into(),
        rows,
        row: 100,
        compressibility: 10.0,
        seed: 1,
        columns: 1,
        types: Vec::new(),
        tables: 1,
        versions: false,
    };
    let config = DataConfig {
        database: path.join("db"),
        tables: vec![table("t_string", 10_000).into()],
    };
    let report = data::write(&config).unwrap();
    assert_eq!((report[0].rows, report[0].bytes), (10_000, 1_000_000));
}

struct Lab {
    service: Running,
    scratch: Scratch,
}

fn lab(change: impl FnOnce(&mut FrontierConfig)) -> Lab {
    lab_on(0, change)
}

fn lab_on(workers: usize, change: impl FnOnce(&mut FrontierConfig)) -> Lab {
    let scratch = Scratch::new();
    database(&scratch.0);
    let mut config = FrontierConfig::new(scratch.0.join("db"));
    change(&mut config);
    let service = start(workers, move |listener, shutdown| {
        frontier::serve(listener, config, shutdown.into_future())
    });
    Lab { service, scratch }
}

fn url(sql: &str, encoding: Encoding) -> String {
    build_url("/FrontierLab", Form::Slash, &[sql], encoding, Ttl::Long, None)
}

fn ask(client: &mut Client, sql: &str) -> Response {
    client.request("GET", &url(sql, Encoding::BlobZipLevel(5)), ID, b"")
}

fn verified(response: &Response) -> Summary {
    assert!(response.complete);
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, Some("text/xml;charset=US-ASCII"))
    );
    Reader::new(1 << 30).verify(&response.body).unwrap()
}

fn error_of(response: &Response) -> String {
    verified(response).error.expect("an error").message
}

const BLOB_DOCUMENT: &str = include_str!("worked_example_blob.xml");

#[test]
fn the_worked_example_is_returned_byte_for_byte() {
    let lab = lab(|_| {});
    let mut client = lab.service.connect();
    let plain = client.request("GET", &url(EXAMPLE, Encoding::Blob), ID, b"");
    assert_eq!(plain.text(), BLOB_DOCUMENT);
    assert_eq!(plain.body.len(), 563);
    assert_eq!(plain.field("content-length"), Some("563"));
    assert_eq!(plain.field("cache-control"), Some("max-age=604800"));
    let mut expected = Vec::new();
    Reader::new(1000)
        .read(&plain.body, |_, bytes| expected = bytes.to_vec())
        .unwrap();
    assert_eq!(expected.len(), 125);
    for level in 1..=9 {
        let zipped = client.request("GET", &url(EXAMPLE, Encoding::BlobZipLevel(level)), ID, b"");
        let mut inflated = Vec::new();
        let summary = Reader::new(1000)
            .read(&zipped.body, |_, bytes| inflated = bytes.to_vec())
            .unwrap();
        assert_eq!((summary.rows, summary.payload_bytes), (2, 125));
        assert!(inflated == expected, "level {level}");
        // Apart from the data and the digest, the document equals the published one.
        let outside = |text: &str| {
            let (before, rest) = text.split_once("<data>").unwrap();
            let (_, after) = rest.split_once("</data>").unwrap();
            let (until, rest) = after.split_once("md5=\"").unwrap();
            format!("{before}{until}{}", &rest[32..])
        };
        assert_eq!(
            outside(&zipped.text()),
            outside(&plain.text().replace("BLOB", &format!("BLOBzip{level}")))
        );
    }
    assert_eq!(lab.service.count(), 10);
}

#[test]
fn both_url_forms_several_payloads_and_parameters_are_accepted() {
    let lab = lab(|_| {});
    let mut client = lab.service.connect();
    for form in [Form::Slash, Form::Query] {
        let queries = ["SELECT string FROM t_string LIMIT 30", "SELECT 1 AS one", EXAMPLE];
        let target = build_url("", form, &queries, Encoding::BlobZip, Ttl::Short, Some("k"));
        let response = client.request("GET", &target, ID, b"");
        let summary = verified(&response);
        assert_eq!((summary.payloads, summary.rows, summary.error), (3, 33, None));
        assert_eq!(response.field("cache-control"), Some("max-age=0"));
    }
    let bound = ask(
        &mut client,
        "SELECT iov_until FROM F0001_IOVS WHERE iov_since = ? AND payload = ?:0:v=1",
    );
    assert_eq!(verified(&bound).rows, 1);
}

#[test]
fn values_are_sent_as_text_with_declared_types() {
    let lab = lab(|_| {});
    let response = ask(
        &mut lab.service.connect(),
        "SELECT i, r, t, b, i+1 AS e FROM kinds",
    );
    let mut records = Vec::new();
    Reader::new(1000)
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
    let expected = [
        "i|integer|r|real|t|text|b|blob|e|integer",
        "-5|1.5|x|\\x00\\xff\\x07|-4",
        "Null|1e300||Null|Null",
        "0|1.0|z||1",
    ];
    assert_eq!(records, expected);
}

#[test]
fn the_age_depends_on_ttl_errors_and_max_stale() {
    let ages = Ages {
        long: 1000,
        short: 60,
        forever: 2000,
        ..Ages::default()
    };
    let lab = lab(|config| config.ages = ages);
    let mut client = lab.service.connect();
    for (ttl, age) in [
        (Ttl::Long, "max-age=1000"),
        (Ttl::Short, "max-age=60"),
        (Ttl::Forever, "max-age=2000"),
    ] {
        let target = build_url("/F", Form::Slash, &[EXAMPLE], Encoding::Blob, ttl, None);
        assert_eq!(
            client.request("GET", &target, ID, b"").field("cache-control"),
            Some(age)
        );
    }
    let stale = format!("{ID}Cache-Control: max-stale=7,max-age=0\r\n");
    let response = client.request("GET", &url(EXAMPLE, Encoding::Blob), &stale, b"");
    assert_eq!(
        response.field("cache-control"),
        Some("max-age=1000, stale-if-error=7")
    );
    let wrong = ask(&mut client, "SELECT x FROM nowhere");
    assert_eq!(wrong.field("cache-control"), Some("max-age=60"));
    assert_eq!(
        wrong.field("last-modified"),
        Some("Thu, 01 Jan 1970 00:00:00 GMT")
    );
    let missing = client.request("GET", &url(EXAMPLE, Encoding::Blob), "", b"");
    assert_eq!(missing.field("cache-control"), Some("max-age=300"));
    let target = build_url(
        "/F",
        Form::Slash,
        &["SELECT 1 WHERE 0"],
        Encoding::Blob,
        Ttl::Forever,
        None,
    );
    let empty = client.request("GET", &target, ID, b"");
    assert_eq!(
        error_of(&empty),
        "plimsoll Exception: Empty result from query not allowed"
    );
}

#[test]
fn payload_errors_contain_a_message() {
    let lab = lab(|config| config.server_name = "lab <1>".into());
    let mut client = lab.service.connect();
    let cases = [
        ("SELECT x FROM nowhere", "no such table: nowhere"),
        ("SELEKT 1", "syntax error"),
        ("SELECT 1; SELECT 2", "Multiple statements"),
        ("SELECT 'drop it'", "Query cancelled"),
        ("DELETE FROM kinds", "Query cancelled"),
        ("UPDATE kinds SET i=1", "not authorized"),
        ("PRAGMA user_version=3", "not authorized"),
        ("ATTACH '/etc/passwd' AS p", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("", "Query cancelled"),
        ("SELECT ?", "Wrong number of parameters"),
        ("SELECT zeroblob(1000000000)", "too big"),
    ];
    for (sql, expected) in cases {
        let response = ask(&mut client, sql);
        let message = error_of(&response);
        assert!(
            message.starts_with("lab <1> ") && message.contains(expected),
            "{sql}: {message}"
        );
        assert!(
            response.text().contains("full_size=\"0\"/>") && !response.text().contains("records="),
            "{sql}"
        );
    }
    let target = url(EXAMPLE, Encoding::Blob).replace("=BLOB&", "=BLOBzip0&");
    let response = client.request("GET", &target, ID, b"");
    assert_eq!(
        error_of(&response),
        "lab <1> Exception: Unsupported encoder: BLOBzip0"
    );
    assert!(!response.text().contains("md5="));
    let target = url(EXAMPLE, Encoding::Blob).replace(":DEFAULT", ":other");
    assert!(error_of(&client.request("GET", &target, ID, b"")).ends_with("Unknown method other"));
    let after = build_url(
        "",
        Form::Slash,
        &["SELECT x", EXAMPLE],
        Encoding::Blob,
        Ttl::Long,
        None,
    );
    let summary = verified(&client.request("GET", &after, ID, b""));
    assert_eq!((summary.payloads, summary.error.unwrap().payload), (1, 1));
}

#[test]
fn global_errors_have_no_transaction() {
    let lab = lab(|_| {});
    let mut client = lab.service.connect();
    let good = url(EXAMPLE, Encoding::Blob);
    let cases = [
        ("GET", good.clone(), "", "X-frontier-id header missing"),
        ("POST", good.clone(), ID, "POST is not implemented yet!"),
        ("PUT", good.clone(), ID, "Unsupported method [PUT]"),
        ("GET", "/elsewhere".into(), ID, "no Frontier command"),
        ("GET", good.replace("p1=", "p2="), ID, "p1 is missing"),
        ("GET", format!("{good}!!"), ID, "not base64"),
        (
            "GET",
            good.replace("frontier_request", "cert_request"),
            ID,
            "no CertFileName found",
        ),
        (
            "GET",
            url(&" ".repeat(400_000), Encoding::Blob),
            ID,
            "inflates to more than",
        ),
        ("GET", format!("{good}&sec=sig"), ID, "No private key"),
    ];
    for (method, target, fields, expected) in cases {
        let response = client.request(method, &target, fields, b"");
        let message = error_of(&response);
        assert!(
            message.starts_with("plimsoll Error: Exception: ") && message.contains(expected),
            "{message}"
        );
        assert!(!response.text().contains("<transaction"), "{expected}");
        assert!(response.text().contains("\n  <global_error msg=\""));
    }
    // The connection ends before the last chunk, so that no proxy stores the response.
    let cut = client.request("GET", &good, "X-Frontier-Opts: DontCacheErrors\r\n", b"");
    assert!(!cut.complete && cut.body.ends_with(b"</frontier>\n"));
}

#[test]
fn large_responses_are_streamed_in_chunks_or_to_the_close() {
    let lab = lab(|_| {});
    let sql = "SELECT string FROM t_string LIMIT 10000";
    let mut client = lab.service.connect();
    for encoding in [Encoding::Blob, Encoding::BlobZipLevel(1)] {
        let response = client.request("GET", &url(sql, encoding), ID, b"");
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
        let summary = verified(&response);
        assert_eq!((summary.rows, summary.payload_bytes), (10_000, 1_060_021));
    }
    let mut old = lab.service.connect();
    let target = url(sql, Encoding::Blob);
    old.send(format!("GET {target} HTTP/1.0\r\n{ID}Connection: keep-alive\r\n\r\n").as_bytes());
    let response = old.response();
    assert_eq!(
        (
            response.field("transfer-encoding"),
            response.field("content-length")
        ),
        (None, None)
    );
    assert_eq!(response.field("connection"), Some("close"));
    assert_eq!(verified(&response).rows, 10_000);
    let mut old = lab.service.connect();
    for _ in 0..2 {
        let target = url(EXAMPLE, Encoding::Blob);
        old.send(format!("GET {target} HTTP/1.0\r\n{ID}Connection: keep-alive\r\n\r\n").as_bytes());
        let response = old.response();
        assert_eq!(
            (response.field("connection"), response.field("content-length")),
            (Some("keep-alive"), Some("563"))
        );
    }
}

/// Counts inside `SQLite` for about a second, without a row.
const SLOW: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 3000000) SELECT count(*) FROM c";
/// A query that does not end.
const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c";

#[test]
fn keepalives_are_sent_while_waiting_and_errors_after_them_are_global() {
    let lab = lab(|config| {
        config.keepalive_s = 0.05;
        config.query_timeout_s = 0.6;
        config.ages.short = 60;
    });
    let mut client = lab.service.connect();
    let response = ask(&mut client, ENDLESS);
    let summary = verified(&response);
    assert!(summary.keepalives >= 2, "{}", summary.keepalives);
    let error = summary.error.unwrap();
    assert!(error.message.contains("stopped after 0.6 s"), "{}", error.message);
    assert_eq!((error.payload, error.max_age), (1, Some(60)));
    assert!(response.text().contains("<global_error"));
    assert_eq!(response.field("last-modified"), None);
    // The connection to the database can be used by the next request.
    assert_eq!(verified(&ask(&mut client, EXAMPLE)).rows, 2);
}

#[test]
fn a_request_that_waits_for_a_connection_is_answered() {
    let lab = lab_on(2, |config| {
        config.connections = 1;
        config.keepalive_s = 0.02;
    });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(verified(&ask(&mut lab.service.connect(), SLOW)).rows, 1));
        }
    });
    assert_eq!(lab.service.count(), 3);
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn too_many_requests_in_progress_are_refused() {
    let lab = lab(|config| {
        config.threads = 2;
        config.connections = 1;
    });
    let mut busy: Vec<_> = (0..2).map(|_| lab.service.connect()).collect();
    for client in &mut busy {
        client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(ENDLESS, Encoding::Blob)).as_bytes());
    }
    wait_until("two requests in progress", || {
        lab.service.stats()["in_progress"] == 2
    });
    let refused = ask(&mut lab.service.connect(), EXAMPLE);
    assert_eq!((refused.status, refused.text().as_str()), (503, "</frontier>\n"));
    assert_eq!(
        (refused.field("connection"), refused.field("cache-control")),
        (Some("close"), Some("max-age=0"))
    );
    // Clients that disconnect cancel their queries: the running one and the waiting one.
    drop(busy);
    wait_until("both to end", || lab.service.stats()["in_progress"] == 0);
    assert_eq!(verified(&ask(&mut lab.service.connect(), EXAMPLE)).rows, 2);
}

#[test]
fn a_slow_client_uses_bounded_memory_and_a_closed_one_releases_its_connection() {
    let lab = lab(|config| config.connections = 1);
    let many = "SELECT a.string FROM t_string a, t_string b LIMIT 20000000"; // 2 GB
    let mut slow = lab.service.connect();
    slow.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(many, Encoding::Blob)).as_bytes());
    let mut some = vec![0; 100_000];
    slow.stream.read_exact(&mut some).unwrap();
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    std::thread::sleep(Duration::from_millis(200));
    assert!(resident() < before + 100_000_000);
    drop(slow);
    assert_eq!(verified(&ask(&mut lab.service.connect(), EXAMPLE)).rows, 2);
}

#[test]
fn clients_that_send_an_incomplete_head_do_not_count_as_requests() {
    let lab = lab(|config| config.threads = 1);
    let half: Vec<_> = (0..200)
        .map(|_| {
            let mut client = lab.service.connect();
            client.send(b"GET /Frontier/type=frontier_request:1&encoding=BLOB&p1=");
            client
        })
        .collect();
    for _ in 0..3 {
        assert_eq!(verified(&ask(&mut lab.service.connect(), EXAMPLE)).rows, 2);
    }
    assert_eq!(lab.service.stats()["in_progress"], 0);
    drop(half);
}

#[test]
fn a_missing_or_invalid_database_is_an_error_at_the_start() {
    let scratch = Scratch::new();
    let begin = |path: std::path::PathBuf| {
        let config = FrontierConfig::new(path);
        start(0, move |listener, shutdown| {
            frontier::serve(listener, config, shutdown.into_future())
        })
        .finish()
    };
    let missing = begin(scratch.0.join("none")).unwrap_err().to_string();
    assert!(
        missing.contains("cannot read the database") && missing.contains("none"),
        "{missing}"
    );
    std::fs::write(
        scratch.0.join("text"),
        "no database, but long enough to have a header".repeat(10),
    )
    .unwrap();
    let wrong = begin(scratch.0.join("text")).unwrap_err().to_string();
    assert!(wrong.contains("not a database"), "{wrong}");
}

#[test]
fn data_depends_on_the_seed_and_is_replaced() {
    let lab = lab(|_| {});
    let path = lab.scratch.0.join("db");
    let sum = || {
        let connection = Connection::open(&path).unwrap();
        connection
            .query_row("SELECT count(*), coalesce(min(length(string)), 0), coalesce(max(length(string)), 0), coalesce(group_concat(substr(string, 1, 4)), '') FROM t_string", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
            })
            .unwrap()
    };
    let write = |seed, rows| {
        let table = TableConfig {
            name: "t_string".into(),
            rows,
            row: 50,
            compressibility: 50.0,
            seed,
            columns: 1,
            types: Vec::new(),
            tables: 1,
            versions: false,
        };
        data::write(&DataConfig {
            database: path.clone(),
            tables: vec![table.into()],
        })
        .unwrap();
        sum()
    };
    let first = write(1, 100);
    assert_eq!((first.0, first.1, first.2), (100, 50, 50));
    assert_eq!(write(1, 100), first);
    assert_ne!(write(2, 100).3, first.3);
    assert_eq!(write(1, 0).0, 0);
}
