//! Parses single arguments in the text of strace.

use std::borrow::Cow;

use crate::text::scan::{self, Cursor, Mark};

/// The number that refers to the current directory instead of a descriptor.
pub const AT_FDCWD: i32 = -100;

/// Iterates over the arguments of a call, each without surrounding blanks. A blank text has none.
#[derive(Debug, Clone)]
pub struct Arguments<'a> {
    text: &'a [u8],
    cursor: Cursor<'a>,
    from: usize,
    over: bool,
}

impl<'a> Arguments<'a> {
    /// The arguments in the text between the parentheses of a call, the brackets of a list, or the
    /// braces of a structure.
    pub fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            cursor: Cursor::new(text),
            from: 0,
            over: text.trim_ascii().is_empty(),
        }
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.over {
            return None;
        }
        let from = self.from;
        let to = match self.cursor.next() {
            Some((at, Mark::Comma)) => {
                self.from = at + 1;
                at
            }
            ended => {
                self.over = true;
                ended.map_or(self.text.len(), |(at, _)| at)
            }
        };
        Some(self.text[from..to].trim_ascii())
    }
}

/// The text in the brackets `[...]` or braces `{...}` of an argument; None for any other text.
pub fn inner(argument: &[u8]) -> Option<&[u8]> {
    let rest = argument
        .strip_prefix(b"[")
        .or_else(|| argument.strip_prefix(b"{"))?;
    rest.strip_suffix(b"]")
        .or_else(|| rest.strip_suffix(b"}"))
        .or(Some(rest))
}

/// The field `name` of a structure `{a=1, b={...}}`.
pub fn field<'a>(argument: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let [found] = fields(argument, [name], 1);
    found
}

/// Several fields in one pass, which ends when `most` of them are found.
pub fn fields<'a, const N: usize>(
    argument: &'a [u8],
    names: [&[u8]; N],
    most: usize,
) -> [Option<&'a [u8]>; N] {
    let mut found = [None; N];
    let mut missing = most;
    for part in inner(argument).map(Arguments::of).into_iter().flatten() {
        for (found, name) in found.iter_mut().zip(names) {
            let value = part.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="));
            if found.is_none() && value.is_some() {
                *found = value;
                missing = missing.saturating_sub(1);
            }
        }
        if missing == 0 {
            break;
        }
    }
    found
}

/// Parses a number: decimal, hexadecimal after `0x` or octal after `0`. An address above 2^63
/// becomes the negative number with the same bits. None for any other text, including names of
/// constants.
pub fn number(argument: &[u8]) -> Option<i64> {
    let (digits, negative) = match argument.strip_prefix(b"-") {
        Some(digits) => (digits, true),
        None => (argument, false),
    };
    let value = match digits {
        [b'0', b'x', rest @ ..] => of_base(rest, 16)?,
        [b'0', rest @ ..] if !rest.is_empty() => of_base(rest, 8)?,
        // Fewer than 19 digits cannot overflow. Most numbers of a log are of this kind.
        [_, ..] if digits.len() < 19 => decimal(digits)?,
        _ => of_base(digits, 10)?,
    };
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Parses fewer than 19 decimal digits; None if there is any other byte.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

fn of_base(digits: &[u8], base: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &byte in digits {
        let digit = char::from(byte).to_digit(base)?;
        value = value
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A descriptor, with the path that option `-y` writes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// [`AT_FDCWD`] for the current directory.
    pub number: i32,
    /// The text between the angle brackets, unchanged.
    pub name: Option<&'a [u8]>,
    /// Whether `(deleted)` follows.
    pub deleted: bool,
}

/// Parses `3`, `3</etc/passwd>`, `AT_FDCWD</home>` or `7</tmp/x>(deleted)`; None for any other
/// text.
pub fn descriptor(argument: &[u8]) -> Option<Descriptor<'_>> {
    let angle = argument.iter().position(|&byte| byte == b'<');
    let (number, rest) = argument.split_at(angle.unwrap_or(argument.len()));
    let number = if number == b"AT_FDCWD" {
        AT_FDCWD
    } else {
        i32::try_from(self::number(number)?).ok()?
    };
    let (named, deleted) = match rest.strip_suffix(b"(deleted)") {
        Some(named) => (named, true),
        None => (rest, false),
    };
    let name = match named {
        [] => None,
        named => Some(named[1..].strip_suffix(b">")?),
    };
    Some(Descriptor {
        number,
        name,
        deleted,
    })
}

/// A string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    /// The bytes of the string.
    pub bytes: Cow<'a, [u8]>,
    /// Whether the string is incomplete: abbreviated (`"abc"...`, option `-s`), or the line is cut.
    pub cut: bool,
}

