//! The same rows in `SQLite`, `PostgreSQL` and `MariaDB`.

mod conditions_databases;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use plimsoll_services::data::{
    self, CondDbConfig, CoolConfig, DataConfig, DataSet, TableConfig, TableReport, Type, Versioning,
};
use plimsoll_services::frontier::{self, FrontierConfig};
use plimsoll_wire::frontier::document::Reader;
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};
use rusqlite::Connection;

use crate::servers::{self, Kind, Server};
use crate::support::{Response, Running, Scratch, start};

fn table(name: &str, rows: u64, row: usize, compressibility: f64) -> TableConfig {
    TableConfig {
        name: name.into(),
        rows,
        row,
        compressibility,
        seed: 7,
        columns: 1,
        types: Vec::new(),
        tables: 1,
        versions: false,
    }
}

fn cool(versioning: Versioning) -> CoolConfig {
    CoolConfig {
        prefix: "COMP200".into(),
        folders: 2,
        channels: 3,
        iovs: 50,
        tags: 2,
        versioning,
        payload: 600,
        columns: None,
        types: Vec::new(),
        compressibility: 50.0,
        seed: 1,
    }
}

fn conditions() -> CondDbConfig {
    CondDbConfig {
        prefix: "CMS".into(),
        global_tags: 2,
        tags: 3,
        iovs: 250,
        payloads: Some(100),
        payload: 500,
        compressibility: 30.0,
        seed: 7,
    }
}

fn write(database: impl Into<PathBuf>, tables: Vec<DataSet>) -> Vec<TableReport> {
    let config = DataConfig {
        database: database.into(),
        tables,
    };
    data::write(&config).unwrap()
}

fn gateway(database: impl Into<PathBuf>) -> Running {
    gateway_with(database, |_| ())
}

fn gateway_with(database: impl Into<PathBuf>, change: impl FnOnce(&mut FrontierConfig)) -> Running {
    let mut config = FrontierConfig::new(database);
    change(&mut config);
    start(0, move |listener, shutdown| {
        frontier::serve(listener, config, shutdown.into_future())
    })
}

fn asked(service: &Running, sql: &str) -> Response {
    let target = build_url("", Form::Slash, &[sql], Encoding::Blob, Ttl::Long, None);
    service
        .connect()
        .request("GET", &target, "X-Frontier-Id: t\r\n", b"")
}

/// The rows of a query as a client of the gateway receives them, without the columns, whose types
/// differ.
fn rows(service: &Running, sql: &str) -> Vec<u8> {
    let response = asked(service, sql);
    let mut payload = Vec::new();
    let summary = Reader::new(1 << 30)
        .read(&response.body, |_, plain| payload = plain.to_vec())
        .unwrap();
    assert_eq!(summary.error, None, "{sql}");
    let mut first_end = 0;
    plimsoll_wire::frontier::payload::visit_records(&payload, |_, fields| {
        use plimsoll_wire::frontier::payload::Field;
        let length = |field: &Field<'_>| match field {
            Field::Bytes(bytes) => 5 + bytes.len(),
            _ => 1,
        };
        first_end = fields.iter().map(length).sum::<usize>() + 1;
        std::ops::ControlFlow::Break(())
    })
    .unwrap();
    payload.split_off(first_end)
}

fn sets() -> Vec<DataSet> {
    let mixed = TableConfig {
        columns: 8,
        types: vec![
            Type::Int,
            Type::Text,
            Type::Float,
            Type::Double,
            Type::Time,
            Type::Blob,
        ],
        ..table("mixed", 300, 50, 30.0)
    };
    let typed = CoolConfig {
        prefix: "TYPED".into(),
        payload: 177,
        types: [
            &[Type::Int; 5],
            &[Type::Double; 5],
            [Type::Float, Type::Text].as_slice(),
        ]
        .concat(),
        ..cool(Versioning::Single)
    };
    let wide = TableConfig {
        columns: 3,
        ..table("wide", 100, 10, 60.0)
    };
    vec![
        table("t_text", 20_000, 100, 40.0).into(),
        table("t_bytes", 2_000, 100, 10.0).into(),
        table("big", 3, 2_000_000, 80.0).into(),
        table("t_empty", 0, 10, 50.0).into(),
        mixed.into(),
        wide.into(),
        DataSet::Cool(cool(Versioning::Multi)),
        DataSet::Cool(typed),
        DataSet::CondDb(conditions()),
        DataSet::Catalogue(data::CatalogueConfig {
            entries: 250,
            directory: 100,
            replicas: 2,
            seed: 3,
            owner: "/O=Plimsoll/CN=owner".into(),
        }),
    ]
}

