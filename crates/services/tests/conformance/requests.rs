//! Requests: URL, SQL, headers.

use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url, encode_p1};

use super::lab::{EXAMPLE, ID, error_of, lab, url, verified};

#[test]
fn path_and_query_string_are_the_same_request() {
    let lab = lab(|_| {});
    let slash = lab.ask(EXAMPLE);
    let target = build_url("/Lab", Form::Query, &[EXAMPLE], Encoding::Blob, Ttl::Long, None);
    assert!(target.contains("/Frontier?type="));
    assert_eq!(lab.get(&target, "").body, slash.body);
}

#[test]
fn up_to_32_payloads_are_in_one_document() {
    let lab = lab(|_| {});
    let many = |count| {
        let queries = vec![EXAMPLE; count];
        let target = build_url("/Lab", Form::Slash, &queries, Encoding::BlobZip, Ttl::Long, None);
        lab.get(&target, "")
    };
    let response = many(32);
    assert!(response.text().contains("<transaction payloads=\"32\">"));
    assert_eq!((verified(&response).payloads, verified(&response).rows), (32, 64));
    assert!(error_of(&many(33)).contains("more than 32"));
}

#[test]
fn type_is_the_first_parameter_and_encoding_the_second() {
    let lab = lab(|_| {});
    let p1 = encode_p1(EXAMPLE);
    let cases = [
        (
            format!("encoding=BLOB&type=frontier_request:1&p1={p1}"),
            "Unsupported request type [encoding]",
        ),
        (
            format!("type=frontier_request:1&p1={p1}&encoding=BLOB"),
            "Unexpected parameter [p1]",
        ),
        ("type=frontier_request:1".to_owned(), "completed prematurely"),
        (
            "type=frontier_request:1&encoding=BLOB".to_owned(),
            "p1 is missing",
        ),
        (
            format!("type=frontier_request:2&encoding=BLOB&p1={p1}"),
            "Unsupported command",
        ),
        (
            format!("type=other:1&encoding=BLOB&p1={p1}"),
            "Unsupported command: other",
        ),
    ];
    for (command, expected) in cases {
        let message = error_of(&lab.get(&format!("/Lab/Frontier/{command}"), ""));
        assert!(message.contains(expected), "{command}: {message}");
    }
}

#[test]
fn a_missing_method_is_default_and_other_methods_are_refused() {
    let lab = lab(|_| {});
    assert_eq!(
        verified(&lab.get(&url(EXAMPLE).replace(":DEFAULT", ""), "")).rows,
        2
    );
    let other = lab.get(&url(EXAMPLE).replace(":DEFAULT", ":OTHER"), "");
    assert_eq!(error_of(&other), "plimsoll Exception: Unknown method OTHER");
}

#[test]
fn post_is_not_implemented() {
    let lab = lab(|_| {});
    let response = lab.service.connect().request("POST", &url(EXAMPLE), ID, b"body");
    assert_eq!(
        error_of(&response),
        "plimsoll Error: Exception: POST is not implemented yet!"
    );
    assert_eq!(response.field("cache-control"), Some("max-age=300"));
}

/// Here the gateway differs: it refuses `BLOBzip0`, to which the servlet responds with bytes that
/// no client can read.
#[test]
fn the_encodings_are_plain_and_zip_with_nine_levels() {
    let lab = lab(|_| {});
    let ask = |encoding: &str| lab.get(&url(EXAMPLE).replace("=BLOB&", &format!("={encoding}&")), "");
    for encoding in ["BLOB", "BLOBzip", "BLOBzip1", "BLOBzip5", "BLOBzip9"] {
        let response = ask(encoding);
        assert_eq!(verified(&response).rows, 2, "{encoding}");
        assert!(
            response.text().contains(&format!(" encoding=\"{encoding}\">")),
            "{encoding}"
        );
    }
    for encoding in ["BLOBzip0", "BLOBzip10", "blob", "XML"] {
        let message = error_of(&ask(encoding));
        assert!(message.contains("Unsupported encoder"), "{message}");
    }
}

#[test]
fn the_freshkey_makes_no_difference() {
    let lab = lab(|_| {});
    let with = lab.get(&format!("{}&freshkey=abc", url(EXAMPLE)), "");
    assert_eq!(with.body, lab.ask(EXAMPLE).body);
    assert_eq!(with.field("cache-control"), Some("max-age=604800"));
}

#[test]
fn values_after_colons_are_bound_as_text() {
    let lab = lab(|_| {});
    let rows = |sql: &str| verified(&lab.ask(sql)).rows;
    assert_eq!(rows("SELECT 1 FROM main.f0001_iovs WHERE payload = ?:v=1"), 1);
    assert_eq!(
        rows("SELECT 1 FROM main.f0001_iovs WHERE payload = ? AND iov_since = ?:v=1:0"),
        1
    );
    assert_eq!(
        rows("SELECT 1 FROM main.f0001_iovs WHERE payload = ?:' OR 1=1 --"),
        0
    );
    // A colon without a question mark, or the reverse, is plain SQL.
    assert_eq!(rows("SELECT 'a:b'"), 1);
}

#[test]
fn five_words_cancel_a_query_at_any_position() {
    let lab = lab(|_| {});
    for sql in [
        "DROP TABLE x",
        "SELECT 'delete it'",
        "Insert INTO x",
        "select 1 -- alter it",
        "SELECT 'Create '",
    ] {
        assert_eq!(
            error_of(&lab.ask(sql)),
            "plimsoll Exception: Query cancelled",
            "{sql}"
        );
    }
    assert_eq!(verified(&lab.ask("SELECT 'dropped', 'created'")).rows, 1);
}

#[test]
fn a_client_must_send_its_name() {
    let lab = lab(|config| config.ages.short = 60);
    let response = lab.service.connect().request("GET", &url(EXAMPLE), "", b"");
    assert_eq!(
        error_of(&response),
        "plimsoll Error: Exception: X-frontier-id header missing"
    );
    // 300 s, also if other errors have a shorter age.
    assert_eq!(response.field("cache-control"), Some("max-age=300"));
    assert!(!response.text().contains("<transaction"));
}

#[test]
fn an_invalid_encoding_of_the_query_is_an_error_of_the_whole_document() {
    let lab = lab(|_| {});
    let good = url(EXAMPLE);
    let (head, p1) = good.split_once("p1=").unwrap();
    for (p1, expected) in [
        ("%21%21%21", "not base64"),
        ("AAAA", "not zlib"),
        (&p1[..p1.len() / 2], "p1 is not"),
        (&encode_p1(&" ".repeat(50_000_000)), "inflates to more than"),
    ] {
        let response = lab.get(&format!("{head}p1={p1}"), "");
        let message = error_of(&response);
        assert!(
            message.starts_with("plimsoll Error: Exception: ") && message.contains(expected),
            "{message}"
        );
        assert!(!response.text().contains("<transaction"));
    }
}

/// Without a key, signatures are not available, as in a servlet without a key.
#[test]
fn a_signature_needs_a_key() {
    let lab = lab(|_| {});
    let message = error_of(&lab.get(&format!("{}&sec=sig", url(EXAMPLE)), ""));
    assert!(message.contains("No private key available for signing"));
}
