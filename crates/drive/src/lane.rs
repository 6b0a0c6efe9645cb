//! One core's testers: tasks on a reactor, with the books of the lane.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use plimsoll_clock::Clock;
use plimsoll_model::{Code, Codes, Outcome, RunSpec, WhenFull};
use plimsoll_schedule::{Arrival, Used};

use crate::arrivals::Arrivals;
use crate::control::{Control, parts};
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Waiting};
use crate::lane_stats::{Header, LaneStats, cancel};
use crate::own_delays::Pulse;
use crate::policy::{TesterPolicy, TesterSlot, TurnSchedule, Verdict};
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

/// The codes of time-outs.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutCodes {
    connect: Code,
    first_byte: Code,
    body: Code,
}

impl TimeoutCodes {
    /// Enters them.
    pub fn new(codes: &Codes) -> Self {
        Self {
            connect: codes.number(Waiting::Connect.timeout_code()),
            first_byte: codes.number(Waiting::FirstByte.timeout_code()),
            body: codes.number(Waiting::Body.timeout_code()),
        }
    }

    /// The one for a tester that waits for `waiting`.
    pub fn of(self, waiting: Waiting) -> Code {
        match waiting {
            Waiting::Connect => self.connect,
            Waiting::FirstByte => self.first_byte,
            Waiting::Body => self.body,
        }
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
    /// Whether nothing may be started any more.
    fn is_over(&self) -> bool {
        self.io.now() >= self.over_at.get() || self.control.exhausted()
    }

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

    /// Run time of a raw stamp, ns.
    fn run_time(&self, raw: i64) -> u64 {
        (raw - self.t0.get()).max(0) as u64
    }

    fn raw(&self, run_ns: u64) -> i64 {
        self.t0
            .get()
            .saturating_add(i64::try_from(run_ns).unwrap_or(i64::MAX))
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

/// Accounts for arrivals that were due when the run ended.
pub fn not_started(stats: &mut LaneStats, now: i64, count: u64) {
    if count > 0 {
        stats.dropped(count);
        let text = format!("{count} arrivals were due and had not been started when the run ended");
        stats.note(now, "not-started", text);
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
        if self.slot.is_open {
            self.serve().await;
        } else {
            self.take_turns().await;
        }
    }

    /// A closed tester.
    async fn take_turns(&mut self) {
        let lane = Rc::clone(&self.lane);
        let mut turns = TurnSchedule::new(&self.slot);
        let mut next = turns.first_from(lane.control.joined_ns());
        let mut together = turns.begin_together();
        let mut free_at = lane.raw(0);
        while let Some(turn) = next {
            let mut at = lane.raw(turn.at_ns);
            if !lane.io.sleep_until(at, || lane.is_over()).await {
                break;
            }
            if std::mem::take(&mut together) {
                at = self.admitted().await;
            }
            if lane.is_over() || !lane.control.take() {
                break;
            }
            turns.begun();
            if turn.missed > 0 {
                lane.stats.borrow_mut().missed(turn.missed);
            }
            let Some((free, pause_ns)) = self.perform(at, turn.stage, None, free_at).await else {
                break;
            };
            next = turns.after(lane.run_time(free).saturating_add(pause_ns));
            free_at = free;
            self.breathe().await;
        }
        let over = lane.over_at.get();
        if lane.io.now() >= over {
            lane.stats
                .borrow_mut()
                .missed(turns.left_before(lane.run_time(over)));
        }
    }

    /// A slot of an open load: takes the next arrival, waits until it is due, and carries it out.
    /// So no dispatcher is needed, and waiting arrivals are a number, not a queue.
    async fn serve(&mut self) {
        let lane = Rc::clone(&self.lane);
        let mut free_since = 0;
        while let Some(arrival) = self.next_arrival(free_since) {
            let at = lane.raw(arrival.at_ns);
            if !lane.io.sleep_until(at, || lane.is_over()).await || lane.is_over() {
                // Taken, due in the window, and never started.
                if at < lane.over_at.get() && !lane.control.exhausted() {
                    not_started(&mut lane.stats.borrow_mut(), lane.io.now(), 1);
                }
                return;
            }
            if !lane.control.take() {
                return;
            }
            let free_at = lane.raw(free_since);
            let Some((free, pause_ns)) = self
                .perform(at, arrival.stage, Some(arrival.index), free_at)
                .await
            else {
                return;
            };
            free_since = lane.run_time(free);
            self.breathe().await;
            if pause_ns > 0 {
                let until = free.saturating_add(i64::try_from(pause_ns).unwrap_or(i64::MAX));
                lane.io.sleep_until(until, || lane.is_over()).await;
                free_since = lane.run_time(lane.io.now());
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

    /// The next arrival. Those that came while no slot was free are dropped if the load says so:
    /// this slot is the first to be free again, since `free_since`.
    fn next_arrival(&self, free_since: u64) -> Option<Arrival> {
        if self.lane.is_over() {
            return None;
        }
        let population = &self.slot.population;
        let mut arrivals = self.lane.arrivals[usize::from(population.workload)].borrow_mut();
        let arrivals = arrivals.as_mut()?;
        if population.when_full == WhenFull::Drop {
            let dropped = arrivals.drop_before(free_since);
            if dropped > 0 {
                self.lane.stats.borrow_mut().dropped(dropped);
            }
        }
        arrivals.take()
    }

    /// Carries out one transaction of a tester that is free since `free_at` (raw, ns). Gives when
    /// the tester is free again (raw, ns) and a pause to make after it; none if it is done.
    async fn perform(
        &mut self,
        scheduled: i64,
        stage: u16,
        arrival: Option<u64>,
        free_at: i64,
    ) -> Option<(i64, u64)> {
        let mut header = self.policy.choose(scheduled, stage, arrival);
        let start = self.attempt.reset();
        self.lane
            .stats
            .borrow_mut()
            .started(start, scheduled.max(free_at));
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
        self.enter(&header)
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

    fn enter(&mut self, header: &Header) -> Option<(i64, u64)> {
        let (end, outcome) = (self.attempt.end, self.attempt.outcome);
        let free = self.attempt.free_at();
        let mut stats = self.lane.stats.borrow_mut();
        if let Some(text) = self.attempt.note.take() {
            stats.driver_note(end, text);
        }
        stats.ended(header, &self.attempt);
        if outcome == Outcome::Cancelled {
            return None;
        }
        self.lane.io.seen(free);
        match self.policy.judge(outcome) {
            Verdict::Go(pause_ns) => Some((free, pause_ns)),
            Verdict::TakeOut(failures) => {
                stats.gone(self.slot.member);
                stats.note(end, "tester-stopped", self.policy.taken_out(failures));
                None
            }
            Verdict::Done => {
                stats.gone(self.slot.member);
                None
            }
        }
    }
}