const SAME: [&str; 22] = [
    "SELECT id, string FROM t_text ORDER BY id",
    "SELECT id, string FROM big ORDER BY id",
    "SELECT id, string FROM t_empty",
    "SELECT id, int_1, text_2, float_3, double_4, time_5, int_7, text_8 FROM mixed ORDER BY id",
    "SELECT id, string, string_2, string_3 FROM wide ORDER BY id",
    "SELECT * FROM COMP200_DB_ATTRIBUTES ORDER BY DB_ATTRIBUTE_NAME",
    "SELECT * FROM COMP200_NODES ORDER BY NODE_ID",
    "SELECT * FROM COMP200_TAGS ORDER BY NODE_ID, TAG_ID",
    "SELECT * FROM COMP200_TAG2TAG ORDER BY PARENT_TAGID, CHILD_NODEID",
    "SELECT * FROM COMP200_F0001_IOVS ORDER BY OBJECT_ID",
    "SELECT * FROM COMP200_F0002_IOV2TAG ORDER BY TAG_ID, OBJECT_ID",
    "SELECT * FROM COMP200_F0002_CHANNELS ORDER BY CHANNEL_ID",
    "SELECT * FROM TYPED_NODES ORDER BY NODE_ID",
    "SELECT * FROM TYPED_F0002_IOVS ORDER BY OBJECT_ID",
    "SELECT * FROM CMS_GLOBAL_TAG ORDER BY NAME",
    "SELECT * FROM CMS_GLOBAL_TAG_MAP ORDER BY GLOBAL_TAG_NAME, RECORD",
    "SELECT * FROM CMS_TAG ORDER BY NAME",
    "SELECT * FROM CMS_IOV ORDER BY TAG_NAME, SINCE",
    "SELECT * FROM CMS_PAYLOAD ORDER BY HASH",
    "SELECT * FROM Cns_file_metadata ORDER BY fileid",
    "SELECT * FROM Cns_file_replica ORDER BY fileid, host",
    "SELECT * FROM Cns_userinfo ORDER BY userid",
];

/// A query for byte strings as hexadecimal digits, because the databases format them differently.
fn bytes_of(kind: Option<Kind>, table: &str, column: &str) -> String {
    let digits = match kind {
        Some(Kind::Postgres) => format!("upper(encode({column}, 'hex'))"),
        Some(Kind::Mariadb) | None => format!("hex({column})"),
    };
    format!("SELECT id, {digits} FROM {table} ORDER BY id")
}

#[test]
fn every_database_has_the_same_rows() {
    let scratch = Scratch::new();
    let file = scratch.0.join("db");
    let reports = write(&file, sets());
    let here = gateway(&file);
    for server in servers::all() {
        let url = server.url(&server.database(""));
        assert_eq!(write(&url, sets()), reports);
        let there = gateway(&url);
        for sql in SAME {
            assert!(rows(&there, sql) == rows(&here, sql), "{:?}: {sql}", server.kind);
        }
        for (table, column) in [("t_bytes", "string"), ("mixed", "blob_6")] {
            let (ours, theirs) = (
                bytes_of(None, table, column),
                bytes_of(Some(server.kind), table, column),
            );
            assert!(
                rows(&there, &theirs) == rows(&here, &ours),
                "{:?}: {table}",
                server.kind
            );
        }
        // Written again, the table is the same, and other tables are not changed.
        write(&url, vec![table("t_text", 5, 10, 50.0).into()]);
        assert_eq!(server.sql(database_of(&url), "SELECT count(*) FROM t_text"), "5");
        assert_eq!(server.sql(database_of(&url), "SELECT count(*) FROM wide"), "100");
    }
}

