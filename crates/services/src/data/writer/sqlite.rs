//! Writer for an `SQLite` file: one transaction per table, with a prepared statement.

use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::{Layout, Sql, Value, Writer};
use crate::ServiceError;
use crate::date::timestamp;

pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    table: Layout,
    insert: String,
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, ServiceError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| failed(path, error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            table: Layout::default(),
            insert: String::new(),
        })
    }

    fn execute(&self, sql: &str) -> Result<(), ServiceError> {
        self.connection
            .execute_batch(sql)
            .map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, source: rusqlite::Error) -> ServiceError {
    ServiceError::Database {
        what: format!("cannot write the database {}", path.display()),
        source,
    }
}

impl Writer for Sqlite {
    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError> {
        // A single integer key is declared as INTEGER PRIMARY KEY: only then it is the rowid.
        let mut layout = table.clone();
        let is_rowid = layout.key == [0] && layout.columns[0].sql == Sql::Int;
        if is_rowid {
            layout.key.clear();
        }
        let mut create = layout.create(quoted, |sql| {
            match sql {
                Sql::Int | Sql::Version => "INTEGER",
                Sql::Float => "REAL",
                Sql::Time | Sql::Name | Sql::Long | Sql::Strings(..) => "TEXT",
                Sql::Blob(_) => "BLOB",
            }
            .to_owned()
        });
        if is_rowid {
            create = create.replacen("INTEGER NOT NULL", "INTEGER PRIMARY KEY", 1);
        }
        self.execute("BEGIN IMMEDIATE")?;
        self.execute(&format!("DROP TABLE IF EXISTS \"{}\"; {create}", table.name))?;
        let parameters = vec!["?"; table.columns.len()].join(", ");
        self.insert = format!("INSERT INTO \"{}\" VALUES ({parameters})", table.name);
        self.table = table.clone();
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError> {
        let bound = values.iter().map(|value| match *value {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Int(number) => ToSqlOutput::Borrowed(ValueRef::Integer(number)),
            Value::Float(number) => ToSqlOutput::Borrowed(ValueRef::Real(number)),
            Value::Time(seconds) => ToSqlOutput::Owned(Owned::Text(timestamp(seconds))),
            Value::Text(bytes) => ToSqlOutput::Borrowed(ValueRef::Text(bytes)),
            Value::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        });
        let mut insert = self
            .connection
            .prepare_cached(&self.insert)
            .map_err(|error| failed(&self.path, error))?;
        insert
            .execute(params_from_iter(bound))
            .map_err(|error| failed(&self.path, error))?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ServiceError> {
        for index in self.table.create_indexes(quoted) {
            self.execute(&index)?;
        }
        self.execute("COMMIT")
    }
}
