//! One core's testers: tasks on a reactor, with the books of the lane.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use plimsoll_clock::Clock;
use plimsoll_model::{Codes, Outcome, RunSpec};
use plimsoll_schedule::Used;

use crate::arrivals::Arrivals;
use crate::control::{Control, parts};
use crate::cycle::{Finished, LaneState, PlannedStart, Step, TesterCycle, enter, not_started};
use crate::driver::{AsyncDriver, AsyncTester, Attempt};
use crate::lane_stats::{LaneStats, cancel};
use crate::limit::TimeoutCodes;
use crate::own_delays::Pulse;
use crate::policy::{TesterPolicy, TesterSlot};
use crate::reactor::{Io, Task};

const SECOND: i64 = 1_000_000_000;
/// Time-outs are looked for this often at most, ns; so late can one be.
const SWEEP_NS: i64 = 5_000_000;
/// Transactions that a tester may carry out without ever waiting before others are let in.
const BURST: u32 = 32;

/// What the tasks of a lane share.
pub struct Lane {
    /// The reactor.
    pub io: Io,
    stats: RefCell<LaneStats>,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    codes: Codes,
    timeouts: TimeoutCodes,
    t0: Cell<i64>,
    /// No more starts from then on (raw, ns).
    over_at: Cell<i64>,
    /// Transactions in progress are given up.
    cancelled: Cell<bool>,
    /// Per task, when its transaction times out.
    deadlines: Vec<Cell<i64>>,
    /// Per workload.
    arrivals: Vec<RefCell<Option<Arrivals>>>,
    admission: Admission,
}

/// Testers that are to begin together at the start of the run begin a few per turn of the reactor,
/// so that the first transactions of some do not wait while others open their connections.
struct Admission {
    per_turn: u32,
    turn: Cell<u64>,
    admitted: Cell<u32>,
}

impl Admission {
    /// So many turns at most, as those who wait are looked at in each.
    const TURNS: usize = 64;

    fn of(testers: usize) -> Self {
        Self {
            per_turn: testers.div_ceil(Self::TURNS).max(1) as u32,
            turn: Cell::new(u64::MAX),
            admitted: Cell::new(0),
        }
    }

    /// Whether one more may begin in this turn.
    fn try_admit(&self, turn: u64) -> bool {
        if self.turn.replace(turn) != turn {
            self.admitted.set(0);
        }
        let free = self.admitted.get() < self.per_turn;
        self.admitted.set(self.admitted.get() + u32::from(free));
        free
    }
}

/// What a lane is made from.
pub struct LaneSetup {
    /// The run.
    pub spec: Arc<RunSpec>,
    /// Shared by the lanes.
    pub control: Arc<Control>,
    /// Stamps.
    pub clock: Arc<dyn Clock>,
    /// Dictionary.
    pub codes: Codes,
    /// Counters of the lane; their members are `slots`.
    pub stats: LaneStats,
    /// Per workload, the lane's view of the arrivals.
    pub arrivals: Vec<Option<Arrivals>>,
    /// The lane's testers and what makes them.
    pub slots: Vec<(TesterSlot, Arc<dyn ErasedAsyncDriver>)>,
}

/// A prepared async driver, with its type forgotten.
pub trait ErasedAsyncDriver: Send + Sync {
    /// The task of one tester.
    fn task(&self, lane: &Rc<Lane>, slot: TesterSlot) -> Task;

    /// How many open files a tester needs.
    fn files(&self) -> u64;
}

/// A prepared async driver.
pub struct TypedAsyncDriver<D> {
    /// The driver.
    pub driver: Arc<D>,
    /// Per operation, what its texts use.
    pub used: Arc<Vec<Used>>,
}

impl<D: AsyncDriver> ErasedAsyncDriver for TypedAsyncDriver<D> {
    fn task(&self, lane: &Rc<Lane>, slot: TesterSlot) -> Task {
        let worker = Worker {
            policy: TesterPolicy::new(&slot, Arc::clone(&self.used)),
            attempt: Attempt::new(Arc::clone(&lane.clock), lane.codes.clone()),
            tester: self.driver.tester(&lane.io, slot.tester()),
            timeout_ns: i64::try_from(slot.population.timeout_ns).unwrap_or(i64::MAX),
            lane: Rc::clone(lane),
            cycle: TesterCycle::new(&slot),
            slot,
            turn: 0,
            burst: 0,
        };
        Box::pin(worker.run())
    }

    fn files(&self) -> u64 {
        D::FILES
    }
}

