//! A timer with a finer resolution than that of the runtime, which is 1 ms.
//!
//! A timerfd wakes the runtime shortly before the earliest deadline. The last few microseconds are
//! spent spinning. The lead is learned, because a wake-up takes 5 us on an idle core and ten times
//! that on a virtual one. Rejected: a thread that sleeps, because it must then wake the runtime
//! too; and spinning all the time, which would take a core from the test.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// Lead, the time by which the wake-up precedes the deadline: initial, minimum, maximum, in ns.
const LEAD: (i64, i64, i64) = (50_000, 5_000, 200_000);
/// Changes of the lead per wake-up, in ns: the increase after a late wake-up, and the decrease, a
/// 19th of it, after one in time. The lead then converges to the value at which 95 % of the
/// wake-ups are in time, independent of the lateness of the others (Robbins and Monro, 1951).
const LEARN: (i64, i64) = (3_800, 200);

struct Entry {
    at: Instant,
    wake: oneshot::Sender<()>,
}

impl Ord for Entry {
    /// Reversed, so that the greatest entry of the heap is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

/// Next step after the tasks that are due have been woken.
enum Next {
    /// Let the woken tasks run, then check again.
    Woken,
    /// Spin until this deadline.
    Close(Instant),
    /// Wait for the timerfd. It is armed, or there is no deadline.
    Armed,
}

/// Deadlines and the timerfd that serves them. A task must poll [`Timer::run`].
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    entries: BinaryHeap<Entry>,
    /// Time at which the timerfd expires, while it is armed.
    armed: Option<Instant>,
    lead: i64,
}

impl Waiting {
    fn lead(&self) -> Duration {
        Duration::from_nanos(self.lead.unsigned_abs())
    }

    /// Adapts the lead after a wake-up by the timerfd.
    fn learn(&mut self, now: Instant) {
        if let Some(late) = self
            .armed
            .take()
            .and_then(|armed| now.checked_duration_since(armed))
        {
            let step = if late > self.lead() { LEARN.0 } else { -LEARN.1 };
            self.lead = (self.lead + step).clamp(LEAD.1, LEAD.2);
        }
    }
}

impl Timer {
    /// Creates a timer. Must be called on a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes two numbers and returns a descriptor or -1.
        let raw =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: an OwnedFd always refers to the same open description, and the AsyncFd owns it
        // until it is dropped.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self {
            fd,
            waiting: Mutex::new(Waiting {
                entries: BinaryHeap::new(),
                armed: None,
                lead: LEAD.0,
            }),
        })
    }

    /// Returns at the time `at`, or immediately if it is past.
    pub(crate) async fn wait_until(&self, at: Instant) {
        let now = Instant::now();
        if at <= now {
            return;
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut waiting = self.lock();
            let earliest = waiting.entries.peek().is_none_or(|first| at < first.at);
            waiting.entries.push(Entry { at, wake });
            if earliest {
                self.arm(&mut waiting, at, now);
            }
        }
        // An error means that the timer's task has ended, and so has the service.
        let _ = woken.await;
    }

    /// Wakes tasks at their deadlines. Returns only if the timerfd fails.
    pub(crate) async fn run(&self) -> io::Error {
        loop {
            match self.release() {
                // The woken tasks run first: on a runtime with one thread, spinning would delay
                // them.
                Next::Woken => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Next::Close(at) => {
                    while Instant::now() < at {
                        std::hint::spin_loop();
                    }
                    continue;
                }
                Next::Armed => {}
            }
            let mut ready = match self.fd.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            // EAGAIN (the timerfd was armed again) clears the readiness. After any result the loop
            // checks the heap again.
            let _ = ready.try_io(|fd| {
                let mut count = [0_u8; 8];
                // SAFETY: the buffer has the 8 bytes that a read from a timerfd writes.
                let read = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
                if read < 0 {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(())
                }
            });
        }
    }

    /// Wakes the tasks that are due, and arms the timer for the next deadline.
    fn release(&self) -> Next {
        let mut waiting = self.lock();
        let now = Instant::now();
        waiting.learn(now);
        let mut woken = false;
        while waiting.entries.peek().is_some_and(|first| first.at <= now) {
            if let Some(entry) = waiting.entries.pop() {
                let _ = entry.wake.send(()); // fails if the client has closed its connection
                woken = true;
            }
        }
        match waiting.entries.peek().map(|first| first.at) {
            _ if woken => Next::Woken,
            Some(at) if at - now <= waiting.lead() => Next::Close(at),
            Some(at) => {
                // The lock is held, so that no task arms an earlier deadline in between, which this
                // call would replace.
                self.arm(&mut waiting, at, now);
                Next::Armed
            }
            None => Next::Armed,
        }
    }

    fn arm(&self, waiting: &mut Waiting, at: Instant, now: Instant) {
        // Zero would disarm the timer.
        let distance = (at - now)
            .saturating_sub(waiting.lead())
            .max(Duration::from_nanos(1));
        waiting.armed = Some(now + distance);
        let value = libc::timespec {
            tv_sec: distance.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(distance.subsec_nanos()),
        };
        let spec = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        // SAFETY: the descriptor is open, the new value is valid, and a null pointer for the old
        // value is permitted.
        unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
