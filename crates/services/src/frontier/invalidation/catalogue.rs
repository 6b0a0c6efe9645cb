//! Determines the tables on which a query depends, from the names in it and the catalogue of the
//! database.
//!
//! The result is conservative: every name outside literals and comments counts that is the name of
//! a table, in any schema and at any position. A view represents the tables that it reads.
//! Functions of the database, foreign tables and materialised views read data whose changes cannot
//! be detected. Responses that use them are not stored by caches.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::dependents::{Change, Dependency};
use super::key_condition::Conditions;
use super::keys::Name;

/// Prefixes of functions of `PostgreSQL` that read tables named by the text of an argument.
const READERS: [&str; 6] = [
    "query_to_xml",
    "table_to_xml",
    "cursor_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "dblink",
];

/// Kind of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    View,
    /// Its changes cannot be detected.
    Unknowable,
}

/// The column of a table by which changed rows are reported: integers, never NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyColumn {
    /// Name of the column.
    pub(super) name: String,
    /// Number of the column in the table, from 1 on.
    pub(super) number: i16,
}

/// A table or view in the catalogue of the database.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// Identifier in the other lists of [`Listing`].
    pub(super) id: String,
    /// `schema.table`, as in the reports of changes.
    pub(super) full: String,
    /// Name without the schema.
    pub(super) name: String,
    /// The schema that the query must contain, or that must be the schema of the session. None: the
    /// name alone is sufficient.
    pub(super) schema: Option<String>,
    /// The quoted name for a statement.
    pub(super) quoted: String,
    pub(super) kind: Kind,
    /// None: changes are reported without their rows, or no condition on the table can exclude
    /// rows safely.
    pub(super) key: Option<KeyColumn>,
    /// A text that changes when the relation is created again.
    pub(super) version: String,
    /// Whether its changes are reported.
    pub(super) watched: bool,
}

/// Contents of the catalogue of the database.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) relations: Vec<Relation>,
    /// Identifiers of two parts of one table, such as partitions. A change of one counts as a
    /// change of the other.
    pub(super) parts: Vec<(String, String)>,
    /// Identifiers of a view, and of a relation or function that it uses.
    pub(super) uses: Vec<(String, String)>,
    /// Identifiers of a table, and of another table that changes with it without a report.
    pub(super) cascades: Vec<(String, String)>,
    /// Identifier and name of functions that may read any table.
    pub(super) routines: Vec<(String, String)>,
    /// The schema of the sessions.
    pub(super) home: String,
}

/// Dependencies of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Depends {
    /// The query depends on no table.
    Nothing,
    /// The query depends on these units.
    On(Arc<[Name]>),
    /// The dependencies cannot be determined.
    Unknowable,
}

/// A meaning of a name.
#[derive(Debug, Default, Clone)]
struct Meaning {
    /// See [`Relation::schema`].
    schema: Option<String>,
    units: BTreeSet<Name>,
    unknowable: bool,
    is_table: bool,
}

/// A table of a unit, for its trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TriggerTable {
    pub(super) quoted: String,
    pub(super) key: Option<KeyColumn>,
    pub(super) watched: bool,
}

/// Differences between two versions of the catalogue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Units that were created again, or whose views have changed.
    pub(super) units: BTreeSet<Name>,
    /// Names with a new meaning.
    pub(super) names: BTreeSet<String>,
    /// Whether one of these names had another meaning in the same schema.
    pub(super) shadowed: bool,
}

/// The names of a database. A unit is a table, or several tables whose changes count as one.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    meanings: HashMap<String, Vec<Meaning>>,
    unit_of: HashMap<String, Name>,
    members: HashMap<Name, Vec<TriggerTable>>,
    cascades: HashMap<Name, BTreeSet<Name>>,
    /// For each full name, its version and units.
    versions: HashMap<String, Version>,
    home: String,
}

#[derive(Debug)]
struct Version {
    text: String,
    name: String,
    schema: Option<String>,
    units: BTreeSet<Name>,
}

