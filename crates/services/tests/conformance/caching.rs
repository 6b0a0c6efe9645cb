//! The ages of responses, and responses that the client has already.

use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use super::lab::{BIG, EXAMPLE, SLOW, error_of, lab, quality, url, verified};

const EMPTY: &str = "SELECT string FROM main.t_string WHERE 1=0";
const CHANGED: &str = "Sun, 31 Dec 2023 23:59:59 GMT";
const LATER: &str = "Tue, 02 Jan 2024 03:04:05 GMT";

#[test]
fn the_age_depends_on_the_ttl() {
    let lab = lab(|config| config.ages.short = 60);
    for (ttl, expected) in [
        (Ttl::Long, "max-age=604800"),
        (Ttl::Short, "max-age=60"),
        (Ttl::Forever, "max-age=31536000"),
    ] {
        let response = lab.ask_with(EXAMPLE, ttl, "");
        assert_eq!(response.field("cache-control"), Some(expected));
    }
    let never = lab.get(&format!("{}&ttl=never", url(EXAMPLE)), "");
    assert_eq!(never.field("cache-control"), Some("max-age=604800"));
}

#[test]
fn responses_expire_at_the_hour_of_the_day_if_it_is_earlier() {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let next = (now / 3600 + 1) % 24;
    let left = 3600 - now % 3600;
    let lab = lab(|config| {
        config.ages.short = 604_800;
        config.ages.long = 10;
        config.ages.short_hour = Some(next as u8);
        config.ages.long_hour = Some(next as u8);
    });
    let age = |ttl| -> u64 {
        let response = lab.ask_with(EXAMPLE, ttl, "");
        let field = response.field("cache-control").unwrap();
        field.strip_prefix("max-age=").unwrap().parse().unwrap()
    };
    let short_age = age(Ttl::Short);
    // The hour may change during the test.
    assert!(
        (left.saturating_sub(60)..=left).contains(&short_age) || short_age > 86_000,
        "{short_age}, not {left}"
    );
    assert!(age(Ttl::Long) <= 10); // earlier than the hour
    assert_eq!(age(Ttl::Forever), 31_536_000);
}

#[test]
fn max_stale_is_answered_by_stale_if_error() {
    let lab = lab(|_| {});
    let ask = |field: &str| {
        let response = lab.ask_with(EXAMPLE, Ttl::Long, field);
        response.field("cache-control").unwrap().to_owned()
    };
    assert_eq!(
        ask("Cache-Control: max-stale=1,max-age=0\r\n"),
        "max-age=604800, stale-if-error=1"
    );
    assert_eq!(ask("Cache-Control: no-cache\r\n"), "max-age=604800");
}

#[test]
fn stale_if_error_can_be_disabled() {
    let lab = lab(|config| config.stale_if_error = false);
    let response = lab.ask_with(EXAMPLE, Ttl::Long, "Cache-Control: max-stale=1\r\n");
    assert_eq!(response.field("cache-control"), Some("max-age=604800"));
}

#[test]
fn errors_have_the_age_of_short_responses_and_at_most_five_minutes() {
    for (short, expected) in [(0, "max-age=0"), (60, "max-age=60"), (7200, "max-age=300")] {
        let lab = lab(|config| config.ages.short = short);
        let response = lab.ask_with("SELECT x FROM nowhere", Ttl::Forever, "");
        assert_eq!(response.field("cache-control"), Some(expected));
    }
}

#[test]
fn responses_without_rows_are_not_errors() {
    let lab = lab(|config| config.ages.short = 60);
    let response = lab.ask(EMPTY);
    assert_eq!(response.field("cache-control"), Some("max-age=604800"));
    assert!(quality(&response).contains("records=\"0\""));
}

#[test]
fn responses_without_rows_are_errors_with_ttl_forever() {
    let lab = lab(|_| {});
    let response = lab.ask_with(EMPTY, Ttl::Forever, "");
    assert_eq!(
        error_of(&response),
        "plimsoll Exception: Empty result from query not allowed"
    );
    // The packing had begun before the end of the result showed that there are no rows.
    assert!(quality(&response).contains("md5=") && quality(&response).ends_with("full_size=\"0\""));
    assert_eq!(verified(&lab.ask_with(EXAMPLE, Ttl::Forever, "")).rows, 2);
}

#[test]
fn empty_responses_may_have_the_age_of_errors() {
    let lab = lab(|config| {
        config.ages.short = 60;
        config.expire_empty_like_errors = true;
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
        config.keepalive_s = 0.05;
    });
    assert_eq!(lab.ask(EXAMPLE).field("cache-control"), Some("max-age=604800"));
    // Without Last-Modified only in the header; with it in the payload too.
    let nameless = lab.ask("SELECT 1 WHERE 1=0");
    assert_eq!(nameless.field("cache-control"), Some("max-age=60"));
    assert!(!quality(&nameless).contains("max_age"));
    let named = lab.ask(EMPTY);
    assert_eq!(named.field("cache-control"), Some("max-age=60"));
    assert_eq!(named.field("last-modified"), Some(LATER));
    assert!(
        quality(&named).starts_with("error=\"0\" max_age=\"60\" md5="),
        "{}",
        quality(&named)
    );
    // Only in the payload, if the headers were sent before.
    let late = lab.ask(&format!("{SLOW} WHERE x < 0 GROUP BY x"));
    assert!(verified(&late).keepalives > 0);
    assert_eq!(late.field("cache-control"), Some("max-age=604800"));
    assert!(quality(&late).contains("max_age=\"60\""));
}

