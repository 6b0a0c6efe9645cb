//! Runs a run document, and collects its transactions, metrics and events.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_drive::{AgentPortion, Drive, DriveError, DriveEvent, MetricRow, Portions, Sink, lanes_for};
use plimsoll_model::{Codes, Counters, Outcome, RunSpec, SecondReport, Transaction};
use serde_json::{Value, json};

pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1_000_000_000;

#[derive(Default)]
struct Store {
    transactions: Mutex<Vec<Transaction>>,
    metrics: Mutex<Vec<MetricRow>>,
}

struct StoreSink(Arc<Store>);

impl Sink for StoreSink {
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        self.0.transactions.lock().unwrap().append(batch);
        0
    }

    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize {
        self.0.metrics.lock().unwrap().append(rows);
        0
    }
}

pub struct RunResult {
    pub t0: i64,
    /// In the order of their starts.
    pub transactions: Vec<Transaction>,
    pub metrics: Vec<MetricRow>,
    pub seconds: Vec<SecondReport>,
    pub notes: Vec<(&'static str, String)>,
    pub counters: Counters,
    pub in_flight: u64,
    pub windows: Vec<i64>,
    codes: Vec<String>,
}

impl RunResult {
    pub fn code(&self, transaction: &Transaction) -> &str {
        &self.codes[usize::from(transaction.code.0)]
    }

    /// Outcome and code of every transaction.
    pub fn results(&self) -> Vec<(Outcome, &str)> {
        self.transactions
            .iter()
            .map(|t| (t.outcome, self.code(t)))
            .collect()
    }

    pub fn metric_rows(&self, name: &str) -> Vec<&MetricRow> {
        let is = |row: &&MetricRow| self.codes[usize::from(row.metric.0)] == name;
        self.metrics.iter().filter(is).collect()
    }

    pub fn metric(&self, name: &str) -> Vec<f64> {
        self.metric_rows(name).iter().map(|row| row.value).collect()
    }

    /// Whether the dictionary contains this text, as a code or the name of a metric.
    pub fn has_code(&self, text: &str) -> bool {
        self.codes.iter().any(|code| code == text)
    }

    /// Response times, ns, sorted.
    pub fn responses(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.transactions.iter().map(|t| t.end - t.scheduled).collect();
        all.sort_unstable();
        all
    }

    /// Request times, ns, sorted.
    pub fn requests(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.transactions.iter().map(|t| t.end - t.start).collect();
        all.sort_unstable();
        all
    }
}

/// A run document with one workload and defaults.
pub fn spec(driver: &str, url: &str, settings: Value, request: Value, load: Value, end: Value) -> Value {
    json!({
        "format": "plimsoll.run/1", "experiment": "e", "run": "0001", "directory": "/nonexistent", "seed": 7,
        "warmup_ns": 0, "end": end_with(end), "drain_ns": 2 * SECOND, "keep": "all",
        "workloads": [{
            "name": "main", "driver": driver, "settings": settings,
            "endpoints": [{"name": "a", "url": url}], "choose": "per-tester", "order": "round-robin",
            "timeout_ns": 5 * SECOND, "on_error": {"kind": "continue"},
            "operations": [{"name": "op", "weight": 1.0, "request": request}], "values": {}, "load": load,
        }],
        "watch": [], "tester_cpus": [], "spin_ns": 0, "ceiling": [],
    })
}

fn end_with(end: Value) -> Value {
    let mut whole = json!({"duration_ns": null, "each_tester": null, "transactions": null});
    for (key, value) in end.as_object().unwrap() {
        whole[key] = value.clone();
    }
    whole
}

pub fn closed(testers: u32) -> Value {
    json!({"kind": "closed", "testers": testers, "think": {"kind": "fixed", "ns": 0}})
}

pub fn open(rate: f64, in_flight: u32, when_full: &str) -> Value {
    json!({"kind": "open", "rate": rate, "arrivals": "even", "in_flight": in_flight, "when_full": when_full})
}

pub struct RunningDrive {
    pub drive: Drive,
    pub t0: i64,
    events: Receiver<DriveEvent>,
    store: Arc<Store>,
    codes: Codes,
}

pub fn prepare(spec: Value, portion: AgentPortion, lanes: Option<usize>) -> Result<RunningDrive, DriveError> {
    let spec: RunSpec = serde_json::from_value(spec).unwrap();
    let lanes = lanes.unwrap_or_else(|| lanes_for(&spec));
    let store = Arc::new(Store::default());
    let sinks = (0..lanes)
        .map(|_| Box::new(StoreSink(Arc::clone(&store))) as Box<dyn Sink>)
        .collect();
    let (sender, events) = mpsc::sync_channel(10_000);
    let codes = Codes::default();
    let clock = Arc::new(SystemClock);
    let portions = Portions {
        agent: portion.agent,
        workloads: vec![Some(portion); spec.workloads.len()],
        budget: portion,
    };
    let drive = Drive::prepare(
        Arc::new(spec),
        portions,
        lanes,
        clock,
        codes.clone(),
        sinks,
        sender,
    )?;
    assert!(!drive.thread_ids().is_empty());
    Ok(RunningDrive {
        drive,
        t0: 0,
        events,
        store,
        codes,
    })
}

impl RunningDrive {
    pub fn go(&mut self) {
        self.t0 = SystemClock.raw_ns() + 5 * MS;
        self.drive.go(self.t0);
    }

