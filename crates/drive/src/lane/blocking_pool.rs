//! The blocking pool: testers that are threads, and one lane that keeps their counters and time and
//! ends them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_model::{Codes, Outcome, RunSpec};
use plimsoll_schedule::UsedValues;

use super::own_delays::Pulse;
use super::stats::{Header, LaneStats, cancel};
use crate::driver::{Attempt, BlockingDriver, BlockingTester};
use crate::run::arrivals::Arrivals;
use crate::setup_error::SetupError;
use crate::tester::control::{Control, parts};
use crate::tester::cycle::{LaneState, PlannedStart, Step, TesterCycle, TransactionEnd, not_started, record};
use crate::tester::limit::{Limit, TimeoutCodes};
use crate::tester::policy::{TesterPolicy, TesterSlot};
use crate::tester::session::work::{SessionWork, WorkContext, WorkEnd, WorkInProgress};

/// Maximum number of blocking testers of a process.
pub const MAX_BLOCKING_TESTERS: u32 = 4096;
const SECOND: i64 = 1_000_000_000;
/// Maximum time from the cancellation of a transaction to its end, ns. The pool does not wait
/// longer for a thread that is blocked in the kernel.
const CANCEL_TIMEOUT_NS: i64 = 2 * SECOND;
const STACK: usize = 1 << 20;

/// A prepared blocking driver of any type.
pub trait ErasedBlockingDriver: Send + Sync {
    /// Creates a tester on the current thread, which will run it.
    ///
    /// # Errors
    /// What is missing, for the user.
    fn tester(&self, pool: &Arc<BlockingPool>, slot: TesterSlot) -> Result<Box<dyn Work>, SetupError>;

    /// Removes what testers have created, as [`BlockingDriver::tidy`] does.
    fn tidy(&self) -> Vec<String>;
}

/// A tester that is ready for the run.
pub trait Work {
    /// Runs the tester to its end, on the current thread.
    fn work(self: Box<Self>);
}

/// A prepared blocking driver of type `D`.
pub struct TypedBlockingDriver<D> {
    /// The driver.
    pub driver: Arc<D>,
    /// Per operation, the values that its texts contain.
    pub used: Arc<Vec<UsedValues>>,
}

impl<D: BlockingDriver> ErasedBlockingDriver for TypedBlockingDriver<D> {
    fn tester(&self, pool: &Arc<BlockingPool>, slot: TesterSlot) -> Result<Box<dyn Work>, SetupError> {
        Ok(Box::new(Worker {
            policy: TesterPolicy::new(&slot, Arc::clone(&self.used)),
            attempt: Attempt::new(Arc::clone(&pool.clock), pool.codes.clone()),
            tester: self.driver.tester(slot.tester())?,
            timeout_ns: i64::try_from(slot.population.timeout_ns).unwrap_or(i64::MAX),
            cycle: TesterCycle::new(&slot, &pool.codes),
            pool: Arc::clone(pool),
            slot,
        }))
    }

    fn tidy(&self) -> Vec<String> {
        self.driver.tidy()
    }
}

/// State that the threads of a pool share.
pub struct BlockingPool {
    spec: Arc<RunSpec>,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    codes: Codes,
    timeouts: TimeoutCodes,
    stats: Mutex<LaneStats>,
    t0: AtomicI64,
    over_at: AtomicI64,
    cancelled: AtomicBool,
    cancel: OwnedFd,
    /// Per workload, the agent's part of the arrivals.
    arrivals: Vec<Mutex<Option<Arrivals>>>,
    /// Per member, its transaction in progress. The thread that takes it out counts it: the tester,
    /// or the leader if the tester is blocked.
    progress: Vec<Mutex<Option<(Header, i64)>>>,
    alive: AtomicUsize,
    leader: Mutex<Option<Thread>>,
}

