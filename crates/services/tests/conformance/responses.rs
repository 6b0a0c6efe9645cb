//! Responses: framing, headers, documents, errors.

use std::time::{Duration, Instant};

use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use super::lab::{BIG, EXAMPLE, ID, SLOW, ask_as_1_0, error_of, lab, quality, url, verified};
use crate::support::Response;

fn assert_plain_headers(response: &Response) {
    assert_eq!(response.field("content-type"), Some("text/xml;charset=US-ASCII"));
    for absent in ["etag", "expires", "vary", "pragma"] {
        assert_eq!(response.field(absent), None, "{absent}");
    }
}

#[test]
fn a_response_within_8_kib_has_a_length_and_a_larger_one_is_chunked() {
    let lab = lab(|_| {});
    let small = lab.ask(EXAMPLE);
    assert_plain_headers(&small);
    assert_eq!(
        small.field("content-length"),
        Some(small.body.len().to_string().as_str())
    );
    assert_eq!(small.field("transfer-encoding"), None);
    let big = lab.ask(BIG);
    assert_plain_headers(&big);
    assert_eq!(
        (big.field("content-length"), big.field("transfer-encoding")),
        (None, Some("chunked"))
    );
    // The limit is the length of the container's buffer.
    for (rows, chunked) in [(40, false), (80, true)] {
        let response = lab.ask(&format!("{BIG} LIMIT {rows}"));
        assert_eq!(response.body.len() > 8192, chunked);
        assert_eq!(response.field("transfer-encoding").is_some(), chunked);
    }
}

#[test]
fn http_1_0_is_never_answered_in_chunks() {
    let lab = lab(|_| {});
    let mut client = lab.service.connect();
    for _ in 0..2 {
        let small = ask_as_1_0(&mut client, EXAMPLE);
        assert_eq!(small.field("connection"), Some("keep-alive"));
        assert!(small.field("content-length").is_some());
    }
    let big = ask_as_1_0(&mut client, BIG);
    assert_eq!(
        (big.field("content-length"), big.field("transfer-encoding")),
        (None, None)
    );
    assert_eq!(big.field("connection"), Some("close"));
    assert_eq!(verified(&big).rows, 1000);
}

#[test]
fn quality_contains_error_digest_records_and_size_in_this_order() {
    let lab = lab(|_| {});
    let said = quality(&lab.ask(EXAMPLE));
    assert!(
        said.starts_with("error=\"0\" md5=\"") && said.ends_with("\" records=\"2\" full_size=\"125\""),
        "{said}"
    );
    // The digest is that of the compressed bytes, the size that of the inflated bytes. The client
    // side checks both.
    let zipped = build_url(
        "",
        Form::Slash,
        &[EXAMPLE],
        Encoding::BlobZipLevel(5),
        Ttl::Long,
        None,
    );
    let zipped = lab.get(&zipped, "");
    assert_eq!(verified(&zipped).payload_bytes, 125);
    assert!(quality(&zipped).ends_with("records=\"2\" full_size=\"125\""));
}

#[test]
fn a_payload_error_is_a_document_with_a_short_age() {
    let lab = lab(|config| config.ages.short = 60);
    let zipped = build_url(
        "",
        Form::Slash,
        &["SELECT x FROM nowhere"],
        Encoding::BlobZip,
        Ttl::Long,
        None,
    );
    let response = lab.get(&zipped, "");
    assert_plain_headers(&response);
    assert_eq!(response.status, 200);
    assert_eq!(response.field("cache-control"), Some("max-age=60"));
    assert_eq!(
        response.field("last-modified"),
        Some("Thu, 01 Jan 1970 00:00:00 GMT")
    );
    assert!(!response.text().contains("<global_error"));
    let said = quality(&response);
    assert!(
        said.starts_with("error=\"1\" message=\"plimsoll SQLException: no such table: nowhere\" md5=\""),
        "{said}"
    );
    assert!(
        said.ends_with("\" full_size=\"0\"") && !said.contains("records"),
        "{said}"
    );
    // The packing had begun: the data is an empty stream, with its digest.
    let data = response.text();
    assert!(data.contains("<data>eJwDAAAAAAE=</data>") || data.contains("<data>eF4DAAAAAAE=</data>"));
    // If the packing had not begun, there is neither data nor digest.
    let wrong = lab.get(&url(EXAMPLE).replace("=BLOB&", "=X&"), "");
    assert!(wrong.text().contains("<data></data>"));
    assert!(!quality(&wrong).contains("md5="));
}

#[test]
fn the_payloads_after_an_error_are_omitted() {
    let lab = lab(|_| {});
    let target = build_url(
        "",
        Form::Slash,
        &[EXAMPLE, "SELECT x", EXAMPLE],
        Encoding::Blob,
        Ttl::Long,
        None,
    );
    let response = lab.get(&target, "");
    let text = response.text();
    assert!(text.contains("<transaction payloads=\"3\">"));
    assert_eq!(text.matches("<payload ").count(), 2);
    assert!(text.ends_with("  </payload>\n </transaction>\n</frontier>\n"));
}

