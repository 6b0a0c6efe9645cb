//! Data sets of conditions databases: COOL, and payloads by hash.

use plimsoll_services::data::{self, CoolConfig, DataConfig, DataSet, Type, Versioning};

use super::{conditions, cool, count, gateway, rows, write};
use crate::servers;
use crate::support::Scratch;

#[test]
fn a_conditions_database_is_consistent() {
    let scratch = Scratch::new();
    let path = scratch.0.join("db");
    let reports = write(&path, vec![DataSet::Cool(cool(Versioning::Multi))]);
    let iovs = reports
        .iter()
        .find(|report| report.name == "COMP200_F0001_IOVS")
        .unwrap();
    assert_eq!((iovs.rows, iovs.bytes, iovs.kind), (150, 90_000, "text"));
    assert!((iovs.saved_percent - 50.0).abs() < 3.0);
    let count = |sql| count(&path, sql);
    assert_eq!(count("SELECT count(*) FROM COMP200_NODES"), 3);
    assert_eq!(count("SELECT count(*) FROM COMP200_TAGS"), 6);
    assert_eq!(count("SELECT count(*) FROM COMP200_TAG2TAG"), 4);
    assert_eq!(count("SELECT count(*) FROM COMP200_F0002_IOV2TAG"), 300);
    // The intervals have no gaps, and extend to the end of time.
    let gaps = "SELECT count(*) FROM COMP200_F0001_IOVS a WHERE a.iov_until < 9223372036854775807 AND NOT EXISTS
                (SELECT 1 FROM COMP200_F0001_IOVS b WHERE b.channel_id = a.channel_id AND b.iov_since = a.iov_until)";
    assert_eq!(count(gaps), 0);
    assert_eq!(
        count("SELECT count(*) FROM COMP200_F0001_IOVS WHERE iov_until = 9223372036854775807"),
        3
    );
    assert_eq!(
        count("SELECT count(*) FROM COMP200_F0001_IOVS WHERE iov_since = 0"),
        3
    );
    assert_eq!(
        count("SELECT min(length(p_1) + length(p_2) + length(p_3)) FROM COMP200_F0001_IOVS"),
        600
    );
    assert_eq!(
        count("SELECT count(*) FROM COMP200_F0001_CHANNELS c, COMP200_F0001_IOVS i
               WHERE c.last_object_id = i.object_id AND i.channel_id = c.channel_id AND i.iov_until > 1000000000"),
        3
    );
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name =
                   'COMP200_F0001_IOVS'";
    assert_eq!(count(indexes), 2);
    // The payloads of folders differ.
    assert_eq!(
        count("SELECT count(*) FROM COMP200_F0001_IOVS a, COMP200_F0002_IOVS b WHERE a.p_1 = b.p_1"),
        0
    );
}

/// Ten numbers, a float and a string of 177 bytes, as in the published test of small queries.
#[test]
fn numbers_of_a_payload_count_as_eight_bytes() {
    let scratch = Scratch::new();
    let path = scratch.0.join("db");
    let small = CoolConfig {
        payload: 177,
        types: [&[Type::Double; 10], [Type::Float, Type::Text].as_slice()].concat(),
        ..cool(Versioning::Single)
    };
    let reports = write(&path, vec![DataSet::Cool(small)]);
    let iovs = reports
        .iter()
        .find(|report| report.name == "COMP200_F0001_IOVS")
        .unwrap();
    assert_eq!((iovs.rows, iovs.bytes, iovs.kind), (150, 150 * 89, "text"));
    let rows = "SELECT count(*) FROM COMP200_F0001_IOVS WHERE length(P_12) = 89 AND P_11 < 1000000";
    assert_eq!(count(&path, rows), 150);
    let doubles = "SELECT count(*) FROM COMP200_F0001_IOVS WHERE P_1 BETWEEN 100 AND 1000
                   AND round(P_10, 12) = P_10 AND round(P_10, 11) <> P_10";
    assert_eq!(count(&path, doubles), 150);
    let spec = "SELECT count(*) FROM COMP200_NODES WHERE FOLDER_PAYLOADSPEC LIKE '%P_10:Double,P_11:Double,P_12:String255'";
    assert_eq!(count(&path, spec), 2);
    for (payload, types) in [
        (95, vec![Type::Int; 12]),
        (96, vec![Type::Int, Type::Text]),
        (8, vec![Type::Int, Type::Text]),
    ] {
        let wrong = CoolConfig {
            payload,
            types,
            ..cool(Versioning::Single)
        };
        let fits = payload == 96;
        let config = DataConfig {
            database: path.clone(),
            tables: vec![DataSet::Cool(wrong)],
        };
        assert_eq!(data::write(&config).is_ok(), fits, "{payload}");
    }
}

#[test]
fn every_interval_has_its_payload() {
    let scratch = Scratch::new();
    let path = scratch.0.join("db");
    let reports = write(&path, vec![DataSet::CondDb(conditions())]);
    let sizes: Vec<(&str, u64, u64)> = reports
        .iter()
        .map(|report| (report.name.as_str(), report.rows, report.bytes))
        .collect();
    assert_eq!(
        sizes,
        [
            ("CMS_GLOBAL_TAG", 2, 0),
            ("CMS_GLOBAL_TAG_MAP", 6, 0),
            ("CMS_TAG", 3, 0),
            ("CMS_IOV", 750, 0),
            ("CMS_PAYLOAD", 300, 150_000),
        ]
    );
    let count = |sql| count(&path, sql);
    let found = "SELECT count(*) FROM CMS_GLOBAL_TAG_MAP m, CMS_TAG t, CMS_IOV i, CMS_PAYLOAD p
                 WHERE m.GLOBAL_TAG_NAME = 'GT_0002' AND t.NAME = m.TAG_NAME AND i.TAG_NAME = t.NAME
                 AND p.HASH = i.PAYLOAD_HASH AND p.OBJECT_TYPE = t.OBJECT_TYPE AND length(p.HASH) = 40";
    assert_eq!(count(found), 750);
    assert_eq!(count("SELECT count(DISTINCT DATA) FROM CMS_PAYLOAD"), 300);
    assert_eq!(count("SELECT max(SINCE) FROM CMS_IOV"), 2490);
}

#[test]
fn folders_of_one_version_have_no_tags() {
    let scratch = Scratch::new();
    let path = scratch.0.join("db");
    let single = CoolConfig {
        prefix: String::new(),
        ..cool(Versioning::Single)
    };
    let names: Vec<String> = write(&path, vec![DataSet::Cool(single)])
        .into_iter()
        .map(|report| report.name)
        .collect();
    let expected = "DB_ATTRIBUTES NODES TAGS TAG2TAG F0001_CHANNELS F0001_IOVS F0002_CHANNELS F0002_IOVS";
    assert_eq!(names.join(" "), expected);
    assert_eq!(count(&path, "SELECT count(*) FROM TAGS"), 0);
    assert_eq!(
        count(
            &path,
            "SELECT count(*) FROM NODES WHERE FOLDER_TAGTABLENAME IS NOT NULL"
        ),
        0
    );
}

/// The query with which COOL finds an interval, in all three databases: one row for each channel,
/// by an index.
#[test]
fn the_query_of_cool_finds_an_interval() {
    let sql = "SELECT COOL_I3.OBJECT_ID, COOL_I3.CHANNEL_ID, COOL_I3.IOV_SINCE, COOL_I3.IOV_UNTIL, COOL_I3.P_1
        FROM COMP200_F0002_CHANNELS COOL_C2, COMP200_F0002_IOVS COOL_I3
        WHERE COOL_C2.CHANNEL_ID>=0 AND COOL_C2.CHANNEL_ID<=100 AND COOL_I3.CHANNEL_ID=COOL_C2.CHANNEL_ID
        AND COOL_I3.IOV_SINCE>=COALESCE(( SELECT MAX(COOL_I1.IOV_SINCE) FROM COMP200_F0002_IOVS COOL_I1
        WHERE COOL_I1.CHANNEL_ID=COOL_C2.CHANNEL_ID AND COOL_I1.IOV_SINCE<=12345 ),0)
        AND COOL_I3.IOV_SINCE<=12345 AND COOL_I3.IOV_UNTIL>12345 ORDER BY COOL_I3.CHANNEL_ID, COOL_I3.IOV_SINCE";
    let scratch = Scratch::new();
    let file = scratch.0.join("db");
    let set = || vec![DataSet::Cool(cool(Versioning::Single))];
    write(&file, set());
    let expected = rows(&gateway(&file), sql);
    assert!(expected.len() > 3 * 200 && expected.ends_with(b"\x07"));
    for server in servers::all() {
        let url = server.url(&server.database(""));
        write(&url, set());
        assert!(rows(&gateway(&url), sql) == expected, "{:?}", server.kind);
    }
}
