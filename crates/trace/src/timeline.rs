//! Converts the times of a log, in each format of strace, to ns since the first one.

use crate::text::Stamp;

const DAY_NS: i64 = 86_400_000_000_000;

/// Converts stamps to times since the first one. [`Self::at`] must be called for each line, in the
/// order of the lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeline {
    zero: Option<Stamp>,
    /// Days since the first line, in ns, for stamps that restart at midnight.
    days_ns: i64,
    now_ns: i64,
}

impl Timeline {
    /// The time of a line: ns since the first stamp. A line without a stamp has the time of the
    /// line before it.
    pub fn at(&mut self, stamp: Option<Stamp>) -> i64 {
        let Some(stamp) = stamp else {
            return self.now_ns;
        };
        let zero = *self.zero.get_or_insert(stamp);
        self.now_ns = match (zero, stamp) {
            (Stamp::Wall(zero), Stamp::Wall(ns)) => ns.saturating_sub(zero),
            (Stamp::Day(zero), Stamp::Day(ns)) => {
                // Lines of several threads may be out of order. Only a step back of more than half
                // a day is a midnight.
                if ns.saturating_sub(zero) + self.days_ns + DAY_NS / 2 < self.now_ns {
                    self.days_ns += DAY_NS;
                }
                ns - zero + self.days_ns
            }
            (_, Stamp::Since(ns)) => self.now_ns.saturating_add(ns),
            _ => self.now_ns,
        };
        self.now_ns
    }

    /// The first stamp, if it has a date: ns since the Unix epoch.
    pub fn zero_unix_ns(&self) -> Option<i64> {
        match self.zero {
            Some(Stamp::Wall(ns)) => Some(ns),
            _ => None,
        }
    }

    /// Whether there was any stamp.
    pub fn has_times(&self) -> bool {
        self.zero.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn stamps_of_every_kind_become_times_since_the_first() {
        let all = |stamps: &[Stamp]| {
            let mut line = Timeline::default();
            stamps
                .iter()
                .map(|&stamp| line.at(Some(stamp)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            all(&[Stamp::Wall(50), Stamp::Wall(70), Stamp::Wall(60)]),
            [0, 20, 10]
        );
        assert_eq!(
            all(&[Stamp::Since(5), Stamp::Since(7), Stamp::Since(0)]),
            [5, 12, 12]
        );
        let midnight = [
            Stamp::Day(23 * HOUR),
            Stamp::Day(24 * HOUR - 1),
            Stamp::Day(1),
            Stamp::Day(0),
            Stamp::Day(HOUR),
        ];
        assert_eq!(all(&midnight), [0, HOUR - 1, HOUR + 1, HOUR, 2 * HOUR]);
        let mut line = Timeline::default();
        assert_eq!((line.at(None), line.has_times()), (0, false));
        line.at(Some(Stamp::Wall(9)));
        assert_eq!((line.at(None), line.zero_unix_ns()), (0, Some(9)));
    }
}
