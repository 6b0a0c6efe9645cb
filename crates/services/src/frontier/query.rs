//! One query on one connection: rows -> result set -> zlib -> MD5 -> base64, in pieces of bounded size.

use plimsoll_wire::frontier::armor::Armor;
use plimsoll_wire::frontier::frame::Quality;
use plimsoll_wire::frontier::payload::Encoder;
use plimsoll_wire::frontier::request::{Encoding, Ttl, split_binds};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

/// Text of a payload is handed on in pieces of about this size.
const PIECE: usize = 64 * 1024;
/// Bytes of result set gathered before they are packed.
const GATHER: usize = 16 * 1024;

/// What to run and how to pack it.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) method: String,
    pub(super) sql: String,
    pub(super) encoding: Encoding,
    pub(super) ttl: Ttl,
}

/// Where the text goes. False when nobody wants it any more.
pub(super) trait Sink {
    fn piece(&mut self, text: Vec<u8>) -> bool;
}

/// The end of a payload: text not handed on yet, and its quality, the error complete but for the age.
#[derive(Debug)]
pub(super) struct End {
    pub(super) text: Vec<u8>,
    pub(super) quality: Quality,
}

/// The servlet's guard, with its words: a plain search for five words, also inside literals. The real protection is that
/// the connection is read-only and authorized for reading alone.
fn guarded(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    ["drop ", "delete ", "insert ", "alter ", "create "]
        .iter()
        .any(|word| lower.contains(word))
}

/// Runs the query. `None` when the sink refused: the client has gone, and no end is needed.
pub(super) fn run(
    connection: &Connection,
    query: &Query,
    rows: &mut Encoder,
    sink: &mut impl Sink,
) -> Option<End> {
    let mut armor = Armor::new(query.encoding);
    let mut text = Vec::with_capacity(PIECE + 2 * GATHER);
    rows.buffer.clear();
    let result = answer(connection, query, rows, |bytes| {
        armor.push(bytes, &mut text);
        if text.len() < PIECE {
            return true;
        }
        let piece = std::mem::replace(&mut text, Vec::with_capacity(PIECE + 2 * GATHER));
        sink.piece(piece)
    });
    armor.push(&rows.buffer, &mut text);
    let seal = Some(armor.finish(&mut text));
    let quality = match result {
        Err(Failure::Gone) => return None,
        Err(Failure::Message(message)) => Quality {
            error: Some(message),
            seal,
            ..Quality::default()
        },
        Ok(0) if query.ttl == Ttl::Forever => {
            let message = "Exception: Empty result from query not allowed".into();
            Quality {
                error: Some(message),
                seal,
                ..Quality::default()
            }
        }
        Ok(records) => Quality {
            records: Some(records),
            seal,
            ..Quality::default()
        },
    };
    Some(End { text, quality })
}

enum Failure {
    /// Nobody takes the answer.
    Gone,
    /// Becomes the message of the payload error.
    Message(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            // Its Display repeats the whole query: the client knows it, and it may have 256 kB.
            rusqlite::Error::SqlInputError { msg, .. } => Self::Message(format!("SQLException: {msg}")),
            other => Self::Message(format!("SQLException: {other}")),
        }
    }
}

/// Feeds the result set to `push` (emptying `rows.buffer` each time); returns the number of rows.
fn answer(
    connection: &Connection,
    query: &Query,
    rows: &mut Encoder,
    mut push: impl FnMut(&[u8]) -> bool,
) -> Result<u64, Failure> {
    let fail = |message: &str| Err(Failure::Message(format!("Exception: {message}")));
    if query.method != "DEFAULT" {
        return fail(&format!("Unknown method {}", query.method));
    }
    if guarded(&query.sql) {
        return fail("Query cancelled");
    }
    let (sql, binds) = split_binds(&query.sql);
    let mut statement = connection.prepare_cached(sql)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return fail("Query cancelled");
    }
    // In lower case, as PostgreSQL says them: SQLite itself changes the case of some declared types and not of others.
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
        // An expression has no declared type: the first row's value tells.
        let found = match (declared, row) {
            (Some(declared), _) => declared.as_str(),
            (None, Some(row)) => type_name(row.get_ref(index)?),
            (None, None) => "text",
        };
        rows.column(name, found);
    }
    rows.end_record();
    let mut count = 0;
    while let Some(values) = row {
        for index in 0..columns.len() {
            put(rows, values.get_ref(index)?);
        }
        rows.end_record();
        count += 1;
        if rows.buffer.len() >= GATHER {
            if !push(&rows.buffer) {
                return Err(Failure::Gone);
            }
            rows.buffer.clear();
        }
        row = results.next()?;
    }
    Ok(count)
}

fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Integer(_) => "integer",
        ValueRef::Real(_) => "real",
        ValueRef::Blob(_) => "blob",
        ValueRef::Text(_) | ValueRef::Null => "text",
    }
}

/// Every value goes as text, as the servlet does it; bytes of a blob go as they are.
fn put(rows: &mut Encoder, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => rows.value(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => rows.value(Some(bytes)),
        ValueRef::Integer(number) => {
            let mut digits = [0; 20];
            rows.value(Some(decimal(number, &mut digits)));
        }
        // The shortest text that reads back as the same number, with a point: 1.0, 0.1, 1e300.
        ValueRef::Real(number) => rows.value(Some(format!("{number:?}").as_bytes())),
    }
}

/// Decimal text of a number, at the end of the buffer: integers are the common column, and formatting them through
/// `fmt` would cost as much as fetching the row.
fn decimal(number: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

/// Statements that a connection keeps prepared. Workloads of distinct queries turn the cache over; those that repeat a
/// few hundred do not.
pub(super) const CACHED_STATEMENTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 7, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn the_guard_is_as_naive_as_the_servlets() {
        assert!(guarded("SELECT 'Drop it'"));
        assert!(guarded("DELETE FROM t"));
        assert!(!guarded("SELECT dropped, created FROM t"));
    }

    struct Pieces(Vec<Vec<u8>>, usize);

    impl Sink for Pieces {
        fn piece(&mut self, text: Vec<u8>) -> bool {
            self.0.push(text);
            self.0.len() < self.1
        }
    }

    fn query(sql: &str) -> Query {
        Query {
            method: "DEFAULT".into(),
            sql: sql.into(),
            encoding: Encoding::Blob,
            ttl: Ttl::Long,
        }
    }

    const MANY: &str =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000) SELECT x FROM c";

    #[test]
    fn long_results_come_in_bounded_pieces() {
        let connection = Connection::open_in_memory().unwrap();
        let mut sink = Pieces(Vec::new(), usize::MAX);
        let end = run(&connection, &query(MANY), &mut Encoder::default(), &mut sink).unwrap();
        assert_eq!(end.quality.records, Some(100_000));
        assert!(sink.0.len() > 10);
        assert!(sink.0.iter().all(|piece| piece.len() <= PIECE + 2 * GATHER));
    }

    #[test]
    fn a_sink_that_refuses_ends_the_query() {
        let connection = Connection::open_in_memory().unwrap();
        let mut sink = Pieces(Vec::new(), 2);
        assert!(run(&connection, &query(MANY), &mut Encoder::default(), &mut sink).is_none());
        assert_eq!(sink.0.len(), 2);
    }
}
