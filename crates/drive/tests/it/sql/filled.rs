//! Real database servers with a table whose rows are known.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Session};

use crate::servers::{Database, Kind};

/// The servers that this machine can run, with a table `t` of 1,000 rows: a number and 100 letters.
pub fn servers() -> impl Iterator<Item = &'static Database> {
    [postgres(), mariadb()].into_iter().flatten()
}

pub fn postgres() -> Option<&'static Database> {
    static SERVER: OnceLock<Option<Database>> = OnceLock::new();
    SERVER.get_or_init(|| filled(Kind::Postgres)).as_ref()
}

pub fn mariadb() -> Option<&'static Database> {
    static SERVER: OnceLock<Option<Database>> = OnceLock::new();
    SERVER.get_or_init(|| filled(Kind::Mariadb)).as_ref()
}

fn filled(kind: Kind) -> Option<Database> {
    let database = Database::start(kind)?;
    ask(&database, "CREATE TABLE t (n int, s varchar(200))");
    let rows: Vec<String> = (0..1000)
        .map(|n| format!("({n}, '{}')", "x".repeat(100)))
        .collect();
    ask(&database, &format!("INSERT INTO t VALUES {}", rows.join(",")));
    Some(database)
}

/// Sends a query from a separate client. Returns the first value of the result.
pub fn ask(database: &Database, sql: &str) -> Option<String> {
    let address = Address::from_url(&database.url()).unwrap();
    let mut stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut session = Session::new(address.server, address.login);
    let mut buffer = vec![0; 100_000];
    let (mut value, mut asked) = (None, false);
    loop {
        match session.next().unwrap() {
            Some(Event::Ready) if asked => return value,
            Some(Event::Ready) => {
                session.query(sql);
                asked = true;
            }
            Some(Event::Row) => {
                let first = session
                    .row()
                    .next()
                    .flatten()
                    .map(|v| String::from_utf8(v.to_vec()).unwrap());
                value = value.or(first);
            }
            Some(Event::Failed(refusal)) => panic!("{refusal:?}"),
            Some(_) => {}
            None => {
                stream.write_all(session.outgoing()).unwrap();
                session.outgoing().clear();
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0);
                session.received(&buffer[..count]);
            }
        }
    }
}

/// Sends a query to a `MariaDB` server as root through its socket, because the user `lab` lacks the
/// right. Returns the first value of the result.
pub fn as_root(server: &Database, sql: &str) -> String {
    let socket = format!("--socket={}", server.directory.join("socket").display());
    let mut command = std::process::Command::new("mariadb");
    command.args(["--no-defaults", &socket, "-uroot", "-BN", "-e", sql]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Number of connections of the user `idle` that wait for a query after their first one.
pub fn idle(server: &Database) -> u32 {
    let count = match server.kind {
        Kind::Postgres => ask(
            server,
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'idle' AND state = 'idle' AND query LIKE '%first%'",
        )
        .unwrap(),
        Kind::Mariadb => as_root(
            server,
            "SELECT count(*) FROM information_schema.processlist WHERE user = 'idle' AND command = 'Sleep'",
        ),
    };
    count.parse().unwrap()
}

/// Closes these connections on the server.
pub fn close_idle(server: &Database) {
    match server.kind {
        Kind::Postgres => {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'idle'";
            assert_eq!(ask(server, sql).as_deref(), Some("t"));
        }
        Kind::Mariadb => drop(as_root(server, "KILL USER idle@'127.0.0.1'")),
    }
}

/// Number of queries with the text `what` that the server executes.
pub fn at_work(database: &Database, what: &str) -> u32 {
    let sql = match database.kind {
        Kind::Postgres => format!(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%{what}%' AND pid <> pg_backend_pid()"
        ),
        Kind::Mariadb => format!(
            "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%{what}%' AND id <> connection_id()"
        ),
    };
    ask(database, &sql).unwrap().parse().unwrap()
}
