//! Runs one query on one `SQLite` connection.

use plimsoll_wire::frontier::request::split_binds;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::super::{Failure, Packer, Query};

/// Reason why a query ended early.
pub(super) enum Stop {
    /// The client has closed the connection.
    Gone,
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failure(failed(&error))
    }
}

fn failed(error: &rusqlite::Error) -> Failure {
    match error {
        // Its Display contains the whole query, which the client knows and which may have 256 kB.
        rusqlite::Error::SqlInputError { msg, .. } => Failure::database(msg),
        other => Failure::database(other),
    }
}

/// The first value of the first row as text. `None` if there is no row, or NULL.
pub(super) fn value(connection: &Connection, sql: &str) -> Result<Option<String>, Failure> {
    let read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let value = statement.query_row([], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Null => None,
                ValueRef::Integer(number) => Some(number.to_string()),
                ValueRef::Real(number) => Some(number.to_string()),
                ValueRef::Text(text) | ValueRef::Blob(text) => {
                    Some(String::from_utf8_lossy(text).into_owned())
                }
            })
        });
        Ok(value.optional()?.flatten())
    };
    read().map_err(|error| failed(&error))
}

/// Packs the whole result. `emit` receives the pieces, and returns false to stop.
pub(super) fn pack(
    connection: &Connection,
    query: &Query,
    packer: &mut Packer,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) -> Result<(), Stop> {
    query.check()?;
    let (sql, binds) = split_binds(&query.sql);
    let mut statement = connection.prepare_cached(sql)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Failure::refused("Query cancelled").into());
    }
    // In lower case, as in PostgreSQL, because SQLite changes the case of some declared types and
    // not of others.
    let columns: Vec<(String, Option<String>)> = statement
        .columns()
        .map(|column| {
            (
                column.name().to_owned(),
                column.decl_type().map(str::to_ascii_lowercase),
            )
        })
        .collect();
    let mut results = statement.query(params_from_iter(binds))?;
    let mut row = results.next()?;
    for (index, (name, declared)) in columns.iter().enumerate() {
        // An expression has no declared type. Its type is that of the value in the first row.
        let type_name = match (declared, row) {
            (Some(declared), _) => declared.as_str(),
            (None, Some(row)) => type_name(row.get_ref(index)?),
            (None, None) => "text",
        };
        packer.column(name, type_name);
    }
    packer.end_columns();
    while let Some(values) = row {
        for index in 0..columns.len() {
            put(packer, values.get_ref(index)?, &mut emit)?;
        }
        packer.end_row();
        if packer.is_full() && !emit(packer.take()) {
            return Err(Stop::Gone);
        }
        row = results.next()?;
    }
    Ok(())
}

fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Integer(_) => "integer",
        ValueRef::Real(_) => "real",
        ValueRef::Blob(_) => "blob",
        ValueRef::Text(_) | ValueRef::Null => "text",
    }
}

/// Packs a value as text, as does the servlet. The bytes of a blob are not changed.
fn put(packer: &mut Packer, value: ValueRef<'_>, emit: &mut impl FnMut(Vec<u8>) -> bool) -> Result<(), Stop> {
    let mut put = |bytes: Option<&[u8]>| {
        let mut from = 0;
        while let Some(next) = packer.value(bytes, from) {
            if !emit(packer.take()) {
                return Err(Stop::Gone);
            }
            from = next;
        }
        if packer.is_full() && !emit(packer.take()) {
            return Err(Stop::Gone);
        }
        Ok(())
    };
    match value {
        ValueRef::Null => put(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => put(Some(bytes)),
        ValueRef::Integer(number) => put(Some(decimal(number, &mut [0; 20]))),
        // The shortest text that is parsed as the same number, with a decimal point or an exponent:
        // 1.0, 0.1, 1e300.
        ValueRef::Real(number) => put(Some(format!("{number:?}").as_bytes())),
    }
}

/// Decimal text of a number, at the end of the buffer. Rejected: `fmt`, which costs as much as
/// fetching the row. Most columns are integers.
fn decimal(number: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut index = digits.len();
    let mut remaining = number.unsigned_abs();
    loop {
        index -= 1;
        digits[index] = b'0' + (remaining % 10) as u8;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    if number < 0 {
        index -= 1;
        digits[index] = b'-';
    }
    &digits[index..]
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::frontier::request::{Encoding, Ttl};

    use super::*;

    #[test]
    fn integers_become_decimal_text() {
        for number in [0, 7, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    const MANY: &str =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000) SELECT x FROM c";

    fn run(emit: impl FnMut(Vec<u8>) -> bool) -> (Result<(), Stop>, Packer) {
        let connection = Connection::open_in_memory().unwrap();
        let query = Query {
            method: "DEFAULT".into(),
            sql: MANY.into(),
            encoding: Encoding::Blob,
            ttl: Ttl::Long,
            signed: None,
        };
        let mut packer = Packer::new(query.encoding, None);
        (pack(&connection, &query, &mut packer, emit), packer)
    }

    #[test]
    fn a_long_result_is_packed_in_bounded_pieces() {
        let mut pieces = Vec::new();
        let (outcome, packer) = run(|piece| {
            pieces.push(piece.len());
            true
        });
        assert!(outcome.is_ok());
        assert_eq!(packer.records(), 100_000);
        assert!(pieces.len() > 10);
        assert!(pieces.iter().all(|length| *length <= 96 * 1024));
    }

    #[test]
    fn the_query_ends_if_a_piece_is_not_accepted() {
        let mut pieces = 0;
        let (outcome, _) = run(|_| {
            pieces += 1;
            pieces < 2
        });
        assert!(matches!(outcome, Err(Stop::Gone)));
        assert_eq!(pieces, 2);
    }
}
