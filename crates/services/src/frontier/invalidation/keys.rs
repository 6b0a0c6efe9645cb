//! The objects that caches may hold: under which key, from which tables, and for how long.
//!
//! Pure: whoever calls says what time it is. The life of a key: [`Keys::begin`] before the query
//! starts, [`Keys::end`] when the answer has left, [`Keys::changed`] when one of its tables has
//! changed, and then it is purged and forgotten. Two kinds of key are purged and *not* forgotten. A
//! request may be under way, or have begun before everybody could see the change: what it answers
//! may be old, so that its key is purged when it ends. And an answer may have left so shortly
//! before that it has not arrived in every cache: its key is purged once more, [`Keys::due`] later.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A text that many hold.
pub(super) type Name = Arc<str>;

/// After a look for expired keys in a full table.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An object to be purged, and until when caches may keep it: after that there is no need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) url: Name,
    pub(super) until: Instant,
}

#[derive(Debug)]
struct Entry {
    tables: Arc<[Name]>,
    until: Instant,
    in_progress: u32,
    /// What is in progress may answer from before a change.
    doubtful: bool,
    /// When the last answer ended.
    answered: Option<Instant>,
    /// When it is purged once more.
    due: Option<Instant>,
}

/// The keys.
pub(super) struct Keys {
    entries: HashMap<Name, Entry>,
    of_table: HashMap<Name, HashSet<Name>>,
    /// When each table was seen to change, as long as that matters.
    changes: HashMap<Name, Instant>,
    all_changed: Option<Instant>,
    due: BTreeSet<(Instant, Name)>,
    settle: Duration,
    again: Duration,
    most: usize,
    looked: Option<Instant>,
}

impl Keys {
    /// `settle`: so long after a change a query may not see it yet. `again`: so long an answer may
    /// be on its way.
    pub(super) fn new(settle: Duration, again: Duration, most: usize) -> Self {
        Self {
            entries: HashMap::new(),
            of_table: HashMap::new(),
            changes: HashMap::new(),
            all_changed: None,
            due: BTreeSet::new(),
            settle,
            again,
            most,
            looked: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has(&self, url: &Name) -> bool {
        self.entries.contains_key(url)
    }

    /// A request begins whose answer caches may keep for `age`. False where there is no room,
    /// `elsewhere` keys being remembered outside this table.
    pub(super) fn begin(
        &mut self,
        url: &Name,
        tables: &Arc<[Name]>,
        age: Duration,
        elsewhere: usize,
        now: Instant,
    ) -> bool {
        let known = self.entries.contains_key(url);
        if !known && self.entries.len() + elsewhere >= self.most && !self.make_room(elsewhere, now) {
            return false;
        }
        let doubtful = self.is_recent(self.all_changed, now)
            || tables
                .iter()
                .any(|table| self.is_recent(self.changes.get(table).copied(), now));
        let entry = self.entries.entry(url.clone()).or_insert_with(|| Entry {
            tables: tables.clone(),
            until: now,
            in_progress: 0,
            doubtful: false,
            answered: None,
            due: None,
        });
        entry.in_progress += 1;
        entry.doubtful |= doubtful;
        entry.until = entry.until.max(now + age);
        // The tables of a view are others once it has been made anew.
        let added: Vec<Name> = tables
            .iter()
            .filter(|table| !known || !entry.tables.contains(table))
            .cloned()
            .collect();
        if known && !added.is_empty() {
            entry.tables = entry.tables.iter().chain(&added).cloned().collect();
        }
        for table in added {
            self.of_table.entry(table).or_default().insert(url.clone());
        }
        true
    }

    fn is_recent(&self, change: Option<Instant>, now: Instant) -> bool {
        change.is_some_and(|at| now < at + self.settle)
    }

    /// The answer to a request that [`Keys::begin`] took has left, to be kept for `age`. What is to
    /// be purged.
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
        self.once_more(url, now + self.again);
        Some(Stale {
            url: url.clone(),
            until,
        })
    }

    /// A table has changed.
    pub(super) fn changed(&mut self, table: &Name, now: Instant) -> Vec<Stale> {
        let settle = self.settle;
        if !settle.is_zero() {
            self.changes.retain(|_, at| now < *at + settle);
            self.changes.insert(table.clone(), now);
        }
        let urls = self
            .of_table
            .get(table)
            .map(|urls| urls.iter().cloned().collect());
        self.purge(urls.unwrap_or_default(), now)
    }

    /// Anything may have changed.
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
            let (in_progress, on_its_way) = (entry.in_progress > 0, arrived.filter(|at| *at > now));
            if let Some(at) = on_its_way {
                self.once_more(&url, at);
            } else if !in_progress {
                self.forget(&url);
            }
            if until > now {
                stale.push(Stale { url, until });
            }
        }
        stale
    }

    fn once_more(&mut self, url: &Name, at: Instant) {
        let Some(entry) = self.entries.get_mut(url) else {
            return;
        };
        if let Some(before) = entry.due.replace(at) {
            self.due.remove(&(before, url.clone()));
        }
        self.due.insert((at, url.clone()));
    }

    /// When [`Keys::due`] has something.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Keys to be purged once more by now.
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
            let later = entry.answered.is_some_and(|at| at + self.again > now);
            if entry.in_progress == 0 && !later {
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
        for table in entry.tables.iter() {
            if let Some(urls) = self.of_table.get_mut(table) {
                urls.remove(url);
                if urls.is_empty() {
                    self.of_table.remove(table);
                }
            }
        }
    }

    /// Forgets what no cache may keep any more. Not each time: a full table is large.
    fn make_room(&mut self, elsewhere: usize, now: Instant) -> bool {
        if self.looked.is_some_and(|at| now < at + LOOK_AGAIN) {
            return false;
        }
        self.looked = Some(now);
        let expired: Vec<Name> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.in_progress == 0 && entry.until <= now)
            .map(|(url, _)| url.clone())
            .collect();
        for url in &expired {
            self.forget(url);
        }
        self.entries.len() + elsewhere < self.most
    }
}

#[cfg(test)]
mod tests;
