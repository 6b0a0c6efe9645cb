//! How long a connection, and the next bytes of an answer, are waited for within a transaction.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use crate::reactor::Io;

/// Limits of waiting, ns. The time-out of the workload holds beside them, for the transaction as a
/// whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, with tunnel and TLS.
    pub connect_ns: i64,
    /// From the request, or from the last bytes read, to the next ones.
    pub read_ns: i64,
}

impl Patience {
    /// The time-out of the workload is the only one.
    pub const ENDLESS: Self = Self {
        connect_ns: i64::MAX,
        read_ns: i64::MAX,
    };
}

/// Wakes one tester when its patience ends.
pub(super) struct Timer {
    io: Io,
    /// When the reactor is to wake the tester next, as far as was asked for here.
    set: Cell<i64>,
}

impl Timer {
    pub(super) fn new(io: &Io) -> Self {
        Self {
            io: Rc::clone(io),
            set: Cell::new(0),
        }
    }

    /// Whether `deadline` (raw, ns) has passed; else the current task is woken by then. A timer
    /// that is set already and fires sooner serves as well, as whoever waits will then ask again:
    /// so a tester has one or two timers at a time, and not one for each read.
    pub(super) fn over(&self, deadline: i64) -> bool {
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

    /// What `work` gives, or none if `deadline` passes first.
    pub(super) async fn within<T>(&self, deadline: i64, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.over(deadline) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