fn database_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[test]
fn types_are_those_of_the_database() {
    for server in servers::all() {
        let url = server.url(&server.database(""));
        let mixed = TableConfig {
            columns: 6,
            types: vec![
                Type::Int,
                Type::Text,
                Type::Float,
                Type::Double,
                Type::Time,
                Type::Blob,
            ],
            ..table("mixed", 3, 50, 30.0)
        };
        write(
            &url,
            vec![mixed.into(), table("t_bytes", 3, 100_000, 10.0).into()],
        );
        // The view of MariaDB contains the tables of all databases, and other tests use this server
        // at the same time.
        let schema = match server.kind {
            Kind::Postgres => "public",
            Kind::Mariadb => database_of(&url),
        };
        let of = |table: &str| {
            let of = format!("table_schema = '{schema}' AND table_name = '{table}'");
            let sql = "SELECT data_type FROM information_schema.columns";
            server.sql(
                database_of(&url),
                &format!("{sql} WHERE {of} ORDER BY ordinal_position"),
            )
        };
        let (mixed, bytes) = match server.kind {
            Kind::Postgres => (
                "bigint bigint text double precision double precision timestamp without time zone bytea",
                "bigint bytea",
            ),
            Kind::Mariadb => (
                "bigint bigint text double double datetime blob",
                "bigint mediumblob",
            ),
        };
        assert_eq!(of("mixed").replace('\n', " "), mixed);
        assert_eq!(of("t_bytes").replace('\n', " "), bytes);
    }
}

fn saved_percent(bytes: &[u8]) -> f64 {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::new(5));
    zlib.write_all(bytes).unwrap();
    100.0 * (1.0 - zlib.finish().unwrap().len() as f64 / bytes.len() as f64)
}

/// If every byte is a character, strings are text and are sent unchanged. The number of bytes is
/// that of the other databases.
#[test]
fn strings_in_a_single_byte_encoding_have_the_configured_compressibility() {
    let Some(server) = servers::shared(Kind::Postgres) else {
        return;
    };
    server.sql(
        "",
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    );
    let url = server.url("latin");
    let there = gateway(&url);
    let scratch = Scratch::new();
    let file = scratch.0.join("db");
    write(&file, vec![table("t", 1, 1, 50.0).into()]);
    let here = gateway(&file);
    for percent in [0.0, 2.0, 5.0, 10.0, 15.0, 19.0, 20.0, 35.0, 50.0, 80.0, 95.0] {
        let table = || table("t", 3000, 200, percent);
        let report = write(&url, vec![table().into()]);
        assert_eq!(report[0].kind, "text");
        let got = rows(&there, "SELECT string FROM t ORDER BY id");
        let strings: Vec<u8> = got
            .chunks_exact(206)
            .flat_map(|row| &row[5..205])
            .copied()
            .collect();
        assert_eq!(strings.len(), 3000 * 200, "not as digits");
        let saved = saved_percent(&strings);
        assert!((saved - percent).abs() < 3.0, "{percent} asked, {saved} saved");
        write(&file, vec![table().into()]);
        assert!(
            rows(&here, "SELECT string FROM t ORDER BY id") == got,
            "the same bytes: {percent}"
        );
    }
    let blob = TableConfig {
        types: vec![Type::Blob],
        ..table("t", 10, 100, 0.0)
    };
    assert_eq!(write(&url, vec![blob.into()])[0].kind, "blob");
}

