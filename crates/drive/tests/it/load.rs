//! Loads, ends of runs, and counters, mostly with the null driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_drive::AgentPortion;
use plimsoll_model::{Outcome, Phase};
use serde_json::{Value, json};

use crate::harness::*;

fn null(load: Value, end: Value) -> Value {
    spec("null", "null:", json!({}), json!({}), load, end)
}

#[test]
fn transactions_are_counted_exactly_over_agents_and_lanes() {
    for (agents, lanes) in [(1, 1), (1, 2), (3, 2)] {
        let mut total = 0;
        for agent in 0..agents {
            let spec = null(closed(5), json!({"transactions": 10_007}));
            let mut going = prepare(spec, AgentPortion { agent, agents }, Some(lanes)).unwrap();
            going.go();
            let ran = going.finish();
            assert!(
                ran.transactions
                    .iter()
                    .all(|t| t.phase == Phase::Measured && t.agent == agent)
            );
            total += ran.counters.started;
        }
        assert_eq!(total, 10_007, "{agents} agents, {lanes} lanes");
    }
}

#[test]
fn an_even_open_load_starts_exactly_as_planned() {
    let mut spec = null(open(1_000.0, 8, "wait"), json!({"duration_ns": 1_500 * MS}));
    spec["warmup_ns"] = json!(500 * MS);
    let mut going = prepare(spec, AgentPortion { agent: 0, agents: 1 }, Some(2)).unwrap();
    going.go();
    let ran = going.finish();
    // On a busy machine the last arrivals may not start; they are counted.
    assert_eq!(ran.counters.started + ran.counters.dropped, 1_500);
    assert!(ran.counters.dropped < 750, "{} dropped", ran.counters.dropped);
    let t0 = ran.t0;
    let mut scheduled: Vec<i64> = ran.transactions.iter().map(|t| t.scheduled - t0).collect();
    scheduled.sort_unstable();
    scheduled.dedup();
    assert_eq!(scheduled.len() as u64, ran.counters.started, "none twice");
    assert!(
        scheduled
            .iter()
            .all(|at| at % MS == 0 && (0..1_500 * MS).contains(at))
    );
    assert!(
        ran.transactions
            .iter()
            .all(|t| (t.phase == Phase::WarmUp) == (t.end - t0 < 500 * MS))
    );
    assert!(
        ran.transactions
            .iter()
            .all(|t| t.phase != Phase::Drain || t.end - t0 >= 1_500 * MS)
    );
    assert_eq!(
        ran.seconds
            .iter()
            .filter(|s| s.second == 0)
            .map(|s| s.active)
            .sum::<u32>(),
        8
    );
}

#[test]
fn each_tester_carries_out_its_number_of_transactions() {
    let ran = run(null(closed(7), json!({"each_tester": 3})));
    let mut counts = [0; 7];
    for t in &ran.transactions {
        counts[t.tester as usize] += 1;
    }
    assert_eq!(counts, [3; 7]);
}

#[test]
fn think_time_counts_from_the_end_and_is_not_part_of_the_response_time() {
    let load = json!({"kind": "closed", "testers": 1, "think": {"kind": "fixed", "ns": 10 * MS}});
    let ran = run(null(load, json!({"each_tester": 5})));
    for pair in ran.transactions.windows(2) {
        assert_eq!(pair[1].scheduled, pair[0].end + 10 * MS);
    }
}

#[test]
fn operations_values_and_workloads_have_their_indices() {
    let mut spec = null(closed(2), json!({"duration_ns": 100 * MS}));
    spec["workloads"][0]["operations"] = json!([
        {"name": "a", "weight": 8.0, "request": {}}, {"name": "b", "weight": 2.0, "request": {}},
    ]);
    let mut second = spec["workloads"][0].clone();
    second["name"] = json!("second");
    second["endpoints"] = json!([{"name": "x", "url": "null:"}, {"name": "y", "url": "null:"}]);
    second["load"] = open(1_000.0, 3, "wait");
    spec["workloads"].as_array_mut().unwrap().push(second);
    let ran = run(spec);
    let of = |workload| ran.transactions.iter().filter(move |t| t.workload == workload);
    // The testers without think time can delay the last arrivals, which are then counted as
    // dropped.
    assert_eq!(of(1).count() as u64 + ran.counters.dropped, 100);
    assert!(of(0).all(|t| t.tester < 2 && t.operation < 2 && t.endpoint == 0));
    assert!(of(1).all(|t| (2..5).contains(&t.tester) && (2..4).contains(&t.operation)));
    assert!(
        of(1).all(|t| t.endpoint == 1 + ((t.tester - 2) % 2) as u16),
        "round robin by tester"
    );
    let all = of(0).count() as f64;
    let share = of(0).filter(|t| t.operation == 0).count() as f64 / all;
    assert!((share - 0.8).abs() < 10.0 / all, "{share} of {all}");
}

