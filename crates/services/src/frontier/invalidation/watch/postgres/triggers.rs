//! The triggers with which `PostgreSQL` reports changes, and their reports.
//!
//! The trigger of a table reports its name. The triggers of `scope: row` report the keys of the
//! changed rows in addition, from the transition tables of a statement. They have their own names
//! and their own channel, so that gateways with different scopes can watch one database.

use super::super::super::catalogue::TriggerTable;
use super::super::super::config::Scope;
use super::super::super::dependents::Change;

/// Name of the trigger that reports changes of a table.
pub(super) const TABLE_TRIGGER: &str = "plimsoll_changed";
/// Start of the names of the triggers that report rows. The number of the key column follows, so
/// that a table with another key needs other triggers.
pub(super) const ROWS_PREFIX: &str = "plimsoll_rows_";

const TABLE_FUNCTION: &str = "
    CREATE SCHEMA IF NOT EXISTS plimsoll;
    CREATE OR REPLACE FUNCTION plimsoll.changed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
    BEGIN
      PERFORM pg_notify('plimsoll_changes', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
      RETURN NULL;
    END $$";
/// A notification has at most 8000 bytes, so it lists at most 200 keys. `*` means the whole table.
/// The column is found by its number, because it may be renamed.
const ROWS_FUNCTION: &str = "
    CREATE SCHEMA IF NOT EXISTS plimsoll;
    CREATE OR REPLACE FUNCTION plimsoll.changed_rows() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
    DECLARE
      key text := (SELECT quote_ident(attname) FROM pg_attribute
        WHERE attrelid = TG_RELID AND attnum = TG_ARGV[0]::int2 AND attnum > 0 AND NOT attisdropped);
      keys text := '*';
    BEGIN
      IF TG_OP <> 'TRUNCATE' AND key IS NOT NULL THEN
        EXECUTE 'SELECT CASE WHEN count(*) <= 200 THEN string_agg(key::text, '','') ELSE ''*'' END FROM ('
          || CASE WHEN TG_OP <> 'DELETE' THEN 'SELECT ' || key || ' AS key FROM new_rows' ELSE '' END
          || CASE WHEN TG_OP = 'UPDATE' THEN ' UNION ' ELSE '' END
          || CASE WHEN TG_OP <> 'INSERT' THEN 'SELECT ' || key || ' AS key FROM old_rows' ELSE '' END
          || ' LIMIT 201) AS rows' INTO keys;
      END IF;
      IF keys IS NOT NULL THEN
        PERFORM pg_notify('plimsoll_rows', keys || ' ' || TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
      END IF;
      RETURN NULL;
    END $$";
/// The events of the triggers that report rows, and their transition tables.
const ROWS_EVENTS: [(&str, &str); 4] = [
    ("insert", "REFERENCING NEW TABLE AS new_rows"),
    (
        "update",
        "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    ),
    ("delete", "REFERENCING OLD TABLE AS old_rows"),
    ("truncate", ""),
];

/// A trigger of a table.
pub(super) struct Trigger {
    pub(super) name: String,
    /// The statement that creates it.
    pub(super) create: String,
}

/// The channel of the notifications.
pub(super) fn channel(scope: Scope) -> &'static str {
    match scope {
        Scope::Row => "plimsoll_rows",
        Scope::Table | Scope::Everything => "plimsoll_changes",
    }
}

/// The function of the triggers: its signature, and the statements that create it.
pub(super) fn function(scope: Scope) -> (&'static str, &'static str) {
    match scope {
        Scope::Row => ("plimsoll.changed_rows()", ROWS_FUNCTION),
        Scope::Table | Scope::Everything => ("plimsoll.changed()", TABLE_FUNCTION),
    }
}

/// The triggers that report all changes of a table.
pub(super) fn triggers(scope: Scope, table: &TriggerTable) -> Vec<Trigger> {
    let quoted = &table.quoted;
    if scope != Scope::Row {
        let create = format!(
            "CREATE TRIGGER {TABLE_TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {quoted} FOR EACH STATEMENT \
             EXECUTE FUNCTION plimsoll.changed()"
        );
        return vec![Trigger {
            name: TABLE_TRIGGER.to_owned(),
            create,
        }];
    }
    let number = table.key.as_ref().map_or(0, |key| key.number);
    let trigger = |(event, rows): &(&str, &str)| {
        let name = format!("{ROWS_PREFIX}{number}_{event}");
        let rows = if number == 0 { "" } else { rows };
        let create = format!(
            "CREATE TRIGGER {name} AFTER {event} ON {quoted} {rows} FOR EACH STATEMENT EXECUTE FUNCTION \
             plimsoll.changed_rows('{number}')"
        );
        Trigger { name, create }
    };
    ROWS_EVENTS.iter().map(trigger).collect()
}

/// Reads a notification: the full name of the table, and the change.
pub(super) fn read(scope: Scope, payload: &str) -> (&str, Change) {
    let split = (scope == Scope::Row).then(|| payload.split_once(' ')).flatten();
    let Some((keys, table)) = split else {
        return (payload, Change::Table);
    };
    let keys: Option<_> = keys.split(',').map(|key| key.parse().ok()).collect();
    (table, keys.map_or(Change::Table, Change::Rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_contain_the_table_and_its_rows() {
        let rows = |keys: &[i64]| Change::Rows(keys.iter().copied().collect());
        for (scope, payload, table, change) in [
            (Scope::Table, "s.a b", "s.a b", Change::Table),
            (Scope::Everything, "s.a", "s.a", Change::Table),
            (Scope::Row, "1,-2,1 s.a b", "s.a b", rows(&[1, -2])),
            (Scope::Row, "* s.a", "s.a", Change::Table),
            (Scope::Row, "1,x s.a", "s.a", Change::Table),
        ] {
            assert_eq!(read(scope, payload), (table, change), "{payload}");
        }
    }
}
