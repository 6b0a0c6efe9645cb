//! Where rows go: one interface, three databases.

mod client;
mod mysql;
mod postgres;
mod sqlite;

use std::path::Path;

use plimsoll_wire::sql::{Address, Server};

use crate::ServiceError;

/// What a column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sql {
    /// Whole numbers of 64 bits.
    Int,
    /// Likewise, 0 where nothing is said.
    Version,
    Float,
    /// A time without zone, to the second.
    Time,
    /// Text of at most 255 characters, and perhaps NULL.
    Name,
    /// Text of any length, and perhaps NULL.
    Long,
    /// Strings of this many bytes; text or not.
    Strings(usize, bool),
    /// Strings of this many bytes that are no text.
    Blob(usize),
}

/// A column.
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

    fn nullable(&self) -> bool {
        matches!(self.sql, Sql::Name | Sql::Long)
    }
}

/// A table: columns, and which of them form its key and its indexes.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) key: Vec<usize>,
    pub(super) indexes: Vec<Vec<usize>>,
    /// Whether the time of its last change must be known, also where the database does not keep it
    /// by itself.
    pub(super) watched: bool,
}

impl Layout {
    /// The names of these columns, quoted, with commas.
    fn names(&self, columns: &[usize], quoted: impl Fn(&str) -> String) -> String {
        let names: Vec<String> = columns.iter().map(|at| quoted(&self.columns[*at].name)).collect();
        names.join(", ")
    }

    /// `CREATE TABLE`, with the database's way to quote a name and to call a type.
    fn create(&self, quoted: impl Fn(&str) -> String, type_of: impl Fn(Sql) -> String) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let not = match column.sql {
                    Sql::Version => " DEFAULT 0 NOT NULL",
                    _ if column.nullable() => "",
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

    /// `CREATE INDEX` for each.
    fn create_indexes(&self, quoted: impl Fn(&str) -> String) -> Vec<String> {
        let create = |(number, columns): (usize, &Vec<usize>)| {
            let index = quoted(&format!("{}_{}IX", self.name, number + 1));
            let columns = self.names(columns, &quoted);
            format!("CREATE INDEX {index} ON {} ({columns})", quoted(&self.name))
        };
        self.indexes.iter().enumerate().map(create).collect()
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

/// Takes tables, one after the other, and rows, one after the other.
pub(super) trait Writer {
    /// Whether a text may hold any bytes but 0.
    fn takes_any_text(&self) -> bool {
        false
    }

    /// Begins a table; one of this name is replaced.
    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError>;
    /// A row, with a value for each column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError>;
    /// The table is complete: its indexes are made, and others see it.
    fn end(&mut self) -> Result<(), ServiceError>;
}

/// A writer for a file or URL.
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

/// Two hexadecimal digits for each byte.
fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| DIGITS[usize::from(digit)]),
    );
}