#[test]
fn a_ramp_and_stages_start_as_planned() {
    let load = json!({"kind": "ramp", "testers": 3, "every_ns": 50 * MS, "life_ns": 100 * MS,
        "think": {"kind": "fixed", "ns": MS}});
    let ran = run(null(load, json!({"duration_ns": 400 * MS})));
    for tester in 0..3_u32 {
        let mine: Vec<i64> = ran
            .transactions
            .iter()
            .filter(|t| t.tester == tester)
            .map(|t| t.scheduled - ran.t0)
            .collect();
        let joins = i64::from(tester) * 50 * MS;
        assert_eq!(mine[0], joins);
        assert!(*mine.last().unwrap() < joins + 100 * MS);
    }
    let load = json!({"kind": "stages", "stages": [
            {"name": "one", "for_ns": 50 * MS, "testers": 2, "rate": null},
            {"name": "two", "for_ns": 100 * MS, "testers": null, "rate": [100.0, 300.0]},
            {"name": "three", "for_ns": 50 * MS, "testers": 1, "rate": null}],
        "think": {"kind": "fixed", "ns": MS}, "arrivals": "even", "in_flight": 4, "when_full": "wait"});
    let ran = run(null(load, json!({"duration_ns": 200 * MS})));
    let of = |stage| ran.transactions.iter().filter(move |t| t.stage == stage);
    assert_eq!(of(1).count(), 20, "the ramp's integral");
    assert!(of(0).all(|t| t.tester < 2) && of(1).all(|t| t.tester >= 2) && of(2).all(|t| t.tester == 0));
    assert!(of(2).all(|t| (150 * MS..200 * MS).contains(&(t.scheduled - ran.t0))));
}

/// A line server that responds at once, but pauses for `pause` after `after` requests.
fn stalling(after: usize, pause: Duration) -> (Server, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let gate = Arc::new(std::sync::Mutex::new(()));
    let server = Server::start(move |stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|n| n > 0) {
            let guard = gate.lock().unwrap();
            if seen.fetch_add(1, Ordering::SeqCst) == after {
                std::thread::sleep(pause);
            }
            drop(guard);
            if std::io::Write::write_all(&mut &stream, b"ok\n").is_err() {
                return;
            }
            line.clear();
        }
    });
    (server, count)
}

fn line(url: &str, load: Value, end: Value) -> Value {
    let request = json!({"send": "get {n}\n", "expect": {"kind": "line"}});
    spec("tcp", url, json!({"connection": "kept"}), request, load, end)
}

#[test]
fn a_stall_increases_the_response_time_of_an_open_load_but_not_the_request_time() {
    let (server, count) = stalling(300, Duration::from_millis(600));
    let load = open(500.0, 2, "wait");
    let ran = run(line(&server.url("tcp"), load, json!({"duration_ns": 2 * SECOND})));
    // The last arrival is due 2 ms before the end: it does not start if the host pauses then.
    let (started, dropped) = (ran.counters.started, ran.counters.dropped);
    assert_eq!(started + dropped, 1_000, "nothing is left out");
    assert_eq!(count.load(Ordering::SeqCst) as u64, started);
    let p90 = |sorted: &[i64]| sorted[sorted.len() * 9 / 10];
    assert!(
        p90(&ran.responses()) > 300 * MS,
        "response p90 {}",
        p90(&ran.responses())
    );
    assert!(
        p90(&ran.requests()) < 100 * MS,
        "request p90 {}",
        p90(&ran.requests())
    );
}

/// A line server that responds to its first request only after `others` further ones.
fn holding(others: usize) -> Server {
    let answered = Arc::new((std::sync::Mutex::new(0), std::sync::Condvar::new()));
    let first = std::sync::atomic::AtomicBool::new(true);
    Server::start(move |stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        let (count, more) = &*answered;
        while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|n| n > 0) {
            let held = first.swap(false, Ordering::SeqCst);
            if held {
                drop(more.wait_while(count.lock().unwrap(), |count| *count < others));
            }
            if std::io::Write::write_all(&mut &stream, b"ok\n").is_err() {
                return;
            }
            if !held {
                *count.lock().unwrap() += 1;
                more.notify_all();
            }
            line.clear();
        }
    })
}

