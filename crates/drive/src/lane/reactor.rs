//! The runtime of a lane: tasks, readiness of sockets, and timers, on one thread.
//!
//! Rejected: a general executor, because a load generator needs three properties that such an
//! executor does not have. Deadlines are checked after every poll of a task, and a timerfd wakes
//! the thread (a timer wheel of 1 ms is too coarse, and a separate timer per sleep costs two system
//! calls). One wait serves all sockets that are ready, independent of the number of tasks. Waking a
//! task is a push to a plain queue. All tasks are passed to [`Reactor::run`].
//!
//! Each socket is registered once, edge-triggered, for both directions. A read that does not fill
//! its buffer has emptied the socket, so that it is not read again before the next event.

use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use plimsoll_clock::Clock;

/// A task of a lane.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;
/// Handle of a lane's reactor.
pub type Io = Rc<Reactor>;

/// Maximum number of tasks that are polled between two waits for events.
const ROUND: usize = 256;
const EVENTS: usize = 1024;
/// Size of the buffer for reads, bytes.
const BUFFER: usize = 64 * 1024;
const TIMER: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
const NEVER: i64 = i64::MAX;

/// Tasks, readiness and timers of one thread.
pub struct Reactor {
    epoll: OwnedFd,
    timer: OwnedFd,
    alarm: Arc<Alarm>,
    clock: Arc<dyn Clock>,
    /// Latest reading of the clock on this lane (raw, ns).
    now: Cell<i64>,
    /// Number of waits for events.
    turn: Cell<u64>,
    ready: RefCell<VecDeque<u32>>,
    /// Per task, whether it is in `ready`.
    queued: RefCell<Vec<bool>>,
    current: Cell<u32>,
    timers: RefCell<BinaryHeap<Reverse<(i64, u32)>>>,
    /// Earliest of `timers` (raw, ns), or NEVER.
    next: Cell<i64>,
    /// Time to which the timerfd is set (raw, ns), or NEVER.
    armed: Cell<i64>,
    sources: RefCell<Vec<Source>>,
    free: RefCell<Vec<u32>>,
    /// Buffer for the reads of all sockets of the lane.
    buffer: RefCell<Box<[u8]>>,
    spin_ns: i64,
    spun_ns: Arc<AtomicU64>,
}

/// One registered socket.
#[derive(Debug, Clone, Copy, Default)]
struct Source {
    task: u32,
    readable: bool,
    writable: bool,
    /// The peer has closed its direction, or the socket failed: reads do not block any more.
    closed: bool,
}

/// A direction of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the peer.
    Read,
    /// To the peer.
    Write,
}

/// Wakes a reactor from other threads.
pub struct Alarm {
    fd: OwnedFd,
    /// Whether every task is woken.
    everyone: AtomicBool,
    tasks: Mutex<Vec<u32>>,
}

impl Alarm {
    /// Wakes every task.
    pub fn ring(&self) {
        self.everyone.store(true, Ordering::SeqCst);
        self.signal();
    }

    fn signal(&self) {
        let increment = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open as long as `self`, and the buffer has eight bytes. If the
        // counter is full, the write fails, but the reactor wakes all the same.
        unsafe { libc::write(self.fd.as_raw_fd(), increment.as_ptr().cast(), increment.len()) };
    }
}

/// The waker for futures of other crates, such as those of TLS. Futures of this crate do not use
/// it.
struct TaskWaker {
    alarm: Arc<Alarm>,
    task: u32,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.alarm
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.task);
        self.alarm.signal();
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that a system call has just returned and that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a descriptor that becomes readable after a write to it, for [`Alarm`] and for cancelling
/// blocking testers.
pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
}

impl Reactor {
    /// Creates a reactor that spins instead of sleeping for the last `spin_ns` before a deadline,
    /// and adds the time of spinning (ns) to `total`.
    pub fn new(clock: Arc<dyn Clock>, spin_ns: u64, total: Arc<AtomicU64>) -> io::Result<Io> {
        // SAFETY: no memory is passed to either call.
        let (epoll, timer) = unsafe {
            let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
            (
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                libc::timerfd_create(libc::CLOCK_MONOTONIC, flags),
            )
        };
        let (epoll, timer) = (owned(epoll)?, owned(timer)?);
        let alarm = Arc::new(Alarm {
            fd: event_fd()?,
            everyone: AtomicBool::new(false),
            tasks: Mutex::default(),
        });
        let reactor = Self {
            now: Cell::new(clock.raw_ns()),
            epoll,
            timer,
            alarm,
            clock,
            turn: Cell::new(0),
            ready: RefCell::default(),
            queued: RefCell::default(),
            current: Cell::new(0),
            timers: RefCell::default(),
            next: Cell::new(NEVER),
            armed: Cell::new(NEVER),
            sources: RefCell::default(),
            free: RefCell::default(),
            buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
            spin_ns: spin_ns as i64,
            spun_ns: total,
        };
        // These two are edge-triggered and need not be read: every expiry and every write is an
        // edge.
        reactor.control(reactor.timer.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, TIMER)?;
        reactor.control(reactor.alarm.fd.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, ALARM)?;
        Ok(Rc::new(reactor))
    }