impl Catalogue {
    pub(super) fn new(listing: &Listing) -> Self {
        let by_id: HashMap<&str, usize> = listing
            .relations
            .iter()
            .enumerate()
            .map(|(index, relation)| (relation.id.as_str(), index))
            .collect();
        let units = units(listing, &by_id);
        let mut catalogue = Self {
            home: listing.home.to_lowercase(),
            ..Self::default()
        };
        let views = Views::new(listing, &by_id, &units);
        for (index, relation) in listing.relations.iter().enumerate() {
            let mut meaning = Meaning {
                schema: relation.schema.as_ref().map(|schema| schema.to_lowercase()),
                ..Meaning::default()
            };
            match relation.kind {
                Kind::Table => {
                    let unit = &units[index];
                    meaning.units.insert(unit.clone());
                    meaning.is_table = true;
                    catalogue.unit_of.insert(relation.full.clone(), unit.clone());
                    let member = TriggerTable {
                        quoted: relation.quoted.clone(),
                        key: relation.key.clone(),
                        watched: relation.watched,
                    };
                    catalogue.members.entry(unit.clone()).or_default().push(member);
                }
                Kind::View => views.add(index, &mut meaning, &mut HashSet::new()),
                Kind::Unknowable => meaning.unknowable = true,
            }
            catalogue.add(
                &relation.full,
                &relation.name,
                format!("{} {} {:?}", relation.id, relation.version, relation.key),
                meaning,
            );
        }
        for (id, name) in &listing.routines {
            let meaning = Meaning {
                unknowable: true,
                ..Meaning::default()
            };
            catalogue.add(&format!("function {id}"), name, String::new(), meaning);
        }
        let unit = |id: &String| by_id.get(id.as_str()).map(|index| units[*index].clone());
        for (from, to) in &listing.cascades {
            if let (Some(from), Some(to)) = (unit(from), unit(to)) {
                catalogue.cascades.entry(from).or_default().insert(to);
            }
        }
        catalogue
    }

    fn add(&mut self, full: &str, name: &str, version: String, meaning: Meaning) {
        let name = name.to_lowercase();
        let version = Version {
            text: version,
            name: name.clone(),
            schema: meaning.schema.clone(),
            units: meaning.units.clone(),
        };
        self.versions.insert(full.to_owned(), version);
        self.meanings.entry(name).or_default().push(meaning);
    }

    /// The meanings of a name in a query with these names.
    fn meanings<'a>(
        &'a self,
        name: &str,
        names: &'a [String],
        home: &'a str,
    ) -> impl Iterator<Item = &'a Meaning> + use<'a> {
        let fits = move |schema: &String| schema == home || names.contains(schema);
        let meanings = self.meanings.get(name).into_iter().flatten();
        meanings.filter(move |meaning| meaning.schema.as_ref().is_none_or(fits))
    }

    /// Whether a name has a meaning in a query with these names, all in lower case.
    pub(super) fn has(&self, name: &str, names: &[String]) -> bool {
        self.meanings(name, names, &self.home).next().is_some()
    }

    /// The dependencies of a query with these names, in lower case.
    pub(super) fn depends(&self, names: &[String]) -> Depends {
        self.depends_in(names, &self.home)
    }

    /// The dependencies of a query in a session with the schema `home`.
    pub(super) fn depends_in(&self, names: &[String], home: &str) -> Depends {
        let mut all = BTreeSet::new();
        for name in names {
            if READERS.iter().any(|reader| name.starts_with(reader)) {
                return Depends::Unknowable;
            }
            for meaning in self.meanings(name, names, home) {
                if meaning.unknowable {
                    return Depends::Unknowable;
                }
                all.extend(meaning.units.iter().cloned());
            }
        }
        if all.is_empty() {
            Depends::Nothing
        } else {
            Depends::On(all.into_iter().collect())
        }
    }

    /// The dependency of a query, with these names and conditions, on its only unit: on the rows
    /// that its conditions select if the unit is one table whose changes are reported by key.
    pub(super) fn dependency(
        &self,
        unit: &Name,
        names: &[String],
        conditions: &Conditions<'_>,
    ) -> Dependency {
        let mut meanings = self.meanings(&conditions.table, names, &self.home);
        let is_only = meanings.next().is_some_and(|meaning| meaning.is_table) && meanings.next().is_none();
        let key = match self.members(unit) {
            [member] if is_only => member.key.as_ref(),
            _ => None,
        };
        Dependency {
            unit: unit.clone(),
            rows: key.and_then(|key| conditions.range(&key.name)),
        }
    }

    /// Name of the key column of a table.
    pub(super) fn key_of(&self, full: &str) -> Option<String> {
        match self.members(self.unit_of.get(full)?) {
            [member] => member.key.as_ref().map(|key| key.name.clone()),
            _ => None,
        }
    }

    /// The changes of all units whose data changes with this table. Empty for an unknown table.
    pub(super) fn changed_with(&self, full: &str, change: Change) -> BTreeMap<Name, Change> {
        let mut units = BTreeMap::new();
        let Some(unit) = self.unit_of.get(full) else {
            return units;
        };
        // The parts of a table may have different keys.
        let is_single = self.members(unit).len() == 1;
        let mut queue = vec![(unit.clone(), if is_single { change } else { Change::Table })];
        while let Some((unit, change)) = queue.pop() {
            if let Entry::Vacant(entry) = units.entry(unit) {
                let cascades = self.cascades.get(entry.key()).into_iter().flatten();
                queue.extend(cascades.map(|unit| (unit.clone(), Change::Table)));
                entry.insert(change);
            }
        }
        units
    }

    /// The tables of a unit.
    pub(super) fn members(&self, unit: &Name) -> &[TriggerTable] {
        self.members.get(unit).map_or(&[], Vec::as_slice)
    }

    /// Whether all changes of a unit are reported.
    pub(super) fn is_watched(&self, unit: &Name) -> bool {
        self.members
            .get(unit)
            .is_some_and(|members| members.iter().all(|member| member.watched))
    }

    /// Registers that from now on all changes of a unit are reported.
    pub(super) fn set_watched(&mut self, unit: &Name) {
        for member in self.members.get_mut(unit).into_iter().flatten() {
            member.watched = true;
        }
    }

    /// The differences of a later version of the catalogue.
    pub(super) fn differences(&self, later: &Self) -> Differences {
        let mut differences = Differences::default();
        for (full, version) in &self.versions {
            let is_same = |other: &Version| other.text == version.text && other.units == version.units;
            if !later.versions.get(full).is_some_and(is_same) {
                differences.units.extend(version.units.iter().cloned());
            }
        }
        for unit in self.members.keys() {
            if self.is_watched(unit) && !later.is_watched(unit) {
                differences.units.insert(unit.clone());
            }
        }
        for (full, version) in &later.versions {
            if !self.versions.contains_key(full) {
                let mut before = self.meanings.get(&version.name).into_iter().flatten();
                differences.shadowed |= before.any(|other| other.schema == version.schema);
                differences.names.insert(version.name.clone());
            }
        }
        differences
    }
}

