//! Requests in bins of time and offset, whose sides double as more requests are added.

use std::collections::BTreeMap;

use super::{Density, Point, Query};

/// Number of reads, their bytes, number of writes, their bytes.
type Cell = [u64; 4];

#[derive(Debug)]
pub(super) struct Grid {
    columns: i64,
    rows: u64,
    start_ns: Option<i64>,
    /// Column 0 begins at `start_ns`. Requests that began earlier are in negative columns.
    column_ns: i64,
    from_byte: u64,
    to_byte: u64,
    row_bytes: u64,
    /// First and last column in use.
    used: (i64, i64),
    cells: BTreeMap<(i64, u64), Cell>,
}

impl Grid {
    pub(super) fn new(query: &Query) -> Self {
        Self {
            columns: i64::from(query.columns.max(1)),
            rows: u64::from(query.rows.max(1)),
            start_ns: query.choice.from_ns,
            column_ns: 1,
            from_byte: query.from_byte,
            to_byte: query.to_byte,
            row_bytes: 1,
            used: (0, 0),
            cells: BTreeMap::new(),
        }
    }

    /// Adds a selected request.
    pub(super) fn add(&mut self, point: &Point) {
        let start_ns = *self.start_ns.get_or_insert(point.start_ns);
        let since = point.start_ns.saturating_sub(start_ns);
        // The selected part of the request, relative to the first row.
        let from = point.offset.max(self.from_byte) - self.from_byte;
        let end = point.offset.saturating_add(point.result).min(self.to_byte);
        let end = end.saturating_sub(self.from_byte).max(from);
        self.extend(since, end.saturating_sub(1).max(from));

        let column = since.div_euclid(self.column_ns);
        let side = if point.is_write { 2 } else { 0 };
        self.cells.entry((column, from / self.row_bytes)).or_default()[side] += 1;
        let mut at = from;
        while at < end {
            let row = at / self.row_bytes;
            let row_end = (row + 1).saturating_mul(self.row_bytes).min(end);
            let bytes = &mut self.cells.entry((column, row)).or_default()[side + 1];
            *bytes = bytes.saturating_add(row_end - at);
            at = row_end;
        }
    }

    /// Doubles the sides of the bins until this time and this byte are inside the grid.
    fn extend(&mut self, since_ns: i64, byte: u64) {
        let (mut columns, mut rows) = (0, 0);
        loop {
            let column = since_ns.div_euclid(self.column_ns);
            let used = (self.used.0.min(column), self.used.1.max(column));
            if used.1.saturating_sub(used.0) < self.columns || self.column_ns > i64::MAX / 2 {
                self.used = used;
                break;
            }
            self.column_ns *= 2;
            self.used = (self.used.0 >> 1, self.used.1 >> 1);
            columns += 1;
        }
        while byte / self.row_bytes >= self.rows && self.row_bytes <= u64::MAX / 2 {
            self.row_bytes *= 2;
            rows += 1;
        }
        if columns + rows > 0 {
            self.join(columns, rows);
        }
    }

    /// Merges bins, as their sides have doubled this number of times.
    fn join(&mut self, columns: u32, rows: u32) {
        for ((column, row), cell) in std::mem::take(&mut self.cells) {
            let sums = self.cells.entry((column >> columns, row >> rows)).or_default();
            for (sum, amount) in sums.iter_mut().zip(cell) {
                *sum = sum.saturating_add(amount);
            }
        }
    }

    pub(super) fn density(&self) -> Density {
        let (first, last) = self.used;
        let start = self.start_ns.unwrap_or(0);
        let one_way = |side: usize| {
            let cells = self
                .cells
                .iter()
                .filter(move |(_, cell)| cell[side] > 0 || cell[side + 1] > 0);
            cells
                .map(|(&(column, row), cell)| {
                    [(column - first).cast_unsigned(), row, cell[side], cell[side + 1]]
                })
                .collect()
        };
        let rows = self.cells.keys().map(|&(_, row)| row + 1).max().unwrap_or(0);
        Density {
            start_ns: start.saturating_add(first.saturating_mul(self.column_ns)),
            column_ns: self.column_ns.cast_unsigned(),
            columns: u32::try_from(last - first + 1).unwrap_or(u32::MAX),
            start_byte: self.from_byte,
            row_bytes: self.row_bytes,
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            reads: one_way(0),
            writes: one_way(2),
        }
    }
}
