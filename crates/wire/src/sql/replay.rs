//! Exchanges recorded from real servers: `PostgreSQL` 15.18, `MariaDB` 10.11.19. They are replayed
//! whole, in pieces, and with mutations.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{Event, Login, Server, Session, SqlProtocolError};

const POSTGRES: &[u8] = include_bytes!("recorded/postgres.bin");
const POSTGRES_REFUSED: &[u8] = include_bytes!("recorded/postgres-refused.bin");
const MARIADB: &[u8] = include_bytes!("recorded/mariadb.bin");
/// Of a server without the capability to omit EOF packets.
const MARIADB_EOF: &[u8] = include_bytes!("recorded/mariadb-eof.bin");
/// The binary log, without checksums and with them.
const MARIADB_LOG: &[u8] = include_bytes!("recorded/mariadb-log.bin");
const MARIADB_LOG_CHECKED: &[u8] = include_bytes!("recorded/mariadb-log-checked.bin");
const MARIADB_REFUSED: &[u8] = include_bytes!("recorded/mariadb-refused.bin");

fn session(server: Server) -> Session {
    let login = Login {
        user: "lab".to_owned(),
        password: Some("secret".to_owned()),
        database: "d".to_owned(),
    };
    Session::new(server, login)
}

/// Number of statements before the request for the binary log, in the recordings that have one.
const BEFORE_LOG: usize = 4;

