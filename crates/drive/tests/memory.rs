//! Peak memory of a run. The test is alone in its process, because the peak is that of the process.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(dead_code, reason = "parts of the other tests' harness")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "`json!` literals as arguments read best"
)]

#[path = "it/sql/filled.rs"]
mod filled;
#[path = "it/harness.rs"]
mod harness;
#[path = "../../wire/tests/servers/mod.rs"]
mod servers;

use plimsoll_model::Outcome;
use serde_json::json;

use harness::{closed, run, spec};

#[test]
fn a_large_result_does_not_increase_memory() {
    for server in filled::servers() {
        // 300,000 rows of 100 bytes.
        let query = "SELECT a.s FROM t a JOIN t b ON b.n < 300";
        let before = peak();
        let (settings, request) = (json!({"connection": "per-query"}), json!({"query": query}));
        let end = json!({"each_tester": 2});
        let ran = run(spec("sql", &server.url(), settings, request, closed(4), end));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 8], "{:?}", ran.notes);
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload), (300_000, 30_000_000));
            assert!(t.received > 30_000_000);
            assert!(t.end > t.first_byte);
        }
        let grown = peak() - before;
        assert!(grown < 20_000, "the peak has increased by {grown} kB");
    }
}

/// Peak resident memory of this process, kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
