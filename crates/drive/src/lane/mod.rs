//! A lane: one thread whose testers are tasks on a reactor, with the counters of the lane.
//!
//! This file carries out testers that are tasks, `reactor` is their runtime, and `blocking_pool`
//! carries out testers that are threads. Both use `stats`, the counters of a lane, and
//! `own_delays`, the delays that the load generator itself causes.

pub mod blocking_pool;
mod own_delays;
pub mod reactor;
pub mod stats;

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use plimsoll_clock::Clock;
use plimsoll_model::{Codes, Outcome, RunSpec};
use plimsoll_schedule::UsedValues;

use self::own_delays::Pulse;
use self::reactor::{Io, Task};
use self::stats::{LaneStats, cancel};
use crate::driver::{AsyncDriver, AsyncTester, Attempt};
use crate::run::arrivals::Arrivals;
use crate::tester::control::{Control, parts};
use crate::tester::cycle::{LaneState, PlannedStart, Step, TesterCycle, TransactionEnd, not_started, record};
use crate::tester::limit::TimeoutCodes;
use crate::tester::policy::{TesterPolicy, TesterSlot};
use crate::tester::session::work::{SessionWork, WorkContext, WorkEnd, WorkInProgress};

const SECOND: i64 = 1_000_000_000;
/// Minimum interval between two checks for timeouts, ns: a timeout can be late by this.
const TIMEOUT_CHECK_NS: i64 = 5_000_000;
/// Number of transactions that a tester may carry out without waiting before other testers run.
const BURST: u32 = 32;

/// State that the tasks of a lane share.
pub struct Lane {
    /// The reactor.
    pub io: Io,
    stats: RefCell<LaneStats>,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    codes: Codes,
    timeouts: TimeoutCodes,
    t0: Cell<i64>,
    /// No transactions start from this time on (raw, ns).
    over_at: Cell<i64>,
    /// Whether transactions in progress are cancelled.
    cancelled: Cell<bool>,
    /// Per task, the timeout of its transaction (raw, ns).
    deadlines: Vec<Cell<i64>>,
    /// Per workload, the lane's view of the arrivals.
    arrivals: Vec<RefCell<Option<Arrivals>>>,
    admission: Admission,
    /// Cores of the testers. Empty: not bound.
    cores: Arc<[u32]>,
}

/// Limits how many testers begin per turn of the reactor, if many begin at the start of the run.
/// Otherwise the first transactions of some testers would wait while others open their connections.
struct Admission {
    per_turn: u32,
    turn: Cell<u64>,
    admitted: Cell<u32>,
}

impl Admission {
    /// Maximum number of turns, because every waiting tester is polled in each turn.
    const MAX_TURNS: usize = 64;

    fn of(testers: usize) -> Self {
        Self {
            per_turn: testers.div_ceil(Self::MAX_TURNS).max(1) as u32,
            turn: Cell::new(u64::MAX),
            admitted: Cell::new(0),
        }
    }

    /// Admits a tester in turn `turn`, unless enough testers were admitted in it. Returns whether
    /// it was admitted.
    fn try_admit(&self, turn: u64) -> bool {
        if self.turn.replace(turn) != turn {
            self.admitted.set(0);
        }
        let free = self.admitted.get() < self.per_turn;
        self.admitted.set(self.admitted.get() + u32::from(free));
        free
    }
}

/// The inputs from which a lane is created.
pub struct LaneSetup {
    /// The run.
    pub spec: Arc<RunSpec>,
    /// State that all lanes share.
    pub control: Arc<Control>,
    /// Clock of the stamps.
    pub clock: Arc<dyn Clock>,
    /// Dictionary of codes.
    pub codes: Codes,
    /// Counters of the lane. Their members are the testers of `slots`.
    pub stats: LaneStats,
    /// Per workload, the lane's view of the arrivals.
    pub arrivals: Vec<Option<Arrivals>>,
    /// The lane's testers, and the driver that creates each.
    pub slots: Vec<(TesterSlot, Arc<dyn ErasedAsyncDriver>)>,
}

/// A prepared async driver of any type.
pub trait ErasedAsyncDriver: Send + Sync {
    /// Creates the task of one tester.
    fn task(&self, lane: &Rc<Lane>, slot: TesterSlot) -> Task;

    /// Number of open files that a tester needs.
    fn files(&self) -> u64;
}

/// A prepared async driver of type `D`.
pub struct TypedAsyncDriver<D> {
    /// The driver.
    pub driver: Arc<D>,
    /// Per operation, the values that its texts contain.
    pub used: Arc<Vec<UsedValues>>,
}