/// Runs a lane to its end on the current thread, which it never leaves.
pub fn run(io: &Io, setup: LaneSetup) {
    let LaneSetup {
        spec,
        control,
        clock,
        codes,
        stats,
        arrivals,
        slots,
    } = setup;
    let timeouts = TimeoutCodes::new(&codes);
    let essential = slots.len();
    let lane = Rc::new(Lane {
        io: Rc::clone(io),
        stats: RefCell::new(stats),
        control: Arc::clone(&control),
        clock,
        codes,
        timeouts,
        t0: Cell::new(0),
        over_at: Cell::new(i64::MAX),
        cancelled: Cell::new(false),
        deadlines: (0..essential).map(|_| Cell::new(i64::MAX)).collect(),
        arrivals: arrivals.into_iter().map(RefCell::new).collect(),
        admission: Admission::of(essential),
    });
    let least = spec
        .workloads
        .iter()
        .map(|workload| workload.timeout_ns)
        .min()
        .unwrap_or(1);
    let mut tasks: Vec<Task> = slots
        .into_iter()
        .map(|(slot, fleet)| fleet.task(&lane, slot))
        .collect();
    tasks.push(Box::pin(govern(Rc::clone(&lane), spec.drain_ns)));
    tasks.push(Box::pin(tick(Rc::clone(&lane))));
    tasks.push(Box::pin(watch_itself(Rc::clone(&lane))));
    tasks.push(Box::pin(sweep(
        Rc::clone(&lane),
        i64::try_from(least).unwrap_or(i64::MAX),
    )));
    let Some(t0) = control.wait_for_go() else {
        lane.stats.borrow_mut().close(io.stamp());
        return;
    };
    lane.t0.set(t0);
    let parts = parts(&spec, t0);
    lane.over_at.set(parts.over);
    lane.stats.borrow_mut().begin(parts);
    lane.leave_out_before(control.joined_ns());
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| io.run(tasks, essential)));
    let trouble = match ran {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("a lane of testers has failed: {error}")),
        Err(_) => {
            Some("a lane of testers has failed: this is a fault of Plimsoll, please report it".to_owned())
        }
    };
    lane.finish(trouble);
}

impl Lane {
    /// Arrivals that were due before this agent had joined are not started, and counted.
    fn leave_out_before(&self, joined_ns: u64) {
        if joined_ns > 0 {
            let before = |one: &RefCell<Option<Arrivals>>| {
                let mut one = one.borrow_mut();
                one.as_mut().map_or(0, |arrivals| arrivals.rest_before(joined_ns))
            };
            let left = self.arrivals.iter().map(before).sum();
            self.stats.borrow_mut().dropped(left);
        }
    }

    /// Accounts for arrivals that were due and never started, and closes the books.
    fn finish(&self, trouble: Option<String>) {
        let now = self.io.stamp();
        let mut stats = self.stats.borrow_mut();
        if let Some(text) = trouble {
            stats.note(now, "lane-failed", text);
        }
        let over = self.over_at.get();
        if now >= over {
            for arrivals in &self.arrivals {
                let mut arrivals = arrivals.borrow_mut();
                let left = arrivals
                    .as_mut()
                    .map_or(0, |stream| stream.rest_before(self.run_time(over)));
                not_started(&mut stats, now, left);
            }
        }
        stats.close(now);
    }
}

impl LaneState for Lane {
    #[inline]
    fn now(&self) -> i64 {
        self.io.now()
    }

    #[inline]
    fn t0(&self) -> i64 {
        self.t0.get()
    }

    #[inline]
    fn over_at(&self) -> i64 {
        self.over_at.get()
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.io.now() >= self.over_at.get() || self.control.exhausted()
    }

    #[inline]
    fn control(&self) -> &Control {
        &self.control
    }

    #[inline]
    fn with_stats(&self, change: impl FnOnce(&mut LaneStats)) {
        change(&mut self.stats.borrow_mut());
    }

    #[inline]
    fn with_arrivals<R>(&self, workload: u16, read: impl FnOnce(&mut Arrivals) -> R) -> Option<R> {
        self.arrivals[usize::from(workload)]
            .borrow_mut()
            .as_mut()
            .map(read)
    }
}

/// Ends the run: by its duration, or when it is told to stop; then, after the drain, what is still
/// in progress.
async fn govern(lane: Rc<Lane>, drain_ns: u64) {
    lane.io
        .sleep_until(lane.over_at.get(), || lane.control.stopped())
        .await;
    let over = lane.over_at.get().min(lane.control.stopped_at());
    lane.stats.borrow_mut().over_at(over);
    lane.over_at.set(over);
    lane.io.wake_all();
    let give_up = over.saturating_add(i64::try_from(drain_ns).unwrap_or(i64::MAX));
    lane.io.sleep_until(give_up, || false).await;
    lane.cancelled.set(true);
    lane.io.wake_all();
}

/// Closes the seconds even when nothing happens.
async fn tick(lane: Rc<Lane>) {
    let mut at = lane.t0.get() + SECOND;
    loop {
        lane.io.sleep_until(at, || false).await;
        lane.stats.borrow_mut().roll(lane.io.now());
        at += SECOND;
    }
}

/// Notes for how long the lane stood still while nothing else may have shown it.
async fn watch_itself(lane: Rc<Lane>) {
    let mut pulse = Pulse::new(lane.t0.get());
    loop {
        lane.io.sleep_until(pulse.due(), || false).await;
        let now = lane.io.stamp();
        if let Some(gap) = pulse.beat(now) {
            lane.stats.borrow_mut().gap(now, gap);
        }
    }
}