/// Replays the bytes of the server in pieces that end at `cuts`, and sends a query after each
/// `Ready`. Returns a line for each event.
fn play(
    server: Server,
    bytes: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> Result<Vec<String>, SqlProtocolError> {
    play_to(server, usize::MAX, bytes, cuts)
}

/// The same, and requests the binary log after a number of `statements`.
fn play_to(
    server: Server,
    statements: usize,
    bytes: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> Result<Vec<String>, SqlProtocolError> {
    let mut session = session(server);
    let mut lines = Vec::new();
    let mut from = 0;
    let mut calls = 0;
    let mut ready = 0;
    for to in cuts.chain([bytes.len()]) {
        session.received(&bytes[from..to]);
        from = to;
        while let Some(event) = session.next()? {
            calls += 1;
            assert!(calls <= 2 * bytes.len() + 2, "the session does not end");
            match &event {
                Event::Ready if ready == statements => session.follow_log(7, "log.000001", 4),
                Event::Ready => {
                    ready += 1;
                    session.query("SELECT 1");
                }
                Event::CopyIn => {
                    session.copy_data(b"1\ta\n");
                    session.copy_done();
                }
                _ => {}
            }
            lines.push(line(&session, event));
        }
        session.outgoing().clear();
    }
    Ok(lines)
}

fn line(session: &Session, event: Event) -> String {
    match event {
        Event::Ready => "ready".to_owned(),
        Event::StartTls => "tls".to_owned(),
        Event::Complete => "complete".to_owned(),
        Event::CopyIn => "copy in".to_owned(),
        Event::CopyRow(bytes) => format!("copy row {bytes}"),
        Event::Failed(refusal) => format!("failed {} {}", refusal.code, refusal.number),
        Event::Notified { channel, payload } => format!("notified {channel} {payload}"),
        Event::Stream(event) => format!("{event:?}"),
        Event::Log(event) => format!("{event:?}"),
        Event::Columns(columns) => {
            let names = columns
                .iter()
                .map(|column| format!(" {} {}", column.name, column.type_name));
            format!("columns{}", names.collect::<String>())
        }
        Event::Row => {
            let text = |value: Option<&[u8]>| match value {
                Some(bytes) => format!(" '{}'", bytes.escape_ascii()),
                None => " null".to_owned(),
            };
            format!("row{}", session.row().map(text).collect::<String>())
        }
    }
}

fn whole(server: Server, bytes: &[u8]) -> Vec<String> {
    play(server, bytes, [].into_iter()).unwrap()
}

#[test]
fn a_recorded_exchange_with_postgres_produces_its_events() {
    assert_eq!(
        whole(Server::Postgres, POSTGRES),
        [
            "ready",
            "columns i int4 t text n bytea",
            r"row '1' 'zwei' null",
            r"row '2' '' '\\x00ff'",
            "complete",
            "ready",
            "complete",
            "complete",
            "columns i int4 t text",
            "row '3' 'x'",
            "complete",
            "ready",
            "complete",
            "ready",
            "failed 42601 0",
            "ready",
            "complete",
            "ready",
            "copy in",
            "complete",
            "ready",
            "copy row 4",
            "copy row 4",
            "complete",
            "ready",
            "columns pg_terminate_backend bool",
            "row 't'",
            "failed 57P01 0",
        ]
    );
    assert_eq!(whole(Server::Postgres, POSTGRES_REFUSED), ["failed 28000 0"]);
}

#[test]
fn a_recorded_exchange_with_mariadb_produces_its_events() {
    let lines = whole(Server::Mysql, MARIADB);
    assert_eq!(
        lines,
        [
            "ready",
            "columns i int t varchar n varbinary",
            "row '1' 'zwei' null",
            r"row '2' '' '\x00\xff'",
            "complete",
            "ready",
            "complete",
            "ready",
            "complete",
            "ready",
            "columns i int b longblob d decimal w text",
            r"row '1' 'a' '1.50' '\xc3\xa9'",
            "complete",
            "ready",
            "failed 42000 1064",
            "ready",
            "columns 1 int",
            "row '1'",
            "complete",
            "columns 2 int 3 int",
            "row '2' '3'",
            "complete",
            "complete",
            "ready",
        ]
    );
    assert_eq!(whole(Server::Mysql, MARIADB_EOF), lines);
    assert_eq!(whole(Server::Mysql, MARIADB_REFUSED), ["failed 28000 1045"]);
}

#[test]
fn a_recorded_binary_log_of_mariadb_produces_its_changes() {
    for bytes in [MARIADB_LOG, MARIADB_LOG_CHECKED] {
        let lines = play_to(Server::Mysql, BEFORE_LOG, bytes, [].into_iter()).unwrap();
        let changes = lines
            .iter()
            .filter(|line| !["ready", "complete", "Nothing"].contains(&line.as_str()));
        let changes: Vec<&str> = changes.map(String::as_str).collect();
        assert_eq!(
            changes,
            [
                r#"Table { schema: "d", name: "one" }"#,
                "Commit",
                r#"Table { schema: "d", name: "one" }"#,
                r#"Table { schema: "d", name: "two" }"#,
                "Commit",
                r#"Statement { schema: "d", text: Some("truncate table two") }"#,
                r#"Statement { schema: "d", text: Some("alter table one add u int") }"#,
                r#"Table { schema: "d", name: "one" }"#,
                "Commit",
            ]
        );
        let cut = play_to(Server::Mysql, BEFORE_LOG, bytes, 1..bytes.len()).unwrap();
        assert_eq!(cut, lines, "single bytes");
    }
}

#[test]
fn pieces_of_any_size_produce_the_same_events() {
    let mut rng = Pcg64::seed_from_u64(5);
    for (server, bytes) in [
        (Server::Postgres, POSTGRES),
        (Server::Mysql, MARIADB),
        (Server::Mysql, MARIADB_EOF),
    ] {
        let expected = whole(server, bytes);
        assert_eq!(
            play(server, bytes, 1..bytes.len()).unwrap(),
            expected,
            "single bytes"
        );
        for _ in 0..200 {
            let mut cuts: Vec<usize> = (0..20).map(|_| rng.random_range(0..=bytes.len())).collect();
            cuts.sort_unstable();
            assert_eq!(play(server, bytes, cuts.into_iter()).unwrap(), expected);
        }
    }
}

#[test]
fn mutated_exchanges_neither_panic_nor_loop() {
    let mut rng = Pcg64::seed_from_u64(6);
    let seeds = [
        (Server::Postgres, POSTGRES),
        (Server::Postgres, POSTGRES_REFUSED),
        (Server::Mysql, MARIADB),
        (Server::Mysql, MARIADB_EOF),
        (Server::Mysql, MARIADB_REFUSED),
        (Server::Mysql, MARIADB_LOG),
        (Server::Mysql, MARIADB_LOG_CHECKED),
    ];
    let (mut good, mut bad) = (0, 0);
    for turn in 0..200_000 {
        let (server, seed) = seeds[turn % seeds.len()];
        let mut bytes = seed.to_vec();
        mutate(&mut rng, &mut bytes);
        let cut = rng.random_range(0..=bytes.len());
        let log = turn % seeds.len() > 4;
        let statements = if log { BEFORE_LOG } else { usize::MAX };
        match play_to(server, statements, &bytes, [cut].into_iter()) {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(
        good > 10_000 && bad > 10_000,
        "the mutations are too strong or too weak: {good} {bad}"
    );
}

/// One to four changes: a byte flipped, a range removed, doubled or overwritten, or the end cut
/// off.
fn mutate(rng: &mut Pcg64, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..=4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        let end = (at + rng.random_range(1..20)).min(bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                bytes.splice(to..to, copy);
            }
            4 => bytes[at..end].fill([0, 1, 0xff, 0xfe, 0xfb, 0x7f][rng.random_range(0..6)]),
            _ => bytes.truncate(at),
        }
    }
}

#[test]
fn after_an_error_the_session_returns_only_that_error() {
    let mut session = session(Server::Mysql);
    session.received(b"HTTP/1.1 400");
    let error = session.next().unwrap_err();
    session.received(MARIADB);
    assert_eq!(session.next().unwrap_err(), error);
}
