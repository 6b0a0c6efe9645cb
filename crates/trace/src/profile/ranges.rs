//! The bytes of a file that were accessed: a bounded set of intervals.

use std::collections::BTreeMap;

/// Maximum number of intervals of a file, per direction. Beyond it, the smaller half of the gaps is
/// closed. A file that is read at random in pieces of 4 KiB fills up before it has half a million
/// intervals, and 4,096 of them still show where it was read.
pub(super) const MAX_INTERVALS: usize = 4096;

/// Bytes that were accessed at least once.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    /// Start and end of all intervals except the hot one. They are disjoint and not adjacent, also
    /// to the hot one.
    rest: BTreeMap<u64, u64>,
    /// The interval of the last access. Most requests continue or repeat it.
    hot: Option<Hot>,
    covered: u64,
    approximate: bool,
}

#[derive(Debug, Clone, Copy)]
struct Hot {
    from: u64,
    to: u64,
    /// Start of the next interval in `rest`.
    next: u64,
}

impl Ranges {
    /// Adds the bytes from `from` (included) to `to` (excluded).
    pub(super) fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if let Some(hot) = &mut self.hot {
            if (hot.from..=hot.to).contains(&from) && to < hot.next {
                self.covered += to.saturating_sub(hot.to);
                hot.to = hot.to.max(to);
                return;
            }
            self.rest.insert(hot.from, hot.to);
        }
        self.join(from, to);
        if self.rest.len() >= MAX_INTERVALS {
            self.close_gaps();
        }
    }

    /// The number of accessed bytes. If [`Ranges::is_approximate`], it may be too small, but never
    /// too large.
    pub(super) fn covered(&self) -> u64 {
        self.covered
    }

    /// Whether gaps were closed.
    pub(super) fn is_approximate(&self) -> bool {
        self.approximate
    }

    /// Merges this interval with those that it touches into the hot one.
    fn join(&mut self, from: u64, to: u64) {
        let (mut start, mut end, mut known) = (from, to, 0);
        while let Some((&left, &right)) = self.rest.range(..=to).next_back() {
            if right < from {
                break;
            }
            known += right.min(to).saturating_sub(left.max(from));
            start = start.min(left);
            end = end.max(right);
            self.rest.remove(&left);
        }
        self.covered += to - from - known;
        let next = self.rest.range(end..).next();
        self.hot = Some(Hot {
            from: start,
            to: end,
            next: next.map_or(u64::MAX, |(&left, _)| left),
        });
    }

    fn close_gaps(&mut self) {
        if let Some(hot) = self.hot.take() {
            self.rest.insert(hot.from, hot.to);
        }
        let starts = self.rest.keys().skip(1);
        let mut gaps: Vec<u64> = self
            .rest
            .values()
            .zip(starts)
            .map(|(end, start)| start - end)
            .collect();
        let middle = gaps.len() / 2;
        let (_, &mut widest, _) = gaps.select_nth_unstable(middle);
        let mut kept: Vec<(u64, u64)> = Vec::with_capacity(MAX_INTERVALS);
        for (&from, &to) in &self.rest {
            match kept.last_mut() {
                Some(last) if from - last.1 <= widest => last.1 = to,
                _ => kept.push((from, to)),
            }
        }
        self.rest = kept.into_iter().collect();
        self.approximate = true;
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Compares with a bitmap of one flag per byte.
    #[test]
    fn covered_bytes_are_those_of_a_bitmap() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        for _ in 0..300 {
            let (mut ranges, mut bitmap) = (Ranges::default(), vec![false; 400]);
            let mut at = 0;
            for _ in 0..random.next_u32() % 60 {
                let length = u64::from(random.next_u32() % 20);
                if random.next_u32() % 3 == 0 {
                    at = u64::from(random.next_u32() % 380);
                }
                at = at.min(380);
                ranges.add(at, at + length);
                bitmap[at as usize..(at + length) as usize].fill(true);
                at += length;
                assert_eq!(
                    ranges.covered() as usize,
                    bitmap.iter().filter(|&&is_covered| is_covered).count()
                );
            }
            assert!(!ranges.is_approximate());
        }
    }

    #[test]
    fn the_number_of_intervals_is_bounded_and_closed_gaps_are_reported() {
        let mut ranges = Ranges::default();
        for piece in 0..4 * MAX_INTERVALS as u64 {
            ranges.add(piece * 10, piece * 10 + 4);
            assert!(ranges.rest.len() <= MAX_INTERVALS);
        }
        assert!(ranges.is_approximate());
        assert_eq!(ranges.covered(), 4 * MAX_INTERVALS as u64 * 4);
        ranges.add(0, u64::MAX);
        assert!(ranges.covered() > 40 * MAX_INTERVALS as u64);
    }
}
