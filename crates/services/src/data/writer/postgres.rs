//! Writer for `PostgreSQL`: `COPY ... FROM STDIN` in the transaction that creates the table.
//!
//! Names are in lower case, because the server converts unquoted names in queries to lower case.
//! With `FREEZE`, the first reader need not mark every row as committed. After `ANALYZE`, the
//! server does not start its own analysis during a measurement.
//!
//! The server does not store the time of the last change of a table. For watched tables,
//! [`CHANGES`] stores it, and the gateway reads `Last-Modified` from there. A writer of a watched
//! table waits for the commit of other writers of this table, because they update the same row.

use std::io::Write as _;

use memchr::{memchr_iter, memchr3_iter};
use plimsoll_wire::sql::Address;

use super::client::Client;
use super::{Layout, Sql, Value, Writer};
use crate::ServiceError;
use crate::date::timestamp;

/// Prefixes of the names of encodings in which every byte except 0 is a character.
const SINGLE_BYTE: [&str; 5] = ["LATIN", "ISO_8859", "WIN", "KOI8", "SQL_ASCII"];
/// Number of bytes that are sent together.
const PIECE: usize = 256 * 1024;
/// Creates a table with a row for each watched table, which a trigger of that table updates.
const CHANGES: &str = "CREATE TABLE IF NOT EXISTS plimsoll_changes (table_owner text NOT NULL, table_name text NOT NULL, \
    change_time timestamptz NOT NULL, PRIMARY KEY (table_owner, table_name)); \
    CREATE OR REPLACE FUNCTION plimsoll_last_modified() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
    UPDATE plimsoll_changes SET change_time = clock_timestamp() \
    WHERE table_owner = TG_TABLE_SCHEMA AND table_name = TG_TABLE_NAME; RETURN NULL; END $$";

pub(super) struct Postgres {
    client: Client,
    table: Layout,
    rows: Vec<u8>,
    any_text: bool,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.to_ascii_lowercase())
}

fn type_of(sql: Sql) -> String {
    match sql {
        Sql::Int | Sql::Version => "bigint",
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
        let mut client = Client::open(address)?;
        let encoding = client.value("SHOW server_encoding")?;
        let any_text = SINGLE_BYTE.iter().any(|known| encoding.starts_with(known));
        if any_text {
            // No conversion. This is the default, but the configuration of the server may differ.
            client.execute(&format!("SET client_encoding = '{encoding}'"))?;
        }
        Ok(Self {
            client,
            any_text,
            table: Layout::default(),
            rows: Vec::with_capacity(PIECE + 4096),
        })
    }

    fn flush(&mut self) -> Result<(), ServiceError> {
        self.client.copy_data(&self.rows)?;
        self.rows.clear();
        Ok(())
    }

    /// Installs the trigger that stores the time of the table's last change.
    fn watch(&mut self) -> Result<(), ServiceError> {
        let table = &self.table.name.to_ascii_lowercase();
        self.client.execute(CHANGES)?;
        self.client.execute(&format!(
            "INSERT INTO plimsoll_changes VALUES (current_schema(), '{table}', clock_timestamp()) \
             ON CONFLICT (table_owner, table_name) DO UPDATE SET change_time = excluded.change_time"
        ))?;
        self.client.execute(&format!(
            "CREATE TRIGGER plimsoll_last_modified AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} \
             FOR EACH STATEMENT EXECUTE FUNCTION plimsoll_last_modified()",
            quoted(table)
        ))
    }
}

impl Writer for Postgres {
    fn takes_any_text(&self) -> bool {
        self.any_text
    }

    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError> {
        let name = quoted(&table.name);
        self.client.execute("BEGIN")?;
        self.client.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
        self.client.execute(&table.create(quoted, type_of))?;
        self.table = table.clone();
        self.client.copy(&format!("COPY {name} FROM STDIN (FREEZE)"))
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError> {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
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
        if self.table.watched {
            self.watch()?;
        }
        self.client.execute("COMMIT")?;
        self.client
            .execute(&format!("ANALYZE {}", quoted(&self.table.name)))
    }
}

/// Appends a value in the text format of `COPY`.
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

/// Appends a text in the text format of `COPY`.
pub(crate) fn escape(rows: &mut Vec<u8>, bytes: &[u8]) {
    let mut from = 0;
    for at in memchr_iter(b'\r', bytes) {
        escape_line(rows, &bytes[from..at]);
        rows.extend_from_slice(b"\\r");
        from = at + 1;
    }
    escape_line(rows, &bytes[from..]);
}

/// Escapes bytes without a carriage return.
fn escape_line(rows: &mut Vec<u8>, bytes: &[u8]) {
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
    fn values_are_written_in_the_copy_format() {
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
        assert_eq!(text(Value::Text(b"\r\n\r")), "\\r\\n\\r");
        assert_eq!(text(Value::Blob(b"\x00\xff")), "\\\\x00ff");
    }
}