impl<D: AsyncDriver> ErasedAsyncDriver for TypedAsyncDriver<D> {
    fn task(&self, lane: &Rc<Lane>, slot: TesterSlot) -> Task {
        let worker = Worker {
            policy: TesterPolicy::new(&slot, Arc::clone(&self.used)),
            attempt: Attempt::new(Arc::clone(&lane.clock), lane.codes.clone()),
            tester: self.driver.tester(&lane.io, slot.tester()),
            timeout_ns: i64::try_from(slot.population.timeout_ns).unwrap_or(i64::MAX),
            lane: Rc::clone(lane),
            cycle: TesterCycle::new(&slot, &lane.codes),
            slot,
            turn: 0,
            burst: 0,
        };
        Box::pin(worker.run())
    }

    fn files(&self) -> u64 {
        self.driver.files()
    }
}

/// Runs a lane to its end on the current thread.
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
        cores: spec.tester_cpus.clone().into(),
    });
    let min_timeout_ns = spec
        .workloads
        .iter()
        .map(|workload| workload.timeout_ns)
        .min()
        .unwrap_or(1);
    let mut tasks: Vec<Task> = slots
        .into_iter()
        .map(|(slot, driver)| driver.task(&lane, slot))
        .collect();
    tasks.push(Box::pin(end_run(Rc::clone(&lane), spec.drain_ns)));
    tasks.push(Box::pin(close_seconds(Rc::clone(&lane))));
    tasks.push(Box::pin(record_gaps(Rc::clone(&lane))));
    tasks.push(Box::pin(wake_timed_out(
        Rc::clone(&lane),
        i64::try_from(min_timeout_ns).unwrap_or(i64::MAX),
    )));
    let Some(t0) = control.wait_for_go() else {
        lane.stats.borrow_mut().close(io.stamp());
        return;
    };
    lane.t0.set(t0);
    let parts = parts(&spec, t0);
    lane.over_at.set(parts.over);
    lane.stats.borrow_mut().begin(parts);
    lane.drop_arrivals_before(control.joined_ns());
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| io.run(tasks, essential)));
    let failure = match result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("a thread of the load generator failed: {error}")),
        Err(_) => Some(
            "a thread of the load generator failed: this is a fault of Plimsoll, please report it".to_owned(),
        ),
    };
    lane.finish(failure);
}

impl Lane {
    /// Counts the arrivals that were due before this agent joined as dropped.
    fn drop_arrivals_before(&self, joined_ns: u64) {
        if joined_ns > 0 {
            let take = |arrivals: &RefCell<Option<Arrivals>>| {
                let mut arrivals = arrivals.borrow_mut();
                arrivals
                    .as_mut()
                    .map_or(0, |arrivals| arrivals.take_rest_before(joined_ns))
            };
            let count = self.arrivals.iter().map(take).sum();
            self.stats.borrow_mut().add_dropped(count);
        }
    }

    /// Carries out work of a session, until the run is over at most.
    async fn work(&self, work: SessionWork) -> WorkEnd {
        let context = WorkContext {
            clock: Arc::clone(&self.clock),
            timeouts: self.timeouts,
            cores: Arc::clone(&self.cores),
        };
        let work = match WorkInProgress::start(work, context) {
            Ok(work) => work,
            Err(error) => return WorkEnd::Failed(format!("its thread cannot be started: {error}")),
        };
        let result = std::future::poll_fn(|context| match work.poll(context.waker()) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if self.is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        WorkEnd::of(result, work, &self.control)
    }

    /// Counts arrivals that were due and not started, and ends the counters of the lane.
    fn finish(&self, failure: Option<String>) {
        let now = self.io.stamp();
        let mut stats = self.stats.borrow_mut();
        if let Some(text) = failure {
            stats.note(now, "lane-failed", text);
        }
        let over = self.over_at.get();
        if now >= over {
            for arrivals in &self.arrivals {
                let mut arrivals = arrivals.borrow_mut();
                let left = arrivals
                    .as_mut()
                    .map_or(0, |stream| stream.take_rest_before(self.run_time(over)));
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

/// Ends the run after its duration or at a stop. After the drain, cancels the transactions in
/// progress.
async fn end_run(lane: Rc<Lane>, drain_ns: u64) {
    lane.io
        .sleep_until(lane.over_at.get(), || lane.control.stopped())
        .await;
    let over = lane.over_at.get().min(lane.control.stopped_at());
    lane.stats.borrow_mut().end_window(over);
    lane.over_at.set(over);
    lane.io.wake_all();
    let cancel_at = over.saturating_add(i64::try_from(drain_ns).unwrap_or(i64::MAX));
    lane.io.sleep_until(cancel_at, || false).await;
    lane.cancelled.set(true);
    lane.io.wake_all();
}

/// Closes every second, even if no transaction starts or ends.
async fn close_seconds(lane: Rc<Lane>) {
    let mut at = lane.t0.get() + SECOND;
    loop {
        lane.io.sleep_until(at, || false).await;
        lane.stats.borrow_mut().roll(lane.io.now());
        at += SECOND;
    }
}

/// Records the gaps in which the lane did not run.
async fn record_gaps(lane: Rc<Lane>) {
    let mut pulse = Pulse::new(lane.t0.get());
    loop {
        lane.io.sleep_until(pulse.due(), || false).await;
        let now = lane.io.stamp();
        if let Some(gap) = pulse.beat(now) {
            lane.stats.borrow_mut().record_gap(now, gap);
        }
    }
}

/// Wakes testers whose transaction has timed out. All testers are checked every few milliseconds,
/// because a timer per request would cost more than the request.
async fn wake_timed_out(lane: Rc<Lane>, min_timeout: i64) {
    let mut at = lane.t0.get().saturating_add(min_timeout);
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
        // A transaction that starts from now on cannot time out before `now + min_timeout`.
        at = earliest
            .min(now.saturating_add(min_timeout))
            .max(now + TIMEOUT_CHECK_NS);
    }
}

/// The task of one tester.
struct Worker<T> {
    lane: Rc<Lane>,
    slot: TesterSlot,
    cycle: TesterCycle,
    policy: TesterPolicy,
    attempt: Attempt,
    tester: T,
    timeout_ns: i64,
    /// The reactor's turn at the last transaction, and the number of transactions that ended in it.
    turn: u64,
    burst: u32,
}

/// Why the tester does not wait for its transaction any more.
enum WaitResult {
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
                    let at = self.wait_for_admission().await;
                    self.cycle.admit(at);
                }
                Step::Perform(start) => {
                    let end = self.perform(start).await;
                    self.cycle.finish(self.attempt.outcome, end, &*lane);
                    if end.is_some() {
                        self.yield_after_burst().await;
                    }
                }
                Step::Work(work) => {
                    let end = lane.work(work).await;
                    lane.io.stamp();
                    self.cycle.worked(end, &*lane);
                }
                Step::EndSession => {
                    self.tester.end_session();
                    self.policy.begin_session();
                }
                Step::Done => return,
            }
        }
    }

