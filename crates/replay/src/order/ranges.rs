//! The readers and writers of the bytes of a file.
//!
//! Ranges are split where others begin and end. Claims of a whole file, such as that of fsync, are
//! stored separately, so that they do not change every range.

use std::collections::BTreeMap;
use std::ops::Range;

use super::marks::{Mark, Marks};

#[derive(Debug, Clone, Default)]
struct Segment {
    to: u64,
    read: Marks,
    written: Marks,
}

/// Claims of one file.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    segments: BTreeMap<u64, Segment>,
    /// Claims of the whole file.
    read_whole: Marks,
    written_whole: Marks,
    /// All claims.
    read_anywhere: Marks,
    written_anywhere: Marks,
}

impl Ranges {
    pub(super) fn read(&mut self, range: Range<u64>, start: i64, mark: Mark, needs: &mut Vec<Mark>) {
        if range.end == u64::MAX {
            needs.extend(self.written_anywhere.before(start));
            self.read_whole.put(mark);
        } else {
            needs.extend(self.written_whole.before(start));
            self.each(range, |segment| {
                needs.extend(segment.written.before(start));
                segment.read.put(mark);
            });
        }
        self.read_anywhere.put(mark);
    }

    pub(super) fn write(&mut self, range: Range<u64>, start: i64, mark: Mark, needs: &mut Vec<Mark>) {
        if range.end == u64::MAX {
            needs.extend(self.written_anywhere.before(start));
            needs.extend(self.read_anywhere.before(start));
            self.written_whole.follow(start, mark);
        } else {
            needs.extend(self.written_whole.before(start));
            needs.extend(self.read_whole.before(start));
            self.each(range, |segment| {
                needs.extend(segment.written.before(start));
                needs.extend(segment.read.before(start));
                segment.read.drop_before(start);
                segment.written.follow(start, mark);
            });
        }
        self.written_anywhere.put(mark);
    }

    /// Calls `visit` for every segment of the range, after splitting at its ends.
    fn each(&mut self, range: Range<u64>, mut visit: impl FnMut(&mut Segment)) {
        self.cut(range.start);
        self.cut(range.end);
        let mut at = range.start;
        while at < range.end {
            if !self.segments.contains_key(&at) {
                let next = self.segments.range(at..range.end).next();
                let to = next.map_or(range.end, |(&from, _)| from);
                self.segments.insert(
                    at,
                    Segment {
                        to,
                        ..Segment::default()
                    },
                );
            }
            let Some(segment) = self.segments.get_mut(&at) else {
                return;
            };
            visit(segment);
            at = segment.to;
        }
    }

    /// Splits the segment that contains this offset.
    fn cut(&mut self, at: u64) {
        let Some((&from, segment)) = self.segments.range_mut(..at).next_back() else {
            return;
        };
        if from < at && at < segment.to {
            let later = segment.clone();
            segment.to = at;
            self.segments.insert(at, later);
        }
    }
}
