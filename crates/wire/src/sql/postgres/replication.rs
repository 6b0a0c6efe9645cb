//! Messages of a replication stream, within `CopyData` messages. Source: section "Streaming
//! Replication Protocol" of the documentation of `PostgreSQL`.

use super::nonsense;
use crate::sql::input::Fields;
use crate::sql::{SqlProtocolError, StreamEvent};

/// Reads a message of the server: a change, or its position in the log.
pub(super) fn read(data: &[u8]) -> Result<StreamEvent, SqlProtocolError> {
    let mut fields = Fields::new(data);
    match fields.byte()? {
        b'w' => {
            let position = u64::from_be_bytes(fields.array()?);
            fields.take(16)?; // the end of the log, and the time
            let text = std::str::from_utf8(fields.rest());
            Ok(StreamEvent::Decoded {
                position,
                text: text.map_or_else(|_| latin(fields.rest()), str::to_owned),
            })
        }
        b'k' => Ok(StreamEvent::Position(u64::from_be_bytes(fields.array()?))),
        _ => Err(nonsense("unknown message of a replication stream")),
    }
}

/// The text in a database whose encoding is not UTF-8. A byte outside ASCII becomes one character,
/// so that names that differ remain different.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The report that everything up to a position was processed. It requests a response.
pub(super) fn report(position: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"d\0\0\0\x26r");
    for _ in 0..3 {
        out.extend_from_slice(&position.to_be_bytes()); // written, flushed, applied
    }
    out.extend_from_slice(&0_u64.to_be_bytes()); // the time, which the server only displays
    out.push(1);
}