/// The unit of each relation. If several tables are parts of one, it is the first by full name.
fn units(listing: &Listing, by_id: &HashMap<&str, usize>) -> Vec<Name> {
    let mut head: Vec<usize> = (0..listing.relations.len()).collect();
    let find = |head: &[usize], mut index: usize| {
        while head[index] != index {
            index = head[index];
        }
        index
    };
    for (left, right) in &listing.parts {
        if let (Some(left), Some(right)) = (by_id.get(left.as_str()), by_id.get(right.as_str())) {
            let (left, right) = (find(&head, *left), find(&head, *right));
            let full = |index: usize| &listing.relations[index].full;
            let (first, second) = if full(left) <= full(right) {
                (left, right)
            } else {
                (right, left)
            };
            head[second] = first;
        }
    }
    let name = |index: usize| Name::from(listing.relations[find(&head, index)].full.as_str());
    (0..listing.relations.len()).map(name).collect()
}

/// The relations and functions that the views use.
struct Views<'a> {
    listing: &'a Listing,
    units: &'a [Name],
    uses: HashMap<usize, Vec<usize>>,
    /// Views that call a function that may read any table.
    opaque: HashSet<usize>,
}

impl<'a> Views<'a> {
    fn new(listing: &'a Listing, by_id: &HashMap<&str, usize>, units: &'a [Name]) -> Self {
        let routines: HashSet<&str> = listing.routines.iter().map(|(id, _)| id.as_str()).collect();
        let mut views = Self {
            listing,
            units,
            uses: HashMap::new(),
            opaque: HashSet::new(),
        };
        for (view, used) in &listing.uses {
            let Some(view) = by_id.get(view.as_str()).copied() else {
                continue;
            };
            if let Some(used) = by_id.get(used.as_str()) {
                views.uses.entry(view).or_default().push(*used);
            } else if routines.contains(used.as_str()) {
                views.opaque.insert(view);
            }
        }
        views
    }

    fn add(&self, view: usize, meaning: &mut Meaning, seen: &mut HashSet<usize>) {
        if !seen.insert(view) {
            return;
        }
        meaning.unknowable |= self.opaque.contains(&view);
        for used in self.uses.get(&view).into_iter().flatten() {
            match self.listing.relations[*used].kind {
                Kind::Table => {
                    meaning.units.insert(self.units[*used].clone());
                }
                Kind::View => self.add(*used, meaning, seen),
                Kind::Unknowable => meaning.unknowable = true,
            }
        }
    }
}

#[cfg(test)]
mod tests;
