//! Tables of descriptors.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::event::OpenId;

/// A descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) open: OpenId,
    /// Whether execve closes it.
    pub(super) marked: bool,
}

/// Descriptors below this number are in an array. Most are, because the kernel chooses the lowest
/// free number.
const LOW: usize = 1024;

/// The table of descriptors of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// Descriptors by number, up to the highest one so far.
    low: Vec<Option<Slot>>,
    high: BTreeMap<i32, Slot>,
}

fn low(number: i32) -> Option<usize> {
    usize::try_from(number).ok().filter(|&number| number < LOW)
}

impl Table {
    pub(super) fn get(&self, number: i32) -> Option<Slot> {
        match low(number) {
            Some(index) => self.low.get(index).copied().flatten(),
            None => self.high.get(&number).copied(),
        }
    }

    /// Sets a descriptor and returns the previous one.
    pub(super) fn put(&mut self, number: i32, slot: Slot) -> Option<Slot> {
        let Some(index) = low(number) else {
            return self.high.insert(number, slot);
        };
        if index >= self.low.len() {
            self.low.resize(index + 1, None);
        }
        self.low[index].replace(slot)
    }

    pub(super) fn take(&mut self, number: i32) -> Option<Slot> {
        match low(number) {
            Some(index) => self.low.get_mut(index)?.take(),
            None => self.high.remove(&number),
        }
    }

    /// All descriptors in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.low.iter().flatten().chain(self.high.values())
    }

    /// The two lowest free numbers above those of the standard streams, which are assumed to be
    /// open.
    pub(super) fn lowest_free(&self) -> [i32; 2] {
        let mut free = (3..).filter(|&number| self.get(number).is_none());
        [free.next().unwrap_or(3), free.next().unwrap_or(4)]
    }

    /// Removes the descriptors that execve closes.
    pub(super) fn sweep(&mut self) -> Vec<Slot> {
        self.free(|_, slot| slot.marked)
    }

    /// Removes the descriptors of a range.
    pub(super) fn clear(&mut self, range: &RangeInclusive<i32>) -> Vec<Slot> {
        self.free(|number, _| range.contains(&number))
    }

    fn free(&mut self, which: impl Fn(i32, &Slot) -> bool) -> Vec<Slot> {
        let low = (0..).zip(&mut self.low);
        let mut freed: Vec<Slot> = low
            .filter_map(|(number, slot)| slot.take_if(|slot| which(number, slot)))
            .collect();
        self.high.retain(|&number, slot| {
            let is_removed = which(number, slot);
            if is_removed {
                freed.push(*slot);
            }
            !is_removed
        });
        freed
    }

    pub(super) fn mark(&mut self, range: RangeInclusive<i32>, marked: bool) {
        if range.is_empty() {
            return;
        }
        let low = (0..)
            .zip(&mut self.low)
            .filter(|(number, _)| range.contains(number));
        low.filter_map(|(_, slot)| slot.as_mut())
            .for_each(|slot| slot.marked = marked);
        self.high
            .range_mut(range)
            .for_each(|(_, slot)| slot.marked = marked);
    }
}