/// Parses a string in quotation marks; None for any other text (`NULL`, an address that could not
/// be read).
pub fn text(argument: &[u8]) -> Option<Text<'_>> {
    if argument.first() != Some(&b'"') {
        return None;
    }
    // Fast path: most strings contain no escape.
    let end = memchr::memchr2(b'"', b'\\', &argument[1..]).map(|end| end + 1);
    if let Some(end) = end.filter(|&end| argument[end] == b'"') {
        return Some(Text {
            bytes: Cow::Borrowed(&argument[1..end]),
            cut: argument[end + 1..].starts_with(b"..."),
        });
    }
    let length = scan::string(argument);
    let within = &argument[1..length];
    let (within, closed) = match within.strip_suffix(b"\"") {
        Some(whole) if length > 1 => (whole, true),
        _ => (within, false),
    };
    Some(Text {
        bytes: unescaped(within),
        cut: !closed || argument[length..].starts_with(b"..."),
    })
}

/// Replaces the escapes of strace by their bytes: `\n`, `\"`, `\305`, `\x61` and others.
pub fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', text) else {
        return Cow::Borrowed(text);
    };
    let mut bytes = text[..first].to_vec();
    let mut rest = &text[first..];
    while let [byte, more @ ..] = rest {
        if *byte == b'\\' {
            let (value, length) = escape(more);
            bytes.push(value);
            rest = &more[length..];
        } else {
            bytes.push(*byte);
            rest = more;
        }
    }
    Cow::Owned(bytes)
}

/// The byte of an escape, without its backslash, and the length of the escape.
fn escape(text: &[u8]) -> (u8, usize) {
    let simple = |value| (value, 1);
    match text.first() {
        Some(b'n') => simple(b'\n'),
        Some(b't') => simple(b'\t'),
        Some(b'r') => simple(b'\r'),
        Some(b'v') => simple(0x0b),
        Some(b'f') => simple(0x0c),
        Some(b'x') => digits(&text[1..], 16, 2).map_or(simple(b'x'), |(value, length)| (value, length + 1)),
        Some(b'0'..=b'7') => digits(text, 8, 3).unwrap_or(simple(text[0])),
        Some(&byte) => simple(byte),
        None => (b'\\', 0),
    }
}

fn digits(text: &[u8], base: u32, most: usize) -> Option<(u8, usize)> {
    let mut value = 0;
    let mut length = 0;
    for &byte in text.iter().take(most) {
        let Some(digit) = char::from(byte).to_digit(base) else {
            break;
        };
        value = value * base + digit;
        length += 1;
    }
    (length > 0).then_some((value as u8, length))
}