#[test]
fn an_error_after_the_headers_is_reported_twice() {
    let lab = lab(|config| {
        config.ages.short = 60;
        config.query_timeout_s = 0.3;
        config.keepalive_s = 0.05;
    });
    let response = lab.ask(SLOW);
    assert_eq!(response.field("cache-control"), Some("max-age=604800"));
    assert_eq!(response.field("last-modified"), None);
    assert!(quality(&response).contains("\" max_age=\"60\" md5="));
    let text = response.text();
    let message = "plimsoll SQLException: the query was stopped after 0.3 s (query_timeout_s)";
    assert!(
        text.ends_with(&format!(
            " </transaction>\n\n  <global_error msg=\"{message}\"/>\n</frontier>\n"
        )),
        "{text}"
    );
}

#[test]
fn a_document_with_a_global_error_is_truncated_if_the_client_requires_it() {
    let lab = lab(|_| {});
    let target = url(EXAMPLE).replace("p1=", "p2=");
    let fields = "X-Frontier-Opts: a DontCacheErrors b\r\n";
    let cut = lab.get(&target, fields);
    assert!(!cut.complete && cut.body.ends_with(b"</frontier>\n"));
    assert_eq!(cut.field("content-length"), None);
    assert!(lab.get(&target, "").complete);
    // Documents with payload errors are not truncated.
    let payload = lab.ask_with("SELECT x FROM nowhere", Ttl::Long, fields);
    assert!(payload.complete);
}

#[test]
fn too_many_requests_are_refused_with_twelve_bytes() {
    let lab = lab(|config| {
        config.threads = 1;
        config.ages.short = 60;
    });
    let mut busy = lab.service.connect();
    busy.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(SLOW)).as_bytes());
    while lab.service.stats()["in_progress"] != 1 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let refused = lab.ask(EXAMPLE);
    assert_eq!((refused.status, refused.text().as_str()), (503, "</frontier>\n"));
    assert_eq!(refused.body.len(), 12);
    assert_eq!(refused.field("cache-control"), Some("max-age=60"));
    assert_eq!(refused.field("connection"), Some("close"));
    assert_eq!(verified(&busy.response()).rows, 1);
}

#[test]
fn keepalives_are_sent_at_their_interval_before_any_data() {
    let lab = lab(|config| {
        config.connections = 1;
        config.keepalive_s = 0.2;
        config.max_execute_s = 0.5;
        config.query_timeout_s = 30.0;
    });
    let long = SLOW.replace("3000000", "12000000");
    let begun = Instant::now();
    let response = lab.ask(&long);
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(700),
        "{took:?}: too quick to tell anything"
    );
    // The number of intervals in 0.5 s, rounded up. After that no keepalive is sent, but the
    // response is.
    assert_eq!(verified(&response).keepalives, 3);
    assert_eq!(verified(&response).rows, 1);
    let text = response.text();
    assert!(
        text.contains("<data>\n   <keepalive />\n   <keepalive />\n   <keepalive />Bg"),
        "{text}"
    );
    assert_eq!(response.field("transfer-encoding"), Some("chunked"));
    assert_eq!(lab.service.stats()["keepalives"], 3);
}

#[test]
fn without_max_execute_s_there_are_no_keepalives() {
    let lab = lab(|config| {
        config.keepalive_s = 0.05;
        config.max_execute_s = 0.0;
    });
    let response = lab.ask(SLOW);
    assert_eq!(verified(&response).keepalives, 0);
    assert!(response.field("content-length").is_some());
}

/// As servers before they had keepalives: a client with a read timeout gives up.
#[test]
fn keepalives_can_be_disabled() {
    let lab = lab(|config| {
        config.keepalive_s = 0.0;
        config.connections = 1;
    });
    let mut clients = [lab.service.connect(), lab.service.connect()];
    for client in &mut clients {
        client.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(SLOW)).as_bytes());
    }
    for client in &mut clients {
        let response = client.response();
        assert_eq!(verified(&response).keepalives, 0);
        assert!(response.field("content-length").is_some());
    }
    assert_eq!(lab.service.stats()["keepalives"], 0);
}

#[test]
fn waiting_for_a_connection_fails_after_max_acquire_s() {
    let lab = lab(|config| {
        config.connections = 1;
        config.keepalive_s = 0.05;
        config.max_acquire_s = 0.3;
        config.query_timeout_s = 30.0;
    });
    let mut busy = lab.service.connect();
    let long = SLOW.replace("3000000", "12000000");
    busy.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(&long)).as_bytes());
    while lab.service.stats()["connections_in_use"] != 1 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut waiting = lab.service.connect();
    waiting.send(format!("GET {} HTTP/1.1\r\n{ID}\r\n", url(EXAMPLE)).as_bytes());
    while lab.service.stats()["connections_waiting"] != 1 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let response = waiting.response();
    assert_eq!(
        error_of(&response),
        "plimsoll Exception: Timed out waiting to acquire DB connection"
    );
    assert!(verified(&response).keepalives >= 2);
    assert!(!quality(&response).contains("md5="));
}
