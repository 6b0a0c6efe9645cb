use super::*;
use plimsoll_clock::SystemClock;

fn reactor() -> Io {
    Reactor::new(Arc::new(SystemClock), 0, Arc::default()).unwrap()
}

#[test]
fn sleeping_tasks_wake_in_order_and_not_early() {
    let io = reactor();
    let woken = Rc::new(RefCell::new(Vec::new()));
    let zero = io.stamp();
    let tasks = [3, 1, 2]
        .map(|ms| {
            let (io, woken) = (Rc::clone(&io), Rc::clone(&woken));
            Box::pin(async move {
                assert!(io.sleep_until(zero + ms * 1_000_000, || false).await);
                assert!(io.stamp() >= zero + ms * 1_000_000);
                woken.borrow_mut().push(ms);
            }) as Task
        })
        .into_iter()
        .collect();
    io.run(tasks, 3).unwrap();
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
