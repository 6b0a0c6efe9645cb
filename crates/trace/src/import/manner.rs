//! With which options a log was made.

use crate::text::{Stamp, line};

/// Bytes at the beginning of a log that tell with which options it was made.
pub const ENOUGH: usize = 64 * 1024;

/// What the first lines of a log tell of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// The first stamp.
    pub first: Option<Stamp>,
    /// The finest difference of times, ns: 1000 for microseconds; 0 where there are none.
    pub resolution_ns: u64,
    /// Calls have durations.
    pub has_durations: bool,
    /// Lines that strace may have written.
    pub lines: u64,
    /// Other lines.
    pub odd: u64,
}

impl Manner {
    /// Of the first bytes of a log: its last line may be cut.
    pub fn of(start: &[u8]) -> Self {
        let whole = memchr::memrchr(b'\n', start).map_or(start, |end| &start[..end]);
        let mut found = Self::default();
        let mut parts = 0;
        for text in whole.split(|&byte| byte == b'\n') {
            let Some(line) = line::parse(text) else {
                found.odd += 1;
                continue;
            };
            found.lines += u64::from(!matches!(line.what, line::What::Note));
            found.first = found.first.or(line.stamp);
            if let Some(Stamp::Wall(ns) | Stamp::Day(ns) | Stamp::Since(ns)) = line.stamp {
                parts = gcd(parts, ns.unsigned_abs());
            }
            let ended = match line.what {
                line::What::Call { ended, .. } | line::What::Resumed { ended, .. } => Some(ended),
                _ => None,
            };
            found.has_durations |= ended.is_some_and(|ended| ended.duration_ns.is_some());
        }
        // What all times are multiples of by chance, as they are few, is no finer than what strace
        // writes.
        let finest = [1_000_000_000, 1_000, 1];
        found.resolution_ns = match found.first {
            Some(_) => finest.into_iter().find(|unit| parts % unit == 0).unwrap_or(1),
            None => 0,
        };
        found
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manner_of_a_log_is_told_by_its_first_lines() {
        let of = |text: &str| {
            let found = Manner::of(text.as_bytes());
            (found.resolution_ns, found.has_durations, found.lines, found.odd)
        };
        assert_eq!(
            of("7 1700000000.123456 close(3) = 0 <0.000010>\n7 17000"),
            (1_000, true, 1, 0)
        );
        assert_eq!(of("7 12:30:59 close(3) = 0\n"), (1_000_000_000, false, 1, 0));
        assert_eq!(of("7 1700000000.123456789 close(3) = 0\n"), (1, false, 1, 0));
        assert_eq!(of("close(3) = 0\nthis is no log\n"), (0, false, 1, 1));
        assert_eq!(of(""), (0, false, 0, 0));
    }
}
