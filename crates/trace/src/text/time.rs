//! Parses times, durations and their digits.

use crate::text::value;

/// A time in the format of one of strace's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// `-ttt`: ns since the Unix epoch.
    Wall(i64),
    /// `-t`, `-tt`: ns since midnight, in the time zone of the host.
    Day(i64),
    /// `-r`: ns since the previous line.
    Since(i64),
}

/// Parses `12:30:59`, `12:30:59.123456`, `1700000000.123456` and `0.000123`, each followed by a
/// blank. A time of `-r` after another one is in brackets, `(+     0.000123)`, and is skipped.
pub(super) fn stamp(text: &[u8]) -> (Option<Stamp>, &[u8]) {
    let start = text.trim_ascii_start();
    if let Some((stamp, rest)) = plain_stamp(start) {
        return (Some(stamp), rest);
    }
    let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b':');
    let length = start.iter().take_while(is_part).count();
    let (token, rest) = start.split_at(length);
    let Some(stamp) = read_stamp(token).filter(|_| rest.starts_with(b" ")) else {
        return (None, text);
    };
    let rest = rest.trim_ascii_start();
    let after_relative = rest.strip_prefix(b"(+").and_then(|rest| {
        let close = memchr::memchr(b')', rest)?;
        Some(rest[close + 1..].trim_ascii_start())
    });
    (Some(stamp), after_relative.unwrap_or(rest))
}

/// Fast path for most logs: `1700000000.123456 ` or `12:30:59.123456 `, parsed by position. None
/// for any other text.
#[inline]
fn plain_stamp(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (stamp, length) = match text {
        [_, _, b':', _, _, b':', _, _, b'.', micros @ ..] => {
            let (hours, minutes) = (two(text, 0)?, two(text, 3)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = (hours * 60 + minutes) * 60 + two(text, 6)?;
            (Stamp::Day(seconds * TENS[9] + six(micros)? * TENS[3]), 15)
        }
        [_, _, _, _, _, _, _, _, _, _, b'.', micros @ ..] => {
            let (8, seconds) = first_digits(u64::from_le_bytes(*text.first_chunk()?)) else {
                return None;
            };
            let seconds = seconds.cast_signed() * 100 + two(text, 8)?;
            let ns = seconds.checked_mul(TENS[9])?;
            (stamp_of_seconds(ns.checked_add(six(micros)? * TENS[3])?), 17)
        }
        _ => return None,
    };
    match &text[length..] {
        [b' ', rest @ ..] if !matches!(rest.first(), Some(b' ' | b'(')) => Some((stamp, rest)),
        _ => None,
    }
}

/// Parses two digits.
#[inline]
fn two(text: &[u8], at: usize) -> Option<i64> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| i64::from(tens * 10 + ones))
}

/// Parses six digits at the start of a text of at least eight bytes.
#[inline]
fn six(text: &[u8]) -> Option<i64> {
    let word = u64::from_le_bytes(*text.first_chunk()?);
    let (6, value) = first_digits(word) else {
        return None;
    };
    Some(value.cast_signed())
}

/// Parses `0.000012>`: the digit before the point and those after it.
#[inline]
fn one_and_six(text: [u8; 9]) -> Option<(i64, i64)> {
    let [whole, point, rest @ ..] = text;
    let mut eight = [b' '; 8];
    eight[..7].copy_from_slice(&rest);
    let whole = whole.wrapping_sub(b'0');
    (whole <= 9 && point == b'.').then_some((i64::from(whole), six(&eight)?))
}

