//! The objects that caches may store: their keys, their tables, and their ages.
//!
//! Pure: time is an argument. The caller calls [`Keys::begin`] before the query of a request
//! starts, [`Keys::end`] when its response has been sent, and [`Keys::changed`] when a table has
//! changed. A key of a changed table is then purged and forgotten, with two exceptions. First, a
//! request may be in progress, or may have begun before all sessions could see the change. Its
//! response may be outdated, so its key is also purged when it ends. Second, a response may have
//! been sent so shortly before that it has not reached every cache. Its key is purged again later,
//! when [`Keys::due`] returns it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dependents::{Change, Dependency, Dependents};

/// A shared text: a URL or the name of a table.
pub(super) type Name = Arc<str>;

/// Minimum time between two searches for expired keys, because a full table is large.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// An object to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) url: Name,
    /// Time until which caches may store the object. Later it need not be purged.
    pub(super) until: Instant,
}

#[derive(Debug)]
struct Entry {
    depends: Arc<[Dependency]>,
    until: Instant,
    /// Number of requests in progress.
    in_progress: u32,
    /// Whether a request in progress may return data from before a change.
    doubtful: bool,
    /// End of the last response.
    answered: Option<Instant>,
    /// Time at which the key is purged again.
    due: Option<Instant>,
}

/// The keys.
pub(super) struct Keys {
    entries: HashMap<Name, Entry>,
    of_table: HashMap<Name, Dependents>,
    /// Time of the last change of each table, if it was less than `settle` ago.
    changes: HashMap<Name, Instant>,
    all_changed: Option<Instant>,
    due: BTreeSet<(Instant, Name)>,
    settle: Duration,
    again: Duration,
    max: usize,
    /// Time of the last search for expired keys.
    searched_at: Option<Instant>,
}

