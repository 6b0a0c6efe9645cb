//! Client sessions against real servers.
#![allow(clippy::unwrap_used, missing_docs)]

mod servers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Column, Event, Refusal, Session, SqlProtocolError};
use servers::{Database, Kind, PASSWORD_ENCODED};

fn postgres() -> Option<&'static Database> {
    static SERVER: OnceLock<Option<Database>> = OnceLock::new();
    SERVER.get_or_init(|| Database::start(Kind::Postgres)).as_ref()
}

fn mariadb() -> Option<&'static Database> {
    static SERVER: OnceLock<Option<Database>> = OnceLock::new();
    SERVER.get_or_init(|| Database::start(Kind::Mariadb)).as_ref()
}

type Row = Vec<Option<String>>;

#[derive(Debug, Default, PartialEq)]
struct Answer {
    columns: Vec<(String, String)>,
    rows: Vec<Row>,
    refusal: Option<Refusal>,
    completed: usize,
    copy: bool,
    /// Bytes of each row of `COPY ... TO STDOUT`.
    copied: Vec<u64>,
}

struct Client {
    stream: TcpStream,
    session: Session,
    buffer: Vec<u8>,
    most: usize,
}

impl Client {
    /// Connects without logging in.
    fn new(url: &str, buffer_size: usize) -> Self {
        let address = Address::from_url(url).unwrap();
        let stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self {
            stream,
            session: Session::new(address.server, address.login),
            buffer: vec![0; buffer_size],
            most: 0,
        }
    }

    fn login(url: &str) -> Self {
        let mut client = Self::new(url, 64 * 1024);
        assert_eq!(client.event().unwrap(), Event::Ready);
        client
    }

    fn send(&mut self) {
        let out = self.session.outgoing();
        self.stream.write_all(out).unwrap();
        out.clear();
    }

    fn event(&mut self) -> Result<Event, SqlProtocolError> {
        loop {
            if let Some(event) = self.session.next()? {
                return Ok(event);
            }
            self.send();
            let count = self.stream.read(&mut self.buffer).unwrap();
            assert!(count > 0, "closed");
            self.most = self.most.max(count);
            self.session.received(&self.buffer[..count]);
        }
    }

    fn ask(&mut self, sql: &str) -> Answer {
        self.session.query(sql);
        self.rest()
    }

    fn rest(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            match self.event().unwrap() {
                Event::Ready => return answer,
                Event::Columns(columns) => {
                    let both = |column: Column| (column.name, column.type_name);
                    answer.columns = columns.into_iter().map(both).collect();
                }
                Event::Row => {
                    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8(v.to_vec()).unwrap());
                    answer.rows.push(self.session.row().map(text).collect());
                }
                Event::Complete => answer.completed += 1,
                Event::Failed(refusal) => answer.refusal = Some(refusal),
                Event::CopyIn => {
                    answer.copy = true;
                    return answer;
                }
                Event::CopyRow(bytes) => answer.copied.push(bytes),
                Event::StartTls | Event::Notified { .. } | Event::Stream(_) | Event::Log(_) => {
                    panic!("unexpected event")
                }
            }
        }
    }
}

fn texts(values: &[Option<&str>]) -> Row {
    values.iter().map(|value| value.map(str::to_owned)).collect()
}

