//! Writer for `MariaDB`: statements INSERT of about 1 MB each, in one transaction.
//!
//! In `MariaDB`, `CREATE TABLE` ends a transaction. If the rows cannot be written, an empty table
//! therefore remains.

use std::io::Write as _;

use plimsoll_wire::sql::Address;

use super::client::Client;
use super::{Layout, Sql, Value, Writer};
use crate::ServiceError;
use crate::date::timestamp;

/// Minimum length of a statement in bytes, except for the last one. It is well below
/// `max_allowed_packet`, which is 16 MiB, or 4 MiB on some servers.
const STATEMENT: usize = 1_000_000;

pub(super) struct Mysql {
    client: Client,
    table: Layout,
    /// The incomplete statement.
    statement: Vec<u8>,
    /// The beginning of every statement.
    head: String,
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

fn type_of(sql: Sql) -> String {
    let sized = |length, small, large| if length <= 65_535 { small } else { large };
    match sql {
        Sql::Int | Sql::Version => "bigint",
        Sql::Float => "double",
        Sql::Time => "datetime",
        Sql::Name => "varchar(255)",
        Sql::Long => "mediumtext",
        Sql::Strings(length, true) => sized(length, "text", "mediumtext"),
        Sql::Strings(length, false) | Sql::Blob(length) => sized(length, "blob", "mediumblob"),
    }
    .to_owned()
}

impl Mysql {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        let mut client = Client::open(address)?;
        // In the strict mode a value that does not fit is an error. This value also makes
        // backslashes escape characters, which `put` requires.
        client.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")?;
        client.execute("SET SESSION unique_checks = 0, foreign_key_checks = 0")?;
        Ok(Self {
            client,
            table: Layout::default(),
            statement: Vec::with_capacity(STATEMENT + 4096),
            head: String::new(),
        })
    }

    fn flush(&mut self) -> Result<(), ServiceError> {
        if self.statement.is_empty() {
            return Ok(());
        }
        // All text is ASCII. Other bytes would be a fault, and are passed on so that the server
        // rejects them.
        let statement = String::from_utf8_lossy(&self.statement);
        self.client.execute(&statement)?;
        self.statement.clear();
        Ok(())
    }
}

impl Writer for Mysql {
    fn begin(&mut self, table: &Layout) -> Result<(), ServiceError> {
        let name = quoted(&table.name);
        self.client.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
        let create = table.create(quoted, type_of);
        // The other collations of binary order ignore spaces at the end.
        let collation = if table.bytewise {
            " COLLATE=utf8mb4_nopad_bin"
        } else {
            ""
        };
        self.client.execute(&format!(
            "{create} ENGINE=InnoDB DEFAULT CHARSET=utf8mb4{collation}"
        ))?;
        self.table = table.clone();
        self.head = format!("INSERT INTO {name} VALUES ");
        self.client.execute("START TRANSACTION")
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError> {
        if self.statement.is_empty() {
            self.statement.extend_from_slice(self.head.as_bytes());
        } else {
            self.statement.push(b',');
        }
        for (index, value) in values.iter().enumerate() {
            self.statement.push(if index == 0 { b'(' } else { b',' });
            put(&mut self.statement, *value);
        }
        self.statement.push(b')');
        if self.statement.len() >= STATEMENT {
            self.flush()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ServiceError> {
        self.flush()?;
        self.client.execute("COMMIT")?;
        for index in self.table.create_indexes(quoted) {
            self.client.execute(&index)?;
        }
        self.client
            .execute(&format!("ANALYZE TABLE {}", quoted(&self.table.name)))
    }
}

/// Appends a value as a literal.
fn put(statement: &mut Vec<u8>, value: Value<'_>) {
    // Writing to a Vec cannot fail.
    let _ = match value {
        Value::Null => statement.write_all(b"NULL"),
        Value::Int(number) => write!(statement, "{number}"),
        Value::Float(number) => write!(statement, "{number:?}"),
        Value::Time(seconds) => write!(statement, "'{}'", timestamp(seconds)),
        Value::Text(bytes) => {
            statement.push(b'\'');
            for byte in bytes {
                if matches!(byte, b'\'' | b'\\') {
                    statement.push(b'\\');
                }
                statement.push(*byte);
            }
            statement.write_all(b"'")
        }
        Value::Blob(bytes) => {
            statement.extend_from_slice(b"x'");
            super::hex(statement, bytes);
            statement.write_all(b"'")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_literals() {
        let text = |value| {
            let mut statement = Vec::new();
            put(&mut statement, value);
            String::from_utf8(statement).unwrap()
        };
        assert_eq!(text(Value::Null), "NULL");
        assert_eq!(text(Value::Int(-5)), "-5");
        assert_eq!(text(Value::Float(1.5)), "1.5");
        assert_eq!(text(Value::Time(0)), "'1970-01-01 00:00:00'");
        assert_eq!(text(Value::Text(b"o'b\\\"")), "'o\\'b\\\\\"'");
        assert_eq!(text(Value::Blob(b"\x00\xff")), "x'00ff'");
    }
}
