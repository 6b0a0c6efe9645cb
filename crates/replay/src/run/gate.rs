//! How far a worker is, and waiting until it is further.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Looks at a worker before we sleep: it may be about to be there.
const LOOKS: u32 = 200;

/// Of one worker. Aligned so that no two share what a core caches at once.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Actions that are done.
    done: AtomicU32,
    /// The least number that somebody waits for, less one; at its greatest, nobody does.
    wanted: AtomicU32,
    /// Changes whenever sleepers are woken.
    woken: AtomicU32,
    /// It does nothing any more.
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

    /// So many actions are done.
    pub(super) fn reach(&self, done: u32) {
        self.done.store(done, Ordering::SeqCst);
        if done >= self.wanted.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Nothing more is done.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        // Whoever comes after this asks anew, and finds `woken` changed if it looked before.
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

    /// Looks for a short while. Whether it is there.
    pub(super) fn look(&self, until: u32) -> bool {
        for _ in 0..LOOKS {
            if self.is_at(until) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until it is there, has ended, or so much time has passed.
    pub(super) fn sleep(&self, until: u32, most: Duration) {
        let woken = self.woken.load(Ordering::SeqCst);
        self.wanted.fetch_min(until, Ordering::SeqCst);
        if self.done.load(Ordering::SeqCst) >= until || self.ended.load(Ordering::SeqCst) {
            return;
        }
        let time = libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos().into(),
        };
        // SAFETY: the word and the time live as long as the call. That it returns early costs a
        // look.
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
    fn nobody_sleeps_through_what_it_waits_for() {
        let gate = Gate::new();
        std::thread::scope(|scope| {
            for first in 1..4 {
                let gate = &gate;
                scope.spawn(move || {
                    for until in (first..3000).step_by(7) {
                        // Longer than the test: only a wake-up ends it.
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