#[test]
fn without_validation_there_is_no_last_modified() {
    let lab = lab(|_| {});
    let fields = format!("If-Modified-Since: {CHANGED}\r\n");
    let response = lab.ask_with(EXAMPLE, Ttl::Long, &fields);
    assert_eq!((response.status, response.field("last-modified")), (200, None));
}

#[test]
fn only_an_equal_time_is_answered_by_304() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
    });
    let since = |time: &str| {
        let fields = format!("If-Modified-Since: {time}\r\nCache-Control: max-stale=5\r\n");
        lab.ask_with(EXAMPLE, Ttl::Long, &fields)
    };
    // The first request queries the database, the others use the remembered time.
    for queries in [0, 0] {
        let same = since(CHANGED);
        assert_eq!((same.status, same.body.len()), (304, 0));
        assert_eq!(
            same.field("cache-control"),
            Some("max-age=604800, stale-if-error=5")
        );
        for absent in [
            "content-type",
            "content-length",
            "transfer-encoding",
            "last-modified",
        ] {
            assert_eq!(same.field(absent), None, "{absent}");
        }
        assert_eq!(lab.service.stats()["queries"], queries);
    }
    for other in [
        "Sun, 31 Dec 2023 23:59:58 GMT",
        "Fri, 01 Jan 2038 00:00:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "soon",
    ] {
        let response = since(other);
        assert_eq!(response.status, 200, "{other}");
        assert_eq!(response.field("last-modified"), Some(CHANGED));
    }
    assert_eq!(lab.service.stats()["not_modified"], 2);
}

#[test]
fn the_connection_stays_open_after_304() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
    });
    let mut client = lab.service.connect();
    for _ in 0..3 {
        let fields = format!("{}If-Modified-Since: {CHANGED}\r\n", super::lab::ID);
        client.send(format!("GET {} HTTP/1.1\r\n{fields}\r\n", url(EXAMPLE)).as_bytes());
        assert_eq!(client.line().as_deref(), Some("HTTP/1.1 304 Not Modified"));
        while client.line().is_some_and(|line| !line.is_empty()) {}
    }
}

/// Here the gateway differs: the servlet uses the greatest text of the form month/day/year, for
/// which December 2023 is later than January 2024.
#[test]
fn the_latest_change_of_several_tables_counts() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("main.changes".into());
    });
    let both =
        "SELECT a.payload FROM main.f0001_iovs a, MAIN.T_STRING b WHERE a.channel_id = 7 AND b.string = ''";
    assert_eq!(lab.ask(both).field("last-modified"), Some(LATER));
    assert_eq!(lab.ask(BIG).field("last-modified"), Some(LATER));
    let nested = format!("SELECT * FROM ({EXAMPLE})");
    assert_eq!(lab.ask(&nested).field("last-modified"), Some(CHANGED));
}

#[test]
fn queries_of_other_forms_have_no_last_modified() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
    });
    for sql in [
        "SELECT 1",
        "SELECT payload FROM f0001_iovs",
        "SELECT 1 FROM main.f0001_iovs a JOIN main.t_string b ON 1=0",
        "WITH a AS (SELECT 1) SELECT * FROM a",
    ] {
        let response = lab.ask(sql);
        assert_eq!(
            (verified(&response).error, response.field("last-modified")),
            (None, None),
            "{sql}"
        );
    }
}

#[test]
fn a_table_without_a_change_time_is_a_payload_error() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
    });
    let response = lab.ask("SELECT 1 FROM main.changes");
    assert_eq!(
        error_of(&response),
        "plimsoll Exception: MAIN.CHANGES not found in changes"
    );
    assert_eq!(
        response.field("last-modified"),
        Some("Thu, 01 Jan 1970 00:00:00 GMT")
    );
    assert!(!quality(&response).contains("md5="));
    // The message of an error in the query contains its tables.
    let wrong = lab.ask("SELECT absent FROM main.t_string");
    assert_eq!(
        error_of(&wrong),
        "plimsoll Exception: While querying MAIN.T_STRING: no such column: absent"
    );
}

#[test]
fn a_change_is_detected_after_the_validity_of_the_remembered_time() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 1;
        config.last_modified_table = Some("changes".into());
    });
    assert_eq!(lab.ask(EXAMPLE).field("last-modified"), Some(CHANGED));
    lab.database()
        .execute_batch("UPDATE changes SET change_time = '2024-01-02 03:04:05'")
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(lab.ask(EXAMPLE).field("last-modified"), Some(LATER));
}

#[test]
fn several_payloads_have_a_time_only_if_all_times_are_known() {
    let lab = lab(|config| {
        config.validate_last_modified_s = 100;
        config.last_modified_table = Some("changes".into());
    });
    let target = build_url("", Form::Slash, &[EXAMPLE, BIG], Encoding::Blob, Ttl::Long, None);
    assert_eq!(lab.get(&target, "").field("last-modified"), None);
    lab.ask(EXAMPLE);
    assert_eq!(lab.get(&target, "").field("last-modified"), None);
    lab.ask(BIG);
    assert_eq!(lab.get(&target, "").field("last-modified"), Some(LATER));
}