/// Tables with versions, 0 at first. A gateway returns the time of their last change.
#[test]
fn tables_with_versions_have_a_time_of_the_last_change() {
    let tables = || TableConfig {
        tables: 2,
        versions: true,
        ..table("T", 30, 10, 40.0)
    };
    let scratch = Scratch::new();
    let file = scratch.0.join("db");
    let reports = write(&file, vec![tables().into()]);
    let names: Vec<&str> = reports.iter().map(|report| report.name.as_str()).collect();
    assert_eq!(names, ["T_1", "T_2"]);
    let here = gateway(&file);
    let all = |table| format!("SELECT id, version, string FROM {table} ORDER BY id");
    assert!(rows(&here, &all("T_1")) != rows(&here, &all("T_2")), "other rows");
    assert_eq!(count(&file, "SELECT count(*) FROM T_2 WHERE version = 0"), 30);
    for server in servers::all() {
        let url = server.url(&server.database(""));
        let sql = |text: &str| server.sql(database_of(&url), text);
        assert_eq!(write(&url, vec![tables().into()]), reports);
        let there = gateway(&url);
        for table in ["T_1", "T_2"] {
            assert!(
                rows(&there, &all(table)) == rows(&here, &all(table)),
                "{:?}",
                server.kind
            );
        }
        sql("INSERT INTO T_1 (id, string) VALUES (31, 'x')");
        assert_eq!(sql("SELECT version FROM T_1 WHERE id = 31"), "0");
        if server.kind == Kind::Postgres {
            let of = |table: &str| {
                let time = "SELECT change_time FROM plimsoll_changes";
                sql(&format!(
                    "{time} WHERE table_owner = 'public' AND table_name = '{table}'"
                ))
            };
            let (first, second) = (of("t_1"), of("t_2"));
            assert!(!first.is_empty() && !second.is_empty());
            sql("UPDATE T_2 SET version = 5 WHERE id = 7 AND version < 5");
            assert_eq!(of("t_1"), first);
            assert!(of("t_2") > second);
            let gateway = gateway_with(&url, |config| {
                config.validate_last_modified_s = 100;
                config.last_modified_table = Some("plimsoll_changes".into());
            });
            let answer = asked(&gateway, "SELECT version FROM public.T_2 WHERE id > 5");
            assert!(answer.field("last-modified").is_some(), "{}", answer.text());
            // Writing the table again is a change too.
            write(&url, vec![tables().into()]);
            assert!(of("t_1") > first);
            assert_eq!(sql("SELECT count(*) FROM plimsoll_changes"), "2");
        }
    }
}

fn count(path: &Path, sql: &str) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row(sql, [], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_failed_write_reports_the_reason() {
    for server in servers::all() {
        let name = server.database("");
        let config = |url: String, table: TableConfig| DataConfig {
            database: url.into(),
            tables: vec![table.into()],
        };
        let why = data::write(&config(server.url("nowhere"), table("t", 1, 1, 0.0))).unwrap_err();
        assert!(why.to_string().contains("nowhere"), "{why}");
        blocked_by_a_view(&server, &name);
        let why = data::write(&config(server.url(&name), table("v", 1, 1, 0.0))).unwrap_err();
        assert!(
            why.to_string()
                .starts_with("cannot write the database at 127.0.0.1:"),
            "{why}"
        );
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = DataConfig {
        database: format!("postgresql://u:hunter2@{unused}/d").into(),
        tables: vec![table("t", 1, 1, 0.0).into()],
    };
    let why = data::write(&config).unwrap_err().to_string();
    assert!(
        why.contains("cannot connect") && !why.contains("hunter2"),
        "{why}"
    );
}

/// A view with the name of the table.
fn blocked_by_a_view(server: &Server, database: &str) {
    server.sql(database, "CREATE VIEW v AS SELECT 1 AS a");
}

/// Contains the database for the process that
/// `the_memory_does_not_depend_on_the_number_of_rows` starts.
const DATABASE: &str = "PLIMSOLL_TEST_DATABASE";

/// A multiple of the rows does not need more memory. The measurement is in a separate process,
/// because other tests allocate memory in this one.
#[test]
fn the_memory_does_not_depend_on_the_number_of_rows() {
    for server in servers::all() {
        let url = server.url(&server.database(""));
        let writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "data::rows_are_written_in_bounded_memory", "--ignored"])
            .env(DATABASE, &url)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&writer.stdout);
        assert!(writer.status.success(), "{:?}: {said}", server.kind);
        assert!(said.contains("1 passed"), "{said}");
        assert_eq!(server.sql(database_of(&url), "SELECT count(*) FROM t"), "500000");
    }
}

#[test]
#[ignore = "the process that the test above starts"]
fn rows_are_written_in_bounded_memory() {
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let url = std::env::var(DATABASE).unwrap();
    write(&url, vec![table("t", 1_000, 100, 10.0).into()]);
    let before = resident();
    write(&url, vec![table("t", 500_000, 100, 10.0).into()]);
    let grown = resident().saturating_sub(before);
    assert!(grown < 40_000_000, "{grown} bytes for 50 MB of rows");
}
