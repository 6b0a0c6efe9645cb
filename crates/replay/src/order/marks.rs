//! The last claims of a resource.

use std::collections::HashMap;

/// An action that has claimed a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) worker: u32,
    pub(super) index: u32,
    /// End, ns.
    pub(super) end: i64,
}

/// The last action of each worker. There is usually one, so this is a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    pub(super) fn put(&mut self, mark: Mark) {
        match self.0.iter_mut().find(|known| known.worker == mark.worker) {
            Some(known) => *known = mark,
            None => self.0.push(mark),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Mark> {
        self.0.iter().copied()
    }

    /// The actions that had ended at `start`.
    pub(super) fn before(&self, start: i64) -> impl Iterator<Item = Mark> {
        self.all().filter(move |mark| mark.end <= start)
    }

    /// Removes the actions that had ended at `start`: the action that began then waits for them,
    /// and later actions wait for it.
    pub(super) fn drop_before(&mut self, start: i64) {
        self.0.retain(|mark| mark.end > start);
    }

    /// Replaces the actions that had ended at `start` by `mark`, which has waited for them.
    pub(super) fn follow(&mut self, start: i64, mark: Mark) {
        self.drop_before(start);
        self.put(mark);
    }
}

/// Number of completed actions of other workers that a worker knows.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownProgress(HashMap<u32, u32>);

impl KnownProgress {
    /// Adds the knowledge that `mark` is complete. Returns whether it is new.
    pub(super) fn learn(&mut self, mark: Mark) -> bool {
        let until = mark.index + 1;
        let known = self.0.entry(mark.worker).or_default();
        let is_new = *known < until;
        *known = until.max(*known);
        is_new
    }
}
