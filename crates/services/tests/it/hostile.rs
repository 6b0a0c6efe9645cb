//! Invalid and hostile requests: the service responds or closes the connection, and continues.

use std::io::Write;

use plimsoll_services::echo::{self, EchoConfig};
use plimsoll_services::null::{self, NullConfig};

use crate::support::{Running, start};

fn http() -> Running {
    let config = EchoConfig {
        http: true,
        max_body: 1000,
        ..EchoConfig::default()
    };
    start(0, |listener, shutdown| {
        echo::serve(listener, config, shutdown.into_future())
    })
}

#[test]
fn invalid_requests_are_refused_with_a_status() {
    let service = http();
    let cases: [(&[u8], u16); 6] = [
        (b"\x16\x03\x01\x02\x00\x01\n\n", 400),
        (b"GET / HTTP/3.7\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            411,
        ),
    ];
    for (bytes, status) in cases {
        let mut client = service.connect();
        client.send(bytes);
        let answer = client.response();
        assert_eq!(
            (answer.status, answer.field("connection")),
            (status, Some("close")),
            "{}",
            bytes.escape_ascii()
        );
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(service.count(), 0);
    assert_eq!(service.stats()["refused"], 6);
}

#[test]
fn a_head_of_1_mb_is_refused_and_the_client_receives_the_response() {
    let service = http();
    for head in [
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(200_000)),
    ] {
        let mut client = service.connect();
        let _ = client.stream.write_all(head.as_bytes());
        assert_eq!(client.response().status, 431);
    }
}

#[test]
fn incomplete_requests_and_early_closes_do_not_affect_other_clients() {
    let service = http();
    for bytes in [
        &b""[..],
        b"G",
        b"GET / HTTP/1.1\r\nHost",
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123",
    ] {
        let mut client = service.connect();
        client.send(bytes);
        drop(client);
    }
    // One byte at a time is slow, but valid.
    let mut client = service.connect();
    for byte in b"GET / HTTP/1.1\r\n\r\n" {
        client.send(&[*byte]);
    }
    assert_eq!(client.response().status, 200);
    assert_eq!(service.count(), 1);
    service.finish().unwrap();
}

#[test]
fn a_line_without_an_end_closes_the_connection() {
    let config = NullConfig {
        reply: Some("r".into()),
    };
    let service = start(0, |listener, shutdown| {
        null::serve(listener, config, shutdown.into_future())
    });
    let mut client = service.connect();
    let _ = client.stream.write_all(&vec![b'a'; 10 << 20]);
    assert_eq!(client.line(), None);
}

/// Random bytes and mutated requests: each is answered or its connection closed, and a valid
/// request works afterwards.
#[test]
fn random_bytes_are_answered_or_closed() {
    let service = http();
    let mut state = 12_345_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..300 {
        let mut bytes = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello".to_vec();
        for _ in 0..random() % 6 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        let mut client = service.connect();
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let _ = client.rest();
    }
    assert_eq!(service.get("/").status, 200);
}
