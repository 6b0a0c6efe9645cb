//! The binary log that a server sends to a replica: which tables a group of changes affects. Rows
//! are not read.
//!
//! Sources: "Replication Protocol" of `MariaDB`'s knowledge base, and the pages on binary log
//! events of `MySQL`'s source documentation. An unknown kind of event counts as a change of any
//! table, so that no change is missed.

use super::nonsense;
use crate::sql::SqlProtocolError;
use crate::sql::input::Fields;

/// Length of the header of an event, bytes.
const HEADER: usize = 19;
/// Events without a change for a replica, and events with rows of a table that an earlier event has
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
/// Flag of an event that a replica may ignore if it does not know its kind.
const IGNORABLE: u16 = 0x80;

/// An event of the binary log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// Changed rows of this table follow.
    Table {
        /// Name of the database.
        schema: String,
        /// Name of the table.
        name: String,
    },
    /// A statement: DDL, `TRUNCATE`, `COMMIT`, or a change that is logged as a statement.
    Statement {
        /// The current database of the statement; can be empty.
        schema: String,
        /// Text of the statement; none if it is compressed.
        text: Option<String>,
    },
    /// A transaction ends: the changes before this event are committed.
    Commit,
    /// An event of this unknown kind: any table may have changed.
    Unknown(u8),
    /// An event without a change.
    Nothing,
}

/// Reads events, and stores the format in which the server writes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    /// Length of the number of a table in a table map, bytes.
    table_id: usize,
    /// Length of the checksum at the end of each event, bytes.
    tail: usize,
}

impl Log {
    /// The state before the server has described its format.
    pub(super) fn new() -> Self {
        Self { table_id: 6, tail: 0 }
    }

    /// Reads one event, which follows the status byte of its packet.
    pub(super) fn event(&mut self, bytes: &[u8]) -> Result<LogEvent, SqlProtocolError> {
        let mut fields = Fields::new(bytes);
        fields.take(4)?; // time
        let kind = fields.byte()?;
        fields.take(4)?; // id of the server
        let length = u32::from_le_bytes(fields.array()?) as usize;
        fields.take(4)?; // position of the next event
        let flags = u16::from_le_bytes(fields.array()?);
        if length != bytes.len() {
            return Err(nonsense(
                "binary log event whose length is not that of its header",
            ));
        }
        if kind == FORMAT {
            self.format(fields.rest())?;
            return Ok(LogEvent::Nothing);
        }
        // The artificial rotation event at the beginning has no checksum, even if other events have
        // one.
        let tail = if kind == ROTATE { 0 } else { self.tail };
        let body = fields.rest();
        let body = body
            .len()
            .checked_sub(tail)
            .and_then(|end| body.get(..end))
            .ok_or(nonsense("binary log event that ends too early"))?;
        match kind {
            ROTATE => Ok(LogEvent::Nothing),
            QUERY => statement(body, 0),
            EXECUTE_LOAD => statement(body, 13),
            COMPRESSED_QUERY => compressed_statement(body),
            TABLE_MAP => self.table(body),
            XID | XA_PREPARE => Ok(LogEvent::Commit),
            kind if SILENT.contains(&kind) || COMPRESSED_ROWS.contains(&kind) => Ok(LogEvent::Nothing),
            _ if flags & IGNORABLE != 0 => Ok(LogEvent::Nothing),
            kind => Ok(LogEvent::Unknown(kind)),
        }
    }

    /// Reads the format description: the kind of checksum and the length of the head of a table
    /// map.
    fn format(&mut self, body: &[u8]) -> Result<(), SqlProtocolError> {
        let mut fields = Fields::new(body);
        if u16::from_le_bytes(fields.array()?) != 4 {
            return Err(nonsense("binary log of a server before version 5.0"));
        }
        fields.take(50 + 4)?; // version of the server, time at which the log was begun
        if usize::from(fields.byte()?) != HEADER {
            return Err(nonsense("binary log with headers of an unknown length"));
        }
        let lengths = fields.rest();
        if let Some(head) = lengths.get(usize::from(TABLE_MAP) - 1) {
            self.table_id = if *head == 6 { 4 } else { 6 };
        }
        // All servers of this protocol end the description with the algorithm and a checksum of
        // four bytes.
        let algorithm = lengths.len().checked_sub(5).and_then(|index| lengths.get(index));
        self.tail = match algorithm {
            Some(0 | 0xff) | None => 0,
            Some(1) => 4,
            Some(_) => return Err(nonsense("binary log with an unknown checksum algorithm")),
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

/// Reads a text whose length is one byte and that ends with a NUL.
fn short_text(fields: &mut Fields<'_>) -> Result<String, SqlProtocolError> {
    let length = usize::from(fields.byte()?);
    let text = String::from_utf8_lossy(fields.take(length)?).into_owned();
    fields.byte()?;
    Ok(text)
}

/// Reads a query event. That of a load has `extra` bytes more in its head.
fn statement(body: &[u8], extra: usize) -> Result<LogEvent, SqlProtocolError> {
    let mut fields = Fields::new(body);
    let schema = statement_head(&mut fields, extra)?;
    let text = Some(String::from_utf8_lossy(fields.rest()).into_owned());
    Ok(LogEvent::Statement { schema, text })
}

/// Reads a query event whose text is compressed.
fn compressed_statement(body: &[u8]) -> Result<LogEvent, SqlProtocolError> {
    let schema = statement_head(&mut Fields::new(body), 0)?;
    Ok(LogEvent::Statement { schema, text: None })
}

/// Reads the head of a query event, up to the text. Returns the database.
fn statement_head(fields: &mut Fields<'_>, extra: usize) -> Result<String, SqlProtocolError> {
    fields.take(8)?; // number of the session, duration
    let schema = usize::from(fields.byte()?);
    fields.take(2)?; // error code
    let status = usize::from(u16::from_le_bytes(fields.array()?));
    fields.take(extra + status)?;
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
    fn checksums_and_lengths_of_table_numbers_follow_the_format_description() {
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
    fn an_unknown_event_is_reported_as_unknown_unless_it_is_ignorable() {
        let mut log = Log::new();
        assert_eq!(log.event(&event(40, 0, b"zstd")), Ok(LogEvent::Unknown(40)));
        assert_eq!(log.event(&event(26, 0, b"\x01\0\0")), Ok(LogEvent::Unknown(26)));
        assert_eq!(log.event(&event(200, IGNORABLE, b"")), Ok(LogEvent::Nothing));
        let body = [&[0; 8][..], &[1, 0, 0, 0, 0], b"d\0", b"\x89abc"].concat();
        let compressed = LogEvent::Statement {
            schema: "d".into(),
            text: None,
        };
        assert_eq!(log.event(&event(COMPRESSED_QUERY, 0, &body)), Ok(compressed));
    }

    #[test]
    fn truncated_events_are_errors() {
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
