//! Which tables a query depends on, by the names in it and what the database has under them.
//!
//! Conservative: every name outside literals and comments that is a table's counts, in whatever
//! schema and place. A view stands for the tables under it. What can read more than its name says
//! (a function of the database, a foreign table, a materialised view) has answers that nobody can
//! tell of, so that they are not kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::keys::Name;

/// Functions of `PostgreSQL` that read what a text in their arguments says.
const READERS: [&str; 6] = [
    "query_to_xml",
    "table_to_xml",
    "cursor_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "dblink",
];

/// What a name in a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    View,
    /// Its changes cannot be seen.
    Unknowable,
}

/// A table or view as the database lists it.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// What the others call it by.
    pub(super) id: String,
    /// `schema.table`, as changes are told.
    pub(super) full: String,
    /// Without its schema.
    pub(super) name: String,
    /// The schema that must be named with it, or be that of the session; none where the name alone
    /// may mean it.
    pub(super) schema: Option<String>,
    /// As it stands in a statement.
    pub(super) quoted: String,
    pub(super) kind: Kind,
    /// Another one when it has been made anew.
    pub(super) version: String,
    /// Its changes are told.
    pub(super) watched: bool,
}

/// What the database says that it has.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) relations: Vec<Relation>,
    /// Parts of one table, as partitions are: a change of one is a change of the other. Ids.
    pub(super) parts: Vec<(String, String)>,
    /// A view, and what it reads. Ids.
    pub(super) uses: Vec<(String, String)>,
    /// A table whose changes change another one, which nobody tells of. Ids.
    pub(super) cascades: Vec<(String, String)>,
    /// Id and name of functions that could read anything.
    pub(super) routines: Vec<(String, String)>,
    /// The schema of sessions.
    pub(super) home: String,
}

/// What a query depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Depends {
    /// No table.
    Nothing,
    /// Units of tables.
    On(Arc<[Name]>),
    /// Nobody knows.
    Unknowable,
}

/// What a name means, where its schema fits.
#[derive(Debug, Default, Clone)]
struct Meaning {
    schema: Option<String>,
    units: BTreeSet<Name>,
    unknowable: bool,
}

/// A table of a unit, for its trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TriggerTable {
    pub(super) quoted: String,
    pub(super) watched: bool,
}

/// What changed between two looks at the database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Units that have been made anew, or are behind another view than before.
    pub(super) units: BTreeSet<Name>,
    /// Names that mean something more than before.
    pub(super) names: BTreeSet<String>,
    /// Of these, names that meant something else in the same place.
    pub(super) shadowed: bool,
}

