//! The binary log as a server sends it to a replica: which tables each group of changes touches,
//! and no row of them.
//!
//! Source: "Replication Protocol" of `MariaDB`'s knowledge base, and the pages on binary log events
//! of `MySQL`'s source documentation. What is not known counts as a change of anything, so that a
//! server's new kind of event loses nothing.

use super::nonsense;
use crate::sql::SqlProtocolError;
use crate::sql::input::Fields;

/// Bytes of every event's header.
const HEADER: usize = 19;
/// Events that only tell a replica how to count, or hold rows of a table that another event has
/// named.
const SILENT: [u8; 29] = [
    1, 3, 5, 13, 14, 17, 20, 21, 22, 23, 24, 25, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 39, 160, 161,
    162, 163, 164,
];
const QUERY: u8 = 2;
const ROTATE: u8 = 4;
const FORMAT: u8 = 15;
const XID: u8 = 16;
const EXECUTE_LOAD: u8 = 18;
const TABLE_MAP: u8 = 19;
const XA_PREPARE: u8 = 38;
const COMPRESSED_QUERY: u8 = 165;
const COMPRESSED_ROWS: std::ops::RangeInclusive<u8> = 166..=171;
/// A server that does not know better may leave this event out.
const IGNORABLE: u16 = 0x80;

/// What an event of the binary log says to somebody who wants to know what has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// Rows of this table follow.
    Table {
        /// Its database.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A statement by its text: DDL, `TRUNCATE`, `COMMIT`, or a change that is logged as a
    /// statement.
    Statement {
        /// The database that it was run in; may be empty.
        schema: String,
        /// Its text; `None` where it cannot be read (it is compressed).
        text: Option<String>,
    },
    /// A transaction ends; what was told before it is so.
    Commit,
    /// Something that is not understood: anything may have changed.
    Unknown(u8),
    /// The server is there; nothing has changed.
    Nothing,
}

/// Reads events; remembers how the server writes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    /// Bytes of a table's number in a table map.
    table_id: usize,
    /// Bytes behind each event: its checksum.
    tail: usize,
}

impl Log {
    /// Before the server has described its format.
    pub(super) fn new() -> Self {
        Self { table_id: 6, tail: 0 }
    }

    /// One event, as it stands behind the status byte of its packet.
    pub(super) fn event(&mut self, bytes: &[u8]) -> Result<LogEvent, SqlProtocolError> {
        let mut fields = Fields::new(bytes);
        fields.take(4)?; // when
        let kind = fields.byte()?;
        fields.take(4)?; // by which server
        let length = u32::from_le_bytes(fields.array()?) as usize;
        fields.take(4)?; // where the next one begins
        let flags = u16::from_le_bytes(fields.array()?);
        if length != bytes.len() {
            return Err(nonsense(
                "an event of the log that is longer or shorter than it says",
            ));
        }
        if kind == FORMAT {
            self.format(fields.rest())?;
            return Ok(LogEvent::Nothing);
        }
        // The rotation that a server makes up at the beginning has no checksum even where others
        // have one.
        let tail = if kind == ROTATE { 0 } else { self.tail };
        let body = fields.rest();
        let body = body
            .len()
            .checked_sub(tail)
            .and_then(|end| body.get(..end))
            .ok_or(nonsense("an event of the log that ends too early"))?;
        match kind {
            ROTATE => Ok(LogEvent::Nothing),
            QUERY => statement(body, 0),
            EXECUTE_LOAD => statement(body, 13),
            COMPRESSED_QUERY => unreadable(body),
            TABLE_MAP => self.table(body),
            XID | XA_PREPARE => Ok(LogEvent::Commit),
            kind if SILENT.contains(&kind) || COMPRESSED_ROWS.contains(&kind) => Ok(LogEvent::Nothing),
            _ if flags & IGNORABLE != 0 => Ok(LogEvent::Nothing),
            kind => Ok(LogEvent::Unknown(kind)),
        }
    }

    /// Of the description only the checksum and the length of a table map's head matter here.
    fn format(&mut self, body: &[u8]) -> Result<(), SqlProtocolError> {
        let mut fields = Fields::new(body);
        if u16::from_le_bytes(fields.array()?) != 4 {
            return Err(nonsense("a binary log of before version 5.0"));
        }
        fields.take(50 + 4)?; // the server's version, when the log was begun
        if usize::from(fields.byte()?) != HEADER {
            return Err(nonsense("a binary log with other headers"));
        }
        let lengths = fields.rest();
        if let Some(head) = lengths.get(usize::from(TABLE_MAP) - 1) {
            self.table_id = if *head == 6 { 4 } else { 6 };
        }
        // All servers of this protocol end the description with the algorithm and four bytes of
        // checksum.
        let algorithm = lengths.len().checked_sub(5).and_then(|at| lengths.get(at));
        self.tail = match algorithm {
            Some(0 | 0xff) | None => 0,
            Some(1) => 4,
            Some(_) => return Err(nonsense("a binary log with an unknown checksum")),
        };
        Ok(())
    }

