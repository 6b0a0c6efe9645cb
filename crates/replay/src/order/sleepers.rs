//! Who has woken whom: futex(2).
//!
//! A trace tells at which address a thread has slept and when it went on, and who has woken how
//! many there. The kernel wakes those first that have slept longest, after they had begun to: so
//! the earliest that is left of those that woke somebody since a thread began to sleep has woken
//! it.

use std::collections::{HashMap, VecDeque};

use super::marks::Mark;

/// Of one address, no more than so many that woke somebody whom nobody knows (of another process,
/// or of none that was traced).
const MAX_WAKERS: usize = 1024;

/// One that has woken others.
#[derive(Debug)]
struct Waker {
    start: i64,
    mark: Mark,
    /// How many it has woken that have not been found yet.
    left: u32,
}

/// By process and address.
#[derive(Debug, Default)]
pub(super) struct Sleepers(HashMap<(u32, u64), VecDeque<Waker>>);

impl Sleepers {
    /// An action that began at `start` has woken `count` there.
    pub(super) fn wake(&mut self, place: (u32, u64), count: u32, start: i64, mark: Mark) {
        let wakers = self.0.entry(place).or_default();
        if wakers.len() == MAX_WAKERS {
            wakers.pop_front();
        }
        wakers.push_back(Waker {
            start,
            mark,
            left: count,
        });
    }

    /// Who has woken one that began to sleep there at `since`.
    pub(super) fn waker(&mut self, place: (u32, u64), since: i64) -> Option<Mark> {
        let wakers = self.0.get_mut(&place)?;
        let found = wakers.iter().position(|waker| waker.start >= since)?;
        let waker = &mut wakers[found];
        let mark = waker.mark;
        waker.left = waker.left.saturating_sub(1);
        if waker.left == 0 {
            wakers.remove(found);
        }
        Some(mark)
    }
}