/// The names of a database. A unit is a table, or a family of tables whose changes count as one.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    meanings: HashMap<String, Vec<Meaning>>,
    unit_of: HashMap<String, Name>,
    members: HashMap<Name, Vec<TriggerTable>>,
    cascades: HashMap<Name, BTreeSet<Name>>,
    /// By full name: what it is, and what is behind it.
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
            .map(|(at, one)| (one.id.as_str(), at))
            .collect();
        let units = units(listing, &by_id);
        let mut catalogue = Self {
            home: listing.home.to_lowercase(),
            ..Self::default()
        };
        let views = Views::new(listing, &by_id, &units);
        for (at, one) in listing.relations.iter().enumerate() {
            let mut meaning = Meaning {
                schema: one.schema.as_ref().map(|schema| schema.to_lowercase()),
                ..Meaning::default()
            };
            match one.kind {
                Kind::Table => {
                    let unit = &units[at];
                    meaning.units.insert(unit.clone());
                    catalogue.unit_of.insert(one.full.clone(), unit.clone());
                    let member = TriggerTable {
                        quoted: one.quoted.clone(),
                        watched: one.watched,
                    };
                    catalogue.members.entry(unit.clone()).or_default().push(member);
                }
                Kind::View => views.add(at, &mut meaning, &mut HashSet::new()),
                Kind::Unknowable => meaning.unknowable = true,
            }
            catalogue.add(
                &one.full,
                &one.name,
                format!("{} {}", one.id, one.version),
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
        let unit = |id: &String| by_id.get(id.as_str()).map(|at| units[*at].clone());
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

    /// What a name among these means.
    fn meanings<'a>(
        &'a self,
        name: &str,
        names: &'a [String],
        home: &'a str,
    ) -> impl Iterator<Item = &'a Meaning> + use<'a> {
        let fits = move |schema: &String| schema == home || names.contains(schema);
        let found = self.meanings.get(name).into_iter().flatten();
        found.filter(move |meaning| meaning.schema.as_ref().is_none_or(fits))
    }

    /// A name among these, in lower case, means something.
    pub(super) fn has(&self, name: &str, names: &[String]) -> bool {
        self.meanings(name, names, &self.home).next().is_some()
    }

    /// What a query with these names in it (in lower case) depends on.
    pub(super) fn depends(&self, names: &[String]) -> Depends {
        self.depends_in(names, &self.home)
    }

    /// The same in a session of another schema.
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

    /// All units whose content changes when this table does; none where it is not known.
    pub(super) fn changed_with(&self, full: &str) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        let mut open: Vec<Name> = self.unit_of.get(full).cloned().into_iter().collect();
        while let Some(unit) = open.pop() {
            if found.insert(unit.clone()) {
                open.extend(self.cascades.get(&unit).into_iter().flatten().cloned());
            }
        }
        found
    }

    /// The tables of a unit.
    pub(super) fn members(&self, unit: &Name) -> &[TriggerTable] {
        self.members.get(unit).map_or(&[], Vec::as_slice)
    }

    /// All changes of a unit are told.
    pub(super) fn is_watched(&self, unit: &Name) -> bool {
        self.members
            .get(unit)
            .is_some_and(|members| members.iter().all(|member| member.watched))
    }

    /// From now on all changes of a unit are told.
    pub(super) fn watched(&mut self, unit: &Name) {
        for member in self.members.get_mut(unit).into_iter().flatten() {
            member.watched = true;
        }
    }

    /// What a later look at the database has found.
    pub(super) fn differences(&self, later: &Self) -> Differences {
        let mut found = Differences::default();
        for (full, version) in &self.versions {
            let same = |other: &Version| other.text == version.text && other.units == version.units;
            if !later.versions.get(full).is_some_and(same) {
                found.units.extend(version.units.iter().cloned());
            }
        }
        for unit in self.members.keys() {
            if self.is_watched(unit) && !later.is_watched(unit) {
                found.units.insert(unit.clone());
            }
        }
        for (full, version) in &later.versions {
            if !self.versions.contains_key(full) {
                let mut before = self.meanings.get(&version.name).into_iter().flatten();
                found.shadowed |= before.any(|other| other.schema == version.schema);
                found.names.insert(version.name.clone());
            }
        }
        found
    }
}

/// The unit of each relation: the first table, by its full name, of those that are parts of one.
fn units(listing: &Listing, by_id: &HashMap<&str, usize>) -> Vec<Name> {
    let mut head: Vec<usize> = (0..listing.relations.len()).collect();
    let find = |head: &[usize], mut at: usize| {
        while head[at] != at {
            at = head[at];
        }
        at
    };
    for (one, other) in &listing.parts {
        if let (Some(one), Some(other)) = (by_id.get(one.as_str()), by_id.get(other.as_str())) {
            let (one, other) = (find(&head, *one), find(&head, *other));
            let full = |at: usize| &listing.relations[at].full;
            let (first, second) = if full(one) <= full(other) {
                (one, other)
            } else {
                (other, one)
            };
            head[second] = first;
        }
    }
    let name = |at: usize| Name::from(listing.relations[find(&head, at)].full.as_str());
    (0..listing.relations.len()).map(name).collect()
}

/// What stands under the views.
struct Views<'a> {
    listing: &'a Listing,
    units: &'a [Name],
    uses: HashMap<usize, Vec<usize>>,
    /// Views that call a function which could read anything.
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
mod tests {
    use super::*;

    fn relation(full: &str, kind: Kind) -> Relation {
        Relation {
            id: full.into(),
            full: full.into(),
            name: full.rsplit('.').next().unwrap().into(),
            schema: None,
            quoted: full.into(),
            kind,
            version: "1".into(),
            watched: false,
        }
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pair = |text: &str| {
            let (one, other) = text.split_once('>').unwrap();
            (one.to_owned(), other.to_owned())
        };
        text.split_whitespace().map(pair).collect()
    }

