//! Descriptions of columns.

use super::lenenc::{bytes, number};
use crate::sql::input::Fields;
use crate::sql::{Column, SqlProtocolError};

/// The character set of binary values.
const BINARY: u16 = 63;
/// Maximum length of a character in the connection's character set, utf8mb4, bytes. The server
/// computes the length of a text column with it.
const MAX_CHAR_BYTES: u32 = 4;
const FLAG_ENUM: u16 = 0x0100;
const FLAG_SET: u16 = 0x0800;

/// Reads `ColumnDefinition41`.
pub(super) fn column(message: &[u8]) -> Result<Column, SqlProtocolError> {
    let mut fields = Fields::new(message);
    for _ in 0..4 {
        bytes(&mut fields)?; // catalogue, schema, table as named in the query, table
    }
    let name = String::from_utf8_lossy(bytes(&mut fields)?).into_owned();
    bytes(&mut fields)?; // name in the table
    if number(&mut fields)? < 10 {
        return Err(SqlProtocolError::Nonsense(
            "description of a column that is too short",
        ));
    }
    let charset = u16::from_le_bytes(fields.array()?);
    let length = u32::from_le_bytes(fields.array()?);
    let kind = fields.byte()?;
    let flags = u16::from_le_bytes(fields.array()?);
    Ok(Column {
        name,
        type_name: type_name(kind, flags, charset == BINARY, length).to_owned(),
    })
}

fn type_name(kind: u8, flags: u16, binary: bool, length: u32) -> &'static str {
    match kind {
        0 | 246 => "decimal",
        1 => "tinyint",
        2 => "smallint",
        3 => "int",
        4 => "float",
        5 => "double",
        6 => "null",
        7 | 17 => "timestamp",
        8 => "bigint",
        9 => "mediumint",
        10 | 14 => "date",
        11 | 19 => "time",
        12 | 18 => "datetime",
        13 => "year",
        15 | 253 if binary => "varbinary",
        15 | 253 => "varchar",
        16 => "bit",
        245 => "json",
        247 => "enum",
        248 => "set",
        254 if flags & FLAG_ENUM != 0 => "enum",
        254 if flags & FLAG_SET != 0 => "set",
        254 if binary => "binary",
        254 => "char",
        249..=252 if binary => blob(length),
        249..=252 => text(length / MAX_CHAR_BYTES),
        255 => "geometry",
        _ => "unknown",
    }
}

/// Name of a BLOB type. All BLOB types have the same number and are distinguished by their maximum
/// length.
fn blob(length: u32) -> &'static str {
    match length {
        0..=0xff => "tinyblob",
        0x100..=0xffff => "blob",
        0x1_0000..=0xff_ffff => "mediumblob",
        _ => "longblob",
    }
}

fn text(length: u32) -> &'static str {
    match length {
        0..=0xff => "tinytext",
        0x100..=0xffff => "text",
        0x1_0000..=0xff_ffff => "mediumtext",
        _ => "longtext",
    }
}
