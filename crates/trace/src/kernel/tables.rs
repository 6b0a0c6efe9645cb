//! Tables of descriptors.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::event::OpenId;

/// What a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) open: OpenId,
    /// execve closes it.
    pub(super) marked: bool,
}

/// The descriptors of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    slots: BTreeMap<i32, Slot>,
}

impl Table {
    pub(super) fn get(&self, number: i32) -> Option<Slot> {
        self.slots.get(&number).copied()
    }

    /// Gives what the number stood for.
    pub(super) fn put(&mut self, number: i32, slot: Slot) -> Option<Slot> {
        self.slots.insert(number, slot)
    }

    pub(super) fn take(&mut self, number: i32) -> Option<Slot> {
        self.slots.remove(&number)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values()
    }

    /// The lowest numbers that stand for nothing, above those of standard input, output and errors, which are taken to be there.
    pub(super) fn lowest_free(&self) -> [i32; 2] {
        let mut free = (3..).filter(|number| !self.slots.contains_key(number));
        [free.next().unwrap_or(3), free.next().unwrap_or(4)]
    }

    /// Frees what execve closes.
    pub(super) fn sweep(&mut self) -> Vec<Slot> {
        self.free(|_, slot| slot.marked)
    }

    /// Frees a range.
    pub(super) fn clear(&mut self, range: &RangeInclusive<i32>) -> Vec<Slot> {
        self.free(|number, _| range.contains(&number))
    }

    fn free(&mut self, which: impl Fn(i32, &Slot) -> bool) -> Vec<Slot> {
        let mut freed = Vec::new();
        self.slots.retain(|&number, slot| {
            let goes = which(number, slot);
            if goes {
                freed.push(*slot);
            }
            !goes
        });
        freed
    }

    pub(super) fn mark(&mut self, range: RangeInclusive<i32>, marked: bool) {
        if !range.is_empty() {
            self.slots
                .range_mut(range)
                .for_each(|(_, slot)| slot.marked = marked);
        }
    }
}
