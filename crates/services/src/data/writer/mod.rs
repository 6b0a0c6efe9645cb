//! Writers of tables: one interface, three databases.

mod client;
mod mysql;
mod postgres;
mod sqlite;

use std::path::Path;

use plimsoll_wire::sql::{Address, Server};

pub(crate) use client::Client;
pub(crate) use postgres::escape;

use crate::ServiceError;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sql {
    /// 64-bit integers.
    Int,
    /// 64-bit integers, with the default 0.
    Version,
    Float,
    /// Times without a time zone, in whole seconds.
    Time,
    /// Text of at most 255 characters, or NULL.
    Name,
    /// Text of any length, or NULL.
    Long,
    /// Strings of this number of bytes; whether they are text.
    Strings(usize, bool),
    /// Strings of this number of bytes that are not text.
    Blob(usize),
}

/// Name and type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) sql: Sql,
}

impl Column {
    pub(super) fn new(name: impl Into<String>, sql: Sql) -> Self {
        let name = name.into();
        Self { name, sql }
    }

    fn is_nullable(&self) -> bool {
        matches!(self.sql, Sql::Name | Sql::Long)
    }
}

/// A table: its columns, and the indices of those in its key and in its indexes.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) key: Vec<usize>,
    pub(super) indexes: Vec<Vec<usize>>,
    /// Further keys: indexes whose values are unique. NULL is not a value.
    pub(super) unique: Vec<Vec<usize>>,
    /// Whether the time of the last change must be available, also if the database does not store
    /// it by itself.
    pub(super) watched: bool,
    /// Whether texts are equal only if their bytes are, also in a database that ignores case, or
    /// spaces at the end, by default.
    pub(super) bytewise: bool,
}

impl Layout {
    /// The quoted names of these columns, separated by commas.
    fn names(&self, columns: &[usize], quoted: impl Fn(&str) -> String) -> String {
        let names: Vec<String> = columns
            .iter()
            .map(|index| quoted(&self.columns[*index].name))
            .collect();
        names.join(", ")
    }

    /// The statement `CREATE TABLE`. `quoted` quotes a name and `type_of` returns the name of a
    /// type of the database.
    fn create(&self, quoted: impl Fn(&str) -> String, type_of: impl Fn(Sql) -> String) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let not = match column.sql {
                    Sql::Version => " DEFAULT 0 NOT NULL",
                    _ if column.is_nullable() => "",
                    _ => " NOT NULL",
                };
                format!("{} {}{not}", quoted(&column.name), type_of(column.sql))
            })
            .collect();
        if !self.key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.names(&self.key, &quoted)));
        }
        format!("CREATE TABLE {} ({})", quoted(&self.name), parts.join(", "))
    }

    /// A statement `CREATE INDEX` for each index, and for each further key.
    fn create_indexes(&self, quoted: impl Fn(&str) -> String) -> Vec<String> {
        let create = |(number, columns): (usize, &Vec<usize>)| {
            let index = quoted(&format!("{}_{}IX", self.name, number + 1));
            let columns = self.names(columns, &quoted);
            format!("CREATE INDEX {index} ON {} ({columns})", quoted(&self.name))
        };
        let create_unique = |(number, columns): (usize, &Vec<usize>)| {
            let index = quoted(&format!("{}_{}UX", self.name, number + 1));
            let columns = self.names(columns, &quoted);
            format!(
                "CREATE UNIQUE INDEX {index} ON {} ({columns})",
                quoted(&self.name)
            )
        };
        let indexes = self.indexes.iter().enumerate().map(create);
        indexes
            .chain(self.unique.iter().enumerate().map(create_unique))
            .collect()
    }
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Float(f64),
    /// Seconds since 1970.
    Time(u64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn strings(text: bool, bytes: &'a [u8]) -> Self {
        if text {
            Self::Text(bytes)
        } else {
            Self::Blob(bytes)
        }
    }
}

/// Writes tables to a database, one after the other, row by row.
pub(super) trait Writer {
    /// Whether a text may contain any bytes except 0.
    fn takes_any_text(&self) -> bool {
        false
    }

    /// Begins a table. An existing table of this name is replaced.
    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError>;
    /// Writes a row, with a value for each column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError>;
    /// Ends the table: creates its indexes, and makes it visible to other sessions.
    fn end(&mut self) -> Result<(), ServiceError>;
}

/// Opens a writer for the path of a file or a URL.
pub(super) fn open(database: &Path) -> Result<Box<dyn Writer>, ServiceError> {
    let text = database.to_str().filter(|text| text.contains("://"));
    let Some(url) = text else {
        return Ok(Box::new(sqlite::Sqlite::open(database)?));
    };
    let address = Address::from_url(url).map_err(|error| ServiceError::Config {
        key: "database",
        why: error.to_string(),
    })?;
    Ok(match address.server {
        Server::Postgres => Box::new(postgres::Postgres::open(address)?),
        Server::Mysql => Box::new(mysql::Mysql::open(address)?),
    })
}

/// Appends two hexadecimal digits for each byte.
fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| DIGITS[usize::from(digit)]),
    );
}