/// The number of digits at the start of a text, and their value, modulo 2^64.
#[inline]
pub(super) fn digits(text: &[u8]) -> (usize, u64) {
    let (mut length, mut value) = (0, 0_u64);
    while let Some(eight) = text[length..].first_chunk() {
        let (found, number) = first_digits(u64::from_le_bytes(*eight));
        value = value
            .wrapping_mul(TENS[found].cast_unsigned())
            .wrapping_add(number);
        length += found;
        if found < 8 {
            return (length, value);
        }
    }
    for byte in &text[length..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    (length, value)
}

/// The same for eight bytes at once; the first byte is the lowest of the word.
#[inline]
fn first_digits(word: u64) -> (usize, u64) {
    const ALL: u64 = 0x0101_0101_0101_0101;
    // Digits become 0 to 9. For greater bytes the highest bit is set by the sum, or was set before.
    let values = word ^ (ALL * 0x30);
    let others = (((values & (ALL * 0x7f)) + ALL * 0x76) | values) & (ALL * 0x80);
    let length = others.trailing_zeros() / 8;
    if length == 0 {
        return (0, 0);
    }
    // The digits are moved to the end of the eight bytes, with zeros before them. Then neighbours
    // are joined: two, four, eight.
    let eight = values << (64 - 8 * length);
    let twos = ((eight * 10) + (eight >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = ((twos * 100) + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    let value = ((fours * 10_000) + (fours >> 32)) & 0xffff_ffff;
    (length as usize, value)
}

fn stamp_of_seconds(ns: i64) -> Stamp {
    // Above this, it is a wall-clock time: no clock is before 1973, and no program sleeps for that
    // long.
    let wall = ns >= 100_000_000 * 1_000_000_000;
    if wall { Stamp::Wall(ns) } else { Stamp::Since(ns) }
}

fn read_stamp(token: &[u8]) -> Option<Stamp> {
    if memchr::memchr(b':', token).is_none() {
        return Some(stamp_of_seconds(seconds(token)?));
    }
    let mut parts = token.splitn(3, |&byte| byte == b':');
    let mut whole = |most: i64| {
        let part = parts.next()?;
        let value = decimal(part)?;
        (part.len() == 2 && value <= most).then_some(value)
    };
    let minutes = whole(23)? * 60 + whole(59)?;
    let second = seconds(parts.next()?)?;
    Some(Stamp::Day(minutes * 60_000_000_000 + second))
}

/// Parses seconds such as `1.5` into ns; at most nine digits after the point are used.
fn seconds(token: &[u8]) -> Option<i64> {
    let (length, whole) = digits(token);
    let fraction = match &token[length..] {
        [] => b"0".as_slice(),
        [b'.', fraction @ ..] => &fraction[..fraction.len().min(9)],
        _ => return None,
    };
    let (places, parts) = digits(fraction);
    if !(1..=18).contains(&length) || places == 0 || places < fraction.len() {
        return None;
    }
    let ns = parts.cast_signed() * TENS[9 - places];
    whole.cast_signed().checked_mul(TENS[9])?.checked_add(ns)
}

const TENS: [i64; 10] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

fn decimal(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    value::decimal(digits).map(u64::cast_signed)
}

/// Splits off a duration such as `<0.000012>` at the end, ns.
pub(super) fn duration(text: &[u8]) -> (&[u8], Option<i64>) {
    // Fast path: most durations are less than 10 s and in microseconds.
    if let [rest @ .., b' ', b'<', _, b'.', _, _, _, _, _, _, b'>'] = text
        && let Some((whole, micros)) = text.last_chunk().and_then(|end| one_and_six(*end))
        && rest.last().is_some_and(|&last| last > b' ')
    {
        return (rest, Some(whole * TENS[9] + micros * TENS[3]));
    }
    let found = text.strip_suffix(b">").and_then(|rest| {
        // The bracket is near the end, so a backward search is fast.
        let open = rest.iter().rposition(|&byte| byte == b'<')?;
        let open = Some(open).filter(|&open| open > 0 && rest[open - 1] == b' ')?;
        Some((rest[..open].trim_ascii_end(), seconds(&rest[open + 1..])?))
    });
    match found {
        Some((rest, ns)) => (rest, Some(ns)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each number of digits, before each other byte.
    #[test]
    fn digits_read_in_steps_of_eight_equal_those_read_one_by_one() {
        let all = b"1234567890123456789";
        for length in 0..=all.len() {
            for other in (0..=255).filter(|byte: &u8| !byte.is_ascii_digit()) {
                for behind in [b"".as_slice(), b"1", b"12345678", b"zzzzzzzzz"] {
                    let text = [&all[..length], &[other], behind].concat();
                    let value = all[..length]
                        .iter()
                        .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
                    assert_eq!(digits(&text), (length, value), "{text:?}");
                }
            }
            assert_eq!(digits(&all[..length]).0, length);
        }
    }

    /// The fast path and the general path agree.
    #[test]
    fn plain_stamps_equal_those_of_the_general_parser() {
        for text in [
            "12:30:59.123456 x",
            "00:00:00.000000 x",
            "1700000000.123456 x",
            "0099999999.000001 x",
        ] {
            let (token, _) = text.split_once(' ').unwrap();
            let plain = plain_stamp(text.as_bytes());
            assert_eq!(
                plain,
                Some((read_stamp(token.as_bytes()).unwrap(), b"x".as_slice())),
                "{text}"
            );
        }
        for text in [
            "24:00:00.123456 x",
            "12:60:00.123456 x",
            "12:30:5x.123456 x",
            "12:30:59.1234567 x",
            "12:30:59.12345 xx",
            "12:30:59.123456",
            "12:30:59.123456  (+     0.000001) x",
            "1700000000.12345 xx",
            "170000000x.123456 x",
            "9999999999.123456 x",
            "1700000000.123456789 x",
        ] {
            assert_eq!(plain_stamp(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_duration_is_split_off_the_end() {
        let read = |text: &'static str| {
            let (rest, ns) = duration(text.as_bytes());
            (String::from_utf8_lossy(rest).into_owned(), ns)
        };
        let found = |rest: &str, ns| (rest.to_owned(), ns);
        assert_eq!(read("0 <0.000012>"), found("0", Some(12_000)));
        assert_eq!(read("3</a> <9.999999>"), found("3</a>", Some(9_999_999_000)));
        assert_eq!(read("0  <0.000012>"), found("0", Some(12_000)));
        assert_eq!(read("0 <12.000012>"), found("0", Some(12_000_012_000)));
        assert_eq!(read("0 <0.000000012>"), found("0", Some(12)));
        assert_eq!(read("0 <x.000012>"), found("0 <x.000012>", None));
        assert_eq!(read("3</a 0.000012>"), found("3</a 0.000012>", None));
    }
}
