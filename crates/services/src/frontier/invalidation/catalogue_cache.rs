//! The cached catalogue of the database, and the decision when it must be read again.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use super::catalogue::{Catalogue, Depends, Differences, Listing};
use super::keys::Name;

/// Minimum time between two reads of the catalogue for queries.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of remembered names that are not in the catalogue. A workload has a few hundred.
const MAX_UNKNOWN: usize = 50_000;

/// The catalogue, and names of queries that it does not contain.
#[derive(Default)]
pub(super) struct CatalogueCache {
    pub(super) catalogue: Catalogue,
    /// Time of the last read of the catalogue.
    read_at: Option<Instant>,
    /// Names of queries that are not in the catalogue. If one is added to the database later, the
    /// dependencies of these queries were incomplete.
    unknown: HashSet<String>,
    /// Whether names in `unknown` were discarded because there were too many.
    has_discarded: bool,
    /// Number of the catalogue's version.
    pub(super) generation: u64,
}

/// Keys to be purged after a read of the catalogue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StaleKeys {
    /// Those of these units, which were created again.
    Units(BTreeSet<Name>),
    /// All keys, because the dependencies of some query were incomplete.
    All,
}

impl CatalogueCache {
    /// Whether the catalogue must be read, because a query contains a new name that is not in it.
    pub(super) fn needs_read(&self, names: &[String]) -> bool {
        let is_new = |name: &String| !self.catalogue.has(name, names) && !self.unknown.contains(name);
        !self.is_recent() && names.iter().any(is_new)
    }

    /// Whether the catalogue was read within [`READ_INTERVAL`].
    pub(super) fn is_recent(&self) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() < READ_INTERVAL)
    }

    fn depends(&mut self, names: &[String]) -> Depends {
        for name in names {
            if self.catalogue.has(name, names) || self.unknown.contains(name) {
                continue;
            }
            if self.unknown.len() >= MAX_UNKNOWN {
                self.unknown.clear();
                self.has_discarded = true;
            }
            self.unknown.insert(name.clone());
        }
        self.catalogue.depends(names)
    }

    /// The dependencies of a query, the generation of the catalogue, and the units that are not
    /// watched yet.
    pub(super) fn judge(&mut self, names: &[String]) -> (Depends, u64, Vec<Name>) {
        let depends = self.depends(names);
        let units: &[Name] = match &depends {
            Depends::On(units) => units,
            Depends::Nothing | Depends::Unknowable => &[],
        };
        let unwatched = units.iter().filter(|unit| !self.catalogue.is_watched(unit));
        let unwatched = unwatched.cloned().collect();
        (depends, self.generation, unwatched)
    }

    /// Replaces the catalogue by the current one. Returns the keys to be purged.
    pub(super) fn renew(&mut self, listing: &Listing) -> StaleKeys {
        let later = Catalogue::new(listing);
        let differences = self.catalogue.differences(&later);
        let is_first = self.read_at.is_none();
        let mut all = differences.shadowed || (self.has_discarded && !differences.names.is_empty());
        for name in &differences.names {
            all |= self.unknown.remove(name);
        }
        self.catalogue = later;
        self.read_at = Some(Instant::now());
        if differences != Differences::default() {
            self.generation += 1;
        }
        match (is_first, all) {
            (true, _) => StaleKeys::Units(BTreeSet::new()),
            (false, true) => StaleKeys::All,
            (false, false) => StaleKeys::Units(differences.units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{Kind, Relation};
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let relation = |name: &&str| Relation {
            id: (*name).into(),
            full: format!("s.{name}"),
            name: (*name).into(),
            schema: None,
            quoted: (*name).into(),
            kind: Kind::Table,
            key: None,
            version: String::new(),
            watched: true,
        };
        Listing {
            relations: names.iter().map(relation).collect(),
            ..Listing::default()
        }
    }

    #[test]
    fn everything_is_purged_if_a_name_of_a_query_is_added_to_the_database() {
        let mut cache = CatalogueCache::default();
        let names = ["select".to_owned(), "later".to_owned()];
        assert!(cache.needs_read(&names));
        let nothing = || StaleKeys::Units(BTreeSet::new());
        assert_eq!(cache.renew(&listing(&["t"])), nothing());
        assert!(!cache.needs_read(&names), "read just now");
        assert_eq!(cache.depends(&names), Depends::Nothing);
        let generation = cache.generation;
        assert_eq!(cache.renew(&listing(&["t", "other"])), nothing());
        assert_eq!(cache.renew(&listing(&["t", "other", "Later"])), StaleKeys::All);
        assert_eq!(cache.renew(&listing(&["t", "other", "Later"])), nothing());
        assert_eq!(cache.generation, generation + 2);
        assert!(matches!(cache.depends(&names), Depends::On(_)));
    }

    #[test]
    fn the_number_of_remembered_names_is_limited() {
        let mut cache = CatalogueCache::default();
        cache.renew(&listing(&[]));
        for number in 0..=MAX_UNKNOWN {
            cache.depends(&[format!("x{number}")]);
        }
        assert!(cache.unknown.len() <= MAX_UNKNOWN);
        let stale = cache.renew(&listing(&["x0"]));
        assert_eq!(stale, StaleKeys::All, "it may be one of the discarded names");
    }
}
