//! The options with which a log was made, inferred from its first lines.

use crate::text::{Stamp, line};

/// The number of bytes at the start of a log from which its options are inferred.
pub const SNIFFED_BYTES: usize = 64 * 1024;

/// The format of a log, according to its first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogFormat {
    /// The first stamp.
    pub first: Option<Stamp>,
    /// The resolution of the times, ns: 1,000 for microseconds; 0 without times.
    pub resolution_ns: u64,
    /// Whether calls have durations.
    pub has_durations: bool,
    /// Number of lines that strace may have written.
    pub lines: u64,
    /// Number of other lines.
    pub odd: u64,
}

impl LogFormat {
    /// Parses the first bytes of a log, whose last line may be cut.
    pub fn of(start: &[u8]) -> Self {
        let whole = memchr::memrchr(b'\n', start).map_or(start, |end| &start[..end]);
        let mut format = Self::default();
        let mut divisor = 0;
        for text in whole.split(|&byte| byte == b'\n') {
            let Some(line) = line::parse(text) else {
                format.odd += 1;
                continue;
            };
            format.lines += u64::from(!matches!(line.kind, line::LineKind::Note));
            format.first = format.first.or(line.stamp);
            if let Some(Stamp::Wall(ns) | Stamp::Day(ns) | Stamp::Since(ns)) = line.stamp {
                divisor = gcd(divisor, ns.unsigned_abs());
            }
            let ended = match line.kind {
                line::LineKind::Call { ended, .. } | line::LineKind::Resumed { ended, .. } => Some(ended),
                _ => None,
            };
            format.has_durations |= ended.is_some_and(|ended| ended.duration_ns.is_some());
        }
        // A few times may have a greater common divisor by chance, so the result is one of the
        // resolutions of strace.
        let finest = [1_000_000_000, 1_000, 1];
        format.resolution_ns = match format.first {
            Some(_) => finest.into_iter().find(|unit| divisor % unit == 0).unwrap_or(1),
            None => 0,
        };
        format
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_log_is_inferred_from_its_first_lines() {
        let of = |text: &str| {
            let format = LogFormat::of(text.as_bytes());
            (
                format.resolution_ns,
                format.has_durations,
                format.lines,
                format.odd,
            )
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
