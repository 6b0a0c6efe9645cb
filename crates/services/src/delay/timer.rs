//! Waking up at a moment, finer than the runtime's timer of one millisecond.
//!
//! A timerfd wakes the runtime shortly before the earliest deadline, and the last few microseconds
//! are spun. How early is learned: a wake-up costs 5 us on an idle core, and ten times that on a
//! virtual one. Rejected: a thread that sleeps (its wake-up has to cross to the runtime), and
//! spinning throughout (a core that belongs to the test).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// How long before a deadline to wake up: at first, at least, at most, in ns.
const LEAD: (i64, i64, i64) = (50_000, 5_000, 200_000);
/// How far one wake-up moves the lead, in ns: up when it came too late, down by a 19th of that when
/// it did not. The lead then settles where 95 % of the wake-ups come in time, whatever the few late
/// ones cost (Robbins and Monro, 1951).
const LEARN: (i64, i64) = (3_800, 200);

struct Entry {
    at: Instant,
    wake: oneshot::Sender<()>,
}

impl Ord for Entry {
    /// Reversed: the heap's greatest is the earliest.
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

/// What is left to do after those due have been woken.
enum Next {
    /// Let them run, then look again.
    Woken,
    /// Spin until then.
    Close(Instant),
    /// Wait for the timerfd: armed, or nothing to wait for.
    Armed,
}

/// Deadlines and the timerfd that serves them. Something must poll [`Timer::run`].
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    entries: BinaryHeap<Entry>,
    /// When the timerfd expires, while it is armed.
    armed: Option<Instant>,
    lead: i64,
}

impl Waiting {
    fn lead(&self) -> Duration {
        Duration::from_nanos(self.lead.unsigned_abs())
    }

    /// A wake-up by the timerfd has come.
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
    /// Must be called on a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers and returns a descriptor or -1.
        let raw =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just above and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: an OwnedFd always names the same open description, and the AsyncFd owns it until
        // its own end.
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

    /// Returns at `at`, or at once when that is over.
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

    /// Wakes those whose time has come; never returns.
    pub(crate) async fn run(&self) -> io::Error {
        loop {
            match self.release() {
                // Those woken go first: on a runtime of one thread a spin would hold them up.
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
            // EAGAIN (armed anew meanwhile) clears the readiness; any outcome leads back to looking
            // at the heap.
            let _ = ready.try_io(|fd| {
                let mut count = [0_u8; 8];
                // SAFETY: the buffer has the 8 bytes that a timerfd writes.
                let read = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
                if read < 0 {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(())
                }
            });
        }
    }

    /// Wakes what is due, and arms the timer for what is not.
    fn release(&self) -> Next {
        let mut waiting = self.lock();
        let now = Instant::now();
        waiting.learn(now);
        let mut woken = false;
        while waiting.entries.peek().is_some_and(|first| first.at <= now) {
            if let Some(entry) = waiting.entries.pop() {
                let _ = entry.wake.send(()); // its client may have left
                woken = true;
            }
        }
        match waiting.entries.peek().map(|first| first.at) {
            _ if woken => Next::Woken,
            Some(at) if at - now <= waiting.lead() => Next::Close(at),
            Some(at) => {
                self.arm(&mut waiting, at, now); // under the lock, so that no earlier deadline can be armed in between and lost
                Next::Armed
            }
            None => Next::Armed,
        }
    }

    fn arm(&self, waiting: &mut Waiting, at: Instant, now: Instant) {
        // Zero would disarm.
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
        // SAFETY: the descriptor is open, the new value is valid, and the old one is not asked for.
        unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
