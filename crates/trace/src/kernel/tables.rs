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

/// Numbers below this, which most are as the kernel gives the lowest that is free, have places in
/// an array.
const LOW: usize = 1024;

/// The descriptors of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// By their numbers, as far as the highest one that was there.
    low: Vec<Option<Slot>>,
    high: BTreeMap<i32, Slot>,
}

fn low(number: i32) -> Option<usize> {
    usize::try_from(number).ok().filter(|&number| number < LOW)
}

impl Table {
    pub(super) fn get(&self, number: i32) -> Option<Slot> {
        match low(number) {
            Some(place) => self.low.get(place).copied().flatten(),
            None => self.high.get(&number).copied(),
        }
    }

    /// Gives what the number stood for.
    pub(super) fn put(&mut self, number: i32, slot: Slot) -> Option<Slot> {
        let Some(place) = low(number) else {
            return self.high.insert(number, slot);
        };
        if place >= self.low.len() {
            self.low.resize(place + 1, None);
        }
        self.low[place].replace(slot)
    }

    pub(super) fn take(&mut self, number: i32) -> Option<Slot> {
        match low(number) {
            Some(place) => self.low.get_mut(place)?.take(),
            None => self.high.remove(&number),
        }
    }

    /// In the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.low.iter().flatten().chain(self.high.values())
    }

    /// The lowest numbers that stand for nothing, above those of standard input, output and errors,
    /// which are taken to be there.
    pub(super) fn lowest_free(&self) -> [i32; 2] {
        let mut free = (3..).filter(|&number| self.get(number).is_none());
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
        let low = (0..).zip(&mut self.low);
        let mut freed: Vec<Slot> = low
            .filter_map(|(number, slot)| slot.take_if(|slot| which(number, slot)))
            .collect();
        self.high.retain(|&number, slot| {
            let goes = which(number, slot);
            if goes {
                freed.push(*slot);
            }
            !goes
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