    /// Starts the drive as an agent that joins a run `ns` after its start.
    pub fn join_after(&mut self, ns: i64) {
        self.t0 = SystemClock.raw_ns() - ns;
        self.drive.go(self.t0);
    }

    pub fn finish(self) -> RunResult {
        self.drive.join();
        let mut ran = RunResult {
            t0: self.t0,
            transactions: self.store.transactions.lock().unwrap().clone(),
            metrics: self.store.metrics.lock().unwrap().clone(),
            seconds: Vec::new(),
            notes: Vec::new(),
            counters: Counters::default(),
            in_flight: 0,
            windows: Vec::new(),
            codes: self.codes.texts(),
        };
        let mut sum = Counters::default();
        for event in self.events.try_iter() {
            match event {
                DriveEvent::Second { report, .. } => {
                    sum.add(&report.counters);
                    ran.seconds.push(report);
                }
                DriveEvent::Note { kind, text, .. } => ran.notes.push((kind, text)),
                DriveEvent::LaneEnded {
                    counters,
                    in_flight,
                    window_ns,
                    ..
                } => {
                    ran.counters.add(&counters);
                    ran.in_flight += in_flight;
                    ran.windows.push(window_ns);
                }
            }
        }
        ran.transactions.sort_by_key(|t| t.start);
        check(&ran, &sum);
        ran
    }
}

/// Checks the invariants of every run.
fn check(ran: &RunResult, sum: &Counters) {
    let counters = &ran.counters;
    assert_eq!(counters, sum, "the sum of the seconds is the total");
    assert_eq!(
        counters.started,
        counters.succeeded + counters.failed + ran.in_flight,
        "{counters:?}"
    );
    assert_eq!(
        ran.transactions.len() as u64,
        counters.started,
        "every transaction is recorded"
    );
    for t in &ran.transactions {
        assert!(t.scheduled <= t.start, "{t:?}");
        assert_eq!(t.end == -1, t.outcome == Outcome::Cancelled, "{t:?}");
        assert!(t.end == -1 || t.end >= t.start, "{t:?}");
        for stamp in [t.connected, t.first_byte] {
            assert!(
                stamp == -1 || (stamp >= t.start && (t.end == -1 || stamp <= t.end)),
                "{t:?}"
            );
        }
    }
}

pub fn run(spec: Value) -> RunResult {
    let mut going = prepare(spec, AgentPortion { agent: 0, agents: 1 }, None).unwrap();
    going.go();
    going.finish()
}

pub fn refused(spec: Value) -> String {
    match prepare(spec, AgentPortion { agent: 0, agents: 1 }, None) {
        Ok(_) => panic!("should be refused"),
        Err(error) => error.to_string(),
    }
}

/// A server on a free port of loopback, with one thread per connection.
pub struct Server {
    pub port: u16,
    pub connections: Arc<AtomicUsize>,
}

impl Server {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, count) = (Arc::new(serve), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.set_nodelay(true).unwrap();
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { port, connections }
    }

    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}

/// Reads one request: its head, and the body of its Content-Length; none at the end of the stream.
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// An HTTP server that calls `answer` with each request and sends the bytes that it returns; none
/// closes the connection.
pub fn http_server(
    answer: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Server, Arc<AtomicUsize>) {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let server = Server::start(move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            count.fetch_add(1, Ordering::SeqCst);
            let Some(bytes) = answer(&request) else { return };
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    (server, served)
}
