//! A time axis with bins whose width doubles as the trace becomes longer, so that one pass suffices
//! and memory is bounded.

use super::json::Timeline;

/// Maximum number of bins. At the end more than half of them are in use, except in very short runs.
const BINS: u64 = 512;
/// The initial width of a bin, ns: the resolution of strace.
const FINEST_NS: u64 = 1000;

/// The bins, which all lines share.
#[derive(Debug, Clone, Default)]
pub(super) struct Axis {
    start_ns: Option<i64>,
    doublings: u32,
}

impl Axis {
    /// The index of the bin of this time. The axis begins at the first time that is passed. Calls
    /// that began before it, as those of other threads that ended later, belong to the first bin.
    pub(super) fn bin_index(&mut self, at_ns: i64) -> u32 {
        let start = *self.start_ns.get_or_insert(at_ns);
        let since = u64::try_from(at_ns.saturating_sub(start)).unwrap_or(0) / FINEST_NS;
        while since >> self.doublings >= BINS {
            self.doublings += 1;
        }
        (since >> self.doublings) as u32
    }

    /// The start of the axis, seconds.
    pub(super) fn start_s(&self) -> f64 {
        self.start_ns.unwrap_or(0) as f64 / 1e9
    }

    /// Width of a bin, seconds.
    pub(super) fn bin_s(&self) -> f64 {
        FINEST_NS as f64 / 1e9 * 2f64.powi(self.doublings as i32)
    }
}

/// `N` sums for each bin that is not empty.
#[derive(Debug, Clone)]
pub(super) struct Line<const N: usize> {
    doublings: u32,
    /// The sums by index of the bin.
    cells: Vec<(u32, [u64; N])>,
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Self {
        Self {
            doublings: 0,
            cells: Vec::new(),
        }
    }
}

impl<const N: usize> Line<N> {
    /// Adds to the sums of a bin. `index` is the last result of [`Axis::bin_index`].
    pub(super) fn add(&mut self, axis: &Axis, index: u32, amounts: [u64; N]) {
        self.follow(axis);
        let cells = &mut self.cells;
        let position = match cells.last() {
            Some(&(last, _)) if last == index => Ok(cells.len() - 1),
            Some(&(last, _)) if last > index => cells.binary_search_by_key(&index, |cell| cell.0),
            _ => Err(cells.len()),
        };
        match position {
            Ok(position) => add(&mut cells[position].1, &amounts),
            Err(position) => cells.insert(position, (index, amounts)),
        }
    }

    /// Adds all sums of another line of the same axis.
    pub(super) fn merge(&mut self, axis: &Axis, other: &Self) {
        let mut other = other.clone();
        other.follow(axis);
        for (index, amounts) in other.cells {
            self.add(axis, index, amounts);
        }
    }

    /// The bins that are not empty, by index.
    pub(super) fn cells(&mut self, axis: &Axis) -> &[(u32, [u64; N])] {
        self.follow(axis);
        &self.cells
    }

    /// Merges bins, as the width of the axis has doubled since.
    fn follow(&mut self, axis: &Axis) {
        let by = axis.doublings - self.doublings;
        if by == 0 {
            return;
        }
        self.doublings = axis.doublings;
        for cell in &mut self.cells {
            cell.0 = cell.0.checked_shr(by).unwrap_or(0);
        }
        self.cells.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                add(&mut kept.1, &next.1);
            }
            same
        });
    }
}

fn add<const N: usize>(sums: &mut [u64; N], amounts: &[u64; N]) {
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(*amount);
    }
}

/// The timeline of the run: reads, their bytes, writes, their bytes, other calls on files, and
/// calls that concern no file.
pub(super) fn timeline(axis: &Axis, line: &mut Line<6>) -> Timeline {
    let cells = line.cells(axis);
    let bins = cells.last().map_or(0, |cell| cell.0 as usize + 1);
    let mut columns: [Vec<u64>; 6] = std::array::from_fn(|_| vec![0; bins]);
    for (index, amounts) in cells {
        for (column, amount) in columns.iter_mut().zip(amounts) {
            column[*index as usize] = *amount;
        }
    }
    let [reads, read_bytes, writes, write_bytes, metadata, other] = columns;
    Timeline {
        start_s: axis.start_s(),
        bin_s: axis.bin_s(),
        reads,
        read_bytes,
        writes,
        write_bytes,
        metadata,
        other,
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Compares with sums over all times, binned when the width is known.
    #[test]
    fn sums_of_bins_do_not_depend_on_the_order_of_the_events() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let (mut axis, mut line, mut rare) = (Axis::default(), Line::<1>::default(), Line::<1>::default());
        let mut times = vec![(1_000, 1)];
        for step in 1..5000u64 {
            let late = random.next_u64() % 50_000_000;
            times.push(((step * 1_000_000 + late) as i64, random.next_u64() % 100));
        }
        for &(at, amount) in &times {
            let index = axis.bin_index(at);
            line.add(&axis, index, [amount]);
            if amount > 97 {
                rare.add(&axis, index, [amount]);
            }
        }
        let width = (axis.bin_s() * 1e9).round() as i64;
        let naive = |least: u64| {
            let mut sums = std::collections::BTreeMap::new();
            for &(at, amount) in times.iter().filter(|time| time.1 > least || least == 0) {
                *sums.entry(((at - 1_000) / width) as u32).or_insert(0) += amount;
            }
            sums.into_iter()
                .map(|(index, sum)| (index, [sum]))
                .collect::<Vec<_>>()
        };
        assert_eq!(line.cells(&axis), naive(0));
        assert_eq!(rare.cells(&axis), naive(97));
        let mut both = Line::default();
        both.merge(&axis, &rare);
        assert_eq!(both.cells(&axis), rare.cells(&axis));
        assert!(line.cells(&axis).len() as u64 <= BINS && line.cells(&axis).len() as u64 > BINS / 2);
    }

    #[test]
    fn extreme_times_are_counted() {
        let (mut axis, mut line) = (Axis::default(), Line::<1>::default());
        for at in [0, i64::MIN, i64::MAX, 5] {
            let index = axis.bin_index(at);
            line.add(&axis, index, [1]);
        }
        let sum: u64 = line.cells(&axis).iter().map(|cell| cell.1[0]).sum();
        assert_eq!(sum, 4);
    }
}