/// The inputs from which a pool is created.
pub struct BlockingPoolSetup {
    /// The run.
    pub spec: Arc<RunSpec>,
    /// State that all lanes share.
    pub control: Arc<Control>,
    /// Clock of the stamps.
    pub clock: Arc<dyn Clock>,
    /// Dictionary of codes.
    pub codes: Codes,
    /// Counters of the pool.
    pub stats: LaneStats,
    /// Per workload, the agent's part of the arrivals.
    pub arrivals: Vec<Option<Arrivals>>,
    /// Number of testers.
    pub members: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockingPool {
    /// Creates a pool without threads.
    pub fn new(setup: BlockingPoolSetup) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            spec: setup.spec,
            control: setup.control,
            clock: setup.clock,
            timeouts: TimeoutCodes::new(&setup.codes),
            codes: setup.codes,
            stats: Mutex::new(setup.stats),
            t0: AtomicI64::new(i64::MIN),
            over_at: AtomicI64::new(i64::MAX),
            cancelled: AtomicBool::new(false),
            cancel: crate::lane::reactor::event_fd()?,
            arrivals: setup.arrivals.into_iter().map(Mutex::new).collect(),
            progress: (0..setup.members).map(|_| Mutex::new(None)).collect(),
            alive: AtomicUsize::new(0),
            leader: Mutex::new(None),
        }))
    }

    /// Starts the thread of one tester. The thread first calls `set_up`, creates the tester, and
    /// then passes the result to `ready`. `driver_error` converts an error of the driver.
    pub fn start_tester<E>(
        self: &Arc<Self>,
        slot: TesterSlot,
        driver: Arc<dyn ErasedBlockingDriver>,
        set_up: impl FnOnce() -> Result<(), E> + Send + 'static,
        driver_error: impl FnOnce(SetupError) -> E + Send + 'static,
        ready: impl FnOnce(Result<(), E>) + Send + 'static,
    ) -> std::io::Result<Thread> {
        let pool = Arc::clone(self);
        self.alive.fetch_add(1, Ordering::SeqCst);
        let thread = std::thread::Builder::new()
            .name(format!("tester-{}", slot.tester()))
            .stack_size(STACK)
            .spawn(move || {
                let work = || {
                    let tester = set_up().and_then(|()| driver.tester(&pool, slot).map_err(driver_error));
                    match tester {
                        Ok(tester) => {
                            ready(Ok(()));
                            tester.work();
                        }
                        Err(error) => ready(Err(error)),
                    }
                };
                let result = std::panic::catch_unwind(AssertUnwindSafe(work));
                if result.is_err() {
                    let text = "the thread of a tester failed: this is a fault of Plimsoll, please report it"
                        .to_owned();
                    locked(&pool.stats).note(pool.clock.raw_ns(), "lane-failed", text);
                }
                pool.alive.fetch_sub(1, Ordering::SeqCst);
                if let Some(leader) = locked(&pool.leader).as_ref() {
                    leader.unpark();
                }
            });
        match thread {
            Ok(thread) => Ok(thread.thread().clone()),
            Err(error) => {
                self.alive.fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    /// Runs the pool to the end of the run on the current thread, which becomes the leader. Then
    /// calls [`BlockingDriver::tidy`] of the drivers.
    pub fn run(&self, threads: &[Thread], drivers: &[Arc<dyn ErasedBlockingDriver>]) {
        *locked(&self.leader) = Some(std::thread::current());
        let Some(t0) = self.control.wait_for_go() else {
            // A tester that is still being prepared would interfere with those of the next run.
            while self.alive.load(Ordering::SeqCst) > 0 {
                std::thread::park();
            }
            let now = self.clock.raw_ns();
            self.tidy(drivers, now);
            locked(&self.stats).close(now);
            return;
        };
        self.begin(t0);
        let drain_ns = i64::try_from(self.spec.drain_ns).unwrap_or(i64::MAX);
        let mut is_over = false;
        let mut second_end = t0 + SECOND;
        let mut pulse = Pulse::new(t0);
        while self.alive.load(Ordering::SeqCst) > 0 {
            let now = self.clock.raw_ns();
            if now >= second_end {
                locked(&self.stats).roll(now);
                second_end += SECOND;
                continue;
            }
            if now >= pulse.due()
                && let Some(gap) = pulse.beat(now)
            {
                locked(&self.stats).record_gap(now, gap);
            }
            self.over_at
                .fetch_min(self.control.stopped_at(), Ordering::SeqCst);
            let over_at = self.over_at.load(Ordering::SeqCst);
            let cancel_at = over_at.saturating_add(drain_ns);
            if !is_over && (now >= over_at || self.control.exhausted()) {
                is_over = true;
                locked(&self.stats).end_window(over_at);
                threads.iter().for_each(Thread::unpark);
            }
            if now >= cancel_at && !self.cancelled.load(Ordering::SeqCst) {
                self.cancel(threads);
            }
            if now >= cancel_at.saturating_add(CANCEL_TIMEOUT_NS) {
                break;
            }
            let next = [
                second_end,
                pulse.due(),
                over_at,
                cancel_at,
                cancel_at.saturating_add(CANCEL_TIMEOUT_NS),
            ]
            .into_iter()
            .filter(|&at| at > now)
            .min()
            .unwrap_or(second_end);
            std::thread::park_timeout(Duration::from_nanos((next - now) as u64));
        }
        let ended = self.clock.raw_ns();
        self.tidy(drivers, ended);
        self.close(ended);
    }

    /// Lets the drivers remove what testers have created, unless a tester is blocked: it may still
    /// use it.
    fn tidy(&self, drivers: &[Arc<dyn ErasedBlockingDriver>], now: i64) {
        if self.alive.load(Ordering::SeqCst) == 0 {
            for text in drivers.iter().flat_map(|driver| driver.tidy()) {
                locked(&self.stats).driver_note(now, text);
            }
        }
    }

    /// Records that the run begins at `t0` (raw, ns). Every thread calls it; the first call takes
    /// effect.
    fn begin(&self, t0: i64) {
        let mut stats = locked(&self.stats);
        if self.t0.swap(t0, Ordering::SeqCst) != t0 {
            let parts = parts(&self.spec, t0);
            self.over_at.store(parts.over, Ordering::SeqCst);
            stats.begin(parts);
        }
    }

    fn cancel(&self, threads: &[Thread]) {
        self.cancelled.store(true, Ordering::SeqCst);
        let increment = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open as long as `self`, and the buffer has eight bytes.
        unsafe {
            libc::write(
                self.cancel.as_raw_fd(),
                increment.as_ptr().cast(),
                increment.len(),
            )
        };
        threads.iter().for_each(Thread::unpark);
    }

    /// Counts the transactions of blocked testers and the arrivals that were not started, and ends
    /// the counters at `now` (raw, ns).
    fn close(&self, now: i64) {
        let mut stuck = 0;
        for progress in &self.progress {
            if let Some((header, start)) = locked(progress).take() {
                let mut attempt = Attempt::new(Arc::clone(&self.clock), self.codes.clone());
                attempt.start = start;
                cancel(&mut attempt);
                locked(&self.stats).record_end(&header, &attempt);
                stuck += 1;
            }
        }
        let mut stats = locked(&self.stats);
        if stuck > 0 {
            let text = format!("{stuck} testers are blocked in a call that could not be interrupted");
            stats.note(now, "stuck", text);
        }
        let over_at = self.over_at.load(Ordering::SeqCst);
        if now >= over_at {
            for arrivals in &self.arrivals {
                let left = locked(arrivals)
                    .as_mut()
                    .map_or(0, |stream| stream.take_rest_before(self.run_time(over_at)));
                not_started(&mut stats, now, left);
            }
        }
        stats.close(now);
    }

    /// Carries out work of a session, until the run is over at most.
    fn work(&self, work: SessionWork) -> WorkEnd {
        let context = WorkContext {
            clock: Arc::clone(&self.clock),
            timeouts: self.timeouts,
            cores: self.spec.tester_cpus.clone().into(),
        };
        let work = match WorkInProgress::start(work, context) {
            Ok(work) => work,
            Err(error) => return WorkEnd::Failed(format!("its thread cannot be started: {error}")),
        };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let result = loop {
            match work.poll(&waker) {
                Poll::Ready(result) => break Some(result),
                Poll::Pending if self.is_over() => break None,
                // The pool unparks this thread when the run is over.
                Poll::Pending => std::thread::park(),
            }
        };
        WorkEnd::of(result, work, &self.control)
    }

    /// Sleeps until `at` (raw, ns), or until no transactions may start any more.
    fn sleep_until(&self, at: i64) {
        while !self.is_over() {
            let left = at - self.clock.raw_ns();
            if left <= 0 {
                return;
            }
            // The thread is unparked when the run is over. Its timer slack is 1 ns, so that it
            // wakes within microseconds.
            std::thread::park_timeout(Duration::from_nanos(left as u64));
        }
    }
}

impl LaneState for BlockingPool {
    fn now(&self) -> i64 {
        self.clock.raw_ns()
    }

    fn t0(&self) -> i64 {
        self.t0.load(Ordering::SeqCst)
    }

    fn over_at(&self) -> i64 {
        self.over_at.load(Ordering::SeqCst).min(self.control.stopped_at())
    }

    fn is_over(&self) -> bool {
        self.control.exhausted()
            || self.control.stopped()
            || self.clock.raw_ns() >= self.over_at.load(Ordering::SeqCst)
    }

    fn control(&self) -> &Control {
        &self.control
    }

    fn with_stats(&self, change: impl FnOnce(&mut LaneStats)) {
        change(&mut locked(&self.stats));
    }

    fn with_arrivals<R>(&self, workload: u16, read: impl FnOnce(&mut Arrivals) -> R) -> Option<R> {
        locked(&self.arrivals[usize::from(workload)]).as_mut().map(read)
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// One tester on its thread.
struct Worker<T> {
    pool: Arc<BlockingPool>,
    slot: TesterSlot,
    cycle: TesterCycle,
    policy: TesterPolicy,
    attempt: Attempt,
    tester: T,
    timeout_ns: i64,
}

impl<T: BlockingTester> Work for Worker<T> {
    fn work(mut self: Box<Self>) {
        let Some(t0) = self.pool.control.wait_for_go() else {
            return;
        };
        let pool = Arc::clone(&self.pool);
        pool.begin(t0);
        if self.slot.is_open {
            self.drop_arrivals_before(pool.control.joined_ns());
        }
        loop {
            match self.cycle.next(&*pool) {
                Step::SleepUntil(at) => pool.sleep_until(at),
                // A thread need not wait: it does not delay other testers.
                Step::AwaitAdmission => self.cycle.admit(pool.clock.raw_ns()),
                Step::Perform(start) => {
                    let end = self.perform(start);
                    self.cycle.finish(self.attempt.outcome, end, &*pool);
                }
                Step::Work(work) => self.cycle.worked(pool.work(work), &*pool),
                Step::EndSession => {
                    self.tester.end_session();
                    self.policy.begin_session();
                }
                Step::Done => return,
            }
        }
    }
}

impl<T: BlockingTester> Worker<T> {
    /// Counts the arrivals that were due before this agent joined as dropped.
    fn drop_arrivals_before(&self, joined_ns: u64) {
        let workload = usize::from(self.slot.population.workload);
        if let (1.., Some(arrivals)) = (joined_ns, locked(&self.pool.arrivals[workload]).as_mut()) {
            locked(&self.pool.stats).add_dropped(arrivals.take_rest_before(joined_ns));
        }
    }

    /// Carries out one transaction; none if the tester ends.
    fn perform(&mut self, planned: PlannedStart) -> Option<TransactionEnd> {
        let header = self
            .policy
            .choose(planned.scheduled, planned.stage, planned.arrival);
        let start = self.attempt.reset();
        *locked(&self.pool.progress[self.slot.member]) = Some((header, start));
        locked(&self.pool.stats).record_start(start, planned.scheduled.max(planned.free_at));
        let limit = Limit {
            clock: &*self.pool.clock,
            deadline: start.saturating_add(self.timeout_ns),
            cancelled: &self.pool.cancelled,
            cancel_fd: self.pool.cancel.as_raw_fd(),
            timeouts: self.pool.timeouts,
        };
        let request = self.policy.request(|| self.pool.clock.realtime_ns());
        self.tester.operate(&request, &mut self.attempt, &limit);
        locked(&self.pool.progress[self.slot.member]).take()?;
        if self.attempt.outcome == Outcome::Cancelled {
            cancel(&mut self.attempt);
        }
        if let Some(session) = self.cycle.session() {
            self.attempt.session = session;
        }
        let pause_ns = record(
            &mut locked(&self.pool.stats),
            &mut self.policy,
            &mut self.attempt,
            &header,
            self.slot.member,
        )?;
        let free_at = self.renew()?;
        Some(TransactionEnd { free_at, pause_ns })
    }

    /// Prepares the next transaction. Returns the time at which the tester is free (raw, ns); none
    /// if the run is over or the tester cannot continue.
    fn renew(&mut self) -> Option<i64> {
        if self.pool.is_over() {
            return None;
        }
        if let Err(why) = self.tester.renew(&mut self.attempt) {
            let mut stats = locked(&self.pool.stats);
            stats.deactivate(self.slot.member);
            let text = format!("tester {} cannot continue: {why}", self.slot.tester());
            stats.note(self.pool.clock.raw_ns(), "tester-stopped", text);
            return None;
        }
        Some(self.attempt.free_at())
    }
}
