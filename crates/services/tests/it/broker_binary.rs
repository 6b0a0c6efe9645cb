//! The binary protocol of a decision point: the same decisions as over HTTP, on the same port, and
//! clients that send something else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use plimsoll_wire::broker::{Frame, JobRequest, Quality, Reply, Status};
use serde_json::json;

use crate::broker::{grid, grid_config, point, wait_until};
use crate::support::Running;

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    fn connect(service: &Running) -> Self {
        let stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self {
            stream,
            input: Vec::new(),
        }
    }

    fn decide(&mut self, job: &JobRequest) -> Reply {
        let mut bytes = Vec::new();
        job.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
        self.reply().expect("a reply")
    }

    /// None: the service has closed the connection.
    fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(frame) = Frame::parse(&self.input).unwrap() {
                let (reply, length) = (Reply::decode(frame).unwrap(), frame.length());
                self.input.drain(..length);
                return Some(reply);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
            }
        }
    }
}

fn job(cpus: u32) -> JobRequest {
    JobRequest {
        vo: 0,
        group: 0,
        cpus,
        runtime_ms: 600_000,
    }
}

/// Status, text and quality of a refusal.
fn refusal(reply: Reply) -> (Status, String, Option<Quality>) {
    match reply {
        Reply::Refused {
            status,
            quality,
            text,
        } => (status, text, quality),
        Reply::Placed { .. } => panic!("{reply:?}"),
    }
}

#[test]
fn both_protocols_have_the_same_decisions() {
    let config = json!({"sites": 20, "organisations": 5, "groups": 3, "seed": 2, "queue": 1});
    let grids = [grid(&config), grid(&config)];
    let points = [0, 1].map(|index: usize| point(&grids[index], &config, &json!({})));
    let (mut http, mut binary) = (points[0].connect(), Client::connect(&points[1]));
    let mut placed = 0;
    for number in 0..150 {
        let job = JobRequest {
            vo: number % 5,
            group: number % 3,
            ..job(5)
        };
        let body = serde_json::to_vec(&job).unwrap();
        let response = http.request("POST", "/decide", "", &body);
        let expected = Reply::from_json(response.status, &response.body).unwrap();
        let reply = binary.decide(&job);
        assert_eq!(reply, expected);
        assert!(reply.quality().is_some());
        placed += u64::from(matches!(reply, Reply::Placed { .. }));
    }
    let [over_http, over_binary] = [0, 1].map(|index: usize| points[index].stats());
    assert_eq!(over_binary["decisions"], placed);
    for counter in ["connections", "received", "answered", "decisions", "submitted"] {
        // The connection of the reader of the counters is one of both.
        assert_eq!(over_http[counter], over_binary[counter], "{counter}");
    }
}

#[test]
fn a_port_serves_both_protocols_at_the_same_time() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({}));
    let (mut http, mut binary) = (point.connect(), Client::connect(&point));
    let body = serde_json::to_vec(&job(1)).unwrap();
    for _ in 0..3 {
        assert_eq!(http.request("POST", "/decide", "", &body).status, 200);
        assert!(matches!(binary.decide(&job(1)), Reply::Placed { .. }));
    }
    let mut together = Vec::new();
    for _ in 0..4 {
        job(1).encode(&mut together);
    }
    binary.stream.write_all(&together).unwrap();
    for _ in 0..4 {
        assert!(matches!(binary.reply(), Some(Reply::Placed { .. })));
    }
    assert_eq!(grid.stats()["submitted"], 10);
    assert_eq!(point.count(), 10);
}

