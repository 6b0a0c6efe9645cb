//! The wake-ups of sleeping threads: futex(2).
//!
//! A trace contains the address at which a thread slept and the time at which it continued, and
//! which thread woke how many threads there. The kernel wakes the threads that have slept longest.
//! Therefore the waker of a thread is the earliest wake-up after the thread began to sleep that is
//! not yet used.

use std::collections::{HashMap, VecDeque};

use super::marks::Mark;

/// Maximum number of unused wake-ups of one address (of threads of another process, or of threads
/// that were not traced).
const MAX_WAKERS: usize = 1024;

/// An action that woke threads.
#[derive(Debug)]
struct Waker {
    start: i64,
    mark: Mark,
    /// Number of woken threads that are not identified yet.
    left: u32,
}

/// Wake-ups by process and address.
#[derive(Debug, Default)]
pub(super) struct Sleepers(HashMap<(u32, u64), VecDeque<Waker>>);

impl Sleepers {
    /// Adds an action that began at `start` and woke `count` threads.
    pub(super) fn wake(&mut self, futex: (u32, u64), count: u32, start: i64, mark: Mark) {
        let wakers = self.0.entry(futex).or_default();
        if wakers.len() == MAX_WAKERS {
            wakers.pop_front();
        }
        wakers.push_back(Waker {
            start,
            mark,
            left: count,
        });
    }

    /// The action that woke a thread that began to sleep at `since`.
    pub(super) fn waker(&mut self, futex: (u32, u64), since: i64) -> Option<Mark> {
        let wakers = self.0.get_mut(&futex)?;
        let index = wakers.iter().position(|waker| waker.start >= since)?;
        let waker = &mut wakers[index];
        let mark = waker.mark;
        waker.left = waker.left.saturating_sub(1);
        if waker.left == 0 {
            wakers.remove(index);
        }
        Some(mark)
    }
}
