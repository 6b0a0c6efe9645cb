//! The services `grid` and `broker`: decisions, their quality, and the exchange between points.

use std::time::{Duration, Instant};

use plimsoll_services::broker::{self, BrokerConfig, GridConfig};
use serde_json::{Value, json};

use crate::support::{Client, Running, start};

/// Two sites of 100 CPUs and one organisation.
pub fn grid_config(policies: &Value) -> Value {
    json!({"sites": 2, "organisations": 1, "groups": 1, "cpus": [100, 100], "policies": policies})
}

pub fn grid(config: &Value) -> Running {
    let config: GridConfig = serde_json::from_value(config.clone()).unwrap();
    start(0, move |listener, shutdown| {
        broker::serve_grid(listener, config, shutdown.into_future())
    })
}

/// A decision point of `grid` with further keys.
pub fn point(grid: &Running, config: &Value, keys: &Value) -> Running {
    let mut whole = json!({"grid": config, "grid_address": grid.address.to_string()});
    for (key, value) in keys.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let config: BrokerConfig = serde_json::from_value(whole).unwrap();
    start(0, move |listener, shutdown| {
        broker::serve_point(listener, config, shutdown.into_future())
    })
}

fn decide(client: &mut Client, cpus: u32, runtime_ms: u64) -> (u16, Value, Option<f64>) {
    let job = json!({"vo": 0, "group": 0, "cpus": cpus, "runtime_ms": runtime_ms});
    let response = client.request("POST", "/decide", "", job.to_string().as_bytes());
    let accuracy = response
        .field("plimsoll-accuracy")
        .map(|text| text.parse().unwrap());
    (
        response.status,
        serde_json::from_slice(&response.body).unwrap(),
        accuracy,
    )
}

#[test]
fn a_point_that_knows_all_jobs_decides_like_an_omniscient_broker() {
    let config = json!({"sites": 20, "organisations": 5, "groups": 3, "seed": 2});
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({}));
    let mut client = point.connect();
    let mut placed = 0;
    for _ in 0..200 {
        let (status, body, accuracy) = decide(&mut client, 3, 600_000);
        assert!(status == 200 || status == 503, "{body}");
        assert_eq!(accuracy, Some(1.0), "{body}");
        if status == 200 {
            placed += 1;
            assert_eq!(body["misplaced"], false);
        }
    }
    let (stats, of_point) = (grid.stats(), point.stats());
    assert_eq!(stats["submitted"], placed);
    assert_eq!(stats["received"], 200);
    assert_eq!(of_point["decisions"], placed);
    assert_eq!(
        (&of_point["answered"], &of_point["submitted"]),
        (&json!(200), &json!(200))
    );
    assert_eq!(stats["cpus_busy"], 3 * placed);
    assert_eq!(stats["jobs_refused_wrongly"], 0);
}

