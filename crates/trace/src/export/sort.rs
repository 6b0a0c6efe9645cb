//! Sorting more rows than memory holds: sorted runs go to a scratch file, and are merged from
//! there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Rows of a run: 48 MiB.
const RUN: usize = 1 << 20;
/// Rows of a run that are read at once: 48 KiB.
const PIECE: usize = 1 << 10;
/// Bytes of a row in the scratch file.
const SIZE: usize = 48;

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// What rows are sorted by. Those of one key stay in the order in which they came.
    pub key: (u64, u64),
    pub values: [u64; 4],
}

impl Record {
    fn put(&self, out: &mut Vec<u8>) {
        let (first, second) = self.key;
        for word in [first, second].into_iter().chain(self.values) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn take(bytes: &[u8]) -> Self {
        let mut words = [0; SIZE / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [first, second, values @ ..] = words;
        Self {
            key: (first, second),
            values,
        }
    }
}

/// Takes rows in any order. Holds a run, and on the way out a piece of each.
pub(super) struct Sorter<S> {
    scratch: S,
    rows: Vec<Record>,
    /// Rows of a run.
    most: usize,
    /// Rows of the runs in the scratch file, one after the other.
    runs: Vec<u64>,
}

impl<S: Read + Write + Seek> Sorter<S> {
    /// `scratch` is empty.
    pub fn new(scratch: S) -> Self {
        Self::with_runs(scratch, RUN)
    }

    fn with_runs(scratch: S, most: usize) -> Self {
        Self {
            scratch,
            rows: Vec::new(),
            most,
            runs: Vec::new(),
        }
    }

    pub fn push(&mut self, row: Record) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == self.most {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.rows.sort_by_key(|row| row.key);
        let mut bytes = Vec::with_capacity(PIECE * SIZE);
        for piece in self.rows.chunks(PIECE) {
            bytes.clear();
            for row in piece {
                row.put(&mut bytes);
            }
            self.scratch.write_all(&bytes)?;
        }
        self.runs.push(self.rows.len() as u64);
        self.rows.clear();
        Ok(())
    }

    /// Gives all rows to `take`, in order.
    pub fn finish<E: From<io::Error>>(
        mut self,
        mut take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.runs.is_empty() {
            self.rows.sort_by_key(|row| row.key);
            return self.rows.into_iter().try_for_each(take);
        }
        self.spill()?;
        self.rows = Vec::new();
        let mut begin = 0;
        let mut runs = Vec::new();
        for &rows in &self.runs {
            runs.push(Run {
                at: begin,
                end: begin + rows,
                piece: Vec::new(),
            });
            begin += rows;
        }
        // Of rows with one key, that of the earlier run comes first.
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(row) = run.next(&mut self.scratch)? {
                heads.push(Reverse((row.key, number, row.values)));
            }
        }
        while let Some(Reverse((key, number, values))) = heads.pop() {
            take(Record { key, values })?;
            if let Some(row) = runs[number].next(&mut self.scratch)? {
                heads.push(Reverse((row.key, number, row.values)));
            }
        }
        Ok(())
    }
}

/// A sorted run on its way out.
struct Run {
    /// The row of the scratch file that is read next, and the one behind the last.
    at: u64,
    end: u64,
    /// Rows that were read, the last one first.
    piece: Vec<Record>,
}

impl Run {
    fn next(&mut self, scratch: &mut (impl Read + Seek)) -> io::Result<Option<Record>> {
        if self.piece.is_empty() && self.at < self.end {
            let rows = (self.end - self.at).min(PIECE as u64);
            let mut bytes = vec![0; rows as usize * SIZE];
            scratch.seek(SeekFrom::Start(self.at * SIZE as u64))?;
            scratch.read_exact(&mut bytes)?;
            self.piece
                .extend(bytes.chunks_exact(SIZE).rev().map(Record::take));
            self.at += rows;
        }
        Ok(self.piece.pop())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// As many rows as fit, one less, one more, and many runs with pieces that are not full.
    #[test]
    fn rows_come_out_in_order_and_those_of_a_key_as_they_came() {
        for (rows, most) in [(0, 4), (1, 4), (3, 4), (4, 4), (5, 4), (5000, 1500), (5000, 7)] {
            let mut sorter = Sorter::with_runs(Cursor::new(Vec::new()), most);
            let mut expected: Vec<Record> = (0..rows)
                .map(|number: u64| Record {
                    key: (number.wrapping_mul(7919) % 13, number % 3),
                    values: [number, u64::MAX - number, 1, 2],
                })
                .collect();
            for &row in &expected {
                sorter.push(row).unwrap();
            }
            expected.sort_by_key(|row| row.key);
            let mut found = Vec::new();
            sorter
                .finish(|row| {
                    found.push(row);
                    Ok::<_, io::Error>(())
                })
                .unwrap();
            assert!(found == expected, "{rows} rows, runs of {most}");
        }
    }
}
