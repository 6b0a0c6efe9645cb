//! The services `echo` and `null`.

use std::io::Write;
use std::net::Shutdown;

use plimsoll_services::echo::{self, EchoConfig};
use plimsoll_services::null::{self, NullConfig};

use crate::support::{Running, start};

fn http(config: EchoConfig) -> Running {
    start(2, |listener, shutdown| {
        echo::serve(listener, config, shutdown.into_future())
    })
}

fn configured(body: usize, status: u16) -> EchoConfig {
    EchoConfig {
        http: true,
        body,
        status,
        ..EchoConfig::default()
    }
}

#[test]
fn tcp_returns_every_byte() {
    let service = start(0, |listener, shutdown| {
        let config = EchoConfig {
            http: false,
            ..EchoConfig::default()
        };
        echo::serve(listener, config, shutdown.into_future())
    });
    let mut client = service.connect();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 7) as u8).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sent = bytes.clone();
    let thread = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    assert!(client.rest() == bytes);
    thread.join().unwrap();
    service.finish().unwrap();
}

#[test]
fn http_returns_the_fixed_body_or_that_of_the_request() {
    let service = http(configured(70_000, 201));
    let mut client = service.connect();
    for _ in 0..3 {
        let answer = client.get("/any");
        assert_eq!((answer.status, answer.body.len()), (201, 70_000));
    }
    let answer = client.request("POST", "/", "Expect: nothing\r\n", b"hello");
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (201, b"hello".as_slice())
    );
    // Pipelined requests: both responses arrive, in order.
    client
        .send(b"PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabPUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\ncd");
    assert_eq!([client.response().body, client.response().body], [b"ab", b"cd"]);
    assert_eq!(service.count(), 6);
    assert_eq!(service.stats()["received"], 6);
}

#[test]
fn http_1_0_closes_the_connection_without_keep_alive() {
    let service = http(configured(3, 200));
    let mut client = service.connect();
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.response();
    assert_eq!(
        (answer.field("connection"), answer.body.as_slice()),
        (Some("keep-alive"), b"xxx".as_slice())
    );
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().field("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    let mut client = service.connect();
    client.send(b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n");
    let head = String::from_utf8(client.rest()).unwrap();
    assert!(
        head.contains("Content-Length: 3\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn expect_continue_is_answered() {
    let service = http(configured(0, 200));
    let mut client = service.connect();
    client.send(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.line().as_deref(), Some("HTTP/1.1 100 Continue"));
    assert_eq!(client.line().as_deref(), Some(""));
    client.send(b"ok");
    assert_eq!(client.response().body, b"ok");
}

#[test]
fn counts_from_many_connections_are_exact() {
    let service = http(configured(10, 200));
    let done: u64 = std::thread::scope(|scope| {
        let work = |n: u64| {
            let mut client = service.connect();
            (0..n)
                .map(|_| u64::from(client.get("/").status == 200))
                .sum::<u64>()
        };
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || work(50 + i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((done, service.count()), (428, 428));
}

#[test]
fn invalid_configurations_are_rejected() {
    for config in [configured(0, 99), configured(1 << 40, 200)] {
        let error = http(config).finish().unwrap_err().to_string();
        assert!(
            error.starts_with("status: ") || error.starts_with("body: "),
            "{error}"
        );
    }
}

#[test]
fn null_answers_lines_or_nothing() {
    let config = NullConfig {
        reply: Some("done".into()),
    };
    let service = start(0, |listener, shutdown| {
        null::serve(listener, config, shutdown.into_future())
    });
    let mut client = service.connect();
    client.send(b"one\ntwo\r\n");
    assert_eq!(client.line().as_deref(), Some("done"));
    assert_eq!(client.line().as_deref(), Some("done"));
    let mut other = service.connect();
    other.send("request\n".repeat(10_000).as_bytes());
    for _ in 0..10_000 {
        assert_eq!(other.line().as_deref(), Some("done"));
    }
    client.send(b"plimsoll count\n");
    assert_eq!(client.line().as_deref(), Some("10002"));

    let sink = start(0, |listener, shutdown| {
        null::serve(listener, NullConfig::default(), shutdown.into_future())
    });
    let mut client = sink.connect();
    client.send(&vec![b'\n'; 3_000_000]);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"");
}