    fn table(&self, body: &[u8]) -> Result<LogEvent, SqlProtocolError> {
        let mut fields = Fields::new(body);
        fields.take(self.table_id + 2)?;
        let schema = short_text(&mut fields)?;
        let name = short_text(&mut fields)?;
        Ok(LogEvent::Table { schema, name })
    }
}

/// A text of one byte's length, with a NUL behind it.
fn short_text(fields: &mut Fields<'_>) -> Result<String, SqlProtocolError> {
    let length = usize::from(fields.byte()?);
    let text = String::from_utf8_lossy(fields.take(length)?).into_owned();
    fields.byte()?;
    Ok(text)
}

/// A query event; that of a load has `more` bytes in its head.
fn statement(body: &[u8], more: usize) -> Result<LogEvent, SqlProtocolError> {
    let mut fields = Fields::new(body);
    let schema = before_text(&mut fields, more)?;
    let text = Some(String::from_utf8_lossy(fields.rest()).into_owned());
    Ok(LogEvent::Statement { schema, text })
}

fn unreadable(body: &[u8]) -> Result<LogEvent, SqlProtocolError> {
    let schema = before_text(&mut Fields::new(body), 0)?;
    Ok(LogEvent::Statement { schema, text: None })
}

/// Reads up to the text; gives the database.
fn before_text(fields: &mut Fields<'_>, more: usize) -> Result<String, SqlProtocolError> {
    fields.take(8)?; // the session, how long it took
    let schema = usize::from(fields.byte()?);
    fields.take(2)?; // the error
    let status = usize::from(u16::from_le_bytes(fields.array()?));
    fields.take(more + status)?;
    let schema = String::from_utf8_lossy(fields.take(schema)?).into_owned();
    fields.byte()?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u8, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        [
            &[0; 4],
            &[kind][..],
            &[1, 0, 0, 0],
            &length.to_le_bytes(),
            &[0; 4],
            &flags.to_le_bytes(),
            body,
        ]
        .concat()
    }

    fn description(algorithm: u8, table_map: u8) -> Vec<u8> {
        let mut lengths = [8; 40];
        lengths[18] = table_map;
        let body = [
            &4u16.to_le_bytes()[..],
            &[0; 54],
            &[19],
            &lengths,
            &[algorithm],
            &[0; 4],
        ];
        event(FORMAT, 0, &body.concat())
    }

    #[test]
    fn checksums_and_short_numbers_of_tables_are_as_described() {
        for (algorithm, head, id, tail) in [(0, 8, 6, 0), (1, 8, 6, 4), (1, 6, 4, 4)] {
            let mut log = Log::new();
            assert_eq!(log.event(&description(algorithm, head)), Ok(LogEvent::Nothing));
            let body = [&vec![0; id + 2][..], b"\x01d\0\x02t1\0\x01\x03\0", &vec![0; tail]].concat();
            let expected = LogEvent::Table {
                schema: "d".into(),
                name: "t1".into(),
            };
            assert_eq!(log.event(&event(TABLE_MAP, 0, &body)), Ok(expected));
        }
        assert!(Log::new().event(&description(2, 8)).is_err());
    }

    #[test]
    fn what_is_not_understood_may_be_a_change_of_anything() {
        let mut log = Log::new();
        assert_eq!(log.event(&event(40, 0, b"zstd")), Ok(LogEvent::Unknown(40)));
        assert_eq!(log.event(&event(26, 0, b"\x01\0\0")), Ok(LogEvent::Unknown(26)));
        assert_eq!(log.event(&event(200, IGNORABLE, b"")), Ok(LogEvent::Nothing));
        let body = [&[0; 8][..], &[1, 0, 0, 0, 0], b"d\0", b"\x89abc"].concat();
        let unread = LogEvent::Statement {
            schema: "d".into(),
            text: None,
        };
        assert_eq!(log.event(&event(COMPRESSED_QUERY, 0, &body)), Ok(unread));
    }

    #[test]
    fn cut_events_are_errors() {
        let mut log = Log::new();
        log.event(&description(1, 8)).unwrap();
        let whole = event(TABLE_MAP, 0, b"12345678\x01d\0\x02t1\0\x01\x03\0sums");
        assert!(log.event(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(log.event(&whole[..end]).is_err(), "{end}");
        }
        for end in 0..12 {
            let body = event(TABLE_MAP, 0, &whole[HEADER..HEADER + end]);
            assert!(log.event(&body).is_err(), "{end}");
        }
    }
}