    /// Waits until this tester may begin. Returns the time (raw, ns), which is the scheduled start
    /// of its first transaction.
    async fn wait_for_admission(&self) -> i64 {
        while !self.lane.admission.try_admit(self.lane.io.turn()) {
            self.lane.io.yield_now().await;
        }
        self.lane.io.stamp()
    }

    /// Lets other testers run if this tester has carried out [`BURST`] transactions without
    /// waiting.
    async fn yield_after_burst(&mut self) {
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

    /// Carries out one transaction; none if the tester ends.
    async fn perform(&mut self, planned: PlannedStart) -> Option<TransactionEnd> {
        let mut header = self
            .policy
            .choose(planned.scheduled, planned.stage, planned.arrival);
        let start = self.attempt.reset();
        self.lane
            .stats
            .borrow_mut()
            .record_start(start, planned.scheduled.max(planned.free_at));
        match self.wait_for(start.saturating_add(self.timeout_ns)).await {
            WaitResult::Done => {}
            // The tester's own work after the end is not part of the transaction, whose outcome
            // does not change.
            WaitResult::TimedOut | WaitResult::Cancelled if self.attempt.is_over() => {
                self.tester.reset();
                self.attempt.freed();
            }
            WaitResult::TimedOut => {
                self.tester.reset();
                let code = self.lane.timeouts.of(self.attempt.waiting);
                self.attempt.finish(Outcome::Timeout, code);
            }
            WaitResult::Cancelled => {
                self.tester.reset();
                cancel(&mut self.attempt);
            }
        }
        if let Some(endpoint) = self.attempt.endpoint {
            header.endpoint = self.slot.population.first_endpoint + endpoint as u16;
        }
        if let Some(session) = self.cycle.session() {
            self.attempt.session = session;
        }
        let free_at = self.attempt.free_at();
        let mut stats = self.lane.stats.borrow_mut();
        let pause_ns = record(
            &mut stats,
            &mut self.policy,
            &mut self.attempt,
            &header,
            self.slot.member,
        )?;
        self.lane.io.set_now(free_at);
        Some(TransactionEnd { free_at, pause_ns })
    }

    async fn wait_for(&mut self, deadline: i64) -> WaitResult {
        let lane = &self.lane;
        let task = lane.io.current() as usize;
        lane.deadlines[task].set(deadline);
        let request = self.policy.request(|| lane.clock.realtime_ns());
        let mut operation = pin!(self.tester.operate(&request, &mut self.attempt));
        let result = std::future::poll_fn(|context| {
            if operation.as_mut().poll(context).is_ready() {
                Poll::Ready(WaitResult::Done)
            } else if lane.cancelled.get() {
                Poll::Ready(WaitResult::Cancelled)
            } else if lane.io.now() >= deadline {
                Poll::Ready(WaitResult::TimedOut)
            } else {
                Poll::Pending
            }
        })
        .await;
        lane.deadlines[task].set(i64::MAX);
        result
    }
}
