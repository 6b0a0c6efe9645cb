//! From values to text: result set -> zlib -> MD5 -> base64, in pieces of bounded size.

use plimsoll_wire::frontier::armor::{Armor, Seal};
use plimsoll_wire::frontier::payload::Encoder;
use plimsoll_wire::frontier::request::Encoding;

/// Text of a payload is handed on in pieces of about this size.
pub(super) const PIECE: usize = 64 * 1024;
/// Bytes of result set gathered before they are packed; longer values go past the gathering, in
/// steps of this size.
pub(super) const GATHER: usize = 16 * 1024;

/// Packs one payload. Whoever feeds it looks at [`Packer::is_full`] after each value, and takes the
/// piece.
#[derive(Debug)]
pub(crate) struct Packer {
    armor: Armor,
    rows: Encoder,
    text: Vec<u8>,
    records: u64,
}

impl Packer {
    /// `signed`: of the request, where the answer is to be signed.
    pub(crate) fn new(encoding: Encoding, signed: Option<&[u8]>) -> Self {
        Self {
            armor: signed.map_or_else(|| Armor::new(encoding), |asked| Armor::signed(encoding, asked)),
            rows: Encoder::default(),
            text: Vec::new(),
            records: 0,
        }
    }

    /// A column of the first record.
    pub(crate) fn column(&mut self, name: &str, type_name: &str) {
        self.rows.column(name, type_name);
        self.settle(GATHER);
    }

    /// Ends the record of the columns.
    pub(crate) fn end_columns(&mut self) {
        self.rows.end_record();
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        self.rows.end_record();
        self.records += 1;
        self.settle(GATHER);
    }

    /// Packs a value of the row from byte `from` on. `Some(byte)`: a piece is full, and the value
    /// goes on there.
    pub(crate) fn value(&mut self, value: Option<&[u8]>, from: usize) -> Option<usize> {
        let Some(bytes) = value.filter(|bytes| bytes.len() > GATHER) else {
            self.rows.value(value);
            self.settle(GATHER);
            return None;
        };
        if from == 0 {
            self.head(u32::try_from(bytes.len()).unwrap_or(u32::MAX)); // limits far below see to it
        }
        let mut at = from;
        for step in bytes[from..].chunks(GATHER) {
            if at > from && self.is_full() {
                return Some(at);
            }
            self.raw(step);
            at += step.len();
        }
        None
    }

    /// The head of a value whose bytes follow by [`Packer::raw`].
    pub(crate) fn head(&mut self, length: u32) {
        self.rows.array(length);
        self.settle(0);
    }

    /// Bytes of a value, at most some [`GATHER`] at a time.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.armor.push(bytes, &mut self.text);
    }

    /// A piece is ready to be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= PIECE
    }

    /// The text so far; it may be empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// Rows so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Ends the payload: the rest of the text, and what is said of it.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Seal) {
        self.settle(0);
        let seal = self.armor.finish(&mut self.text);
        (self.text, seal)
    }

    fn settle(&mut self, least: usize) {
        if self.rows.buffer.len() > least {
            if self.text.capacity() == 0 {
                self.text.reserve(self.expected());
            }
            self.armor.push(&self.rows.buffer, &mut self.text);
            self.rows.buffer.clear();
        }
    }

    /// A whole piece where there is more than a small answer.
    fn expected(&self) -> usize {
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

    /// One row of these values, read back by a client from the pieces put together; and the
    /// greatest piece.
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
            while let Some(at) = packer.value(*value, from) {
                emit(packer.take());
                from = at;
            }
            if packer.is_full() {
                emit(packer.take());
            }
        }
        packer.end_row();
        let records = Some(packer.records());
        let (rest, seal) = packer.finish();
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
    fn values_of_any_size_come_whole_in_bounded_pieces() {
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
