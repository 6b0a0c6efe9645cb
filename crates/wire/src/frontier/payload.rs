//! The binary result set in a payload: a big-endian stream of typed fields without a header.
//!
//! A field consists of one type byte and its body. If [`NULL`] is set in the type byte, no body
//! follows. The first record contains the name and the type of each column as text, in turn; every
//! further record is a row. Each record ends with [`END_OF_RECORD`]. There is no count and no end
//! mark: the result set ends with the data.

use std::ops::ControlFlow;

use thiserror::Error;

/// Type byte of an array of bytes: 4 bytes of length, then the bytes.
pub const ARRAY: u8 = 6;
/// Type byte that ends a record.
pub const END_OF_RECORD: u8 = 7;
/// Bit of a type byte: the value is NULL.
pub const NULL: u8 = 0x80;

/// Appends a result set to a buffer. The caller can empty the buffer at any time, so that a result
/// of any size can be streamed.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Bytes of the result set that the caller has not removed.
    pub buffer: Vec<u8>,
}

impl Encoder {
    /// Appends a value as text or raw bytes; none is NULL. The servlet sends every value as text,
    /// and cuts each character to its low byte, which damages all characters outside Latin-1. This
    /// encoder does not change the bytes.
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                // The length fits into u32: the limit of SQLite is 2^31 - 1, that of the servers
                // 2^30, and that of the gateway is much lower.
                self.array(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                self.buffer.extend_from_slice(bytes);
            }
            None => self.buffer.push(ARRAY | NULL),
        }
    }

    /// Appends the head of a value of `length` bytes. The caller must send exactly this number of
    /// bytes after it. They need not be in the buffer, so that a large value need not be copied.
    pub fn array(&mut self, length: u32) {
        self.buffer.push(ARRAY);
        self.buffer.extend_from_slice(&length.to_be_bytes());
    }

    /// Appends a column to the first record.
    pub fn column(&mut self, name: &str, type_name: &str) {
        self.value(Some(name.as_bytes()));
        self.value(Some(type_name.as_bytes()));
    }

    /// Ends the record.
    pub fn end_record(&mut self) {
        self.buffer.push(END_OF_RECORD);
    }
}

/// A field of a record, borrowed from the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    /// NULL of any type.
    Null,
    /// Type 0.
    Byte(u8),
    /// Type 1.
    Int4(i32),
    /// Type 2.
    Int8(i64),
    /// Type 3.
    Float(f32),
    /// Type 4.
    Double(f64),
    /// Type 5: milliseconds since 1970.
    Time(i64),
    /// Type 6.
    Bytes(&'a [u8]),
    /// Type 7: the record is complete.
    EndOfRecord,
}

/// Where and why a payload is not a result set.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PayloadError {
    /// The type of a field is unknown.
    #[error("unknown field type {kind:#04x} at byte {at}")]
    UnknownType {
        /// The type byte.
        kind: u8,
        /// Offset of the type byte in the payload, bytes.
        at: usize,
    },
    /// The payload ends within a field.
    #[error("the payload ends within the field at byte {at}")]
    Cut {
        /// Offset of the field's type byte, bytes.
        at: usize,
    },
    /// The payload ends within a record.
    #[error("the last record is not complete")]
    OpenRecord,
}

/// Iterator over the fields of a payload, in order. It does not allocate, accepts any bytes, and
/// ends after the first error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    payload: &'a [u8],
    offset: usize,
}