#[test]
fn an_arrival_does_not_wait_while_any_lane_has_a_free_slot() {
    // Two lanes of one slot each. One lane is busy until the other has served all the rest.
    for (law, when_full) in [("even", "wait"), ("poisson", "wait"), ("even", "drop")] {
        let server = holding(30);
        let mut load = open(100.0, 2, when_full);
        load["arrivals"] = json!(law);
        let mut spec = line(&server.url("tcp"), load, json!({"transactions": 31}));
        spec["workloads"][0]["timeout_ns"] = json!(60 * SECOND);
        let mut going = prepare(spec.clone(), AgentPortion { agent: 0, agents: 1 }, Some(2)).unwrap();
        going.go();
        let ran = going.finish();
        assert_eq!(ran.counters.succeeded, 31, "{law} {when_full}");
        // One slot alone knows no other to wait for: what it starts are the first arrivals, without
        // a gap.
        spec["workloads"][0]["load"]["in_flight"] = json!(1);
        spec["workloads"][0]["driver"] = json!("null");
        spec["workloads"][0]["settings"] = json!({});
        spec["workloads"][0]["operations"][0]["request"] = json!({});
        let mut going = prepare(spec, AgentPortion { agent: 0, agents: 1 }, Some(1)).unwrap();
        going.go();
        let whole = going.finish();
        let scheduled = |ran: &RunResult| {
            let mut all: Vec<i64> = ran.transactions.iter().map(|t| t.scheduled - ran.t0).collect();
            all.sort_unstable();
            all
        };
        let (found, all) = (scheduled(&ran), scheduled(&whole));
        if when_full == "wait" {
            assert_eq!(found, all, "{law}");
        } else {
            // The one free slot may be late on a busy machine, and what comes meanwhile is dropped:
            // counted, to the last.
            let last = found[found.len() - 1];
            assert_eq!(
                (last / (10 * MS)) as u64 + 1,
                ran.counters.started + ran.counters.dropped
            );
        }
    }
}

#[test]
fn with_when_full_drop_a_stall_causes_drops() {
    let (server, count) = stalling(300, Duration::from_millis(600));
    let load = open(500.0, 2, "drop");
    let ran = run(line(&server.url("tcp"), load, json!({"duration_ns": 2 * SECOND})));
    assert_eq!(ran.counters.started + ran.counters.dropped, 1_000);
    assert!(ran.counters.dropped > 200, "{} dropped", ran.counters.dropped);
    assert_eq!(count.load(Ordering::SeqCst) as u64, ran.counters.started);
}

#[test]
fn arrivals_that_were_not_started_are_counted() {
    let server = Server::start(|mut stream| {
        let mut bytes = [0; 100];
        while std::io::Read::read(&mut stream, &mut bytes).is_ok_and(|n| n > 0) {}
    });
    let mut spec = line(
        &server.url("tcp"),
        open(100.0, 3, "wait"),
        json!({"duration_ns": 500 * MS}),
    );
    spec["drain_ns"] = json!(100 * MS);
    let ran = run(spec);
    assert_eq!(
        (ran.counters.started, ran.in_flight, ran.counters.dropped),
        (3, 3, 47)
    );
    assert!(
        ran.transactions
            .iter()
            .all(|t| t.outcome == Outcome::Cancelled && t.phase == Phase::Drain)
    );
    assert!(
        ran.notes.iter().any(|(kind, _)| *kind == "not-started"),
        "{:?}",
        ran.notes
    );
}

#[test]
fn the_drain_lets_transactions_end() {
    let server = Server::start(|mut stream| {
        let mut bytes = [0; 100];
        while std::io::Read::read(&mut stream, &mut bytes).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(150));
            let _ = std::io::Write::write_all(&mut stream, b"late\n");
        }
    });
    let ran = run(line(
        &server.url("tcp"),
        closed(3),
        json!({"duration_ns": 100 * MS}),
    ));
    assert_eq!(
        (ran.counters.started, ran.counters.succeeded, ran.in_flight),
        (3, 3, 0)
    );
    assert!(ran.transactions.iter().all(|t| t.phase == Phase::Drain));
    assert!(
        ran.windows.iter().all(|&window| window == 100 * MS),
        "{:?}",
        ran.windows
    );
}

