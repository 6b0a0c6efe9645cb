//! Into `PostgreSQL`: `COPY ... FROM STDIN` in the transaction that makes the table.
//!
//! Names are in lower case, as the server folds those that queries do not quote. `FREEZE` spares the first reader the
//! work of marking every row as committed, and `ANALYZE` the middle of a measurement that of the server's own one.

use std::io::Write as _;

use memchr::memchr3_iter;
use plimsoll_wire::sql::Address;

use super::client::Client;
use super::{Layout, Sql, Value, Writer};
use crate::ServiceError;
use crate::date::timestamp;

/// Bytes sent at a time.
const PIECE: usize = 256 * 1024;

pub(super) struct Postgres {
    client: Client,
    table: Layout,
    rows: Vec<u8>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.to_ascii_lowercase())
}

fn type_of(sql: Sql) -> String {
    match sql {
        Sql::Int => "bigint",
        Sql::Float => "double precision",
        Sql::Time => "timestamp",
        Sql::Name => "varchar(255)",
        Sql::Long | Sql::Strings(_, true) => "text",
        Sql::Strings(_, false) | Sql::Blob(_) => "bytea",
    }
    .to_owned()
}

impl Postgres {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        Ok(Self {
            client: Client::open(address)?,
            table: Layout::default(),
            rows: Vec::with_capacity(PIECE + 4096),
        })
    }

    fn flush(&mut self) -> Result<(), ServiceError> {
        self.client.copy_data(&self.rows)?;
        self.rows.clear();
        Ok(())
    }
}

impl Writer for Postgres {
    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError> {
        let name = quoted(&table.name);
        self.client.execute("BEGIN")?;
        self.client.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
        self.client.execute(&table.create(quoted, type_of))?;
        self.table = table.clone();
        self.client.copy(&format!("COPY {name} FROM STDIN (FREEZE)"))
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError> {
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.rows.push(b'\t');
            }
            put(&mut self.rows, *value);
        }
        self.rows.push(b'\n');
        if self.rows.len() >= PIECE {
            self.flush()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ServiceError> {
        self.flush()?;
        self.client.copy_done()?;
        for index in self.table.create_indexes(quoted) {
            self.client.execute(&index)?;
        }
        self.client.execute("COMMIT")?;
        self.client
            .execute(&format!("ANALYZE {}", quoted(&self.table.name)))
    }
}

/// A value in the text format of `COPY`.
fn put(rows: &mut Vec<u8>, value: Value<'_>) {
    // Writing to a Vec cannot fail.
    let _ = match value {
        Value::Null => rows.write_all(b"\\N"),
        Value::Int(number) => write!(rows, "{number}"),
        Value::Float(number) => write!(rows, "{number:?}"),
        Value::Time(seconds) => rows.write_all(timestamp(seconds).as_bytes()),
        Value::Text(bytes) => {
            escape(rows, bytes);
            Ok(())
        }
        Value::Blob(bytes) => {
            rows.extend_from_slice(b"\\\\x");
            super::hex(rows, bytes);
            Ok(())
        }
    };
}

fn escape(rows: &mut Vec<u8>, bytes: &[u8]) {
    let mut from = 0;
    for at in memchr3_iter(b'\\', b'\n', b'\t', bytes) {
        rows.extend_from_slice(&bytes[from..at]);
        rows.push(b'\\');
        rows.push(match bytes[at] {
            b'\n' => b'n',
            b'\t' => b't',
            other => other,
        });
        from = at + 1;
    }
    rows.extend_from_slice(&bytes[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_the_copy_format() {
        let text = |value| {
            let mut rows = Vec::new();
            put(&mut rows, value);
            String::from_utf8(rows).unwrap()
        };
        assert_eq!(text(Value::Null), "\\N");
        assert_eq!(text(Value::Int(-5)), "-5");
        assert_eq!(text(Value::Float(1.5)), "1.5");
        assert_eq!(text(Value::Time(0)), "1970-01-01 00:00:00");
        assert_eq!(text(Value::Text(b"a\\b\tc\nd\\N")), "a\\\\b\\tc\\nd\\\\N");
        assert_eq!(text(Value::Blob(b"\x00\xff")), "\\\\x00ff");
    }
}
