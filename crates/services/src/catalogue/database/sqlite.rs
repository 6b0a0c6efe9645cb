//! An `SQLite` file. Readers do not wait for writers (write-ahead log); a commit is not flushed to
//! the disk, so that the last ones can be lost when the machine fails, but not when the service
//! does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};

use super::{Cell, DatabaseError, Row, Value, WriteLock};
use crate::ServiceError;

/// Maximum time for another session to release the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the page cache of a connection, KiB.
const CACHE_KIB: i32 = 8 * 1024;
/// Number of statements that stay prepared: more than the catalogue has.
const CACHED_STATEMENTS: usize = 64;

pub(in crate::catalogue) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    lock: WriteLock,
    has_lock: bool,
}

impl Sqlite {
    pub(super) fn open(path: &Path, lock: WriteLock) -> Result<Self, ServiceError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(LOCK_TIMEOUT)?;
            connection.execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{CACHE_KIB}"
            ))?;
            connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
            Ok(connection)
        };
        let connection = open().map_err(|source| ServiceError::Database {
            what: format!("cannot open the database {}", path.display()),
            source,
        })?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            lock,
            has_lock: false,
        })
    }

    fn failed(&self, source: rusqlite::Error) -> DatabaseError {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DatabaseError::Busy,
            _ => DatabaseError::Failed(ServiceError::Database {
                what: format!("cannot use the database {}", self.path.display()),
                source,
            }),
        }
    }

    pub(super) fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        rows(&self.connection, sql, values).map_err(|error| self.failed(error))
    }

    pub(super) fn begin(&mut self) -> Result<(), DatabaseError> {
        if !self.lock.acquire(LOCK_TIMEOUT) {
            return Err(DatabaseError::Busy);
        }
        self.has_lock = true;
        let begun = self.execute("BEGIN IMMEDIATE");
        if begun.is_err() {
            self.release();
        }
        begun
    }

    /// Ends the transaction.
    pub(super) fn end(&mut self, sql: &str) -> Result<(), DatabaseError> {
        let ended = self.execute(sql);
        if ended.is_ok() {
            self.release();
        }
        ended
    }

    fn execute(&self, sql: &str) -> Result<(), DatabaseError> {
        self.connection
            .execute_batch(sql)
            .map_err(|error| self.failed(error))
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.has_lock) {
            self.lock.release();
        }
    }
}

impl Drop for Sqlite {
    /// Undoes an open transaction before another session begins one.
    fn drop(&mut self) {
        if self.has_lock {
            let _ = self.execute("ROLLBACK");
            self.release();
        }
    }
}

fn rows(connection: &Connection, sql: &str, values: &[Value<'_>]) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let bound = values.iter().map(|value| match *value {
        Value::Int(number) => ToSqlOutput::Borrowed(ValueRef::Integer(number)),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
    });
    let mut found = statement.query(params_from_iter(bound))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let cells = (0..columns).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                _ => Cell::Null,
            })
        });
        rows.push(Row(cells.collect::<rusqlite::Result<_>>()?));
    }
    Ok(rows)
}
