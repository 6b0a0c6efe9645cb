//! The right to write an `SQLite` file, which one thread has at a time.
//!
//! Rejected: to leave this to `SQLite`. Its waiting connections sleep and try again, so that the
//! file is idle between two transactions, and who waited longest is not served first.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The lock of one file.
#[derive(Clone, Default)]
pub(in crate::catalogue) struct WriteLock(Arc<(Mutex<bool>, Condvar)>);

impl WriteLock {
    /// Waits for the lock. Returns false if it is not free within `timeout`.
    pub(super) fn acquire(&self, timeout: Duration) -> bool {
        let (held, freed) = &*self.0;
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = freed.wait_timeout_while(held, timeout, |held| *held);
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_free = !*held;
        *held = true;
        is_free
    }

    /// Releases the lock, which the caller has.
    pub(super) fn release(&self) {
        let (held, freed) = &*self.0;
        *held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_has_the_lock() {
        let lock = WriteLock::default();
        assert!(lock.acquire(Duration::ZERO));
        assert!(!lock.acquire(Duration::from_millis(1)));
        lock.release();
        assert!(lock.acquire(Duration::ZERO));
    }
}
