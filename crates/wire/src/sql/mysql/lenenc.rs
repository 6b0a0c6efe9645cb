//! Length-encoded numbers and byte strings.

use crate::sql::SqlProtocolError;
use crate::sql::input::Fields;

/// First byte of a NULL value.
pub(super) const NULL: u8 = 0xfb;

/// Reads a number of 1, 3, 4 or 9 bytes.
pub(super) fn number(fields: &mut Fields<'_>) -> Result<u64, SqlProtocolError> {
    Ok(match fields.byte()? {
        0xfc => u64::from(u16::from_le_bytes(fields.array()?)),
        0xfd => {
            let [a, b, c] = fields.array()?;
            u64::from(u32::from_le_bytes([a, b, c, 0]))
        }
        0xfe => u64::from_le_bytes(fields.array()?),
        NULL | 0xff => return Err(SqlProtocolError::Nonsense("invalid length")),
        small => u64::from(small),
    })
}

/// Reads a byte string, which begins with its length.
pub(super) fn bytes<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], SqlProtocolError> {
    // A length that does not fit into usize exceeds every message.
    let length = usize::try_from(number(fields)?).unwrap_or(usize::MAX);
    fields.take(length)
}
