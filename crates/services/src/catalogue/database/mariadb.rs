//! A session with `MariaDB`, from version 10.5 on: older ones do not return the rows that a
//! statement has inserted.
//!
//! Statements are sent as text, with their values as literals, because the client has no prepared
//! statements for this server. The constructs of [`super::Keyed`] and of single statements that
//! `MariaDB` does not have are translated:
//!
//! | statement | here |
//! |---|---|
//! | `INSERT INTO ... ON CONFLICT DO NOTHING` | `INSERT IGNORE INTO ...` |
//! | `(VALUES (1,'a'),(2,'b')) AS k(f, n)` | `(SELECT 1 AS f, 'a' AS n UNION ALL VALUES (2,'b')) AS k` |
//! | `IN (VALUES (1),(2))` | `IN ((1),(2))`: a `DELETE` with a subquery reads the whole table |

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use plimsoll_wire::sql::Address;

use super::{Copy, DatabaseError, Row, Value, put_list, with_list};
use crate::ServiceError;
use crate::data::Client;

/// Maximum time for the server to respond.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The oldest version.
const MIN_VERSION: (u32, u32) = (10, 5);
/// Numbers of the errors of a row that exists, of a deadlock, and of a lock that another session
/// holds for too long.
const DUPLICATE_KEY: u16 = 1062;
const DEADLOCK: u16 = 1213;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// Settings of a session.
const SETTINGS: [&str; 6] = [
    // The literals of standard SQL, in which a backslash is a character.
    "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'",
    // That of the tables, so that the columns of a list can be compared with theirs by an index.
    "NAMES utf8mb4 COLLATE utf8mb4_nopad_bin",
    // As in PostgreSQL. The default locks the gaps between keys, too, so that insertions of
    // different entries wait for each other.
    "SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    // As for SQLite. The default is 50 s.
    "SESSION innodb_lock_wait_timeout = 5",
    // A list of 1,000 keys would become a subquery.
    "SESSION in_predicate_conversion_threshold = 0",
    "SESSION autocommit = 1",
];

/// A part of a statement.
enum Part {
    Text(String),
    /// The index of a value.
    Value(usize),
}

pub(in crate::catalogue) struct Mariadb {
    client: Client,
    /// By the addresses and lengths of their texts.
    statements: HashMap<(usize, usize), Vec<Part>>,
    /// The statement to send.
    sql: String,
}