#[test]
fn slots_that_pass_are_skipped_or_start_late() {
    let slow = || {
        Server::start(|mut stream| {
            let mut bytes = [0; 100];
            let mut first = true;
            while std::io::Read::read(&mut stream, &mut bytes).is_ok_and(|n| n > 0) {
                if std::mem::take(&mut first) {
                    std::thread::sleep(Duration::from_millis(120));
                }
                let _ = std::io::Write::write_all(&mut stream, b"ok\n");
            }
        })
    };
    for (late, missed) in [("skip", true), ("catch-up", false)] {
        let server = slow();
        let load = json!({"kind": "every", "testers": 1, "every_ns": 20 * MS, "late": late});
        let ran = run(line(&server.url("tcp"), load, json!({"duration_ns": 390 * MS})));
        assert_eq!(
            ran.counters.started + ran.counters.missed,
            20,
            "{late}: all slots"
        );
        assert_eq!(
            ran.counters.missed > 3,
            missed,
            "{late}: {} missed",
            ran.counters.missed
        );
    }
}

#[test]
fn a_tester_stops_after_failures_in_a_row() {
    // A port without a listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut spec = line(
        &format!("tcp://127.0.0.1:{port}"),
        closed(2),
        json!({"duration_ns": 20 * SECOND}),
    );
    spec["workloads"][0]["on_error"] = json!({"kind": "stop-tester", "after": 3});
    let ran = run(spec);
    assert_eq!(ran.results(), vec![(Outcome::Refused, "refused"); 6]);
    assert_eq!(
        ran.notes
            .iter()
            .filter(|(kind, _)| *kind == "tester-stopped")
            .count(),
        2
    );
}

#[test]
fn the_backoff_doubles_after_each_failure() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut spec = line(
        &format!("tcp://127.0.0.1:{port}"),
        closed(1),
        json!({"transactions": 5}),
    );
    spec["workloads"][0]["on_error"] = json!({"kind": "backoff", "first_ns": 10 * MS, "max_ns": 40 * MS});
    let ran = run(spec);
    let pauses: Vec<i64> = ran
        .transactions
        .windows(2)
        .map(|pair| (pair[1].scheduled - pair[0].end) / MS)
        .collect();
    assert_eq!(pauses, [10, 20, 40, 40]);
}

/// Whole milliseconds from each end to the next planned start, where nobody listens, with back-off
/// for refusals.
fn pauses_of_the_refused(load: Value, change: impl Fn(&mut Value)) -> Vec<i64> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut spec = line(
        &format!("tcp://127.0.0.1:{port}"),
        load,
        json!({"transactions": 5}),
    );
    let workload = &mut spec["workloads"][0];
    workload["on_error"] =
        json!({"kind": "backoff", "first_ns": 10 * MS, "max_ns": 40 * MS, "when": "refused"});
    change(workload);
    let ran = run(spec);
    assert_eq!(ran.transactions.len(), 5);
    ran.transactions
        .windows(2)
        .map(|pair| (pair[1].scheduled - pair[0].end) / MS)
        .collect()
}

#[test]
fn after_a_refusal_the_next_start_is_planned_after_the_backoff() {
    assert_eq!(pauses_of_the_refused(closed(1), |_| {}), [10, 20, 40, 40]);
}

#[test]
fn any_other_outcome_ends_a_row_of_refusals() {
    let hasty = Server::start(|_| {});
    let second = json!({"name": "b", "url": hasty.url("tcp")});
    let pauses = pauses_of_the_refused(closed(1), |workload| {
        workload["endpoints"].as_array_mut().unwrap().push(second.clone());
        workload["choose"] = json!("per-request");
    });
    assert_eq!(pauses, [10, 0, 10, 0]);
}

#[test]
fn planned_starts_are_not_changed_by_refusals() {
    let every = json!({"kind": "every", "testers": 1, "every_ns": 2 * MS, "late": "catch-up"});
    for load in [open(500.0, 1, "wait"), every] {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut spec = line(
            &format!("tcp://127.0.0.1:{port}"),
            load,
            json!({"transactions": 50}),
        );
        spec["workloads"][0]["on_error"] = json!({"kind": "backoff", "first_ns": 3_600 * SECOND, "max_ns": 3_600 * SECOND, "when": "refused"});
        let ran = run(spec);
        assert_eq!(ran.results(), vec![(Outcome::Refused, "refused"); 50]);
        let first = ran.transactions[0].scheduled;
        let planned: Vec<i64> = ran
            .transactions
            .iter()
            .map(|t| (t.scheduled - first) / MS)
            .collect();
        assert_eq!(planned, (0..50).map(|n| 2 * n).collect::<Vec<i64>>());
    }
}

