//! What all lanes of a drive share: the run's zero, its end, and its budget of transactions.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use plimsoll_model::{Phase, RunSpec};
use plimsoll_schedule::share;

use crate::api::Share;

const NEVER: i64 = i64::MAX;
/// Whoever hears of the start later than this after it has come late: what was due before is not
/// made up for.
const LATE: i64 = 500_000_000;

/// Where the parts of a run begin, raw ns.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The run's zero.
    pub t0: i64,
    /// End of the warm-up.
    pub warm: i64,
    /// End of the measured window: moved back by a stop.
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
    zero: Mutex<Option<i64>>,
    /// How long the run had gone on when this agent joined it, ns; 0 if it was there from the
    /// start.
    joined_ns: AtomicU64,
    gone: Condvar,
    stop: AtomicBool,
    stopped_at: AtomicI64,
    /// Transactions that may still be started; none: no bound.
    budget: Option<AtomicU64>,
    exhausted: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl Control {
    /// For the share of one agent.
    pub fn new(spec: &RunSpec, of: Share) -> Self {
        let budget = spec
            .end
            .transactions
            .map(|total| share(total, of.agent.into(), of.agents.into()));
        Self {
            zero: Mutex::new(None),
            joined_ns: AtomicU64::new(0),
            gone: Condvar::new(),
            stop: AtomicBool::new(false),
            stopped_at: AtomicI64::new(NEVER),
            exhausted: AtomicBool::new(budget == Some(0)),
            budget: budget.map(AtomicU64::new),
            wakers: Mutex::default(),
        }
    }

    /// How a lane is woken when something here changes.
    pub fn on_change(&self, wake: impl Fn() + Send + 'static) {
        self.wakers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(wake));
    }

    fn changed(&self) {
        for wake in self.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }

    /// Sets the run's zero (raw, ns); `now` tells whether this agent joins late.
    pub fn go(&self, t0: i64, now: i64) {
        if now - t0 > LATE {
            self.joined_ns.store((now - t0) as u64, Ordering::SeqCst);
        }
        self.zero
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(t0);
        self.gone.notify_all();
    }

    /// Waits for [`Self::go`]; none if the run was stopped before.
    pub fn wait_for_go(&self) -> Option<i64> {
        let zero = self.zero.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |zero: &mut Option<i64>| zero.is_none() && !self.stopped();
        *self
            .gone
            .wait_while(zero, waiting)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// See the field.
    pub fn joined_ns(&self) -> u64 {
        self.joined_ns.load(Ordering::SeqCst)
    }

    /// No new starts, from `now` (raw, ns) on.
    pub fn stop(&self, now: i64) {
        self.stopped_at.fetch_min(now, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        // The lock orders this with a lane that is about to wait.
        drop(self.zero.lock().unwrap_or_else(PoisonError::into_inner));
        self.gone.notify_all();
        self.changed();
    }

    /// Whether [`Self::stop`] was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// When, raw ns; far in the future if it was not.
    pub fn stopped_at(&self) -> i64 {
        self.stopped_at.load(Ordering::SeqCst)
    }

    /// Takes one transaction from the budget; false if none is left.
    #[inline]
    pub fn take(&self) -> bool {
        let Some(budget) = &self.budget else { return true };
        let before = budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if before.is_ok_and(|left| left > 1) {
            return true;
        }
        if !self.exhausted.swap(true, Ordering::SeqCst) {
            self.changed();
        }
        before.is_ok()
    }

    /// Whether the budget is used up.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }
}

/// Where the parts of a run that begins at `t0` are. A run that ends by a count has no end of its
/// own in time: its last transactions belong to the measured window.
pub fn parts(spec: &RunSpec, t0: i64) -> Parts {
    let at = |ns: u64| t0.saturating_add(i64::try_from(ns).unwrap_or(NEVER));
    Parts {
        t0,
        warm: at(spec.warmup_ns),
        over: spec.end.duration_ns.map_or(NEVER, at),
    }
}
