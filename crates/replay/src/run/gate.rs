//! The progress of a worker, and waiting for it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Number of checks of a worker before a sleep: it may be about to reach the action.
const SPIN_CHECKS: u32 = 200;

/// Progress of one worker. Aligned so that two gates never share a cache line.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Number of completed actions.
    done: AtomicU32,
    /// The lowest number of actions that another worker waits for; `u32::MAX` if none waits.
    wanted: AtomicU32,
    /// Incremented when sleepers are woken.
    woken: AtomicU32,
    /// Whether the worker has ended.
    ended: AtomicBool,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            wanted: AtomicU32::new(u32::MAX),
            ..Self::default()
        }
    }

    pub(super) fn is_at(&self, until: u32) -> bool {
        self.done.load(Ordering::Acquire) >= until
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sets the number of completed actions.
    pub(super) fn reach(&self, done: u32) {
        self.done.store(done, Ordering::SeqCst);
        if done >= self.wanted.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Marks the worker as ended.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        // A worker that waits later sets `wanted` again. One that read `woken` before finds it
        // changed.
        self.wanted.store(u32::MAX, Ordering::SeqCst);
        self.woken.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the word lives as long as the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.woken.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            );
        }
    }

    /// Checks for a short time whether `until` actions are complete.
    pub(super) fn spin_until(&self, until: u32) -> bool {
        for _ in 0..SPIN_CHECKS {
            if self.is_at(until) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until `until` actions are complete, the worker has ended, or `timeout` has passed.
    pub(super) fn sleep(&self, until: u32, timeout: Duration) {
        let woken = self.woken.load(Ordering::SeqCst);
        self.wanted.fetch_min(until, Ordering::SeqCst);
        if self.done.load(Ordering::SeqCst) >= until || self.ended.load(Ordering::SeqCst) {
            return;
        }
        let time = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the word and the time live as long as the call. If it returns early, the caller
        // checks again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.woken.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                woken,
                &raw const time,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sleeper_is_woken_when_its_action_is_complete() {
        let gate = Gate::new();
        std::thread::scope(|scope| {
            for first in 1..4 {
                let gate = &gate;
                scope.spawn(move || {
                    for until in (first..3000).step_by(7) {
                        // The timeout is longer than the test: only a wake-up ends the sleep.
                        while !gate.is_at(until) {
                            gate.sleep(until, Duration::from_secs(3600));
                        }
                    }
                });
            }
            for done in 1..=3000 {
                gate.reach(done);
                if done % 50 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        assert!(gate.is_at(3000) && !gate.is_at(3001));
        gate.end();
        gate.sleep(4000, Duration::from_secs(3600));
        assert!(gate.has_ended());
    }
}