/// Whether `flag` is one of the names in `A|B|0x8`.
pub fn has(argument: &[u8], flag: &[u8]) -> bool {
    argument.split(|&byte| byte == b'|').any(|name| name == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        Arguments::of(text.as_bytes())
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect()
    }

    #[test]
    fn arguments_end_at_commas_outside_strings_and_brackets() {
        for (text, parts) in [
            ("", vec![]),
            (" ", vec![]),
            ("3", vec!["3"]),
            (
                r#"AT_FDCWD, "a, b) = 3 <0.1>", O_RDONLY"#,
                vec!["AT_FDCWD", r#""a, b) = 3 <0.1>""#, "O_RDONLY"],
            ),
            (r#""qu\"o, te\\", 7"#, vec![r#""qu\"o, te\\""#, "7"]),
            (r#""cut"..., 32"#, vec![r#""cut"..."#, "32"]),
            (
                r#"3</tmp/a, b"c)>, "x", {st_mode=S_IFREG|0644, st_size=3, ...}, AT_EMPTY_PATH"#,
                vec![
                    r#"3</tmp/a, b"c)>"#,
                    r#""x""#,
                    "{st_mode=S_IFREG|0644, st_size=3, ...}",
                    "AT_EMPTY_PATH",
                ],
            ),
            (
                "5<TCP:[127.0.0.1:4->127.0.0.1:80]>, 1<<CAP_CHOWN, 0</dev/pts/0<char 136:0>>",
                vec![
                    "5<TCP:[127.0.0.1:4->127.0.0.1:80]>",
                    "1<<CAP_CHOWN",
                    "0</dev/pts/0<char 136:0>>",
                ],
            ),
            (
                "{flags=CLONE_VM|CLONE_FILES, exit_signal=0} => {parent_tid=[20162]}, 88",
                vec![
                    "{flags=CLONE_VM|CLONE_FILES, exit_signal=0} => {parent_tid=[20162]}",
                    "88",
                ],
            ),
            (
                r#"0x7ffe /* 24 vars */, "never closed, 3"#,
                vec!["0x7ffe /* 24 vars */", r#""never closed, 3"#],
            ),
        ] {
            assert_eq!(all(text), parts, "{text}");
        }
    }

    #[test]
    fn numbers_of_each_base_are_parsed() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("0644", Some(0o644)),
            ("0x10", Some(16)),
            ("0xffffffffffffffff", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("0x", None),
            ("08", None),
            ("O_RDONLY", None),
            ("NULL", None),
        ] {
            assert_eq!(number(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn descriptors_with_paths_of_all_kinds_are_parsed() {
        let read = |text: &'static str| {
            descriptor(text.as_bytes()).map(|parsed| {
                let name = parsed.name.map(|name| String::from_utf8_lossy(name).into_owned());
                (parsed.number, name.unwrap_or_default(), parsed.deleted)
            })
        };
        let found = |number, name: &str, deleted| Some((number, name.to_owned(), deleted));
        assert_eq!(read("3"), found(3, "", false));
        assert_eq!(read("-1"), found(-1, "", false));
        assert_eq!(read("AT_FDCWD</home>"), found(AT_FDCWD, "/home", false));
        assert_eq!(read("7</d/#99>(deleted)"), found(7, "/d/#99", true));
        assert_eq!(
            read("0</dev/pts/0<char 136:0>>"),
            found(0, "/dev/pts/0<char 136:0>", false)
        );
        assert_eq!(
            read("3<TCP:[1.2.3.4:5->6.7.8.9:80]>"),
            found(3, "TCP:[1.2.3.4:5->6.7.8.9:80]", false)
        );
        assert_eq!(read("4<pipe:[123]>"), found(4, "pipe:[123]", false));
        for no in ["NULL", "", "3</cut", "x<y>", "4294967296"] {
            assert_eq!(read(no), None, "{no}");
        }
    }

    #[test]
    fn strings_are_unescaped() {
        let read = |argument: &'static str| {
            text(argument.as_bytes()).map(|string| (string.bytes.into_owned(), string.cut))
        };
        assert_eq!(read(r#""plain""#), Some((b"plain".to_vec(), false)));
        assert_eq!(read(r#""""#), Some((Vec::new(), false)));
        assert_eq!(read(r#"""..."#), Some((Vec::new(), true)));
        assert_eq!(
            read(r#""\"\\\n\t\v\f\r\0\33x\305\276\x61\x6""#),
            Some((b"\"\\\n\t\x0b\x0c\r\0\x1bx\xc5\xbea\x06".to_vec(), false))
        );
        assert_eq!(read(r#""cut off"#), Some((b"cut off".to_vec(), true)));
        assert_eq!(read(r#"""#), Some((Vec::new(), true)));
        assert_eq!(read(r#""ends in \"#), Some((b"ends in \\".to_vec(), true)));
        assert_eq!(read("NULL"), None);
        assert_eq!(read("0x7ffc12"), None);
    }

    #[test]
    fn fields_and_flags_are_found() {
        let stat = b"{st_mode=S_IFREG|0644, st_rdev=makedev(0x1, 0x3), st_size=17, ...}";
        assert_eq!(field(stat, b"st_size"), Some(b"17".as_slice()));
        assert_eq!(field(stat, b"st_rdev"), Some(b"makedev(0x1, 0x3)".as_slice()));
        assert_eq!(field(stat, b"size"), None);
        assert_eq!(field(b"NULL", b"size"), None);
        assert!(has(b"O_RDWR|O_CREAT|0x8", b"O_CREAT") && !has(b"O_RDWR|O_CREATE", b"O_CREAT"));
        let vectors = Arguments::of(
            inner(br#"[{iov_base=""..., iov_len=10}, {iov_base="a", iov_len=20}]"#).unwrap_or_default(),
        );
        let lengths: Vec<_> = vectors
            .filter_map(|vector| number(field(vector, b"iov_len")?))
            .collect();
        assert_eq!(lengths, [10, 20]);
    }
}
