//! Detection of changes by logical decoding: no DDL, no slot that remains, no gap without a purge.

use plimsoll_services::frontier::{Detection, InvalidationConfig, Scope};

use super::{BOTH, Caches, ONE, TABLES, TWO, ask, gateway, kept, wait_until};
use crate::servers::{self, Kind, Server};

const LOGICAL: &[&str] = &["-c", "wal_level=logical", "-c", "max_slot_wal_keep_size=64MB"];

fn decoding(caches: &Caches, scope: Scope) -> InvalidationConfig {
    InvalidationConfig {
        detection: Detection::LogicalDecoding,
        scope,
        ..caches.config()
    }
}

fn slots(server: &Server) -> String {
    server.sql("", "SELECT count(*) FROM pg_replication_slots")
}

#[test]
fn changes_are_detected_without_ddl_and_a_lost_slot_purges_everything() {
    let Some(server) = Server::with(Kind::Postgres, LOGICAL) else {
        return;
    };
    let name = server.database(TABLES);
    server.sql(
        &name,
        "CREATE UNLOGGED TABLE fast (id int); CREATE TABLE keyless (id int); INSERT INTO keyless VALUES (1)",
    );
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), decoding(&caches, Scope::Table));
    wait_until("the slot", || kept(&service, TWO));
    assert!(kept(&service, ONE));
    server.sql(&name, "BEGIN; INSERT INTO one VALUES (9, 'z'); ROLLBACK");
    // An update of a table without a replica identity is possible, and detected.
    let keyless = "SELECT id FROM keyless";
    assert!(kept(&service, keyless));
    server.sql(&name, "UPDATE keyless SET id = 2");
    wait_until("a table without a key", || caches.count(0, keyless) == 1);
    assert_eq!(caches.count(0, ONE), 0, "after the rollback");
    let changes = [
        "UPDATE one SET text = 'x' WHERE id = 1",
        "INSERT INTO one VALUES (3, 'c')",
        "DELETE FROM one WHERE id = 2",
        "BEGIN; UPDATE one SET text = 'y'; SAVEPOINT s; DELETE FROM one; ROLLBACK TO s; COMMIT",
        "TRUNCATE TABLE one",
    ];
    for (turn, change) in changes.into_iter().enumerate() {
        assert!(kept(&service, ONE) && kept(&service, BOTH), "{change}");
        server.sql(&name, change);
        let are_purged = || caches.count(0, ONE) > turn && caches.count(0, BOTH) > turn;
        wait_until(change, are_purged);
    }
    assert!(kept(&service, ONE));
    assert_eq!(caches.count(0, TWO), 0);
    let before = caches.count(0, ONE);
    assert!(!kept(&service, "SELECT id FROM fast"), "not in the log");
    assert_eq!(
        server.sql(&name, "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal"),
        "0"
    );
    assert_eq!(server.sql(&name, "SELECT count(*) FROM pg_publication"), "0");

    // The server ends the connection of the slot. The change meanwhile is not reported.
    assert_eq!(slots(&server), "1");
    server.sql(
        &name,
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots; UPDATE two SET text = 'lost'",
    );
    wait_until("everything purged", || {
        caches.count(0, TWO) == 1 && caches.count(0, ONE) > before
    });
    wait_until("the next slot", || {
        ask(&service, TWO).field("cache-control") == Some("max-age=604800")
    });
    assert_eq!(slots(&server), "1");
    server.sql(&name, "UPDATE two SET text = 'found'");
    wait_until("a change after it", || caches.count(0, TWO) == 2);
    drop(service);
    wait_until("no slot to remain", || slots(&server) == "0");
}

#[test]
fn decoded_rows_purge_only_their_objects() {
    let Some(server) = Server::with(Kind::Postgres, LOGICAL) else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), decoding(&caches, Scope::Row));
    let query = |id: u32| format!("SELECT text FROM one WHERE id = {id}");
    wait_until("the slot", || kept(&service, &query(1)));
    for (change, expected) in [
        ("UPDATE one SET text = 'x' WHERE id = 1", vec![1]),
        ("UPDATE one SET id = 3 WHERE id = 2", vec![2, 3]),
        ("DELETE FROM one WHERE id = 3", vec![3]),
        (
            "INSERT INTO one VALUES (2, 'it''s id[integer]:1'), (3, 'c')",
            vec![2, 3],
        ),
        (
            "ALTER TABLE one REPLICA IDENTITY FULL; UPDATE one SET text = 'y' WHERE id = 3",
            vec![3],
        ),
        ("TRUNCATE one", vec![1, 2, 3]),
    ] {
        let ids = [1, 2, 3];
        assert!(ids.iter().all(|id| kept(&service, &query(*id))) && kept(&service, TWO));
        let before: Vec<usize> = ids.iter().map(|id| caches.count(0, &query(*id))).collect();
        let marked = caches.count(0, TWO);
        server.sql(&name, change);
        server.sql(&name, "UPDATE two SET text = 'z'");
        wait_until(change, || caches.count(0, TWO) > marked);
        let purged: Vec<u32> = ids
            .into_iter()
            .zip(before)
            .filter(|(id, before)| caches.count(0, &query(*id)) > *before)
            .map(|(id, _)| id)
            .collect();
        assert_eq!(purged, expected, "{change}");
    }
}

#[test]
fn a_server_that_cannot_decode_is_an_error_at_the_start() {
    let caches = Caches::new(1);
    let why = |url: &str| {
        let service = gateway(url, decoding(&caches, Scope::Table));
        service.finish().unwrap_err().to_string()
    };
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let replica = why(&server.url(&name));
    assert!(replica.contains("wal_level is replica") && replica.contains("max_slot_wal_keep_size"));
    let Some(server) = Server::with(Kind::Postgres, LOGICAL) else {
        return;
    };
    let name = server.database(TABLES);
    server.sql(&name, "CREATE ROLE reader LOGIN; GRANT SELECT ON one TO reader");
    let refused = why(&server.url(&name).replace("lab@", "reader@"));
    assert!(refused.contains("ALTER ROLE ... REPLICATION"), "{refused}");
}
