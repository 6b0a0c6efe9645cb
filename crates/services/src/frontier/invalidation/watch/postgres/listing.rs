//! Reads the catalogue of `PostgreSQL`.

use super::super::super::catalogue::{KeyColumn, Kind, Listing, Relation};
use super::super::super::config::{Detection, InvalidationConfig, Scope};
use super::super::{QueryConnection, Trouble, value};
use super::triggers::{ROWS_PREFIX, TABLE_TRIGGER};

/// Tables and views. A table with another file or number of columns, or a view with another rule,
/// was created again. `{key}` is the number of the key column, or NULL; `{watched}`: whether
/// changes are reported.
const RELATIONS: &str = "
    SELECT c.oid, n.nspname || '.' || c.relname, c.relname, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
      c.relkind,
      CASE c.relkind WHEN 'v' THEN (SELECT max(r.xmin::text) FROM pg_rewrite r WHERE r.ev_class = c.oid)
        ELSE c.relnatts || ' ' || c.relfilenode END,
      {watched}, k.attname, k.attnum, c.relpersistence
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = {key}
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";
/// The only column of the primary key, if it contains integers, whose text is unique for each
/// value. A policy for rows may read other rows.
const KEY: &str = "
    (SELECT i.indkey[0] FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      WHERE i.indrelid = c.oid AND i.indisprimary AND i.indnkeyatts = 1 AND NOT c.relrowsecurity
        AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype))";
/// With another replica identity, the log does not contain the previous key of a changed row.
const LOGGED_KEY: &str = "CASE WHEN c.relreplident IN ('d', 'f') THEN {key} END";
const EDGES: &str = "
    SELECT 'part', inhrelid, inhparent FROM pg_inherits
    UNION SELECT 'use', r.ev_class, d.refobjid FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass)
      AND d.refobjid <> r.ev_class";
/// Functions that may read tables: those of users. Functions of extensions only compute.
const ROUTINES: &str = "
    SELECT p.oid, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'plimsoll') AND n.nspname !~ '^pg_(toast|temp)'
      AND NOT EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')";

/// The query of the tables and views for a configuration.
fn relations(config: &InvalidationConfig) -> String {
    let key = match (config.scope, config.detection) {
        (Scope::Row, Detection::Triggers) => KEY.to_owned(),
        (Scope::Row, Detection::LogicalDecoding) => LOGGED_KEY.replace("{key}", KEY),
        (Scope::Table | Scope::Everything, _) => "NULL".to_owned(),
    };
    let count = |names: String| {
        format!(
            "(SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname ~ {names} \
             AND t.tgenabled IN ('O', 'A'))"
        )
    };
    let watched = match (config.scope, config.detection) {
        // The log contains the changes of all tables.
        (_, Detection::LogicalDecoding) => "true".to_owned(),
        (Scope::Row, Detection::Triggers) => {
            let names = format!("('^{ROWS_PREFIX}' || coalesce(k.attnum, 0) || '_')");
            format!("{} = 4", count(names))
        }
        (Scope::Table | Scope::Everything, Detection::Triggers) => {
            format!("{} = 1", count(format!("'^{TABLE_TRIGGER}$'")))
        }
    };
    RELATIONS.replace("{key}", &key).replace("{watched}", &watched)
}

/// Reads the catalogue.
pub(super) async fn read(
    connection: &mut QueryConnection,
    config: &InvalidationConfig,
) -> Result<Listing, Trouble> {
    let mut listing = Listing::default();
    for row in connection.rows(&relations(config)).await? {
        // Changes of unlogged tables are not in the log.
        let is_unlogged = config.detection == Detection::LogicalDecoding && value(&row, 9) != "p";
        let number = value(&row, 8).parse().ok();
        listing.relations.push(Relation {
            id: value(&row, 0),
            full: value(&row, 1),
            name: value(&row, 2),
            schema: None, // the search path may contain several schemas
            quoted: value(&row, 3),
            kind: match value(&row, 4).as_str() {
                "r" | "p" if !is_unlogged => Kind::Table,
                "v" => Kind::View,
                _ => Kind::Unknowable,
            },
            version: value(&row, 5),
            watched: value(&row, 6) == "t",
            key: number.map(|number| KeyColumn {
                name: value(&row, 7),
                number,
            }),
        });
    }
    for row in connection.rows(EDGES).await? {
        let pair = (value(&row, 1), value(&row, 2));
        match value(&row, 0).as_str() {
            "part" => listing.parts.push(pair),
            _ => listing.uses.push(pair),
        }
    }
    for row in connection.rows(ROUTINES).await? {
        listing.routines.push((value(&row, 0), value(&row, 1)));
    }
    Ok(listing)
}