#[test]
fn points_without_exchange_place_jobs_on_sites_without_capacity() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let points = [0, 1].map(|seed| point(&grid, &config, &json!({"seed": seed})));
    let mut misplaced = 0;
    for point in &points {
        let mut client = point.connect();
        for _ in 0..2 {
            let (status, body, _) = decide(&mut client, 100, 600_000);
            assert_eq!(status, 200, "{body}");
            misplaced += u32::from(body["misplaced"] == true);
        }
        let (status, body, accuracy) = decide(&mut client, 1, 600_000);
        assert_eq!((status, accuracy), (503, Some(1.0)), "{body}");
    }
    assert_eq!(misplaced, 2, "both jobs of the second point");
    let stats = grid.stats();
    assert_eq!(
        (&stats["misplaced"], &stats["jobs_queued"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn a_decision_for_a_site_with_a_full_queue_is_counted_and_has_a_quality() {
    let mut config = grid_config(&json!(["* * 100"]));
    config["queue"] = json!(0);
    let grid = grid(&config);
    // The first point occupies both sites, which the second one does not know.
    let points = [0, 1].map(|seed| point(&grid, &config, &json!({"seed": seed})));
    for _ in 0..2 {
        assert_eq!(decide(&mut points[0].connect(), 100, 600_000).0, 200);
    }
    let job = json!({"vo": 0, "group": 0, "cpus": 50, "runtime_ms": 600_000});
    let mut client = points[1].connect();
    let response = client.request("POST", "/decide", "", job.to_string().as_bytes());
    assert_eq!(response.status, 503);
    assert!(response.text().contains("is full"), "{}", response.text());
    for (field, value) in [
        ("plimsoll-accuracy", "1.000000"),
        ("plimsoll-misplaced", "1"),
        ("plimsoll-queue-full", "1"),
    ] {
        assert_eq!(response.field(field), Some(value), "{field}");
    }
    let (stats, of_point) = (grid.stats(), points[1].stats());
    assert_eq!((&stats["decisions"], &stats["submitted"]), (&json!(3), &json!(2)));
    assert_eq!(
        (&stats["queue_full"], &stats["queue_full_wrongly"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        (&of_point["queue_full"], &of_point["decisions"]),
        (&json!(1), &json!(0))
    );
}

#[test]
fn an_exchange_tells_each_point_the_decisions_of_the_other() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let first = point(&grid, &config, &json!({"exchange_ms": 10}));
    let peers = json!({"exchange_ms": 10, "peers": [first.address.to_string()]});
    let second = point(&grid, &config, &peers);
    let (status, _, _) = decide(&mut first.connect(), 100, 600_000);
    assert_eq!(status, 200);
    wait_until(|| second.stats()["jobs_known"] == 1);
    let (status, body, accuracy) = decide(&mut second.connect(), 100, 600_000);
    assert_eq!(
        (status, accuracy, &body["misplaced"]),
        (200, Some(1.0), &json!(false))
    );
    wait_until(|| first.stats()["jobs_known"] == 2);
    assert_eq!(decide(&mut first.connect(), 1, 1000).0, 503, "the grid is full");
    let counted = second.stats();
    assert_eq!(
        (&counted["received"], &counted["exchange_failures"]),
        (&json!(1), &json!(0))
    );
    assert!(counted["exchanges"].as_u64().unwrap() > 0 && counted["exchange_bytes"].as_u64().unwrap() > 0);
    drop(first);
    wait_until(|| second.stats()["exchange_failures"].as_u64().unwrap() > 0);
}

pub fn wait_until(is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_job_is_held_until_a_site_has_capacity() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({"hold_ms": 20_000}));
    let mut client = point.connect();
    let start = Instant::now();
    for _ in 0..2 {
        assert_eq!(decide(&mut client, 100, 300).0, 200);
    }
    let (status, body, _) = decide(&mut client, 100, 300);
    assert_eq!(status, 200, "{body}");
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
    let job = body["job"].as_u64().unwrap();
    let state = |job: u64| -> Value {
        let response = grid.get(&format!("/jobs/{job}"));
        serde_json::from_slice::<Value>(&response.body).unwrap()["state"].clone()
    };
    wait_until(|| state(job) == "done");
    assert_eq!(grid.get("/jobs/999").status, 404);
}

#[test]
fn decisions_that_take_time_wait_for_each_other() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({"decision_ms": 50}));
    let mut clients: Vec<_> = (0..3).map(|_| point.connect()).collect();
    let start = Instant::now();
    let body = br#"{"vo": 0, "group": 0, "runtime_ms": 1000}"#;
    for client in &mut clients {
        client.send(format!("POST /decide HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
        client.send(body);
    }
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert!(start.elapsed() >= Duration::from_millis(150));
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({}));
    let mut client = point.connect();
    let nested = "[".repeat(100_000);
    for (body, reason) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (
            r#"{"vo": 1, "group": 0, "runtime_ms": 1}"#,
            "vo: expected 0 to 0, got 1",
        ),
        (r#"{"vo": 0, "group": 0, "runtime_ms": 0}"#, "runtime_ms"),
        (
            r#"{"vo": 0, "group": 0, "runtime_ms": 1, "x": 1}"#,
            "unknown field",
        ),
        (nested.as_str(), "invalid type"),
    ] {
        let response = client.request("POST", "/decide", "", body.as_bytes());
        assert_eq!(response.status, 400);
        assert!(response.text().contains(reason), "{}", response.text());
        assert_eq!(response.field("plimsoll-accuracy"), None);
    }
    assert_eq!(client.get("/decide").status, 404);
    assert_eq!(client.request("POST", "/exchange", "", b"{}").status, 400);
    let mut client = grid.connect();
    let job = r#"{"site": 0, "job": {"vo": 0, "group": 0, "cpus": 101, "runtime_ms": 1}}"#;
    let response = client.request("POST", "/jobs", "", job.as_bytes());
    assert_eq!(response.status, 400);
    assert!(
        response.text().contains("permit it 100 at most"),
        "{}",
        response.text()
    );
    drop(client);
    drop(grid);
    let mut client = point.connect();
    let (status, body, accuracy) = decide(&mut client, 1, 1000);
    assert_eq!((status, accuracy), (503, None));
    assert!(
        body["error"]
            .as_str()
            .unwrap()
            .contains("the grid does not answer"),
        "{body}"
    );
}

#[test]
fn invalid_configurations_are_refused_with_their_key() {
    for (config, key) in [
        (json!({"sites": 0}), "sites: expected 1 to 10000, got 0"),
        (json!({"cpus": [5, 1]}), "cpus"),
        (json!({"policies": ["* vo99 5"]}), "SITE ENTITY SHARE"),
        (
            json!({"sites": 10_000, "organisations": 1000}),
            "sites x organisations x groups",
        ),
    ] {
        let service = grid(&config);
        let error = service.finish().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    let config = grid_config(&json!([]));
    let grid = grid(&config);
    for keys in [json!({"grid_address": ""}), json!({"exchange_ms": 0})] {
        assert!(point(&grid, &config, &keys).finish().is_err(), "{keys}");
    }
}
