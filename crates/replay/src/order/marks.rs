//! Who has claimed something last.

use std::collections::HashMap;

/// An action that has claimed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) worker: u32,
    pub(super) index: u32,
    /// When it ended: ns.
    pub(super) end: i64,
}

/// Of each worker the last one. Mostly there is one, so it is a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    pub(super) fn put(&mut self, mark: Mark) {
        match self.0.iter_mut().find(|one| one.worker == mark.worker) {
            Some(one) => *one = mark,
            None => self.0.push(mark),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Mark> {
        self.0.iter().copied()
    }

    /// Those that had ended when something began.
    pub(super) fn before(&self, start: i64) -> impl Iterator<Item = Mark> {
        self.all().filter(move |mark| mark.end <= start)
    }

    /// Whoever comes later and waits for what began now waits for them, too.
    pub(super) fn drop_before(&mut self, start: i64) {
        self.0.retain(|mark| mark.end > start);
    }

    /// One that has waited for all that had ended before it stands for them.
    pub(super) fn follow(&mut self, start: i64, mark: Mark) {
        self.drop_before(start);
        self.put(mark);
    }
}

/// What a worker knows to be over of others.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownProgress(HashMap<u32, u32>);

impl KnownProgress {
    /// Whether that is new.
    pub(super) fn learn(&mut self, mark: Mark) -> bool {
        let until = mark.index + 1;
        let known = self.0.entry(mark.worker).or_default();
        let is_new = *known < until;
        *known = until.max(*known);
        is_new
    }
}