#[test]
fn stop_ends_a_run_at_once_and_the_counts_balance() {
    let mut going = prepare(
        null(
            json!({"kind": "closed", "testers": 4, "think": {"kind": "fixed", "ns": 3_600 * SECOND}}),
            json!({"duration_ns": 7_200 * SECOND}),
        ),
        AgentPortion { agent: 0, agents: 1 },
        None,
    )
    .unwrap();
    going.go();
    std::thread::sleep(Duration::from_millis(50));
    going.drive.stop();
    let ran = going.finish();
    assert_eq!(ran.counters.succeeded, 4);
    assert!(ran.windows.iter().all(|&window| window < 20 * SECOND));
}

#[test]
fn a_drive_that_was_not_started_ends_when_it_is_dropped() {
    for driver in ["null", "exec"] {
        let (settings, request) = if driver == "null" {
            (json!({}), json!({}))
        } else {
            (
                json!({"mode": "per-transaction", "env": {}, "cwd": null}),
                json!({"command": ["/bin/true"], "stdin": null, "bytes": {"kind": "none"}}),
            )
        };
        let spec = spec(
            driver,
            "null:",
            settings,
            request,
            closed(3),
            json!({"transactions": 1}),
        );
        drop(prepare(spec, AgentPortion { agent: 0, agents: 1 }, None).unwrap());
    }
}

#[test]
fn invalid_documents_are_refused_with_advice() {
    let unknown = spec(
        "htpp",
        "http://x/",
        json!({}),
        json!({}),
        closed(1),
        json!({"transactions": 1}),
    );
    let message = refused(unknown);
    assert!(
        message.contains("expected one of the drivers null, tcp, http") && message.contains("got \"htpp\""),
        "{message}"
    );
    let key = spec(
        "null",
        "null:",
        json!({"spee": 1}),
        json!({}),
        closed(1),
        json!({"transactions": 1}),
    );
    assert!(refused(key).contains("unknown field `spee`"));
    let many = spec(
        "exec",
        "exec:",
        json!({"mode": "per-transaction", "env": {}, "cwd": null}),
        json!({"command": ["x"], "stdin": null, "bytes": {"kind": "none"}}),
        closed(5_000),
        json!({"transactions": 1}),
    );
    assert!(refused(many).contains("at most 4,096 are allowed"));
    let host = line(
        "tcp://no-such-host.invalid:1",
        closed(1),
        json!({"transactions": 1}),
    );
    assert!(refused(host).contains("cannot be looked up"));
}

#[test]
fn an_agent_that_joins_late_does_not_start_earlier_transactions() {
    let late = 2 * SECOND;
    let end = || json!({"duration_ns": 3 * SECOND});
    let loads = [
        json!({"kind": "closed", "testers": 4, "think": {"kind": "fixed", "ns": 50 * MS}}),
        json!({"kind": "every", "testers": 4, "every_ns": 100 * MS, "late": "catch-up"}),
        json!({"kind": "open", "rate": 100.0, "arrivals": "even", "in_flight": 4, "when_full": "wait"}),
    ];
    for load in loads {
        let mut going = prepare(
            null(load.clone(), end()),
            AgentPortion { agent: 0, agents: 1 },
            Some(2),
        )
        .unwrap();
        going.join_after(late);
        let ran = going.finish();
        assert!(!ran.transactions.is_empty());
        // Scheduled stamps are those of the record: none lies before the join, so that no response
        // time counts from there.
        let first = ran.transactions.iter().map(|t| t.scheduled).min().unwrap();
        assert!(first >= ran.t0 + late - MS, "{load}: {}", first - ran.t0);
        let (dropped, missed) = (ran.counters.dropped, ran.counters.missed);
        match load["kind"].as_str().unwrap() {
            "closed" => assert_eq!((dropped, missed), (0, 0)),
            "every" => assert!(missed >= 76 && dropped == 0, "{missed}"),
            _ => assert!(dropped >= 195, "{dropped}"),
        }
    }
}