impl Mariadb {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        let mut client = Client::open_within(address, TIMEOUT)?;
        let version = client.value("SELECT VERSION()")?;
        if !is_supported(&version) {
            return Err(ServiceError::Server {
                what: "the catalogue cannot use this database".into(),
                why: format!("expected MariaDB 10.5 or newer, got {version}"),
            });
        }
        for setting in SETTINGS {
            client.execute(&format!("SET {setting}"))?;
        }
        Ok(Self {
            client,
            statements: HashMap::new(),
            sql: String::new(),
        })
    }

    pub(super) fn execute(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.client
            .execute(sql)
            .map_err(|error| failed(&self.client, error))
    }

    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        let parts = self
            .statements
            .entry((sql.as_ptr().addr(), sql.len()))
            .or_insert_with(|| parts(&translate(sql)));
        self.sql.clear();
        for part in parts {
            match part {
                Part::Text(text) => self.sql.push_str(text),
                Part::Value(index) => values[*index].write(&mut self.sql),
            }
        }
        rows(&mut self.client, &self.sql)
    }

    /// Executes a statement with the list of keys.
    pub(super) fn query_keys(
        &mut self,
        statement: [&str; 2],
        keys: &[Vec<Value<'_>>],
    ) -> Result<Vec<Row>, DatabaseError> {
        rows(&mut self.client, &with_keys(statement, keys))
    }

    /// Inserts rows into tables, with one statement each. False: one of them exists, and none was
    /// inserted.
    pub(super) fn copy(&mut self, copies: &[(&Copy, &[Vec<Value<'_>>])]) -> Result<bool, DatabaseError> {
        self.execute("SAVEPOINT copied")?;
        for (copy, keys) in copies.iter().filter(|(_, keys)| !keys.is_empty()) {
            match self.client.execute(&insert(copy, keys)) {
                Ok(()) => {}
                Err(_) if number(&self.client) == DUPLICATE_KEY => {
                    self.execute("ROLLBACK TO SAVEPOINT copied")?;
                    return Ok(false);
                }
                Err(error) => return Err(failed(&self.client, error)),
            }
        }
        self.execute("RELEASE SAVEPOINT copied")?;
        Ok(true)
    }
}

fn rows(client: &mut Client, sql: &str) -> Result<Vec<Row>, DatabaseError> {
    let mut rows = Vec::new();
    client
        .rows(sql, |values| rows.push(Row::of_texts(values)))
        .map_err(|error| failed(client, error))?;
    Ok(rows)
}

/// Number of the error that the server reported; 0 if there was none.
fn number(client: &Client) -> u16 {
    client.refusal().map_or(0, |refusal| refusal.number)
}

fn failed(client: &Client, error: ServiceError) -> DatabaseError {
    match number(client) {
        DEADLOCK => DatabaseError::Deadlock,
        LOCK_WAIT_TIMEOUT => DatabaseError::Busy,
        _ => error.into(),
    }
}

/// Whether a version, such as `10.11.6-MariaDB`, can be used.
fn is_supported(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version.contains("MariaDB") && found >= MIN_VERSION
}

/// The statement in `MariaDB`'s SQL.
fn translate(sql: &str) -> String {
    match sql.split_once(" ON CONFLICT DO NOTHING") {
        Some((before, after)) => before.replacen("INSERT INTO", "INSERT IGNORE INTO", 1) + after,
        None => sql.to_owned(),
    }
}

/// Divides a statement at its placeholders.
fn parts(sql: &str) -> Vec<Part> {
    let mut pieces = sql.split('?');
    let mut parts = vec![Part::Text(pieces.next().unwrap_or_default().to_owned())];
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, text) = piece.split_at(digits);
        // Statements are constants: each placeholder has a number from 1.
        let number: usize = number.parse().expect("a placeholder has a number");
        parts.push(Part::Value(number - 1));
        parts.push(Part::Text(text.to_owned()));
    }
    parts
}

/// The statement with the list of keys.
fn with_keys([head, tail]: [&str; 2], keys: &[Vec<Value<'_>>]) -> String {
    if let Some(head) = head.strip_suffix("IN (VALUES ") {
        return translate(&with_list([&format!("{head}IN ("), tail], keys));
    }
    let table = tail.strip_prefix(") AS ").and_then(|tail| {
        let (alias, tail) = tail.split_once('(')?;
        let (columns, tail) = tail.split_once(')')?;
        Some((alias, columns, tail))
    });
    let (Some(head), Some((alias, columns, tail)), Some((first, others))) =
        (head.strip_suffix("VALUES "), table, keys.split_first())
    else {
        return translate(&with_list([head, tail], keys));
    };
    let mut sql = format!("{head}SELECT ");
    for (index, (value, column)) in first.iter().zip(columns.split(", ")).enumerate() {
        sql.push_str(if index == 0 { "" } else { ", " });
        value.write(&mut sql);
        // Writing to a String cannot fail.
        let _ = write!(sql, " AS {column}");
    }
    if !others.is_empty() {
        sql.push_str(" UNION ALL VALUES ");
        put_list(&mut sql, others);
    }
    let _ = write!(sql, ") AS {alias}{tail}");
    translate(&sql)
}

/// The statement that inserts these rows.
fn insert(copy: &Copy, keys: &[Vec<Value<'_>>]) -> String {
    let mut constants = String::new();
    for constant in copy.constants.split('\t').skip(1) {
        constants.push(',');
        Value::Text(constant).write(&mut constants);
    }
    let mut sql = format!("INSERT INTO {} ({}) VALUES ", copy.table, copy.columns);
    for (row, key) in keys.iter().enumerate() {
        sql.push_str(if row == 0 { "(" } else { ",(" });
        for (column, place) in copy.places.iter().enumerate() {
            sql.push_str(if column == 0 { "" } else { "," });
            key[*place].write(&mut sql);
        }
        sql.push_str(&constants);
        sql.push(')');
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [[Value<'static>; 2]; 2] = [
        [Value::Int(1), Value::Text("a")],
        [Value::Int(2), Value::Text("it's")],
    ];

    fn keys() -> Vec<Vec<Value<'static>>> {
        KEYS.iter().map(|key| key.to_vec()).collect()
    }

    #[test]
    fn a_list_of_keys_becomes_a_table_with_names() {
        let statement = ["SELECT m.a FROM (VALUES ", ") AS k(f, n) JOIN m ON m.f = k.f"];
        assert_eq!(
            with_keys(statement, &keys()),
            "SELECT m.a FROM (SELECT 1 AS f, 'a' AS n UNION ALL VALUES (2,'it''s')) AS k JOIN m ON m.f = k.f"
        );
        let statement = ["DELETE FROM m WHERE f IN (VALUES ", ") RETURNING f"];
        let numbers: Vec<_> = [1, 2].map(|number| vec![Value::Int(number)]).into();
        assert_eq!(
            with_keys(statement, &numbers),
            "DELETE FROM m WHERE f IN ((1),(2)) RETURNING f"
        );
    }

    #[test]
    fn an_insertion_ignores_rows_that_exist() {
        let statement = [
            "INSERT INTO m (f) SELECT k.f FROM (VALUES ",
            ") AS k(f, n) ON CONFLICT DO NOTHING RETURNING f",
        ];
        assert_eq!(
            with_keys(statement, &keys()),
            "INSERT IGNORE INTO m (f) SELECT k.f FROM (SELECT 1 AS f, 'a' AS n UNION ALL VALUES (2,'it''s')) AS k \
             RETURNING f"
        );
    }

    #[test]
    fn a_copied_row_has_the_values_of_its_key_and_the_constants() {
        let copy = Copy {
            table: "t",
            columns: "a, b, c, d, e",
            places: &[1, 0, 0],
            constants: "\t-\t",
        };
        assert_eq!(
            insert(&copy, &keys()),
            "INSERT INTO t (a, b, c, d, e) VALUES ('a',1,1,'-',''),('it''s',2,2,'-','')"
        );
    }

    #[test]
    fn versions_that_cannot_return_inserted_rows_are_refused() {
        assert!(is_supported("10.5.0-MariaDB") && is_supported("11.4.2-MariaDB-ubu2404"));
        assert!(!is_supported("10.4.34-MariaDB") && !is_supported("8.0.36") && !is_supported(""));
    }
}
