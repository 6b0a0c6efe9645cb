//! What is known of the database's names, and when that has to be looked at again.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use super::catalogue::{Catalogue, Depends, Differences, Listing};
use super::keys::Name;

/// Between two looks that queries ask for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Names remembered as none of the database's: a workload has some hundred.
const MAX_STRANGE: usize = 50_000;

/// The catalogue, and the names that were not in it.
#[derive(Default)]
pub(super) struct CatalogueCache {
    pub(super) catalogue: Catalogue,
    looked: Option<Instant>,
    /// Names of queries that meant nothing: should one come to mean something, these queries were
    /// judged wrongly.
    strange: HashSet<String>,
    /// There were too many of them to remember.
    forgot: bool,
    /// Another number where the catalogue is another.
    pub(super) generation: u64,
}

/// What a look at the database has brought to light.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Renewed {
    /// These have been made anew.
    Units(BTreeSet<Name>),
    /// Queries were judged wrongly, nobody knows which.
    All,
}

impl CatalogueCache {
    /// A query names something for the first time that the catalogue does not have: it may be new.
    pub(super) fn needs_look(&self, names: &[String]) -> bool {
        let unheard = |name: &String| !self.catalogue.has(name, names) && !self.strange.contains(name);
        !self.is_recent() && names.iter().any(unheard)
    }

    /// The database has been looked at just now.
    pub(super) fn is_recent(&self) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN)
    }

    fn depends(&mut self, names: &[String]) -> Depends {
        for name in names {
            if self.catalogue.has(name, names) || self.strange.contains(name) {
                continue;
            }
            if self.strange.len() >= MAX_STRANGE {
                self.strange.clear();
                self.forgot = true;
            }
            self.strange.insert(name.clone());
        }
        self.catalogue.depends(names)
    }

    /// What a query depends on, the generation of the catalogue, and the units whose changes are
    /// not told yet.
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

    /// Takes what the database has now; gives what is to be purged for it.
    pub(super) fn renew(&mut self, listing: &Listing) -> Renewed {
        let later = Catalogue::new(listing);
        let found = self.catalogue.differences(&later);
        let first = self.looked.is_none();
        let mut all = found.shadowed || (self.forgot && !found.names.is_empty());
        for name in &found.names {
            all |= self.strange.remove(name);
        }
        self.catalogue = later;
        self.looked = Some(Instant::now());
        if found != Differences::default() {
            self.generation += 1;
        }
        match (first, all) {
            (true, _) => Renewed::Units(BTreeSet::new()),
            (false, true) => Renewed::All,
            (false, false) => Renewed::Units(found.units),
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
            version: String::new(),
            watched: true,
        };
        Listing {
            relations: names.iter().map(relation).collect(),
            ..Listing::default()
        }
    }

    #[test]
    fn a_name_that_comes_to_mean_something_makes_everything_doubtful() {
        let mut known = CatalogueCache::default();
        let names = ["select".to_owned(), "later".to_owned()];
        assert!(known.needs_look(&names));
        let nothing = || Renewed::Units(BTreeSet::new());
        assert_eq!(known.renew(&listing(&["t"])), nothing());
        assert!(!known.needs_look(&names), "looked at just now");
        assert_eq!(known.depends(&names), Depends::Nothing);
        let generation = known.generation;
        assert_eq!(known.renew(&listing(&["t", "other"])), nothing());
        assert_eq!(known.renew(&listing(&["t", "other", "Later"])), Renewed::All);
        assert_eq!(known.renew(&listing(&["t", "other", "Later"])), nothing());
        assert_eq!(known.generation, generation + 2);
        assert!(matches!(known.depends(&names), Depends::On(_)));
    }

    #[test]
    fn names_without_number_are_not_all_remembered() {
        let mut known = CatalogueCache::default();
        known.renew(&listing(&[]));
        for number in 0..=MAX_STRANGE {
            known.depends(&[format!("x{number}")]);
        }
        assert!(known.strange.len() <= MAX_STRANGE);
        let renewed = known.renew(&listing(&["x0"]));
        assert_eq!(renewed, Renewed::All, "it may have been among the forgotten");
    }
}