impl<'a> Fields<'a> {
    /// Begins at the first field of `payload`, which is inflated.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, offset: 0 }
    }

    fn body<const N: usize>(&self) -> Option<[u8; N]> {
        let start = self.offset + 1;
        self.payload.get(start..start + N)?.try_into().ok()
    }

    fn field(&self, kind: u8) -> Option<(Field<'a>, usize)> {
        Some(match kind {
            0 => (Field::Byte(self.body::<1>()?[0]), 1),
            1 => (Field::Int4(i32::from_be_bytes(self.body()?)), 4),
            2 => (Field::Int8(i64::from_be_bytes(self.body()?)), 8),
            3 => (Field::Float(f32::from_be_bytes(self.body()?)), 4),
            4 => (Field::Double(f64::from_be_bytes(self.body()?)), 8),
            5 => (Field::Time(i64::from_be_bytes(self.body()?)), 8),
            ARRAY => {
                let length = u32::from_be_bytes(self.body()?) as usize;
                let start = self.offset + 5;
                (
                    Field::Bytes(self.payload.get(start..start.checked_add(length)?)?),
                    4 + length,
                )
            }
            END_OF_RECORD => (Field::EndOfRecord, 0),
            _ => (Field::Null, 0),
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, PayloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.offset;
        let &kind = self.payload.get(at)?;
        let is_known = kind & !NULL <= ARRAY || kind == END_OF_RECORD;
        let field = if is_known { self.field(kind) } else { None };
        if let Some((field, body)) = field {
            self.offset += 1 + body;
            return Some(Ok(field));
        }
        self.offset = self.payload.len();
        Some(Err(if is_known {
            PayloadError::Cut { at }
        } else {
            PayloadError::UnknownType { kind, at }
        }))
    }
}

/// Counts the rows of a payload, without the record of the columns. An empty payload has no rows
/// and is not an error.
pub fn count_rows(payload: &[u8]) -> Result<u64, PayloadError> {
    let mut records = 0_u64;
    let mut is_open = false;
    for field in Fields::new(payload) {
        is_open = field? != Field::EndOfRecord;
        records += u64::from(!is_open);
    }
    if is_open {
        Err(PayloadError::OpenRecord)
    } else {
        Ok(records.saturating_sub(1))
    }
}

/// Calls `visit` with the number and the fields of each record; record 0 contains the columns. The
/// slice is reused, so that nothing is allocated per row. `visit` can stop the iteration.
pub fn visit_records<'a>(
    payload: &'a [u8],
    mut visit: impl FnMut(u64, &[Field<'a>]) -> ControlFlow<()>,
) -> Result<(), PayloadError> {
    let mut record = Vec::new();
    let mut number = 0;
    for field in Fields::new(payload) {
        match field? {
            Field::EndOfRecord => {
                if visit(number, &record).is_break() {
                    return Ok(());
                }
                number += 1;
                record.clear();
            }
            field => record.push(field),
        }
    }
    if record.is_empty() {
        Ok(())
    } else {
        Err(PayloadError::OpenRecord)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::example;

    #[test]
    fn the_worked_example_is_encoded_exactly() {
        assert_eq!(example::encode_rows(), example::plain());
    }

    #[test]
    fn the_worked_example_is_decoded() {
        let plain = example::plain();
        assert_eq!(count_rows(&plain), Ok(2));
        let mut records = Vec::new();
        visit_records(&plain, |number, fields| {
            let text = |field: &Field<'_>| match field {
                Field::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            };
            records.push((number, fields.iter().map(text).collect::<Vec<_>>().join(" ")));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(
            records[0],
            (0, "iov_since int8 iov_until int8 payload text".to_owned())
        );
        assert_eq!(records[1], (1, "0 100 v=1".to_owned()));
        assert_eq!(records[2], (2, "100 9223372036854775807 Null".to_owned()));
    }

    #[test]
    fn every_type_and_its_null_are_decoded() {
        let mut bytes = vec![0, 9, 1, 0, 0, 0, 1, 2, 255, 255, 255, 255, 255, 255, 255, 254];
        bytes.extend([3].into_iter().chain(1.5_f32.to_be_bytes()));
        bytes.extend([4].into_iter().chain(2.5_f64.to_be_bytes()));
        bytes.extend([5].into_iter().chain(7_i64.to_be_bytes()));
        bytes.extend([0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 6, 0, 0, 0, 0, 7]);
        let fields: Vec<_> = Fields::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(fields[0..3], [Field::Byte(9), Field::Int4(1), Field::Int8(-2)]);
        assert_eq!(
            fields[3..6],
            [Field::Float(1.5), Field::Double(2.5), Field::Time(7)]
        );
        assert!(fields[6..13].iter().all(|field| *field == Field::Null));
        assert_eq!(fields[13..], [Field::Bytes(b""), Field::EndOfRecord]);
    }

    #[test]
    fn every_kind_of_damage_has_its_error() {
        assert_eq!(count_rows(&[]), Ok(0));
        assert_eq!(
            count_rows(&[7, 8]),
            Err(PayloadError::UnknownType { kind: 8, at: 1 })
        );
        assert_eq!(
            count_rows(&[0x87]),
            Err(PayloadError::UnknownType { kind: 0x87, at: 0 })
        );
        assert_eq!(count_rows(&[6, 0, 0, 0, 2, 65]), Err(PayloadError::Cut { at: 0 }));
        assert_eq!(
            count_rows(&[6, 255, 255, 255, 255]),
            Err(PayloadError::Cut { at: 0 })
        );
        assert_eq!(count_rows(&[6, 0]), Err(PayloadError::Cut { at: 0 }));
        assert_eq!(count_rows(&[0x86]), Err(PayloadError::OpenRecord));
    }

    /// A length or a text can contain the byte 7: a reader that splits at 7 miscounts this payload.
    #[test]
    fn a_byte_7_within_a_field_does_not_end_the_record() {
        let mut encoder = Encoder::default();
        encoder.column("payload", "text");
        encoder.end_record();
        encoder.value(Some(b"\x07\x07\x07"));
        encoder.end_record();
        assert_eq!(count_rows(&encoder.buffer), Ok(1));
    }
}
