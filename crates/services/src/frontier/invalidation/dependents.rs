//! The part of a table on which a response depends, the part that a change affects, and the
//! responses in between.

use std::collections::{BTreeMap, HashSet};

use super::keys::Name;

/// Maximum number of rows of one table that a change lists. A larger change affects the whole
/// table.
pub(super) const MAX_ROWS: usize = 1000;

/// The rows whose key is from `first` to `last`. No rows if `first` is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyRange {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl KeyRange {
    /// All rows.
    pub(super) const ALL: Self = Self {
        first: i64::MIN,
        last: i64::MAX,
    };

    fn width(self) -> i64 {
        self.last.saturating_sub(self.first).max(0)
    }
}

/// A dependency of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The table, or several tables whose changes count as one.
    pub(super) unit: Name,
    /// The rows, by their key. None: all rows, also those that are inserted later.
    pub(super) rows: Option<KeyRange>,
}

impl Dependency {
    pub(super) fn on_table(unit: &Name) -> Self {
        Self {
            unit: unit.clone(),
            rows: None,
        }
    }
}

/// What has changed in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Any row may have changed.
    Table,
    /// The rows with these keys, before or after the change; at most [`MAX_ROWS`].
    Rows(HashSet<i64>),
}

impl Change {
    /// Adds another change of the same table.
    pub(super) fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Rows(keys), Self::Rows(others)) if keys.len() + others.len() <= MAX_ROWS => {
                keys.extend(others);
            }
            _ => *self = Self::Table,
        }
    }
}

/// The URLs of the responses that depend on a table.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    on_table: HashSet<Name>,
    on_rows: BTreeMap<KeyRange, HashSet<Name>>,
    /// Maximum width of a range so far. A range with a given key begins at most this far before it.
    max_width: i64,
}

impl Dependents {
    pub(super) fn add(&mut self, rows: Option<KeyRange>, url: Name) {
        match rows {
            None => drop(self.on_table.insert(url)),
            Some(range) => {
                self.max_width = self.max_width.max(range.width());
                self.on_rows.entry(range).or_default().insert(url);
            }
        }
    }

    pub(super) fn remove(&mut self, rows: Option<KeyRange>, url: &Name) {
        match rows {
            None => drop(self.on_table.remove(url)),
            Some(range) => {
                let urls = self.on_rows.get_mut(&range);
                if urls.is_some_and(|urls| urls.remove(url) && urls.is_empty()) {
                    self.on_rows.remove(&range);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.on_table.is_empty() && self.on_rows.is_empty()
    }

    /// The URLs of the responses that a change may affect.
    pub(super) fn affected(&self, change: &Change) -> HashSet<Name> {
        let mut urls = self.on_table.clone();
        match change {
            Change::Table => urls.extend(self.on_rows.values().flatten().cloned()),
            Change::Rows(keys) => {
                for key in keys {
                    urls.extend(self.with_key(*key).cloned());
                }
            }
        }
        urls
    }

    fn with_key(&self, key: i64) -> impl Iterator<Item = &Name> {
        let from = KeyRange {
            first: key.saturating_sub(self.max_width),
            last: i64::MIN,
        };
        let to = KeyRange {
            first: key,
            last: i64::MAX,
        };
        let ranges = self.on_rows.range(from..=to);
        ranges
            .filter(move |(range, _)| key <= range.last)
            .flat_map(|(_, urls)| urls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64) -> KeyRange {
        KeyRange { first, last }
    }

    fn affected(dependents: &Dependents, change: &Change) -> String {
        let mut urls: Vec<Name> = dependents.affected(change).into_iter().collect();
        urls.sort();
        urls.join(" ")
    }

    fn rows(keys: &[i64]) -> Change {
        Change::Rows(keys.iter().copied().collect())
    }

    #[test]
    fn a_change_of_rows_affects_the_ranges_that_contain_them() {
        let mut dependents = Dependents::default();
        for (rows, url) in [
            (Some(range(5, 5)), "five"),
            (Some(range(5, 5)), "also"),
            (Some(range(1, 10)), "ten"),
            (Some(range(8, 7)), "none"),
            (Some(range(i64::MIN, 3)), "low"),
            (Some(range(9, i64::MAX)), "high"),
            (None, "table"),
        ] {
            dependents.add(rows, url.into());
        }
        assert_eq!(affected(&dependents, &rows(&[5])), "also five table ten");
        assert_eq!(affected(&dependents, &rows(&[8, 11])), "high table ten");
        assert_eq!(affected(&dependents, &rows(&[i64::MIN])), "low table");
        assert_eq!(affected(&dependents, &rows(&[i64::MAX])), "high table");
        assert_eq!(affected(&dependents, &rows(&[])), "table");
        assert_eq!(
            affected(&dependents, &Change::Table),
            "also five high low none table ten"
        );
        dependents.remove(Some(range(5, 5)), &"five".into());
        dependents.remove(Some(range(1, 10)), &"ten".into());
        assert_eq!(affected(&dependents, &rows(&[5])), "also table");
    }

    #[test]
    fn a_change_of_many_rows_is_a_change_of_the_table() {
        let mut change = rows(&[1, 2]);
        change.add(rows(&[2, 3]));
        assert_eq!(change, rows(&[1, 2, 3]));
        change.add(Change::Rows((0..MAX_ROWS as i64).collect()));
        assert_eq!(change, Change::Table);
        change.add(rows(&[1]));
        assert_eq!(change, Change::Table);
    }

    /// Compares the index with a search through all ranges.
    #[test]
    fn every_range_with_the_key_is_found() {
        let mut dependents = Dependents::default();
        let mut ranges = Vec::new();
        for number in 0..400_i64 {
            let first = number * 37 % 100;
            let range = KeyRange {
                first,
                last: first + number * 11 % 30 - 2,
            };
            ranges.push((range, Name::from(format!("{number}"))));
            dependents.add(Some(range), ranges[number as usize].1.clone());
        }
        for key in -5..140 {
            let contains = |range: KeyRange| range.first <= key && key <= range.last;
            let expected: HashSet<Name> = ranges
                .iter()
                .filter(|(range, _)| contains(*range))
                .map(|(_, url)| url.clone())
                .collect();
            assert_eq!(dependents.affected(&rows(&[key])), expected, "{key}");
        }
    }
}
