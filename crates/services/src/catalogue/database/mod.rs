//! The database of a thread of the catalogue: `SQLite`, `PostgreSQL` or `MariaDB`. Statements
//! contain `?1`, `?2`, ... for values. They are prepared when they are first used, and identified
//! by their addresses: hashing the text of a long statement takes longer than sending its values.
//!
//! A statement is written once, in the SQL that `SQLite` and `PostgreSQL` share. `mariadb`
//! translates the constructs that differ there.

mod mariadb;
mod postgres;
mod sqlite;
mod write_lock;

use std::fmt::Write as _;
use std::path::Path;

use plimsoll_wire::sql::{Address, Server};

use self::mariadb::Mariadb;
use self::postgres::Postgres;
use self::sqlite::Sqlite;
use crate::ServiceError;

pub(super) use write_lock::WriteLock;

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value<'a> {
    Int(i64),
    Text(&'a str),
}

impl Value<'_> {
    /// Appends the value as a literal of standard SQL.
    fn write(self, sql: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Int(number) => write!(sql, "{number}"),
            Self::Text(text) => write!(sql, "'{}'", text.replace('\'', "''")),
        };
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    Null,
    Int(i64),
    Text(String),
}

/// A row of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row(Vec<Cell>);

impl Row {
    /// A row whose values a server has sent as text.
    fn of_texts(values: &mut dyn Iterator<Item = Option<&[u8]>>) -> Self {
        let cells = values.map(|value| match value {
            Some(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            None => Cell::Null,
        });
        Self(cells.collect())
    }

    /// The number in a column; 0 for NULL.
    pub(super) fn int(&self, column: usize) -> i64 {
        match self.0.get(column) {
            Some(Cell::Int(number)) => *number,
            Some(Cell::Text(text)) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// The text in a column; empty for NULL.
    pub(super) fn text(&self, column: usize) -> String {
        match self.0.get(column) {
            Some(Cell::Int(number)) => number.to_string(),
            Some(Cell::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }
}

/// A statement for one key, and for many: their list is between the two parts.
pub(super) struct Keyed {
    pub(super) one: &'static str,
    pub(super) many: [&'static str; 2],
}

/// Rows to insert by `COPY`, which does not skip those that exist.
pub(super) struct Copy {
    pub(super) table: &'static str,
    pub(super) columns: &'static str,
    /// The place in a key of the value of each column.
    pub(super) places: &'static [usize],
    /// The values of the columns after these, in the format of `COPY`.
    pub(super) constants: &'static str,
}

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    /// Another session holds the database.
    #[error("another session holds the database, or a row of it, for longer than 5 s")]
    Busy,
    /// This session and others waited for each other. The database has undone the transaction.
    #[error("the transaction was undone, because of a deadlock with another one")]
    Deadlock,
    /// Any other reason. The session with the database is closed.
    #[error(transparent)]
    Failed(#[from] ServiceError),
}

/// The session of a thread with the database.
pub(super) enum Database {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
    Mariadb(Box<Mariadb>),
}

/// Checks the address of a database, which is connected later.
pub(super) fn check(database: &Path) -> Result<Option<Address>, ServiceError> {
    let wrong = |why| ServiceError::Config { key: "database", why };
    let text = database.to_str().filter(|text| text.contains("://"));
    let Some(url) = text else { return Ok(None) };
    let address = Address::from_url(url).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(address))
}

impl Database {
    pub(super) fn open(database: &Path, lock: &WriteLock) -> Result<Self, ServiceError> {
        Ok(match check(database)? {
            Some(address) if address.server == Server::Mysql => {
                Self::Mariadb(Box::new(Mariadb::open(address)?))
            }
            Some(address) => Self::Postgres(Box::new(Postgres::open(address)?)),
            None => Self::Sqlite(Box::new(Sqlite::open(database, lock.clone())?)),
        })
    }

    /// Creates functions: statements of `PostgreSQL`, which are executed completely or not at all.
    pub(super) fn create_functions(&mut self, statements: &str) -> Result<(), DatabaseError> {
        match self {
            Self::Postgres(database) => database.execute(statements),
            Self::Sqlite(_) | Self::Mariadb(_) => Ok(()),
        }
    }

    /// Executes a statement with values, and returns its rows.
    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Self::Sqlite(database) => database.query(sql, values),
            Self::Postgres(database) => database.query(sql, values),
            Self::Mariadb(database) => database.query(sql, values),
        }
    }

    /// Executes a statement for several keys of the same form, and returns all rows.
    pub(super) fn query_keys(
        &mut self,
        statement: &Keyed,
        keys: &[Vec<Value<'_>>],
    ) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Self::Postgres(database) if keys.len() > 1 => {
                return database.query_text(&with_list(statement.many, keys));
            }
            Self::Mariadb(database) if keys.len() > 1 => return database.query_keys(statement.many, keys),
            _ => {}
        }
        let mut rows = Vec::new();
        for key in keys {
            rows.append(&mut self.query(statement.one, key)?);
        }
        Ok(rows)
    }

    /// Inserts rows into tables in the fastest way, within a transaction. False: nothing was
    /// inserted, because the database has no such way, or one of the rows exists.
    pub(super) fn copy(&mut self, copies: &[(&Copy, &[Vec<Value<'_>>])]) -> Result<bool, DatabaseError> {
        match self {
            Self::Sqlite(_) => Ok(false),
            Self::Postgres(database) => database.copy(copies),
            Self::Mariadb(database) => database.copy(copies),
        }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin(&mut self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(database) => database.begin(),
            Self::Postgres(database) => database.execute("BEGIN"),
            Self::Mariadb(database) => database.execute("BEGIN"),
        }
    }

    pub(super) fn commit(&mut self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(database) => database.end("COMMIT"),
            Self::Postgres(database) => database.execute("COMMIT"),
            Self::Mariadb(database) => database.execute("COMMIT"),
        }
    }

    pub(super) fn roll_back(&mut self) -> Result<(), DatabaseError> {
        match self {
            Self::Sqlite(database) => database.end("ROLLBACK"),
            Self::Postgres(database) => database.execute("ROLLBACK"),
            Self::Mariadb(database) => database.execute("ROLLBACK"),
        }
    }
}

/// The statement with the list of keys, `(1,'a'),(2,'b')`.
fn with_list([head, tail]: [&str; 2], keys: &[Vec<Value<'_>>]) -> String {
    let mut sql = String::with_capacity(head.len() + tail.len() + 64 * keys.len());
    sql.push_str(head);
    put_list(&mut sql, keys);
    sql.push_str(tail);
    sql
}

fn put_list(sql: &mut String, keys: &[Vec<Value<'_>>]) {
    for (index, key) in keys.iter().enumerate() {
        sql.push_str(if index == 0 { "(" } else { ",(" });
        for (column, value) in key.iter().enumerate() {
            if column > 0 {
                sql.push(',');
            }
            value.write(sql);
        }
        sql.push(')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_values_are_doubled() {
        let keys = [
            vec![Value::Int(1), Value::Text("a'; DROP")],
            vec![Value::Int(2), Value::Text("b\\")],
        ];
        assert_eq!(
            with_list(["VALUES ", " x"], &keys),
            "VALUES (1,'a''; DROP'),(2,'b\\') x"
        );
    }

    #[test]
    fn a_url_is_a_server_and_other_text_a_file() {
        assert!(check(Path::new("/tmp/file.db")).unwrap().is_none());
        assert!(check(Path::new("postgresql://u@127.0.0.1/d")).unwrap().is_some());
        assert!(check(Path::new("mysql://u@127.0.0.1/d")).unwrap().is_some());
        assert!(check(Path::new("oracle://u@127.0.0.1/d")).is_err());
    }
}
