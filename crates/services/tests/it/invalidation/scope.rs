//! Which objects a change purges: all, those of its table, or those of its rows.

use plimsoll_services::frontier::{InvalidationConfig, Scope};

use super::{BOTH, Caches, ONE, TABLES, TWO, gateway, kept, number, wait_until};
use crate::servers::{self, Kind};

const FIRST: &str = "SELECT text FROM one WHERE id = 1";
const SECOND: &str = "SELECT text FROM one WHERE id = 2";
const LOW: &str = "SELECT text FROM one WHERE id > 0*10 AND id <= 0*10+1";
const ABSENT: &str = "SELECT text FROM one WHERE id = 7";
const EITHER: &str = "SELECT text FROM one WHERE id = 1 OR text = 'b'";

fn with_scope(caches: &Caches, scope: Scope) -> InvalidationConfig {
    InvalidationConfig {
        scope,
        ..caches.config()
    }
}

/// Sends these queries, makes the change, and returns which of their objects were purged.
fn purged_by<'a>(
    server: &servers::Server,
    name: &str,
    (service, caches): (&crate::support::Running, &Caches),
    queries: &[&'a str],
    change: &str,
) -> Vec<&'a str> {
    for sql in queries {
        assert!(kept(service, sql), "{sql}");
    }
    // Changes are reported in their order, so this one follows.
    let marker = "SELECT text FROM marker";
    assert!(kept(service, marker));
    let before: Vec<usize> = queries.iter().map(|sql| caches.count(0, sql)).collect();
    let seen = caches.count(0, marker);
    server.sql(name, change);
    server.sql(name, "INSERT INTO marker VALUES ('x')");
    wait_until(change, || caches.count(0, marker) > seen);
    let is_purged = |(sql, before): &(&&'a str, usize)| caches.count(0, sql) > *before;
    let purged = queries.iter().zip(before).filter(is_purged);
    purged.map(|(sql, _)| *sql).collect()
}

#[test]
fn everything_is_purged_at_each_change() {
    for server in servers::all() {
        let name = server.database(TABLES);
        let caches = Caches::new(1);
        let service = gateway(&server.url(&name), with_scope(&caches, Scope::Everything));
        assert!(kept(&service, ONE) && kept(&service, TWO) && kept(&service, BOTH));
        server.sql(&name, "UPDATE one SET text = 'x' WHERE id = 1");
        for sql in [ONE, TWO, BOTH] {
            wait_until(sql, || caches.count(0, sql) >= 1);
        }
        assert_eq!(number(&service, "keys"), 0);
    }
}

#[test]
fn only_the_objects_of_the_changed_rows_are_purged() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    server.sql(&name, "CREATE TABLE marker (text text)");
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), with_scope(&caches, Scope::Row));
    let all = [FIRST, SECOND, LOW, ABSENT, EITHER];
    for (change, expected) in [
        ("UPDATE one SET text = 'x' WHERE id = 1", vec![FIRST, LOW, EITHER]),
        ("UPDATE one SET text = 'y' WHERE id = 9", vec![]),
        ("INSERT INTO one VALUES (7, 'c')", vec![ABSENT, EITHER]),
        ("UPDATE one SET id = 8 WHERE id = 7", vec![ABSENT, EITHER]),
        ("UPDATE one SET id = 7 WHERE id = 8", vec![ABSENT, EITHER]),
        ("DELETE FROM one WHERE id = 2", vec![SECOND, EITHER]),
        (
            "INSERT INTO one VALUES (1, 'd'), (2, 'b') ON CONFLICT (id) DO UPDATE SET text = 'e'",
            vec![FIRST, SECOND, LOW, EITHER],
        ),
        (
            "BEGIN; UPDATE one SET text = 'f' WHERE id = 1; DELETE FROM one WHERE id = 7; COMMIT",
            vec![FIRST, LOW, ABSENT, EITHER],
        ),
        ("BEGIN; UPDATE one SET text = 'g'; ROLLBACK", vec![]),
        // More keys than one report lists.
        (
            "INSERT INTO one SELECT generate_series(1000, 1300), 'h'",
            all.to_vec(),
        ),
        ("DELETE FROM one WHERE id > 1290", vec![EITHER]),
        ("TRUNCATE one", all.to_vec()),
    ] {
        let purged = purged_by(&server, &name, (&service, &caches), &all, change);
        assert_eq!(purged, expected, "{change}");
    }
    assert_eq!(
        (number(&service, "unkept"), number(&service, "purge_failures")),
        (0, 0)
    );
}