    fn listing() -> Listing {
        let table = |full| relation(full, Kind::Table);
        let view = |full| relation(full, Kind::View);
        Listing {
            relations: vec![
                table("s.a"),
                table("s.B"),
                table("t.a"),
                table("s.part_1"),
                table("s.parted"),
                view("s.v"),
                view("s.vv"),
                view("s.calls"),
                relation("s.far", Kind::Unknowable),
            ],
            parts: pairs("s.part_1>s.parted"),
            uses: pairs("s.v>s.B s.v>s.part_1 s.vv>s.v s.vv>s.vv s.calls>7"),
            cascades: pairs("s.B>s.a s.a>t.a t.a>s.B"),
            routines: vec![("7".into(), "Reads".into())],
            home: String::new(),
        }
    }

    fn depends(names: &str) -> String {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        match Catalogue::new(&listing()).depends(&names) {
            Depends::Nothing => "nothing".into(),
            Depends::Unknowable => "unknowable".into(),
            Depends::On(units) => units.join(" "),
        }
    }

    #[test]
    fn names_stand_for_all_tables_that_they_could_mean() {
        assert_eq!(depends("select x"), "nothing");
        assert_eq!(depends("select a"), "s.a t.a");
        assert_eq!(depends("b b"), "s.B");
        assert_eq!(depends("parted"), "s.part_1");
        assert_eq!(depends("part_1"), "s.part_1");
        assert_eq!(depends("vv"), "s.B s.part_1");
        for names in ["calls", "far", "reads a", "query_to_xml_and_xmlschema"] {
            assert_eq!(depends(names), "unknowable", "{names}");
        }
    }

    #[test]
    fn where_the_schema_must_be_named_it_counts() {
        let mut listing = listing();
        for one in &mut listing.relations {
            one.schema = one.full.split('.').next().map(str::to_owned);
        }
        listing.home = "S".into();
        let catalogue = Catalogue::new(&listing);
        let depends = |names: &str, home: &str| {
            let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
            match catalogue.depends_in(&names, home) {
                Depends::On(units) => units.join(" "),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(depends("a", "s"), "s.a");
        assert_eq!(depends("a", "t"), "t.a");
        assert_eq!(depends("t a", "s"), "s.a t.a");
        assert_eq!(depends("a", ""), "Nothing");
        assert!(catalogue.has("b", &[]) && !catalogue.has("t", &[]));
    }

    #[test]
    fn a_change_goes_down_the_cascades() {
        let catalogue = Catalogue::new(&listing());
        let changed = |full| Vec::from_iter(catalogue.changed_with(full)).join(" ");
        assert_eq!(changed("s.B"), "s.B s.a t.a");
        assert_eq!(changed("s.parted"), "s.part_1");
        assert_eq!(changed("s.elsewhere"), "");
    }

    #[test]
    fn a_later_look_tells_what_was_made_anew() {
        let before = Catalogue::new(&listing());
        assert_eq!(
            before.differences(&Catalogue::new(&listing())),
            Differences::default()
        );
        let differences = |change: fn(&mut Listing)| {
            let mut listing = listing();
            change(&mut listing);
            before.differences(&Catalogue::new(&listing))
        };
        let units = |found: Differences| Vec::from_iter(found.units).join(" ");
        assert_eq!(
            units(differences(|listing| listing.relations[1].version = "2".into())),
            "s.B"
        );
        // A view is what is behind it, before or after.
        assert_eq!(
            units(differences(|listing| listing.relations[5].version = "2".into())),
            "s.B s.part_1"
        );
        assert_eq!(
            units(differences(|listing| drop(listing.uses.remove(0)))),
            "s.B s.part_1"
        );
        assert_eq!(units(differences(|listing| listing.parts.clear())), "s.part_1");
        assert_eq!(
            units(differences(|listing| drop(listing.relations.remove(0)))),
            "s.a"
        );
        let new = differences(|listing| listing.relations.push(relation("s.New", Kind::Table)));
        assert_eq!(
            (Vec::from_iter(new.names), new.shadowed),
            (vec!["new".to_owned()], false)
        );
        assert!(differences(|listing| listing.relations.push(relation("u.A", Kind::Table))).shadowed);
    }

    #[test]
    fn a_lost_trigger_is_noticed() {
        let mut before = Catalogue::new(&listing());
        let unit: Name = "s.part_1".into();
        assert!(!before.is_watched(&unit));
        before.watched(&unit);
        assert!(before.is_watched(&unit) && before.members(&unit).len() == 2);
        let found = before.differences(&Catalogue::new(&listing()));
        assert_eq!(Vec::from_iter(found.units), [unit]);
    }
}
