//! The service `delay`, compared with its model and with the clock. Limits of times are one-sided
//! if a loaded machine can only make the times longer.

use std::time::{Duration, Instant};

use plimsoll_services::delay::{self, DelayConfig};

use crate::support::{Running, start};

fn service(json: &str) -> Running {
    service_on(0, json)
}

fn service_on(workers: usize, json: &str) -> Running {
    let config: DelayConfig = serde_json::from_str(json).unwrap();
    start(workers, move |listener, shutdown| {
        delay::serve(listener, config, shutdown.into_future())
    })
}

#[test]
fn the_response_time_is_at_least_the_fixed_service_time() {
    let service = service(r#"{"service": {"law": "fixed", "s": 0.001}}"#);
    let mut client = service.connect();
    let mut fastest = Duration::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        assert_eq!(client.get("/").status, 200);
        fastest = fastest.min(start.elapsed());
    }
    assert!(fastest >= Duration::from_millis(1), "{fastest:?}");
    let stats = service.stats();
    assert_eq!(
        (stats["answered"].as_u64(), stats["in_system"].as_u64()),
        (Some(300), Some(0))
    );
    let busy = stats["busy_s"].as_f64().unwrap();
    assert!((busy - 0.3).abs() < 1e-6, "{busy}");
    assert!((stats["mean_service_s"].as_f64().unwrap() - 0.001).abs() < 1e-9);
    assert!(stats["mean_late_s"].as_f64().unwrap() >= 0.0);
    assert_eq!(service.count(), 300);
}

/// Four simultaneous requests on two servers: two end after one service time, two after two.
#[test]
fn requests_are_served_in_order_of_arrival() {
    let service = service_on(
        2,
        r#"{"servers": 2, "service": {"law": "fixed", "s": 0.05}, "body": 5}"#,
    );
    let mut clients: Vec<_> = (0..4).map(|_| service.connect()).collect();
    let start = Instant::now();
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\n\r\n");
    }
    let times: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            assert_eq!(client.response().body, b"xxxxx");
            start.elapsed()
        })
        .collect();
    assert!(
        times[1] >= Duration::from_millis(50) && times[3] >= Duration::from_millis(100),
        "{times:?}"
    );
    assert!((service.stats()["busy_s"].as_f64().unwrap() - 0.2).abs() < 1e-6);
}

/// On any machine, a request that arrives during the stall cannot be answered before the end of the
/// stall.
#[test]
fn a_stall_delays_all_requests() {
    let service =
        service(r#"{"service": {"law": "fixed", "s": 0.001}, "stall": {"at_s": 0.05, "for_s": 0.3}}"#);
    let mut client = service.connect();
    let before_the_first = Instant::now();
    client.get("/");
    std::thread::sleep(Duration::from_millis(60));
    client.get("/");
    assert!(before_the_first.elapsed() >= Duration::from_millis(351));
    client.get("/");
    let busy = service.stats()["busy_s"].as_f64().unwrap();
    assert!(
        (busy - 0.003).abs() < 1e-6,
        "a stalled server is not busy: {busy}"
    );
}

#[test]
fn failures_depend_on_the_seed_and_a_full_system_refuses_requests() {
    let json = r#"{"service": {"law": "exponential", "mean_s": 0.00001}, "fail": 0.25, "seed": 7}"#;
    let outcomes = || {
        let service = service(json);
        let mut client = service.connect();
        let outcomes: Vec<u16> = (0..1000).map(|_| client.get("/").status).collect();
        let failed = outcomes.iter().filter(|status| **status == 500).count();
        assert_eq!(service.stats()["failed"], failed);
        (outcomes, failed)
    };
    let (first, failed) = outcomes();
    assert!((200..300).contains(&failed), "{failed}");
    assert_eq!(first, outcomes().0);

    let service = service(r#"{"service": {"law": "fixed", "s": 1}, "capacity": 1}"#);
    let mut inside = service.connect();
    inside.send(b"GET / HTTP/1.1\r\n\r\n");
    let deadline = Instant::now() + Duration::from_secs(5);
    while service.stats()["in_system"] == 0 && Instant::now() < deadline {}
    assert_eq!(service.get("/").status, 503);
    assert_eq!(inside.response().status, 200);
    assert_eq!(service.stats()["full"], 1);
}

#[test]
fn lines_over_tcp_are_answered() {
    let service = service(r#"{"http": false, "service": {"law": "uniform", "from_s": 0, "to_s": 0.002}}"#);
    let mut client = service.connect();
    client.send(b"a\nb\nc\n");
    for _ in 0..3 {
        assert_eq!(client.line().as_deref(), Some("ok"));
    }
    client.send(b"plimsoll count\nplimsoll stats\n");
    assert_eq!(client.line().as_deref(), Some("3"));
    let stats: serde_json::Value = serde_json::from_str(&client.line().unwrap()).unwrap();
    assert_eq!(stats["servers"], 1);
}

#[test]
fn invalid_configurations_are_rejected() {
    for json in [
        r#"{"service": {"law": "fixed", "s": 1}, "servers": 0}"#,
        r#"{"service": {"law": "fixed", "s": -1}}"#,
        r#"{"service": {"law": "fixed", "s": 1}, "fail": 1.5}"#,
        r#"{"service": {"law": "fixed", "s": 1}, "stall": {"at_s": -1, "for_s": 1}}"#,
    ] {
        assert!(service(json).finish().is_err(), "{json}");
    }
}
