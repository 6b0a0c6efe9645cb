use super::*;
use plimsoll_clock::SystemClock;

fn reactor() -> Io {
    Reactor::new(Arc::new(SystemClock), 0, Arc::default()).unwrap()
}

/// A clock that stands at `zero` until `runs` is set: the thread of a test may be stopped at any
/// place for longer than its deadlines.
struct HeldClock {
    zero: i64,
    runs: AtomicBool,
}

impl Clock for HeldClock {
    fn raw_ns(&self) -> i64 {
        if self.runs.load(Ordering::SeqCst) {
            SystemClock.raw_ns()
        } else {
            self.zero
        }
    }

    fn monotonic_ns(&self) -> i64 {
        SystemClock.monotonic_ns()
    }

    fn realtime_ns(&self) -> i64 {
        SystemClock.realtime_ns()
    }
}

#[test]
fn sleeping_tasks_wake_in_order_and_not_early() {
    let clock = Arc::new(HeldClock {
        zero: SystemClock.raw_ns(),
        runs: AtomicBool::new(false),
    });
    let io = Reactor::new(Arc::clone(&clock) as _, 0, Arc::default()).unwrap();
    let woken = Rc::new(RefCell::new(Vec::new()));
    let zero = clock.zero;
    let sleepers = [3, 1, 2].map(|ms| {
        let (io, woken) = (Rc::clone(&io), Rc::clone(&woken));
        Box::pin(async move {
            assert!(io.sleep_until(zero + ms * 1_000_000, || false).await);
            assert!(io.stamp() >= zero + ms * 1_000_000);
            woken.borrow_mut().push(ms);
        }) as Task
    });
    // Polled last, when all others sleep.
    let start = Box::pin(async move { clock.runs.store(true, Ordering::SeqCst) }) as Task;
    io.run(sleepers.into_iter().chain([start]).collect(), 4).unwrap();
    assert_eq!(*woken.borrow(), [1, 2, 3]);
}

#[test]
fn an_alarm_from_another_thread_ends_a_sleep() {
    let io = reactor();
    let (alarm, flag) = (io.alarm(), Arc::new(AtomicBool::new(false)));
    let set = Arc::clone(&flag);
    let ringer = std::thread::spawn(move || {
        set.store(true, Ordering::SeqCst);
        alarm.ring();
    });
    let inner = Rc::clone(&io);
    let far = io.stamp() + 3_600_000_000_000;
    let task = async move { assert!(!inner.sleep_until(far, || flag.load(Ordering::SeqCst)).await) };
    io.run(vec![Box::pin(task)], 1).unwrap();
    ringer.join().unwrap();
}

#[test]
fn a_waker_wakes_its_task_from_another_thread() {
    let io = reactor();
    let done = Arc::new(AtomicBool::new(false));
    let mut started = false;
    let task = std::future::poll_fn(move |cx| {
        if done.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut started, true) {
            let (waker, done) = (cx.waker().clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                done.store(true, Ordering::SeqCst);
                waker.wake();
            });
        }
        Poll::Pending
    });
    io.run(vec![Box::pin(task)], 1).unwrap();
}
