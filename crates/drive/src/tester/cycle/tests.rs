use std::cell::{Cell, RefCell};
use std::sync::mpsc::{self, Receiver};

use plimsoll_model::{Arrivals as Law, Dist, Late, LoadSpec, MetricRow, RunSpec, SlotSpec, Transaction};
use serde_json::json;

use super::*;
use crate::api::{AgentPortion, DriveEvent, Sink};
use crate::run::arrivals::Pool;
use crate::run::plan::tests::of_load;
use crate::tester::control::Parts;

const T0: i64 = 1_000;
const OVER: i64 = T0 + 100;
const WHOLE: AgentPortion = AgentPortion { agent: 0, agents: 1 };

struct NoSink;

impl Sink for NoSink {
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        batch.clear();
        0
    }

    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize {
        rows.clear();
        0
    }
}

/// A lane whose time the test sets.
struct FakeLane {
    now: Cell<i64>,
    control: Control,
    stats: RefCell<LaneStats>,
    events: Receiver<DriveEvent>,
    arrivals: RefCell<Option<Arrivals>>,
}

impl FakeLane {
    fn new(population: &Population, budget: Option<u64>) -> Self {
        let spec: RunSpec = serde_json::from_value(json!({
            "format": "plimsoll.run/1", "experiment": "e", "run": "0001", "directory": "/nonexistent",
            "seed": 7, "warmup_ns": 0, "drain_ns": 0, "keep": "all", "workloads": [], "watch": [],
            "end": {"duration_ns": 100, "each_tester": null, "transactions": budget},
            "tester_cpus": [], "spin_ns": 0, "ceiling": [],
        }))
        .unwrap();
        let (sender, events) = mpsc::sync_channel(100);
        let mut stats = LaneStats::new(0, 0, Vec::new(), Box::new(NoSink), sender);
        stats.begin(Parts {
            t0: T0,
            warm: T0,
            over: OVER,
        });
        Self {
            now: Cell::new(T0),
            control: Control::new(&spec, WHOLE),
            stats: RefCell::new(stats),
            events,
            arrivals: RefCell::new(Pool::new(population, WHOLE, 7).map(|pool| pool.lane(0, 1))),
        }
    }

    /// Counts of dropped arrivals and of missed slots.
    fn lost_starts(&self) -> (u64, u64) {
        self.stats.borrow_mut().close(self.now.get());
        let totals = self.events.try_iter().find_map(|event| match event {
            DriveEvent::LaneEnded { counters, .. } => Some(counters),
            _ => None,
        });
        totals
            .map(|counters| (counters.dropped, counters.missed))
            .unwrap()
    }
}

impl LaneState for FakeLane {
    fn now(&self) -> i64 {
        self.now.get()
    }

    fn t0(&self) -> i64 {
        T0
    }

    fn over_at(&self) -> i64 {
        OVER
    }

    fn is_over(&self) -> bool {
        self.now.get() >= OVER || self.control.exhausted()
    }

    fn control(&self) -> &Control {
        &self.control
    }

    fn with_stats(&self, change: impl FnOnce(&mut LaneStats)) {
        change(&mut self.stats.borrow_mut());
    }

    fn with_arrivals<R>(&self, _: u16, read: impl FnOnce(&mut Arrivals) -> R) -> Option<R> {
        self.arrivals.borrow_mut().as_mut().map(read)
    }
}

fn slot(population: &Arc<Population>, is_open: bool) -> TesterSlot {
    TesterSlot {
        population: Arc::clone(population),
        number: 0,
        is_open,
        member: 0,
        seed: 7,
        quota: None,
    }
}

/// The starts of a tester whose transactions take `each_ns`, with a pause after each.
fn starts(cycle: &mut TesterCycle, lane: &FakeLane, each_ns: i64, pause_ns: u64) -> Vec<i64> {
    let mut starts = Vec::new();
    loop {
        match cycle.next(lane) {
            Step::SleepUntil(at) => {
                assert!(at > lane.now.get(), "a sleep that has already ended");
                lane.now.set(at.min(OVER));
            }
            Step::AwaitAdmission => cycle.admit(lane.now.get()),
            Step::Perform(start) => {
                assert!(start.scheduled <= lane.now.get() && start.free_at <= lane.now.get());
                starts.push(start.scheduled - T0);
                lane.now.set(lane.now.get() + each_ns);
                let free_at = lane.now.get();
                cycle.finish(Outcome::Ok, Some(TransactionEnd { free_at, pause_ns }), lane);
            }
            Step::Work(_) | Step::EndSession => unreachable!("no session"),
            Step::Done => return starts,
        }
    }
}

fn closed(think_ns: u64) -> LoadSpec {
    LoadSpec::Closed {
        testers: 1,
        think: Dist::Fixed { ns: think_ns },
    }
}

fn every(late: Late) -> LoadSpec {
    LoadSpec::Every {
        testers: 1,
        every_ns: 20,
        late,
    }
}