#[test]
fn a_refusal_has_a_status_and_a_quality_if_the_grid_has_assessed_it() {
    let mut config = grid_config(&json!(["* * 100"]));
    config["queue"] = json!(0);
    config["jobs"] = json!(3);
    let grid = grid(&config);
    // The first point occupies both sites, which the second one does not know.
    let points = [0, 1].map(|seed| point(&grid, &config, &json!({"seed": seed})));
    let mut clients = points.each_ref().map(Client::connect);
    for _ in 0..2 {
        assert!(matches!(clients[0].decide(&job(99)), Reply::Placed { .. }));
    }
    let (status, text, quality) = refusal(clients[0].decide(&job(100)));
    assert_eq!(status, Status::NoCapacity, "{text}");
    assert_eq!(quality.unwrap().accuracy.to_bits(), 1.0_f64.to_bits());
    let (status, text, quality) = refusal(clients[1].decide(&job(50)));
    assert_eq!(status, Status::QueueFull, "{text}");
    assert!(quality.unwrap().misplaced && text.contains("is full"), "{text}");
    assert!(matches!(clients[0].decide(&job(1)), Reply::Placed { .. }));
    let (status, text, _) = refusal(clients[0].decide(&job(1)));
    assert_eq!(status, Status::GridFull, "{text}");

    // An invalid job is a valid request: the connection can be used further.
    let (status, text, quality) = refusal(clients[0].decide(&job(0)));
    assert_eq!((status, quality), (Status::InvalidJob, None));
    assert!(text.contains("cpus: expected 1 to 1,000,000, got 0"), "{text}");
    drop(grid);
    let (status, text, quality) = refusal(clients[1].decide(&job(1)));
    assert_eq!((status, quality), (Status::GridFailure, None));
    assert!(text.contains("the grid does not answer"), "{text}");
}

#[test]
fn other_bytes_are_refused_with_a_reason_and_do_not_affect_other_clients() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({}));
    let mut other = Client::connect(&point);
    let invalid = Status::InvalidMessage;
    let cases: [(&[u8], Status, &str); 6] = [
        (
            b"\x03B\x02\x01\0\0\0\x10",
            Status::UnsupportedVersion,
            "expected version 1 of the broker protocol, got version 2",
        ),
        (b"\x03P\x01\x01\0\0\0\x10", invalid, "got other bytes"),
        (b"\x03B\x01\x01\0\0\x04\x01", invalid, "at most 1024 bytes"),
        (b"\x03B\x01\x01\xff\xff\xff\xff", invalid, "4294967295"),
        (b"\x03B\x01\x02\0\0\0\0", invalid, "unexpected type 2"),
        (b"\x03B\x01\x01\0\0\0\x01x", invalid, "form of this type"),
    ];
    for (bytes, expected, reason) in cases {
        let mut client = Client::connect(&point);
        client.stream.write_all(bytes).unwrap();
        // What follows is not stored, and does not keep the client from reading the reason.
        let _ = client.stream.write_all(&vec![7; 1 << 20]);
        let (status, text, quality) = refusal(client.reply().expect("a reason"));
        assert_eq!((status, quality), (expected, None), "{text}");
        assert!(text.contains(reason), "{text}");
        assert_eq!(client.reply(), None);
    }
    wait_until(|| point.stats()["refused"] == 6);
    let mut http = point.connect();
    http.send(b"\x16\x03\x01\x02\x00\x01\n\n");
    assert_eq!(http.response().status, 400);
    assert!(matches!(other.decide(&job(1)), Reply::Placed { .. }));
    assert_eq!(point.count(), 1);
}

#[test]
fn early_closes_and_random_bytes_do_not_affect_other_clients() {
    let config = grid_config(&json!(["* * 100"]));
    let grid = grid(&config);
    let point = point(&grid, &config, &json!({}));
    let mut message = Vec::new();
    job(1).encode(&mut message);
    for length in 0..message.len() {
        let mut client = Client::connect(&point);
        client.stream.write_all(&message[..length]).unwrap();
    }
    let mut state = 12_345_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..300 {
        let mut bytes = message.clone();
        for _ in 0..random() % 4 {
            let at = random() % 8;
            bytes[at] = random() as u8;
        }
        let mut client = Client::connect(&point);
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
    }
    let (status, _, _) = refusal(Client::connect(&point).decide(&job(0)));
    assert_eq!(status, Status::InvalidJob);
    point.finish().unwrap();
}