fn refused(url: &str) -> Refusal {
    match Client::new(url, 1000).event().unwrap() {
        Event::Failed(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn postgres_logs_in_with_every_method() {
    let Some(server) = postgres() else { return };
    for user in ["scram", "md5", "clear"] {
        let mut client = Client::login(&server.url_of(&format!("{user}:{PASSWORD_ENCODED}")));
        assert_eq!(client.ask("SELECT current_user").rows, [texts(&[Some(user)])]);
        let refusal = refused(&server.url_of(&format!("{user}:wrong")));
        assert_eq!(refusal.code, "28P01", "{refusal:?}");
        let error = Client::new(&server.url_of(user), 1000).event().unwrap_err();
        assert!(error.to_string().contains("which is missing"), "{error}");
    }
    assert_eq!(refused(&server.url_of("nobody")).code, "28000");
    let mut client = Client::login(&server.url());
    client.session.quit();
    client.send();
    assert_eq!(client.stream.read(&mut client.buffer).unwrap(), 0);
    let missing = server.url_to("lab", "none");
    assert_eq!(refused(&missing).code, "3D000");
}

#[test]
fn postgres_returns_columns_and_rows() {
    let Some(server) = postgres() else { return };
    let mut client = Client::login(&server.url());
    let answer = client.ask(
        "SELECT 1 AS i, 2::int8 AS \"Längen\", 'x'::text AS t, NULL::bytea AS n, '\\x00ff'::bytea AS b, true AS o, '' AS e",
    );
    let expected = [
        ("i", "int4"),
        ("Längen", "int8"),
        ("t", "text"),
        ("n", "bytea"),
        ("b", "bytea"),
        ("o", "bool"),
        ("e", "text"),
    ];
    let columns: Vec<(&str, &str)> = answer
        .columns
        .iter()
        .map(|(n, t)| (n.as_str(), t.as_str()))
        .collect();
    assert_eq!(columns, expected);
    let row = texts(&[
        Some("1"),
        Some("2"),
        Some("x"),
        None,
        Some("\\x00ff"),
        Some("t"),
        Some(""),
    ]);
    assert_eq!(answer.rows, [row]);
    let answer = client.ask("SELECT generate_series(1, 1000)");
    assert_eq!((answer.rows.len(), answer.completed), (1000, 1));
    assert_eq!(answer.rows[999], texts(&[Some("1000")]));
    assert_eq!(client.ask("").completed, 1);
    let answer = client.ask("SELECT 1; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1); SELECT 2, 3");
    assert_eq!(answer.completed, 4);
    assert_eq!(answer.rows.len(), 2);
    let answer = client.ask("SELECT 1; SELECT 1 / 0; SELECT 2");
    assert_eq!(
        (answer.completed, answer.refusal.unwrap().code.as_str()),
        (1, "22012")
    );
    let refusal = client.ask("SELEC 1").refusal.unwrap();
    assert_eq!(refusal.code, "42601");
    assert!(refusal.message.contains("SELEC"), "{refusal:?}");
    assert_eq!(client.ask("SELECT * FROM nowhere").refusal.unwrap().code, "42P01");
    assert_eq!(client.ask("SELECT 'a\0b'").refusal.unwrap().code, "54000");
    assert_eq!(
        client.ask("DO $$ BEGIN RAISE NOTICE 'x'; END $$; SELECT 5").rows,
        [texts(&[Some("5")])]
    );
    assert_eq!(client.ask("SET application_name = 'y'; SELECT 1").completed, 2);
}

#[test]
fn names_of_postgres_types_are_those_of_its_catalogue() {
    let Some(server) = postgres() else { return };
    let mut client = Client::login(&server.url());
    let types = client
        .ask("SELECT typname, format_type(oid, NULL) FROM pg_type WHERE oid < 10000 AND typtype = 'b' AND typname !~ '^_|^pg_'")
        .rows;
    let mut known = 0;
    for row in &types {
        let (name, full) = (row[0].as_ref().unwrap(), row[1].as_ref().unwrap());
        let answer = client.ask(&format!("SELECT NULL::{full}"));
        let Some((_, found)) = answer.columns.first() else {
            continue;
        };
        if !found.starts_with("oid") || name.starts_with("oid") {
            assert_eq!(found, name);
            known += 1;
        }
    }
    assert!(known > 50, "{known} of {}", types.len());
}

#[test]
fn postgres_copies_from_stdin_and_to_stdout() {
    let Some(server) = postgres() else { return };
    let mut client = Client::login(&server.url());
    client.ask("CREATE TEMP TABLE c (i int, t text)");
    assert!(client.ask("COPY c FROM STDIN").copy);
    for number in 0..10_000 {
        let line = format!("{number}\tvalue {number}\n");
        let (a, b) = line.as_bytes().split_at(3);
        client.session.copy_data(a);
        client.session.copy_data(b);
    }
    client.session.copy_done();
    let answer = client.rest();
    assert_eq!((answer.completed, answer.refusal), (1, None));
    let answer = client.ask("SELECT count(*), sum(length(t)) FROM c");
    assert_eq!(answer.rows, [texts(&[Some("10000"), Some("98890")])]);
    let answer = client.ask("COPY c TO STDOUT; SELECT 1");
    assert_eq!((answer.completed, answer.rows.len()), (2, 1));
    assert_eq!(
        (answer.copied.len(), answer.copied.iter().sum::<u64>()),
        (10_000, 157_780)
    );
    assert!(client.ask("COPY c FROM STDIN").copy);
    client.session.copy_data(b"not a number\n");
    client.session.copy_done();
    assert_eq!(client.rest().refusal.unwrap().code, "22P02");
    assert!(client.ask("COPY c FROM STDIN").copy);
    client.session.copy_fail();
    assert_eq!(client.rest().refusal.unwrap().code, "57014");
    assert_eq!(client.ask("SELECT 1").rows.len(), 1);
}

#[test]
fn postgres_cancels_a_query() {
    let Some(server) = postgres() else { return };
    let mut client = Client::login(&server.url());
    let key = client.session.cancel_key().unwrap();
    client.session.query("SELECT pg_sleep(30)");
    client.send();
    std::thread::sleep(Duration::from_millis(100));
    let mut other = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    other.write_all(&key.request()).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
    assert_eq!(client.rest().refusal.unwrap().code, "57014");
    assert_eq!(client.ask("SELECT 1").rows.len(), 1);
}

#[test]
fn a_large_value_is_received_in_small_reads() {
    for server in [postgres(), mariadb()].into_iter().flatten() {
        let mut client = Client::login(&server.url());
        client.buffer = vec![0; 1 << 20];
        // More than two packets of MariaDB, and exactly one full packet, which an empty packet
        // follows.
        for length in [40_000_000, 0xff_ffff - 4, 0xff_ffff - 5, 0xff_ffff - 3, 70_000] {
            let sql = format!("SELECT repeat('x', {length}), 'end'");
            let answer = client.ask(&sql);
            assert_eq!(answer.refusal, None);
            let value = answer.rows[0][0].as_ref().unwrap();
            assert_eq!(value.len(), length);
            assert!(value.bytes().all(|byte| byte == b'x'));
            assert_eq!(answer.rows[0][1].as_deref(), Some("end"));
        }
        // In the other direction.
        let long = "y".repeat(40_000_000);
        let answer = client.ask(&format!("SELECT length('{long}')"));
        assert_eq!(answer.rows, [texts(&[Some("40000000")])]);
    }
}

#[test]
fn reads_of_single_bytes_return_the_same_rows() {
    for server in [postgres(), mariadb()].into_iter().flatten() {
        let mut client = Client::new(&server.url(), 1);
        assert_eq!(client.event().unwrap(), Event::Ready);
        let answer = client.ask("SELECT 1 AS a, 'two' AS b UNION ALL SELECT 3, NULL ORDER BY 1");
        assert_eq!(
            answer.rows,
            [texts(&[Some("1"), Some("two")]), texts(&[Some("3"), None])]
        );
    }
}

#[test]
fn mariadb_logs_in() {
    let Some(server) = mariadb() else { return };
    let mut client = Client::login(&server.url_of(&format!("native:{PASSWORD_ENCODED}")));
    assert_eq!(
        client.ask("SELECT substring_index(current_user, '@', 1)").rows,
        [texts(&[Some("native")])]
    );
    assert_eq!(client.ask("SELECT database()").rows, [texts(&[Some("lab")])]);
    for user in ["native:wrong", "native", "nobody"] {
        let refusal = refused(&server.url_of(user));
        assert_eq!(
            (refusal.code.as_str(), refusal.number),
            ("28000", 1045),
            "{refusal:?}"
        );
    }
    let missing = server.url_to("lab", "none");
    assert_eq!(refused(&missing).number, 1044);
    let mut client = Client::login(&server.url_to("lab", ""));
    assert_eq!(client.ask("SELECT database()").rows, [texts(&[None])]);
    client.session.quit();
    client.send();
    assert_eq!(client.stream.read(&mut client.buffer).unwrap(), 0);
}

#[test]
fn mariadb_returns_columns_and_rows() {
    let Some(server) = mariadb() else { return };
    let mut client = Client::login(&server.url());
    let refusal = client.ask(
        "CREATE OR REPLACE TABLE kinds (a tinyint, b smallint, c mediumint, d int, e bigint unsigned, f float, g double,
         h decimal(10,2), i date, j datetime, k timestamp NULL, l time, m year, n char(5), o varchar(50), p binary(3),
         q varbinary(9), r tinyblob, s blob, t mediumblob, u longblob, v tinytext, w text, x mediumtext, y longtext,
         z enum('one','two'), aa set('x','y'), ab bit(3), ac json, ad varchar(20) CHARACTER SET latin1,
         ae text CHARACTER SET latin1)",
    );
    assert_eq!(refusal.refusal, None);
    let answer = client.ask("SELECT * FROM kinds");
    let types: Vec<&str> = answer.columns.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(
        types.join(" "),
        "tinyint smallint mediumint int bigint float double decimal date datetime timestamp time year char varchar \
         binary varbinary tinyblob blob mediumblob longblob tinytext text mediumtext longtext enum set bit longtext varchar text"
    );
    assert!(answer.rows.is_empty());
    let answer =
        client.ask("INSERT INTO kinds (a, o, w, s) VALUES (-1, 'é', 'ü', x'41'), (2, '', NULL, NULL)");
    assert_eq!((answer.completed, answer.columns.len()), (1, 0));
    let answer = client.ask("SELECT a, o, w, s, NULL FROM kinds");
    assert_eq!(
        answer.rows,
        [
            texts(&[Some("-1"), Some("é"), Some("ü"), Some("A"), None]),
            texts(&[Some("2"), Some(""), None, None, None])
        ]
    );
    let refusal = client.ask("SELEC 1").refusal.unwrap();
    assert_eq!((refusal.code.as_str(), refusal.number), ("42000", 1064));
    assert_eq!(client.ask("SELECT * FROM nowhere").refusal.unwrap().code, "42S02");
    // Refused, so that a value cannot add a statement.
    assert_eq!(client.ask("SELECT 1; SELECT 2").refusal.unwrap().number, 1064);
    assert_eq!(client.ask("SELECT seq FROM seq_1_to_1000").rows.len(), 1000);
    assert_eq!(
        client
            .ask("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE kinds")
            .rows
            .len(),
        0
    );
    assert_eq!(client.ask("SELECT 1").rows.len(), 1);
}

#[test]
fn mariadb_returns_several_results_of_a_procedure() {
    let Some(server) = mariadb() else { return };
    let mut client = Client::login(&server.url());
    client.ask("CREATE OR REPLACE PROCEDURE twice() BEGIN SELECT 1; SELECT 2, 3; END");
    let answer = client.ask("CALL twice()");
    assert_eq!((answer.completed, answer.rows.len()), (3, 2));
    client.ask("CREATE OR REPLACE PROCEDURE bad() BEGIN SELECT 1; SELECT * FROM nowhere; END");
    let answer = client.ask("CALL bad()");
    assert_eq!(answer.rows.len(), 1);
    assert_eq!(answer.refusal.unwrap().number, 1146);
    assert_eq!(client.ask("SELECT 1").rows.len(), 1);
}
