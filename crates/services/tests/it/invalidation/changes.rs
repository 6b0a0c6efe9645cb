//! Which changes of the database purge which objects.

use std::time::Duration;

use plimsoll_services::frontier::InvalidationConfig;
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use super::{BOTH, Caches, ID, ONE, TABLES, TWO, catch_up, gateway, kept, number, target, wait_until};
use crate::servers::{self, Kind};

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