#[test]
fn tables_without_a_key_of_integers_are_purged_as_a_whole() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    server.sql(
        &name,
        "CREATE TABLE marker (text text);
         CREATE TABLE keyless (id int); INSERT INTO keyless VALUES (1), (2);
         CREATE TABLE worded (id text PRIMARY KEY); INSERT INTO worded VALUES ('1'), ('2');
         CREATE TABLE guarded (id int PRIMARY KEY); INSERT INTO guarded VALUES (1), (2);
         ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
         CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
         INSERT INTO parted VALUES (1), (2);
         CREATE TABLE parent (id int PRIMARY KEY, a int); CREATE TABLE child () INHERITS (parent);
         CREATE VIEW seen AS SELECT o.id, o.text, (SELECT max(text) FROM one) FROM one o",
    );
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), with_scope(&caches, Scope::Row));
    for (sql, change) in [
        (
            "SELECT id FROM keyless WHERE id = 1",
            "DELETE FROM keyless WHERE id = 2",
        ),
        (
            "SELECT id FROM worded WHERE id = '1'",
            "DELETE FROM worded WHERE id = '2'",
        ),
        (
            "SELECT id FROM guarded WHERE id = 1",
            "DELETE FROM guarded WHERE id = 2",
        ),
        (
            "SELECT id FROM parted WHERE id = 1",
            "DELETE FROM parted WHERE id = 2",
        ),
        (
            "SELECT id FROM part WHERE id = 1",
            "DELETE FROM part WHERE id = 1",
        ),
        (
            "SELECT id FROM parent WHERE id = 1",
            "INSERT INTO child VALUES (2, 2)",
        ),
        (
            "SELECT id FROM seen WHERE id = 1",
            "UPDATE one SET text = 'x' WHERE id = 2",
        ),
    ] {
        let purged = purged_by(&server, &name, (&service, &caches), &[sql], change);
        assert_eq!(purged, [sql], "{change}");
    }
}

/// The key column is renamed, replaced or dropped while objects depend on it.
#[test]
fn a_changed_key_purges_the_table_and_never_fails_a_writer() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    let name = server.database(TABLES);
    let caches = Caches::new(1);
    let service = gateway(&server.url(&name), with_scope(&caches, Scope::Row));
    let changes = [
        (
            "ALTER TABLE one RENAME id TO other; ALTER TABLE one ADD id int; UPDATE one SET id = 3 - other",
            "UPDATE one SET text = 'x' WHERE id = 1",
        ),
        (
            "ALTER TABLE one DROP CONSTRAINT one_pkey; UPDATE one SET id = 1 WHERE other = 2;
             UPDATE one SET id = 2 WHERE other = 1; ALTER TABLE one ADD PRIMARY KEY (id)",
            "UPDATE one SET text = 'y' WHERE id = 1",
        ),
        (
            "ALTER TABLE one DROP other; UPDATE one SET text = 'w'",
            "UPDATE one SET text = 'z' WHERE id = 1",
        ),
    ];
    for (turn, (ddl, change)) in changes.into_iter().enumerate() {
        wait_until("an answer to be kept", || kept(&service, ONE));
        let before = caches.count(0, ONE);
        server.sql(&name, ddl);
        wait_until(ddl, || caches.count(0, ONE) > before);
        // A query with a new name reads the catalogue, at least READ_INTERVAL after the last read.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        kept(&service, &format!("SELECT 1 AS new_name_{turn}"));
        wait_until("an answer to be kept", || kept(&service, ONE));
        let before = caches.count(0, ONE);
        server.sql(&name, change);
        wait_until(change, || caches.count(0, ONE) > before);
    }
}
