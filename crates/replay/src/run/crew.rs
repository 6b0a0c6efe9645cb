//! The state of all workers: which have started, and which are active.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use plimsoll_trace::cost::Cost;

use super::gate::Gate;
use super::worker::Work;
use super::{RunError, Settings, scarce};
use crate::perform::Common;
use crate::result::Tally;
use crate::timing::pace;

/// Stack size of a worker, bytes: it makes system calls, and little else.
const STACK: usize = 256 << 10;
/// Time until the first workers have started, ns.
const LEAD_NS: i64 = 2_000_000;

/// State that the workers of a run share.
pub(super) struct RunContext<'a> {
    pub(super) common: &'a Common<'a>,
    pub(super) cost: &'a Cost,
    pub(super) settings: &'a Settings,
    stop: &'a AtomicBool,
    pub(super) gates: Vec<Gate>,
    begun: Vec<AtomicBool>,
    /// Number of workers that think or make calls, without those that wait for others.
    pub(super) active: AtomicUsize,
    /// Start of the replay, on the clock of `pace`, ns.
    pub(super) origin: i64,
    last: AtomicI64,
    tally: Mutex<Tally>,
    failed: Mutex<Option<RunError>>,
    aborted: AtomicBool,
}

impl<'a> RunContext<'a> {
    pub(super) fn new(
        common: &'a Common<'a>,
        cost: &'a Cost,
        settings: &'a Settings,
        stop: &'a AtomicBool,
    ) -> Self {
        let workers = common.plan.workers.len();
        let origin = pace::now() + LEAD_NS;
        Self {
            common,
            cost,
            settings,
            stop,
            gates: (0..workers).map(|_| Gate::new()).collect(),
            begun: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            active: AtomicUsize::new(0),
            origin,
            last: AtomicI64::new(origin),
            tally: Mutex::new(Tally::new()),
            failed: Mutex::default(),
            aborted: AtomicBool::new(false),
        }
    }

    /// Runs all workers. Returns the counts, the time from the first action to the end of the last
    /// one, ns, and whether the replay was stopped.
    pub(super) fn work(self) -> Result<(Tally, u64, bool), RunError> {
        std::thread::scope(|scope| {
            let workers = self.common.plan.workers.iter().enumerate();
            for (at, _) in workers.filter(|(_, worker)| !worker.is_forked) {
                self.begin(at, scope);
            }
        });
        if let Some(why) = lock(&self.failed).take() {
            return Err(why);
        }
        let wall = self.last.load(Ordering::Acquire) - self.origin;
        let was_stopped = self.is_over();
        let tally = std::mem::take(&mut *lock(&self.tally));
        Ok((tally, wall.max(0).unsigned_abs(), was_stopped))
    }

    /// Starts a worker if it has actions and was not started yet.
    pub(super) fn begin<'scope, 'env: 'scope>(&'env self, at: usize, scope: &'scope Scope<'scope, 'env>)
    where
        'a: 'env,
    {
        let Some(worker) = self.common.plan.workers.get(at) else {
            return;
        };
        if worker.actions.is_empty() || self.begun[at].swap(true, Ordering::AcqRel) {
            return;
        }
        self.active.fetch_add(1, Ordering::AcqRel);
        let spawned = Builder::new()
            .name(format!("replay-{at}"))
            .stack_size(STACK)
            .spawn_scoped(scope, move || {
                let done = Work::new(self, at).map(|work| work.run_all(scope));
                self.active.fetch_sub(1, Ordering::AcqRel);
                self.gates[at].end();
                match done {
                    Ok((tally, end)) => {
                        self.last.fetch_max(end, Ordering::AcqRel);
                        lock(&self.tally).merge(tally);
                    }
                    Err(why) => self.fail(why),
                }
            });
        if let Err(why) = spawned {
            self.active.fetch_sub(1, Ordering::AcqRel);
            self.gates[at].end();
            self.fail(scarce("threads", why));
        }
    }

    fn fail(&self, why: RunError) {
        lock(&self.failed).get_or_insert(why);
        self.aborted.store(true, Ordering::Release);
    }

    /// Whether all workers must end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.aborted.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Counts are added completely or not at all, and a worker that panics ends the replay when the
    // scope ends.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
