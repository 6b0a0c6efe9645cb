//! The catalogue, from listings written by the test.

use super::*;

fn relation(full: &str, kind: Kind) -> Relation {
    Relation {
        id: full.into(),
        full: full.into(),
        name: full.rsplit('.').next().unwrap().into(),
        schema: None,
        quoted: full.into(),
        kind,
        key: None,
        version: "1".into(),
        watched: false,
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |text: &str| {
        let (left, right) = text.split_once('>').unwrap();
        (left.to_owned(), right.to_owned())
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
fn a_query_depends_on_all_tables_that_its_names_may_mean() {
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
fn a_required_schema_selects_the_table() {
    let mut listing = listing();
    for relation in &mut listing.relations {
        relation.schema = relation.full.split('.').next().map(str::to_owned);
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
fn a_change_includes_the_tables_of_its_cascades() {
    let catalogue = Catalogue::new(&listing());
    let rows = || Change::Rows([1].into());
    let changed = |full| {
        let units = catalogue.changed_with(full, rows());
        units.into_keys().collect::<Vec<Name>>().join(" ")
    };
    assert_eq!(changed("s.B"), "s.B s.a t.a");
    assert_eq!(changed("s.parted"), "s.part_1");
    assert_eq!(changed("s.elsewhere"), "");
    let units = catalogue.changed_with("s.B", rows());
    assert_eq!((&units["s.B"], &units["s.a"]), (&rows(), &Change::Table));
    let units = catalogue.changed_with("s.parted", rows());
    assert_eq!(units["s.part_1"], Change::Table, "the key of a part may differ");
}

#[test]
fn a_query_depends_on_rows_only_if_it_reads_one_table_by_its_key() {
    let mut listing = listing();
    for relation in &mut listing.relations {
        relation.key = Some(KeyColumn {
            name: "id".into(),
            number: 1,
        });
    }
    let catalogue = Catalogue::new(&listing);
    let depends = |unit: &str, sql: &str| {
        let tokens = super::super::Dialect::Postgres.tokens(sql).unwrap();
        let names: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
        let conditions = Conditions::read(&tokens).unwrap();
        let rows = catalogue.dependency(&unit.into(), &names, &conditions).rows;
        rows.map(|range| (range.first, range.last))
    };
    assert_eq!(depends("s.B", "SELECT x FROM b WHERE id = 5"), Some((5, 5)));
    assert_eq!(depends("s.B", "SELECT x FROM b WHERE x = 5"), None);
    assert_eq!(depends("s.B", "SELECT x FROM v WHERE id = 5"), None, "a view");
    assert_eq!(depends("s.a", "SELECT x FROM a WHERE id = 5"), None, "s.a or t.a");
    assert_eq!(depends("s.part_1", "SELECT x FROM parted WHERE id = 5"), None);
}

#[test]
fn differences_contain_the_relations_that_were_created_again() {
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
    let units = |differences: Differences| Vec::from_iter(differences.units).join(" ");
    assert_eq!(
        units(differences(|listing| listing.relations[1].version = "2".into())),
        "s.B"
    );
    // The units of a view are those of its tables, before and after.
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
fn a_lost_trigger_is_a_difference() {
    let mut before = Catalogue::new(&listing());
    let unit: Name = "s.part_1".into();
    assert!(!before.is_watched(&unit));
    before.set_watched(&unit);
    assert!(before.is_watched(&unit) && before.members(&unit).len() == 2);
    let differences = before.differences(&Catalogue::new(&listing()));
    assert_eq!(Vec::from_iter(differences.units), [unit]);
}
