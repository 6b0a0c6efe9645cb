//! Timeouts within a transaction: for a connection, and for the next bytes of a response.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use crate::lane::reactor::Io;

/// Timeouts within a transaction. The timeout of the workload applies in addition, to the whole
/// transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, including tunnel and TLS, ns; the maximum value: none.
    pub connect_ns: i64,
    /// From the request, or from the last bytes read, to the next bytes, ns; the maximum value:
    /// none.
    pub read_ns: i64,
}

impl Timeouts {
    /// No timeouts, except that of the workload.
    pub const NONE: Self = Self {
        connect_ns: i64::MAX,
        read_ns: i64::MAX,
    };
}

/// Wakes one tester when a timeout expires.
pub(super) struct Timer {
    io: Io,
    /// Time of the last wake-up that was requested here (raw, ns).
    set: Cell<i64>,
}

impl Timer {
    pub(super) fn new(io: &Io) -> Self {
        Self {
            io: Rc::clone(io),
            set: Cell::new(0),
        }
    }

    /// Returns whether `deadline` (raw, ns) has passed. If not, the current task will be woken by
    /// then. A timer that is already set and expires earlier is sufficient, because the task then
    /// calls this function again: so a tester has one or two timers at a time, instead of one for
    /// each read.
    pub(super) fn check_expired(&self, deadline: i64) -> bool {
        if deadline == i64::MAX {
            return false;
        }
        let now = self.io.now();
        if now >= deadline {
            return true;
        }
        let set = self.set.get();
        if set <= now || set > deadline {
            self.io.wake_at(deadline);
            self.set.set(deadline);
        }
        false
    }

    /// Returns the result of `work`; none if `deadline` passes first.
    pub(super) async fn within<T>(&self, deadline: i64, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if self.check_expired(deadline) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