    /// Returns the handle with which other threads wake this reactor.
    pub fn alarm(&self) -> Arc<Alarm> {
        Arc::clone(&self.alarm)
    }

    /// Reads the clock (raw, ns).
    #[inline]
    pub fn stamp(&self) -> i64 {
        let now = self.clock.raw_ns();
        self.now.set(now);
        now
    }

    /// The latest stamp (raw, ns), without reading the clock.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now.get()
    }

    /// Sets the latest stamp to one that was taken on this lane without [`Self::stamp`].
    #[inline]
    pub fn set_now(&self, stamp: i64) {
        self.now.set(stamp);
    }

    /// The lane's buffer for reads. The caller must drop the guard before it awaits anything.
    #[inline]
    pub fn buffer(&self) -> RefMut<'_, Box<[u8]>> {
        self.buffer.borrow_mut()
    }

    /// Number of waits for events. If it does not change, no event was received in between.
    #[inline]
    pub fn turn(&self) -> u64 {
        self.turn.get()
    }

    /// Runs `tasks` until the first `essential` of them have ended. The number of a task is its
    /// index.
    pub fn run(&self, tasks: Vec<Task>, essential: usize) -> io::Result<()> {
        let mut tasks: Vec<Option<(Task, Waker)>> = (0..)
            .zip(tasks)
            .map(|(task, future)| {
                let waker = Waker::from(Arc::new(TaskWaker {
                    alarm: self.alarm(),
                    task,
                }));
                Some((future, waker))
            })
            .collect();
        *self.queued.borrow_mut() = vec![false; tasks.len()];
        self.wake_all();
        let mut running = essential;
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        while running > 0 {
            for _ in 0..ROUND {
                let Some(task) = self.pop() else { break };
                let slot = &mut tasks[task as usize];
                let Some((future, waker)) = slot else { continue };
                self.current.set(task);
                if future.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                    *slot = None;
                    running -= usize::from((task as usize) < essential);
                }
                if self.next.get() <= self.now.get() {
                    self.wake_due_tasks();
                }
            }
            if running > 0 {
                self.wait(&mut events)?;
            }
        }
        Ok(())
    }

    fn pop(&self) -> Option<u32> {
        let task = self.ready.borrow_mut().pop_front()?;
        self.queued.borrow_mut()[task as usize] = false;
        Some(task)
    }

    /// Adds a task to the queue, unless the queue contains it.
    pub fn wake(&self, task: u32) {
        if let Some(queued) = self.queued.borrow_mut().get_mut(task as usize)
            && !std::mem::replace(queued, true)
        {
            self.ready.borrow_mut().push_back(task);
        }
    }

    /// Adds every task to the queue.
    pub fn wake_all(&self) {
        let tasks = self.queued.borrow().len() as u32;
        for task in 0..tasks {
            self.wake(task);
        }
    }

    /// Number of the task that is being polled.
    #[inline]
    pub fn current(&self) -> u32 {
        self.current.get()
    }

    /// Wakes the current task at `at` (raw, ns). Other events may wake it earlier.
    pub fn wake_at(&self, at: i64) {
        self.timers.borrow_mut().push(Reverse((at, self.current.get())));
        if at < self.next.get() {
            self.next.set(at);
        }
    }

    /// Waits until `at` (raw, ns), or until `is_cancelled` returns true. Returns whether `at` was
    /// reached.
    pub async fn sleep_until(&self, at: i64, is_cancelled: impl Fn() -> bool) -> bool {
        let mut set = false;
        std::future::poll_fn(|_| {
            if is_cancelled() {
                return Poll::Ready(false);
            }
            // The latest stamp is never ahead of the clock, so that the clock need not be read if
            // the stamp has reached `at`.
            if self.now() >= at || self.stamp() >= at {
                return Poll::Ready(true);
            }
            if !std::mem::replace(&mut set, true) && at != NEVER {
                self.wake_at(at);
            }
            Poll::Pending
        })
        .await
    }

    /// Lets all other tasks that are ready run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            self.wake(self.current());
            Poll::Pending
        })
        .await;
    }

    /// Wakes the tasks whose timers have expired.
    fn wake_due_tasks(&self) {
        let now = self.now.get();
        loop {
            let mut timers = self.timers.borrow_mut();
            match timers.peek() {
                Some(&Reverse((at, task))) if at <= now => {
                    timers.pop();
                    drop(timers);
                    self.wake(task);
                }
                next => {
                    self.next.set(next.map_or(NEVER, |&Reverse((at, _))| at));
                    return;
                }
            }
        }
    }

    /// Waits for events if no task is ready; otherwise only checks for events.
    fn wait(&self, events: &mut [libc::epoll_event]) -> io::Result<()> {
        self.turn.set(self.turn.get() + 1);
        let next = self.next.get();
        let mut timeout = 0;
        if self.ready.borrow().is_empty() {
            let distance = if next == NEVER { NEVER } else { next - self.stamp() };
            if distance > self.spin_ns {
                if next != NEVER {
                    self.arm(next, distance - self.spin_ns)?;
                }
                timeout = -1;
            } else if distance > 0 {
                return self.spin(next, events);
            }
        }
        self.poll_events(timeout, events)?;
        if next != NEVER {
            self.stamp();
            self.wake_due_tasks();
        }
        Ok(())
    }

    /// Checks for events until the next deadline, without sleeping.
    fn spin(&self, next: i64, events: &mut [libc::epoll_event]) -> io::Result<()> {
        let from = self.now();
        while self.poll_events(0, events)? == 0 && self.stamp() < next {}
        self.stamp();
        self.spun_ns
            .fetch_add((self.now() - from) as u64, Ordering::Relaxed);
        self.wake_due_tasks();
        Ok(())
    }

    /// Sets the timer for the deadline `next` (raw, ns), which is `distance` ns from now.
    fn arm(&self, next: i64, distance: i64) -> io::Result<()> {
        if self.armed.get() == next {
            return Ok(());
        }
        // The kernel's timer uses the steered clock, up to 0.05 % faster or slower than the clock
        // of the stamps. For a long distance the timer expires early and is then set again.
        let distance = if distance > 2_000_000 {
            distance - (distance >> 10)
        } else {
            distance
        };
        let zero = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        #[allow(
            clippy::useless_conversion,
            reason = "the fields are 32 bits wide on some targets"
        )]
        let value = libc::timespec {
            tv_sec: (distance / 1_000_000_000) as libc::time_t,
            tv_nsec: (distance % 1_000_000_000).max(1) as libc::c_long,
        };
        let setting = libc::itimerspec {
            it_interval: zero,
            it_value: value,
        };
        // SAFETY: the descriptor is open as long as `self`; `setting` is valid for the call; the
        // old value is not requested.
        let rc = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                0,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        self.armed.set(next);
        Ok(())
    }

    fn poll_events(&self, timeout: i32, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        // SAFETY: `events` is a writable array of the length given.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(0)
            } else {
                Err(error)
            };
        }
        for event in &events[..count as usize] {
            let (flags, source) = (event.events, event.u64);
            match source {
                TIMER => self.armed.set(NEVER),
                ALARM => self.handle_alarm(),
                _ => self.mark_ready(source as usize, flags),
            }
        }
        Ok(count as usize)
    }

    fn handle_alarm(&self) {
        if self.alarm.everyone.swap(false, Ordering::SeqCst) {
            self.wake_all();
        }
        let tasks = std::mem::take(&mut *self.alarm.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            self.wake(task);
        }
    }

    fn mark_ready(&self, source: usize, flags: u32) {
        let task = {
            let mut sources = self.sources.borrow_mut();
            // The socket was closed after this batch of events was fetched: its index may be unused
            // or belong to another socket. A wrong readiness costs only one system call.
            let Some(source) = sources.get_mut(source) else {
                return;
            };
            let has = |bits: i32| flags & bits as u32 != 0;
            let failed = has(libc::EPOLLERR | libc::EPOLLHUP);
            source.closed |= failed || has(libc::EPOLLRDHUP);
            source.readable |= source.closed || has(libc::EPOLLIN);
            source.writable |= failed || has(libc::EPOLLOUT);
            source.task
        };
        self.wake(task);
    }

    fn control(&self, fd: RawFd, flags: i32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: flags as u32,
            u64: data,
        };
        // SAFETY: both descriptors are open, `event` is valid for the call.
        let rc = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Registers a socket for the current task, and returns its index. Closing the descriptor ends
    /// the registration in the kernel; [`Reactor::forget`] ends it here.
    pub fn register(&self, fd: RawFd) -> io::Result<u32> {
        let fresh = Source {
            task: self.current(),
            ..Source::default()
        };
        let mut sources = self.sources.borrow_mut();
        let source = if let Some(source) = self.free.borrow_mut().pop() {
            sources[source as usize] = fresh;
            source
        } else {
            sources.push(fresh);
            sources.len() as u32 - 1
        };
        drop(sources);
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(fd, flags, u64::from(source))
            .inspect_err(|_| self.forget(source))?;
        Ok(source)
    }

    /// Ends the registration with index `source`.
    pub fn forget(&self, source: u32) {
        self.free.borrow_mut().push(source);
    }

    /// Whether a socket is ready, according to the events so far.
    #[inline]
    pub fn is_ready(&self, source: u32, way: Way) -> bool {
        let source = &self.sources.borrow()[source as usize];
        match way {
            Way::Read => source.readable,
            Way::Write => source.writable,
        }
    }

    /// Whether the kernel has reported that the peer closed the connection.
    #[inline]
    pub fn is_closed(&self, source: u32) -> bool {
        self.sources.borrow()[source as usize].closed
    }

    /// Records that a call has read all available bytes, or that the socket accepts no more bytes.
    #[inline]
    pub fn clear_ready(&self, source: u32, way: Way) {
        let source = &mut self.sources.borrow_mut()[source as usize];
        match way {
            // After the peer has closed there is no further edge: the end must be read.
            Way::Read => source.readable = source.closed,
            Way::Write => source.writable = false,
        }
    }
}

#[cfg(test)]
mod tests;
