//! The metrics `object` and `version` of `sql` and `frontier`.

use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::database::Database;
use crate::frontier::{Gateway, frontier, request};
use crate::harness::*;
use crate::sql::filled::{ask, servers};

fn with_version(mut spec: Value, object: &str, column: Option<&str>, written: Option<&str>) -> Value {
    spec["workloads"][0]["operations"][0]["request"]["version"] =
        json!({"object": object, "column": column, "written": written});
    spec
}

fn sql(url: &str, query: &str, testers: u32, each: u32) -> Value {
    let (settings, request) = (json!({"connection": "kept"}), json!({"query": query}));
    spec(
        "sql",
        url,
        settings,
        request,
        closed(testers),
        json!({"each_tester": each}),
    )
}

/// Object and version of each transaction that has them.
fn noted(ran: &RunResult) -> Vec<(u64, u64)> {
    let of = |name| ran.metric(name).into_iter().map(|value| value as u64);
    assert_eq!(
        of("object").len(),
        of("version").len(),
        "one comes with the other"
    );
    of("object").zip(of("version")).collect()
}

#[test]
fn sql_and_frontier_record_the_newest_version_of_all_rows() {
    let (database, gateway) = (Database::new(), Gateway::start());
    let query = "SELECT 'x', {n} AS Version UNION ALL SELECT 'y', 3 UNION ALL SELECT 'z', NULL";
    let mut specs = vec![
        sql(&database.url(), query, 2, 5),
        frontier(&gateway.url, request(query, 0), 2, 5),
        frontier(&gateway.url, request(query, 5), 2, 5),
    ];
    specs.extend(servers().map(|server| sql(&server.url(), query, 2, 5)));
    for spec in specs {
        let driver = spec["workloads"][0]["driver"].clone();
        let ran = run(with_version(spec, "1{tester}007", Some("version"), None));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 10], "{:?}", ran.notes);
        for tester in 0..2 {
            let mine: Vec<u64> = noted(&ran)
                .into_iter()
                .filter(|(object, _)| *object == 10_007 + 1000 * tester)
                .map(|(_, version)| version)
                .collect();
            assert_eq!(mine, [3, 3, 3, 3, 4], "{driver}");
        }
    }
}

#[test]
fn a_write_records_the_version_in_its_query() {
    for server in servers() {
        ask(server, "CREATE TABLE versions (id int, version bigint)");
        ask(server, "INSERT INTO versions VALUES (0, 0), (1, 0)");
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            since.as_micros() as u64
        };
        let query = "UPDATE versions SET version={now_us} WHERE id={tester} AND version<{now_us}";
        let before = now();
        let ran = run(with_version(
            sql(&server.url(), query, 2, 4),
            "5{tester}",
            None,
            Some("{now_us}"),
        ));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 8], "{:?}", ran.notes);
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload), (0, 0));
        }
        let noted = noted(&ran);
        assert_eq!(noted.len(), 8);
        for id in 0..2 {
            let mine: Vec<u64> = noted
                .iter()
                .filter(|(object, _)| *object == 50 + id)
                .map(|(_, version)| *version)
                .collect();
            assert!(
                mine.is_sorted() && mine[0] >= before && mine[3] <= now(),
                "{mine:?}"
            );
            let left = ask(server, &format!("SELECT version FROM versions WHERE id={id}"));
            assert_eq!(left.unwrap(), format!("{}", mine[3]), "the very number");
        }
        ask(server, "DROP TABLE versions");
    }
}

#[test]
fn a_failed_write_records_its_version_and_a_failed_read_does_not() {
    for server in servers() {
        let url = server.url();
        let written = with_version(
            sql(&url, "UPDATE nowhere SET a={n}", 1, 2),
            "7",
            None,
            Some("{n}"),
        );
        assert_eq!(noted(&run(written)), [(7, 0), (7, 1)]);
        let read = with_version(
            sql(&url, "SELECT version FROM nowhere", 1, 2),
            "7",
            Some("version"),
            None,
        );
        assert_eq!(noted(&run(read)), []);
    }
}

#[test]
fn values_that_are_not_exact_integers_are_omitted() {
    let (database, gateway) = (Database::new(), Gateway::start());
    for (query, object, expected) in [
        (
            "SELECT 9007199254740991 AS version",
            "3",
            vec![(3, 9_007_199_254_740_991)],
        ),
        ("SELECT 9007199254740992 AS version", "3", vec![]),
        ("SELECT 1 AS version", "9007199254740992", vec![]),
        ("SELECT 1 AS version", "three", vec![]),
        ("SELECT 1 AS other", "3", vec![]),
        ("SELECT 'x' AS version", "3", vec![]),
        ("SELECT 1 AS version WHERE 0", "3", vec![]),
    ] {
        for spec in [
            sql(&database.url(), query, 1, 1),
            frontier(&gateway.url, request(query, 5), 1, 1),
        ] {
            let ran = run(with_version(spec, object, Some("version"), None));
            assert_eq!(ran.results(), [(Outcome::Ok, "")], "{:?}", ran.notes);
            assert_eq!(noted(&ran), expected, "{query} {object}");
        }
    }
}

#[test]
fn invalid_version_settings_are_refused() {
    let gateway = "http://127.0.0.1:1";
    for (column, written) in [(None, None), (Some("v"), Some("1"))] {
        let message = refused(with_version(
            sql("sqlite:/x", "SELECT 1", 1, 1),
            "1",
            column,
            written,
        ));
        assert!(
            message.contains("version of operation 0: expected exactly one"),
            "{message}"
        );
    }
    let write = frontier(gateway, request("SELECT 1", 5), 1, 1);
    let message = refused(with_version(write, "1", None, Some("1")));
    assert!(message.contains("a gateway cannot write"), "{message}");
    let mut batch = request("SELECT 1", 5);
    batch["queries"] = json!(["SELECT 1", "SELECT 2"]);
    let message = refused(with_version(frontier(gateway, batch, 1, 1), "1", Some("v"), None));
    assert!(message.contains("set batch: 1"), "{message}");
}