/// One tester with a slot every 20 ns, which leaves at 70 ns.
fn leaving(late: Late) -> LoadSpec {
    LoadSpec::Ramp {
        testers: 1,
        every_ns: 10,
        life_ns: Some(70),
        think: Dist::ZERO,
        slots: Some(SlotSpec { every_ns: 20, late }),
    }
}

fn recorded(at_ns: &[u64], when_full: WhenFull) -> LoadSpec {
    LoadSpec::Recorded {
        at_ns: at_ns.to_vec(),
        in_flight: 1,
        when_full,
    }
}

fn run(load: &LoadSpec, is_open: bool, each_ns: i64, pause_ns: u64) -> (Vec<i64>, (u64, u64)) {
    let population = Arc::new(of_load(load));
    let lane = FakeLane::new(&population, None);
    let mut cycle = TesterCycle::new(&slot(&population, is_open), &Codes::default());
    let starts = starts(&mut cycle, &lane, each_ns, pause_ns);
    (starts, lane.lost_starts())
}

#[test]
fn a_closed_tester_starts_a_think_time_and_a_pause_after_the_last_end() {
    assert_eq!(run(&closed(20), false, 10, 0), (vec![0, 30, 60, 90], (0, 0)));
    assert_eq!(run(&closed(20), false, 10, 5), (vec![0, 35, 70], (0, 0)));
}

#[test]
fn slots_that_pass_during_a_transaction_are_missed_or_start_late() {
    assert_eq!(
        run(&every(Late::Skip), false, 10, 0),
        (vec![0, 20, 40, 60, 80], (0, 0))
    );
    assert_eq!(run(&every(Late::Skip), false, 50, 0), (vec![0, 50], (0, 3)));
    assert_eq!(
        run(&every(Late::CatchUp), false, 30, 0),
        (vec![0, 20, 40, 60], (0, 1))
    );
}

#[test]
fn a_tester_of_a_ramp_has_slots_for_its_life_only() {
    for late in [Late::Skip, Late::CatchUp] {
        assert_eq!(run(&leaving(late), false, 10, 0), (vec![0, 20, 40, 60], (0, 0)));
    }
    // The second transaction ends after the life, in which the slot at 60 passed.
    assert_eq!(run(&leaving(Late::Skip), false, 45, 0), (vec![0, 45], (0, 2)));
    assert_eq!(run(&leaving(Late::CatchUp), false, 45, 0), (vec![0, 20], (0, 2)));
    assert_eq!(run(&leaving(Late::Skip), false, 75, 0), (vec![0], (0, 3)));
}

#[test]
fn an_open_slot_takes_arrivals_in_order_and_a_late_start_keeps_its_schedule() {
    let load = recorded(&[5, 10, 50, 200], WhenFull::Wait);
    assert_eq!(run(&load, true, 20, 0), (vec![5, 10, 50], (0, 0)));
    assert_eq!(run(&load, true, 20, 30), (vec![5, 10], (0, 0)));
}

#[test]
fn arrivals_without_a_free_slot_are_dropped_with_when_full_drop() {
    let load = recorded(&[5, 10, 20, 50], WhenFull::Drop);
    assert_eq!(run(&load, true, 20, 0), (vec![5, 50], (2, 0)));
}

#[test]
fn an_arrival_that_was_taken_but_not_started_at_the_end_is_dropped() {
    let population = Arc::new(of_load(&recorded(&[50], WhenFull::Wait)));
    let lane = FakeLane::new(&population, None);
    let mut cycle = TesterCycle::new(&slot(&population, true), &Codes::default());
    assert_eq!(cycle.next(&lane), Step::SleepUntil(T0 + 50));
    lane.now.set(OVER);
    assert_eq!(cycle.next(&lane), Step::Done);
    assert_eq!(lane.lost_starts(), (1, 0));
}

#[test]
fn a_tester_ends_when_the_budget_is_exhausted_or_its_last_transaction_ended() {
    let population = Arc::new(of_load(&closed(20)));
    let lane = FakeLane::new(&population, Some(2));
    let mut cycle = TesterCycle::new(&slot(&population, false), &Codes::default());
    assert_eq!(starts(&mut cycle, &lane, 10, 0), [0, 30]);

    let lane = FakeLane::new(&population, None);
    let mut cycle = TesterCycle::new(&slot(&population, false), &Codes::default());
    while !matches!(cycle.next(&lane), Step::Perform(_)) {
        cycle.admit(lane.now.get());
    }
    cycle.finish(Outcome::Ok, None, &lane);
    assert_eq!(cycle.next(&lane), Step::Done);
}

#[test]
fn an_open_load_starts_at_its_rate() {
    let load = LoadSpec::Open {
        rate: 50_000_000.0, // one in 20 ns
        arrivals: Law::Even,
        in_flight: 1,
        when_full: WhenFull::Wait,
    };
    let (starts, lost) = run(&load, true, 1, 0);
    assert_eq!((starts.len(), lost), (5, (0, 0)));
    assert!(
        starts.windows(2).all(|pair| pair[1] - pair[0] == 20),
        "{starts:?}"
    );
}
