//! When the database cannot be watched, and objects that caches must not store or that are purged
//! without a report of a change.

use plimsoll_services::frontier::{InvalidationConfig, On, Triggers};

use super::{Caches, ONE, TABLES, TWO, ask, gateway, kept, number, wait_until};
use crate::servers::{self, Kind, Server};

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
