//! A gateway to a small `SQLite` database, and helpers for its responses.

use plimsoll_services::frontier::{self, FrontierConfig};
use plimsoll_wire::frontier::document::{Reader, Summary};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};
use rusqlite::Connection;

use crate::support::{Client, Response, Running, Scratch, start};

pub const ID: &str = "X-Frontier-Id: client 2.10.2 2269 lab(1000) lab\r\n";
pub const EXAMPLE: &str = "SELECT iov_since,iov_until,payload FROM main.f0001_iovs WHERE channel_id=7";
/// A query with a response of more than 8 KiB.
pub const BIG: &str = "SELECT string FROM main.t_string";
/// A query that counts for about a second, without a row.
pub const SLOW: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 3000000) SELECT count(*) FROM c";

pub struct Lab {
    pub service: Running,
    pub scratch: Scratch,
}

/// A gateway whose default configuration is changed by this function.
pub fn lab(change: impl FnOnce(&mut FrontierConfig)) -> Lab {
    let scratch = Scratch::new();
    Connection::open(scratch.0.join("db"))
        .unwrap()
        .execute_batch(
            "CREATE TABLE f0001_iovs (channel_id INTEGER, iov_since int8, iov_until int8, payload text);
             INSERT INTO f0001_iovs VALUES (7, 0, 100, 'v=1'), (7, 100, 9223372036854775807, NULL);
             CREATE TABLE t_string (string text);
             INSERT INTO t_string WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 1000)
               SELECT printf('%0100d', x) FROM c;
             CREATE TABLE changes (table_owner TEXT, table_name TEXT, change_time TEXT);
             INSERT INTO changes VALUES ('MAIN', 'F0001_IOVS', '2023-12-31 23:59:59'),
               ('Main', 'T_string', '2024-01-02 03:04:05');",
        )
        .unwrap();
    let mut config = FrontierConfig::new(scratch.0.join("db"));
    config.files = Some(scratch.0.join("files"));
    std::fs::create_dir(scratch.0.join("files")).unwrap();
    change(&mut config);
    let service = start(0, move |listener, shutdown| {
        frontier::serve(listener, config, shutdown.into_future())
    });
    Lab { service, scratch }
}

impl Lab {
    pub fn database(&self) -> Connection {
        Connection::open(self.scratch.0.join("db")).unwrap()
    }

    pub fn ask(&self, sql: &str) -> Response {
        self.ask_with(sql, Ttl::Long, "")
    }

    /// Sends a request. Each of `fields` has `\r\n` at its end.
    pub fn ask_with(&self, sql: &str, ttl: Ttl, fields: &str) -> Response {
        let target = build_url("/Lab", Form::Slash, &[sql], Encoding::Blob, ttl, None);
        self.get(&target, fields)
    }

    pub fn get(&self, target: &str, fields: &str) -> Response {
        let fields = format!("{ID}{fields}");
        self.service.connect().request("GET", target, &fields, b"")
    }
}

pub fn url(sql: &str) -> String {
    build_url("/Lab", Form::Slash, &[sql], Encoding::Blob, Ttl::Long, None)
}

/// Header of an HTTP/1.0 client that requires keep-alive.
pub fn ask_as_1_0(client: &mut Client, sql: &str) -> Response {
    let target = url(sql);
    client.send(format!("GET {target} HTTP/1.0\r\nHost: h\r\n{ID}Connection: keep-alive\r\n\r\n").as_bytes());
    client.response()
}

/// The document, verified as by a client.
pub fn verified(response: &Response) -> Summary {
    assert!(response.complete);
    assert_eq!(response.status, 200);
    Reader::new(1 << 30).verify(&response.body).unwrap()
}

pub fn error_of(response: &Response) -> String {
    verified(response).error.expect("an error").message
}

/// The part of the line after `<quality `.
pub fn quality(response: &Response) -> String {
    let text = response.text();
    let from = text.find("<quality ").unwrap() + "<quality ".len();
    text[from..].split("/>").next().unwrap().to_owned()
}
