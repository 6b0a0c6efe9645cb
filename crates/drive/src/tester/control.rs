//! State that all lanes of a drive share: the start of the run, its end, and its budget of
//! transactions.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use plimsoll_model::{Phase, RunSpec};
use plimsoll_schedule::portion;

use crate::api::AgentPortion;

const NEVER: i64 = i64::MAX;
/// An agent that receives the start more than this after it (ns) joins late: transactions that were
/// due before are not started.
const LATE: i64 = 500_000_000;

/// Limits of the parts of a run (raw, ns).
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Start of the run.
    pub t0: i64,
    /// End of the warm-up.
    pub warm: i64,
    /// End of the measured window. A stop makes it earlier.
    pub over: i64,
}

impl Parts {
    /// Phase of a transaction that ended at `end` (raw, ns).
    pub fn phase(&self, end: i64) -> Phase {
        if end >= self.over {
            Phase::Drain
        } else if end < self.warm {
            Phase::WarmUp
        } else {
            Phase::Measured
        }
    }
}

/// Shared by the lanes and their owner.
pub struct Control {
    /// Start of the run (raw, ns); none before [`Control::go`].
    zero: Mutex<Option<i64>>,
    /// Time since the start of the run at which this agent joined, ns; 0 if it did not join late.
    joined_ns: AtomicU64,
    /// Signals a change of `zero` or `stop`.
    started: Condvar,
    stop: AtomicBool,
    stopped_at: AtomicI64,
    /// Number of transactions that may still start; none: not limited.
    budget: Option<AtomicU64>,
    exhausted: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send>>>,
    /// Threads of work of sessions that was stopped. They end by themselves.
    stopped_work: Mutex<Vec<JoinHandle<()>>>,
}

impl Control {
    /// The state for one agent, whose portion of the budget is `of`.
    pub fn new(spec: &RunSpec, of: AgentPortion) -> Self {
        let budget = spec
            .end
            .transactions
            .map(|total| portion(total, of.agent.into(), of.agents.into()));
        Self {
            zero: Mutex::new(None),
            joined_ns: AtomicU64::new(0),
            started: Condvar::new(),
            stop: AtomicBool::new(false),
            stopped_at: AtomicI64::new(NEVER),
            exhausted: AtomicBool::new(budget == Some(0)),
            budget: budget.map(AtomicU64::new),
            wakers: Mutex::default(),
            stopped_work: Mutex::default(),
        }
    }

    /// Adds a function that wakes a lane. It is called when the run is stopped or the budget is
    /// exhausted.
    pub fn on_change(&self, wake: impl Fn() + Send + 'static) {
        self.wakers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(wake));
    }

    /// Adds the thread of work that was stopped, so that the lane need not wait for its end.
    pub fn add_stopped_work(&self, thread: JoinHandle<()>) {
        self.stopped_work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
    }

    /// Waits for the ends of all work that was stopped.
    pub fn join_stopped_work(&self) {
        let threads = std::mem::take(&mut *self.stopped_work.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The result of stopped work is not used, so that neither is a panic.
            let _ = thread.join();
        }
    }

    fn wake_lanes(&self) {
        for wake in self.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }

    /// Sets the start of the run, `t0` (raw, ns). If `now` is much later, this agent joins late.
    pub fn go(&self, t0: i64, now: i64) {
        if now - t0 > LATE {
            self.joined_ns.store((now - t0) as u64, Ordering::SeqCst);
        }
        self.zero
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(t0);
        self.started.notify_all();
    }

    /// Waits for [`Self::go`], and returns the start of the run (raw, ns); none if the run was
    /// stopped before.
    pub fn wait_for_go(&self) -> Option<i64> {
        let zero = self.zero.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |zero: &mut Option<i64>| zero.is_none() && !self.stopped();
        *self
            .started
            .wait_while(zero, waiting)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the start of the run at which this agent joined, ns; 0 if it did not join late.
    pub fn joined_ns(&self) -> u64 {
        self.joined_ns.load(Ordering::SeqCst)
    }

    /// Stops the run at `now` (raw, ns): no transactions start any more.
    pub fn stop(&self, now: i64) {
        self.stopped_at.fetch_min(now, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        // The lock orders this with a lane that is about to wait.
        drop(self.zero.lock().unwrap_or_else(PoisonError::into_inner));
        self.started.notify_all();
        self.wake_lanes();
    }

    /// Whether [`Self::stop`] was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Time of the stop (raw, ns); the maximum value if the run was not stopped.
    pub fn stopped_at(&self) -> i64 {
        self.stopped_at.load(Ordering::SeqCst)
    }

    /// Takes one transaction from the budget; returns false if the budget is exhausted.
    #[inline]
    pub fn take(&self) -> bool {
        let Some(budget) = &self.budget else { return true };
        let before = budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if before.is_ok_and(|left| left > 1) {
            return true;
        }
        if !self.exhausted.swap(true, Ordering::SeqCst) {
            self.wake_lanes();
        }
        before.is_ok()
    }

    /// Whether the budget is exhausted.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }
}

/// The parts of a run that starts at `t0` (raw, ns). A run that ends after a number of transactions
/// has no planned end: its last transactions belong to the measured window.
pub fn parts(spec: &RunSpec, t0: i64) -> Parts {
    let at = |ns: u64| t0.saturating_add(i64::try_from(ns).unwrap_or(NEVER));
    Parts {
        t0,
        warm: at(spec.warmup_ns),
        over: spec.end.duration_ns.map_or(NEVER, at),
    }
}