impl Keys {
    /// An empty table for at most `max` keys. `settle`: time after a change during which a query
    /// may return the old data. `again`: time that a response may be in transit.
    pub(super) fn new(settle: Duration, again: Duration, max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            of_table: HashMap::new(),
            changes: HashMap::new(),
            all_changed: None,
            due: BTreeSet::new(),
            settle,
            again,
            max,
            searched_at: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has(&self, url: &Name) -> bool {
        self.entries.contains_key(url)
    }

    /// Registers the begin of a request whose response caches may store for `age`. Returns false if
    /// the maximum number of keys is reached. `elsewhere`: number of keys outside this table, which
    /// count too.
    pub(super) fn begin(
        &mut self,
        url: &Name,
        depends: &Arc<[Dependency]>,
        age: Duration,
        elsewhere: usize,
        now: Instant,
    ) -> bool {
        let known = self.entries.contains_key(url);
        let is_full = self.entries.len() + elsewhere >= self.max;
        if !known && is_full && !self.remove_expired(elsewhere, now) {
            return false;
        }
        let doubtful = self.is_recent(self.all_changed, now)
            || depends
                .iter()
                .any(|one| self.is_recent(self.changes.get(&one.unit).copied(), now));
        let entry = self.entries.entry(url.clone()).or_insert_with(|| Entry {
            depends: depends.clone(),
            until: now,
            in_progress: 0,
            doubtful: false,
            answered: None,
            due: None,
        });
        entry.in_progress += 1;
        entry.doubtful |= doubtful;
        entry.until = entry.until.max(now + age);
        // A view that was created again may have other tables.
        let added: Vec<Dependency> = depends
            .iter()
            .filter(|one| !known || !entry.depends.contains(one))
            .cloned()
            .collect();
        if known && !added.is_empty() {
            entry.depends = entry.depends.iter().chain(&added).cloned().collect();
        }
        for Dependency { unit, rows } in added {
            self.of_table.entry(unit).or_default().add(rows, url.clone());
        }
        true
    }

    fn is_recent(&self, change: Option<Instant>, now: Instant) -> bool {
        change.is_some_and(|at| now < at + self.settle)
    }

    /// Registers the end of the response to a request of [`Keys::begin`], which caches may store
    /// for `age`. Returns the key if it must be purged.
    pub(super) fn end(&mut self, url: &Name, age: Duration, now: Instant) -> Option<Stale> {
        let entry = self.entries.get_mut(url)?;
        entry.in_progress = entry.in_progress.saturating_sub(1);
        entry.until = entry.until.max(now + age);
        entry.answered = Some(now);
        if !entry.doubtful {
            return None;
        }
        entry.doubtful = entry.in_progress > 0;
        let until = entry.until;
        self.schedule_purge(url, now + self.again);
        Some(Stale {
            url: url.clone(),
            until,
        })
    }

    /// Registers a change of a table. Returns the keys to be purged.
    pub(super) fn changed(&mut self, table: &Name, change: &Change, now: Instant) -> Vec<Stale> {
        let settle = self.settle;
        if !settle.is_zero() {
            self.changes.retain(|_, at| now < *at + settle);
            self.changes.insert(table.clone(), now);
        }
        let dependents = self.of_table.get(table);
        let urls = dependents.map(|dependents| dependents.affected(change));
        self.purge(urls.into_iter().flatten().collect(), now)
    }

    /// Registers that any table may have changed. Returns the keys to be purged: all of them.
    pub(super) fn all(&mut self, now: Instant) -> Vec<Stale> {
        self.all_changed = Some(now);
        let urls = self.entries.keys().cloned().collect();
        self.purge(urls, now)
    }

    fn purge(&mut self, urls: Vec<Name>, now: Instant) -> Vec<Stale> {
        let mut stale = Vec::with_capacity(urls.len());
        for url in urls {
            let Some(entry) = self.entries.get_mut(&url) else {
                continue;
            };
            let until = entry.until;
            entry.doubtful |= entry.in_progress > 0;
            let arrived = entry.answered.map(|at| at + self.again);
            let (is_in_progress, in_transit) = (entry.in_progress > 0, arrived.filter(|at| *at > now));
            if let Some(at) = in_transit {
                self.schedule_purge(&url, at);
            } else if !is_in_progress {
                self.forget(&url);
            }
            if until > now {
                stale.push(Stale { url, until });
            }
        }
        stale
    }

    fn schedule_purge(&mut self, url: &Name, at: Instant) {
        let Some(entry) = self.entries.get_mut(url) else {
            return;
        };
        if let Some(before) = entry.due.replace(at) {
            self.due.remove(&(before, url.clone()));
        }
        self.due.insert((at, url.clone()));
    }

    /// Time at which [`Keys::due`] returns the next key.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes and returns the keys that must be purged again by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Stale> {
        let mut stale = Vec::new();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, url)) = self.due.pop_first() else {
                break;
            };
            let Some(entry) = self.entries.get_mut(&url) else {
                continue;
            };
            entry.due = None;
            let until = entry.until;
            let is_in_transit = entry.answered.is_some_and(|at| at + self.again > now);
            if entry.in_progress == 0 && !is_in_transit {
                self.forget(&url);
            }
            stale.push(Stale { url, until });
        }
        stale
    }

    fn forget(&mut self, url: &Name) {
        let Some(entry) = self.entries.remove(url) else {
            return;
        };
        if let Some(at) = entry.due {
            self.due.remove(&(at, url.clone()));
        }
        for Dependency { unit, rows } in entry.depends.iter() {
            if let Some(dependents) = self.of_table.get_mut(unit) {
                dependents.remove(*rows, url);
                if dependents.is_empty() {
                    self.of_table.remove(unit);
                }
            }
        }
    }

    /// Removes the keys that no cache may store any longer, at most once per [`SEARCH_INTERVAL`].
    /// Returns whether another key fits.
    fn remove_expired(&mut self, elsewhere: usize, now: Instant) -> bool {
        if self.searched_at.is_some_and(|at| now < at + SEARCH_INTERVAL) {
            return false;
        }
        self.searched_at = Some(now);
        let expired: Vec<Name> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.in_progress == 0 && entry.until <= now)
            .map(|(url, _)| url.clone())
            .collect();
        for url in &expired {
            self.forget(url);
        }
        self.entries.len() + elsewhere < self.max
    }
}

#[cfg(test)]
mod tests;
