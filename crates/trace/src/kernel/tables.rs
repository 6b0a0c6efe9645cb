//! Tables of descriptors, each of one thread or shared by several.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::kernel::files::{FileId, Files};

/// What a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) file: FileId,
    /// execve closes it.
    pub(super) marked: bool,
}

/// The descriptors of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    slots: BTreeMap<i32, Slot>,
    threads: u32,
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

    /// The lowest numbers that stand for nothing, above those of standard input, output and errors, which are taken to be there.
    pub(super) fn lowest_free(&self, count: usize) -> Vec<i32> {
        (3..)
            .filter(|number| !self.slots.contains_key(number))
            .take(count)
            .collect()
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

/// All tables; the places of those that nobody has any more are used again.
#[derive(Debug, Default)]
pub(super) struct Tables {
    all: Vec<Table>,
    free: Vec<usize>,
}

impl Tables {
    /// An empty one, of one thread.
    pub(super) fn add(&mut self) -> usize {
        self.insert(Table {
            threads: 1,
            ..Table::default()
        })
    }

    pub(super) fn get(&mut self, table: usize) -> &mut Table {
        &mut self.all[table]
    }

    /// One thread more has it.
    pub(super) fn share(&mut self, table: usize) -> usize {
        self.all[table].threads += 1;
        table
    }

    /// Another one with the same descriptors, of one thread.
    pub(super) fn copy(&mut self, table: usize, files: &mut Files) -> usize {
        let slots = self.all[table].slots.clone();
        for slot in slots.values() {
            files.hold(slot.file);
        }
        self.insert(Table { slots, threads: 1 })
    }

    /// One that is this thread's alone: the same, or a copy.
    pub(super) fn own(&mut self, table: usize, files: &mut Files) -> usize {
        if self.all[table].threads == 1 {
            return table;
        }
        let own = self.copy(table, files);
        self.all[table].threads -= 1;
        own
    }

    /// One thread less has it.
    pub(super) fn leave(&mut self, table: usize, files: &mut Files) {
        let left = &mut self.all[table];
        left.threads = left.threads.saturating_sub(1);
        if left.threads == 0 {
            for slot in std::mem::take(&mut left.slots).values() {
                files.release(slot.file);
            }
            self.free.push(table);
        }
    }

    fn insert(&mut self, table: Table) -> usize {
        if let Some(place) = self.free.pop() {
            self.all[place] = table;
            return place;
        }
        self.all.push(table);
        self.all.len() - 1
    }
}