/// Wakes testers whose transaction has timed out. One look at all of them every few milliseconds: a
/// timer per request would cost more than the request.
async fn sweep(lane: Rc<Lane>, least_timeout: i64) {
    let mut at = lane.t0.get().saturating_add(least_timeout);
    loop {
        lane.io.sleep_until(at, || false).await;
        let now = lane.io.now();
        let mut earliest = i64::MAX;
        for (task, deadline) in (0..).zip(&lane.deadlines) {
            if deadline.get() <= now {
                lane.io.wake(task);
            } else {
                earliest = earliest.min(deadline.get());
            }
        }
        // Whatever starts from now on cannot time out sooner than this.
        at = earliest
            .min(now.saturating_add(least_timeout))
            .max(now + SWEEP_NS);
    }
}

/// One tester at work.
struct Worker<T> {
    lane: Rc<Lane>,
    slot: TesterSlot,
    cycle: TesterCycle,
    policy: TesterPolicy,
    attempt: Attempt,
    tester: T,
    timeout_ns: i64,
    /// The reactor's turn at the last transaction, and how many ended within it.
    turn: u64,
    burst: u32,
}

/// How waiting for an operation ended.
enum Waited {
    Done,
    TimedOut,
    Cancelled,
}

impl<T: AsyncTester> Worker<T> {
    async fn run(mut self) {
        let lane = Rc::clone(&self.lane);
        loop {
            match self.cycle.next(&*lane) {
                Step::SleepUntil(at) => {
                    lane.io.sleep_until(at, || lane.is_over()).await;
                }
                Step::AwaitAdmission => {
                    let at = self.admitted().await;
                    self.cycle.admit(at);
                }
                Step::Perform(start) => {
                    let finished = self.perform(start).await;
                    self.cycle.finish(finished, &*lane);
                    if finished.is_some() {
                        self.breathe().await;
                    }
                }
                Step::Done => return,
            }
        }
    }

    /// Waits until this tester may begin; gives when that is (raw, ns), which is when its first
    /// transaction is scheduled.
    async fn admitted(&self) -> i64 {
        while !self.lane.admission.try_admit(self.lane.io.turn()) {
            self.lane.io.yield_now().await;
        }
        self.lane.io.stamp()
    }

    /// Lets others in if this tester has been at work for long without ever waiting.
    async fn breathe(&mut self) {
        let turn = self.lane.io.turn();
        if self.turn != turn {
            (self.turn, self.burst) = (turn, 0);
            return;
        }
        self.burst += 1;
        if self.burst >= BURST {
            self.burst = 0;
            self.lane.io.yield_now().await;
        }
    }

    /// Carries out one transaction. None if the tester is done.
    async fn perform(&mut self, planned: PlannedStart) -> Option<Finished> {
        let mut header = self
            .policy
            .choose(planned.scheduled, planned.stage, planned.arrival);
        let start = self.attempt.reset();
        self.lane
            .stats
            .borrow_mut()
            .started(start, planned.scheduled.max(planned.free_at));
        match self.wait_for(start.saturating_add(self.timeout_ns)).await {
            Waited::Done => {}
            // The tester's own work after the end is no part of the transaction, whose outcome
            // stays.
            Waited::TimedOut | Waited::Cancelled if self.attempt.is_over() => {
                self.tester.reset();
                self.attempt.freed();
            }
            Waited::TimedOut => {
                self.tester.reset();
                let code = self.lane.timeouts.of(self.attempt.waiting);
                self.attempt.finish(Outcome::Timeout, code);
            }
            Waited::Cancelled => {
                self.tester.reset();
                cancel(&mut self.attempt);
            }
        }
        if let Some(endpoint) = self.attempt.endpoint {
            header.endpoint = self.slot.population.first_endpoint + endpoint as u16;
        }
        let free_at = self.attempt.free_at();
        let mut stats = self.lane.stats.borrow_mut();
        let pause_ns = enter(
            &mut stats,
            &mut self.policy,
            &mut self.attempt,
            &header,
            self.slot.member,
        )?;
        self.lane.io.seen(free_at);
        Some(Finished { free_at, pause_ns })
    }

    async fn wait_for(&mut self, deadline: i64) -> Waited {
        let lane = &self.lane;
        let task = lane.io.current() as usize;
        lane.deadlines[task].set(deadline);
        let request = self.policy.request(|| lane.clock.realtime_ns());
        let mut operation = pin!(self.tester.operate(&request, &mut self.attempt));
        let waited = std::future::poll_fn(|context| {
            if operation.as_mut().poll(context).is_ready() {
                Poll::Ready(Waited::Done)
            } else if lane.cancelled.get() {
                Poll::Ready(Waited::Cancelled)
            } else if lane.io.now() >= deadline {
                Poll::Ready(Waited::TimedOut)
            } else {
                Poll::Pending
            }
        })
        .await;
        lane.deadlines[task].set(i64::MAX);
        waited
    }
}
