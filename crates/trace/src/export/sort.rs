//! Sorts more rows than fit into memory: sorted runs are written to a scratch file and merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Number of rows of a run: 48 MiB.
const RUN_ROWS: usize = 1 << 20;
/// Number of rows of a run that are read together: 48 KiB.
const PIECE_ROWS: usize = 1 << 10;
/// Length of a row in the scratch file, bytes.
const ROW_BYTES: usize = 48;

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// The sort key. Rows with the same key keep their order.
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
        let mut words = [0; ROW_BYTES / 8];
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

/// Sorts rows. It holds one run, and during the merge a piece of each run.
pub(super) struct Sorter<S> {
    scratch: S,
    rows: Vec<Record>,
    /// Number of rows of a run.
    run_rows: usize,
    /// Number of rows of each run in the scratch file, in order.
    runs: Vec<u64>,
}

impl<S: Read + Write + Seek> Sorter<S> {
    /// A sorter with an empty scratch file.
    pub fn new(scratch: S) -> Self {
        Self::with_runs(scratch, RUN_ROWS)
    }

    fn with_runs(scratch: S, run_rows: usize) -> Self {
        Self {
            scratch,
            rows: Vec::new(),
            run_rows,
            runs: Vec::new(),
        }
    }

    pub fn push(&mut self, row: Record) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == self.run_rows {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.rows.sort_by_key(|row| row.key);
        let mut bytes = Vec::with_capacity(PIECE_ROWS * ROW_BYTES);
        for piece in self.rows.chunks(PIECE_ROWS) {
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

    /// Passes all rows to `take`, in order.
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
        // For equal keys, the row of the earlier run comes first.
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

/// A sorted run that is being merged.
struct Run {
    /// Index in the scratch file of the next row, and of the row after the last one.
    at: u64,
    end: u64,
    /// The rows that were read, in reverse order.
    piece: Vec<Record>,
}

impl Run {
    fn next(&mut self, scratch: &mut (impl Read + Seek)) -> io::Result<Option<Record>> {
        if self.piece.is_empty() && self.at < self.end {
            let rows = (self.end - self.at).min(PIECE_ROWS as u64);
            let mut bytes = vec![0; rows as usize * ROW_BYTES];
            scratch.seek(SeekFrom::Start(self.at * ROW_BYTES as u64))?;
            scratch.read_exact(&mut bytes)?;
            self.piece
                .extend(bytes.chunks_exact(ROW_BYTES).rev().map(Record::take));
            self.at += rows;
        }
        Ok(self.piece.pop())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A full run, one row less, one more, and many runs with pieces that are not full.
    #[test]
    fn rows_are_sorted_and_equal_keys_keep_their_order() {
        for (rows, run_rows) in [(0, 4), (1, 4), (3, 4), (4, 4), (5, 4), (5000, 1500), (5000, 7)] {
            let mut sorter = Sorter::with_runs(Cursor::new(Vec::new()), run_rows);
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
            assert!(found == expected, "{rows} rows, runs of {run_rows}");
        }
    }
}
