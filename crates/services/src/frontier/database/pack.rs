//! Packs values as text: result set -> zlib -> MD5 -> base64, in pieces of bounded size.

use std::time::{Duration, Instant};

use plimsoll_wire::frontier::armor::{Armor, Seal};
use plimsoll_wire::frontier::payload::Encoder;
use plimsoll_wire::frontier::request::Encoding;

/// Approximate length of a piece of text, in bytes.
pub(super) const PIECE: usize = 64 * 1024;
/// Number of bytes of the result set that are collected before they are packed. Longer values are
/// packed directly, in steps of this length.
pub(super) const GATHER: usize = 16 * 1024;

/// Packs one payload. After each value, the caller checks [`Packer::is_full`] and takes the piece.
#[derive(Debug)]
pub(crate) struct Packer {
    armor: Armor,
    rows: Encoder,
    text: Vec<u8>,
    records: u64,
    compression: Duration,
}

impl Packer {
    /// A packer without data. `signed`: part of the request that the signature covers, if the
    /// response is to be signed.
    pub(crate) fn new(encoding: Encoding, signed: Option<&[u8]>) -> Self {
        Self {
            armor: signed.map_or_else(
                || Armor::new(encoding),
                |request| Armor::signed(encoding, request),
            ),
            rows: Encoder::default(),
            text: Vec::new(),
            records: 0,
            compression: Duration::ZERO,
        }
    }

    /// Adds a column to the first record.
    pub(crate) fn column(&mut self, name: &str, type_name: &str) {
        self.rows.column(name, type_name);
        self.pack_above(GATHER);
    }

    /// Ends the record of the columns.
    pub(crate) fn end_columns(&mut self) {
        self.rows.end_record();
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        self.rows.end_record();
        self.records += 1;
        self.pack_above(GATHER);
    }

    /// Packs a value of the row from byte `from` on. `Some(byte)`: a piece is full, and the value
    /// continues at this byte.
    pub(crate) fn value(&mut self, value: Option<&[u8]>, from: usize) -> Option<usize> {
        let Some(bytes) = value.filter(|bytes| bytes.len() > GATHER) else {
            self.rows.value(value);
            self.pack_above(GATHER);
            return None;
        };
        if from == 0 {
            self.head(u32::try_from(bytes.len()).unwrap_or(u32::MAX)); // MAX_ROW is far below
        }
        let mut index = from;
        for step in bytes[from..].chunks(GATHER) {
            if index > from && self.is_full() {
                return Some(index);
            }
            self.raw(step);
            index += step.len();
        }
        None
    }

    /// Adds the head of a value. [`Packer::raw`] adds its bytes.
    pub(crate) fn head(&mut self, length: u32) {
        self.rows.array(length);
        self.pack_above(0);
    }

    /// Adds bytes of a value, at most about [`GATHER`] per call.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let begin = Instant::now();
        self.armor.push(bytes, &mut self.text);
        self.compression += begin.elapsed();
    }

    /// Whether a piece can be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= PIECE
    }

    /// Removes and returns the text packed so far. It may be empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// Number of rows so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Time spent in zlib, digest and base64 so far.
    pub(crate) fn compression(&self) -> Duration {
        self.compression
    }

    /// Ends the payload. Returns the last text, the seal, and the time of [`Packer::compression`].
    pub(crate) fn finish(mut self) -> (Vec<u8>, Seal, Duration) {
        self.pack_above(0);
        let begin = Instant::now();
        let seal = self.armor.finish(&mut self.text);
        (self.text, seal, self.compression + begin.elapsed())
    }

    /// Packs the collected bytes if they are more than `limit`.
    fn pack_above(&mut self, limit: usize) {
        if self.rows.buffer.len() > limit {
            if self.text.capacity() == 0 {
                self.text.reserve(self.expected_length());
            }
            let begin = Instant::now();
            self.armor.push(&self.rows.buffer, &mut self.text);
            self.compression += begin.elapsed();
            self.rows.buffer.clear();
        }
    }

    /// Expected length of the text: that of a piece, except for a small response.
    fn expected_length(&self) -> usize {
        if self.rows.buffer.len() < GATHER {
            2 * self.rows.buffer.len() + 128
        } else {
            PIECE + 2 * GATHER
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::frontier::document::Reader;
    use plimsoll_wire::frontier::frame::{self, Quality};

    use super::*;

    /// One row of these values, as a client reads it from the concatenated pieces; and the length
    /// of the longest piece.
    fn round_trip(values: &[Option<&[u8]>]) -> (Vec<u8>, usize) {
        let mut packer = Packer::new(Encoding::Blob, None);
        let mut document = Vec::new();
        frame::begin(&mut document);
        frame::transaction(&mut document, 1);
        frame::payload(&mut document, "frontier_request", "1", "BLOB");
        let mut greatest = 0;
        let mut emit = |piece: Vec<u8>| {
            greatest = greatest.max(piece.len());
            document.extend(piece);
        };
        for _ in values {
            packer.column("c", "text");
        }
        packer.end_columns();
        for value in values {
            let mut from = 0;
            while let Some(next) = packer.value(*value, from) {
                emit(packer.take());
                from = next;
            }
            if packer.is_full() {
                emit(packer.take());
            }
        }
        packer.end_row();
        let records = Some(packer.records());
        let (rest, seal, _) = packer.finish();
        emit(rest);
        let quality = Quality {
            seal: Some(seal),
            records,
            ..Quality::default()
        };
        frame::quality(&mut document, "s", &quality);
        frame::end_transaction(&mut document);
        frame::end(&mut document);
        let mut plain = Vec::new();
        Reader::new(1 << 30)
            .read(&document, |_, bytes| plain = bytes.to_vec())
            .unwrap();
        (plain, greatest)
    }

    #[test]
    fn values_of_any_length_are_packed_completely_in_bounded_pieces() {
        let big: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        for value in [&big[..], &big[..GATHER], &big[..=GATHER], &big[..PIECE], b""] {
            let (plain, greatest) = round_trip(&[None, Some(value), Some(b"end")]);
            assert!(greatest <= PIECE + 2 * GATHER, "{greatest}");
            let mut expected = Encoder::default();
            for _ in 0..3 {
                expected.column("c", "text");
            }
            expected.end_record();
            for value in [None, Some(value), Some(b"end")] {
                expected.value(value);
            }
            expected.end_record();
            assert!(plain == expected.buffer, "{} bytes", value.len());
        }
    }
}
