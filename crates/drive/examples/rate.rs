//! Measures the rate of one lane: `rate DRIVER URL TESTERS SECONDS CPU [RATE]`. Transactions are
//! counted and discarded instead of being recorded. With RATE: an even open load, for which the
//! lateness is printed, too.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_drive::{Drive, DriveEvent, MetricRow, Portions, Sink};
use plimsoll_model::{Codes, RunSpec, Transaction};
use serde_json::json;

#[derive(Default)]
struct Totals {
    delivered: AtomicU64,
    lateness: Mutex<Vec<i64>>,
}

struct CountingSink(Arc<Totals>, bool);

impl Sink for CountingSink {
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        self.0.delivered.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if self.1 {
            self.0
                .lateness
                .lock()
                .unwrap()
                .extend(batch.iter().map(|t| t.start - t.scheduled));
        }
        batch.clear();
        0
    }

    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize {
        rows.clear();
        0
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [driver, url, testers, seconds, cpu, ..] = arguments.as_slice() else {
        println!("rate null|http URL TESTERS SECONDS CPU [RATE]");
        return;
    };
    let (testers, seconds, cpu): (u32, i64, u32) = (
        testers.parse().unwrap(),
        seconds.parse().unwrap(),
        cpu.parse().unwrap(),
    );
    let rate: Option<f64> = arguments.get(5).map(|rate| rate.parse().unwrap());
    let load = match rate {
        None => json!({"kind": "closed", "testers": testers, "think": {"kind": "fixed", "ns": 0}}),
        Some(rate) => json!({"kind": "open", "rate": rate, "arrivals": "even", "in_flight": testers,
            "when_full": "wait"}),
    };
    let (settings, request) = if driver == "null" {
        (json!({}), json!({}))
    } else {
        (
            json!({"connection": "kept", "tls": null, "token_file": null, "proxies": [], "keep_body": false}),
            json!({"method": "GET", "path": "", "headers": [], "body": null, "body_file": null,
                "expect": {"status": [], "contains": null, "regex": null}}),
        )
    };
    let spec: RunSpec = serde_json::from_value(json!({
        "format": "plimsoll.run/1", "experiment": "e", "run": "0001", "directory": "/nonexistent", "seed": 7,
        "warmup_ns": 0, "end": {"duration_ns": seconds * 1_000_000_000, "each_tester": null, "transactions": null},
        "drain_ns": 1_000_000_000, "keep": "all",
        "workloads": [{
            "name": "main", "driver": driver, "settings": settings,
            "endpoints": [{"name": "a", "url": url}], "choose": "per-tester", "order": "round-robin",
            "timeout_ns": 10_000_000_000_u64, "on_error": {"kind": "continue"},
            "operations": [{"name": "op", "weight": 1.0, "request": request}], "values": {}, "load": load,
        }],
        "watch": [], "tester_cpus": [cpu], "spin_ns": std::env::var("SPIN_NS").map_or(0, |ns| ns.parse().unwrap()),
        "ceiling": [],
    }))
    .unwrap();
    let totals = Arc::new(Totals::default());
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(CountingSink(Arc::clone(&totals), rate.is_some()))];
    let (sender, events) = mpsc::sync_channel(1_000);
    let clock = Arc::new(SystemClock);
    let whole = Portions::whole(1);
    let drive = Drive::prepare(Arc::new(spec), whole, 1, clock, Codes::default(), sinks, sender).unwrap();
    drive.go(SystemClock.raw_ns() + 10_000_000);
    for event in events {
        if let DriveEvent::LaneEnded {
            counters, in_flight, ..
        } = event
        {
            println!(
                "{:.0} transactions/s, {} failed, {in_flight} in flight",
                counters.succeeded as f64 / seconds as f64,
                counters.failed
            );
            break;
        }
    }
    drive.join();
    let usage = usage();
    let cpu_s = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let used = cpu_s(usage.ru_utime) + cpu_s(usage.ru_stime);
    let delivered = totals.delivered.load(Ordering::Relaxed);
    println!(
        "{:.2} us of CPU time per transaction, {used:.2} s in total",
        used / delivered as f64 * 1e6
    );
    let mut lateness = totals.lateness.lock().unwrap();
    lateness.sort_unstable();
    if !lateness.is_empty() {
        let at = |p: f64| lateness[((lateness.len() - 1) as f64 * p) as usize] as f64 / 1e3;
        println!(
            "lateness us: p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1}",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
}

fn usage() -> libc::rusage {
    // SAFETY: plain numbers, for which zero is valid; the call fills them.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}
