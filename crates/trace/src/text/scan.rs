//! Finds the ends of arguments in text that may contain paths with any characters.
//!
//! It is one pass from the left. A comma or a parenthesis is part of an argument in a string in
//! quotation marks, in brackets, and in the path that `-y` writes in angle brackets after a
//! descriptor; nowhere else. Rejected: a search for `) = ` from the right, because a path may
//! contain it.

use memchr::{memchr2, memmem};
use wide::u8x16;

/// A position at which a [`Cursor`] stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A comma between two arguments.
    Comma,
    /// A closing bracket without an opening one: the end of the arguments.
    Close,
    /// `<unfinished ...>` or `<detached ...>` at the end of a line.
    Unfinished,
}

/// Maximum number of arguments of a call.
pub const MAX_ARGUMENTS: usize = 6;

/// The ends of the first arguments of a call, noted while its line was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    at: [u32; MAX_ARGUMENTS],
    count: u8,
}

impl Cuts {
    /// Adds a comma. Commas after the last argument are ignored.
    pub fn push(&mut self, at: usize) {
        if let Some(slot) = self.at.get_mut(usize::from(self.count)) {
            *slot = at as u32;
            self.count += 1;
        }
    }

    /// Appends the ends of a second part of the arguments. The first part has `length` bytes.
    pub fn append(&mut self, length: usize, second: &Self) {
        for &at in &second.at[..usize::from(second.count)] {
            self.push(length + at as usize);
        }
    }

    /// Passes at most `most` arguments to `take`, each with its index and without surrounding
    /// blanks. `text` is the text between the parentheses.
    pub fn each<'a>(&self, text: &'a [u8], most: usize, mut take: impl FnMut(usize, &'a [u8])) {
        let count = usize::from(self.count);
        if count == 0 && text.trim_ascii().is_empty() {
            return;
        }
        let mut from = 0;
        for index in 0..(count + 1).min(most) {
            let to = if index < count {
                self.at[index] as usize
            } else {
                text.len()
            };
            take(index, trimmed(text.get(from..to).unwrap_or_default()));
            from = to + 1;
        }
    }
}

/// Removes surrounding blanks; usually there is one in front.
#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ', rest @ ..] if rest.len() > 1 && rest[0] > b' ' && rest[rest.len() - 1] > b' ' => rest,
        _ => text.trim_ascii(),
    }
}

/// A cursor over the marks of arguments.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

const PLAIN: u8 = 0;
const QUOTE: u8 = 1;
const OPEN: u8 = 2;
const SHUT: u8 = 3;
const COMMA: u8 = 4;
const ANGLE: u8 = 5;

/// The class of each byte.
const CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    class[b'"' as usize] = QUOTE;
    class[b'(' as usize] = OPEN;
    class[b'[' as usize] = OPEN;
    class[b'{' as usize] = OPEN;
    class[b')' as usize] = SHUT;
    class[b']' as usize] = SHUT;
    class[b'}' as usize] = SHUT;
    class[b',' as usize] = COMMA;
    class[b'<' as usize] = ANGLE;
    class
};

impl<'a> Cursor<'a> {
    /// A cursor over `text`, which begins after an opening parenthesis.
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Whether the cursor is within brackets.
    pub fn is_within(&self) -> bool {
        self.depth > 0
    }
}

impl Iterator for Cursor<'_> {
    type Item = (usize, Mark);

    /// The next mark outside brackets, and its offset. None if the text ends before one.
    #[inline]
    fn next(&mut self) -> Option<(usize, Mark)> {
        let text = self.text;
        let mut at = self.at;
        while let Some(&byte) = text.get(at) {
            let here = at;
            let mut mark = None;
            at += match CLASS[usize::from(byte)] {
                PLAIN => 1 + plain(&text[here + 1..]),
                QUOTE => string(&text[here..]),
                ANGLE => {
                    let Some(length) = angle(text, here) else {
                        self.at = text.len();
                        return Some((here, Mark::Unfinished));
                    };
                    length
                }
                OPEN => {
                    self.depth += 1;
                    1
                }
                class if self.depth == 0 => {
                    mark = Some(if class == COMMA { Mark::Comma } else { Mark::Close });
                    1
                }
                SHUT => {
                    self.depth -= 1;
                    1
                }
                _ => 1,
            };
            if let Some(mark) = mark {
                self.at = at;
                return Some((here, mark));
            }
        }
        self.at = at;
        None
    }
}

/// Number of bytes that are tested together.
const STEP: usize = 16;

/// The number of plain bytes at the start, or a lower bound. Rejected: processing the marks of all
/// bytes bit by bit, which takes as many instructions.
#[inline]
fn plain(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&bytes) = text[at..].first_chunk::<STEP>() {
        let marks = non_plain(u8x16::new(bytes)).to_bitmask();
        if marks != 0 {
            return at + marks.trailing_zeros() as usize;
        }
        at += STEP;
    }
    at
}

/// Selects all bytes that are not plain for [`CLASS`], and some control characters.
#[inline]
fn non_plain(bytes: u8x16) -> u8x16 {
    let are = |some: u8x16, byte: u8| some.simd_eq(u8x16::splat(byte));
    // Brackets and braces differ by one bit, parentheses by another one.
    let folded = bytes | u8x16::splat(0x20);
    let parentheses = are(bytes & u8x16::splat(!1), b'(');
    let braces = are(folded, b'{') | are(folded, b'}');
    parentheses | braces | are(folded, b'"') | are(folded, b',') | are(folded, b'<')
}

/// The length of the text that begins with `<` here: of a path in angle brackets, or 1. None if the
/// line is unfinished.
fn angle(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if is_unfinished(rest) {
        return None;
    }
    let is_path = at > 0 && ends_descriptor(text[at - 1]) && rest.get(1) != Some(&b'<');
    Some(if is_path { name(rest) } else { 1 })
}

/// The length of the string that begins here, with both quotation marks; to the end of the text if
/// it is cut.
#[inline]
pub fn string(text: &[u8]) -> usize {
    // Fast path: with `-s 0` almost all strings are empty.
    if text.get(1) == Some(&b'"') {
        return 2;
    }
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if text[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    text.len()
}

/// The length of the text in angle brackets that begins here; to the end of the text if it is cut.
///
/// Angle brackets in a path are written as `\74` and `\76`. Devices contain a second pair, and
/// sockets an arrow: `<TCP:[127.0.0.1:4->127.0.0.1:80]>`.
pub fn name(text: &[u8]) -> usize {
    // Fast path: most are paths.
    let kind = if text.get(1) == Some(&b'/') {
        None
    } else {
        kind_of_socket(text)
    };
    if let Some(from) = kind {
        let end = memmem::find(&text[from..], b"]>");
        return end.map_or(text.len(), |end| from + end + 2);
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'<', b'>', rest)) {
        at += found + 1;
        if text[at - 1] == b'<' {
            depth += 1;
        } else {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

/// The offset after `<KIND:[`, as in `<pipe:[123]>` and `<UNIX-STREAM:[1->2]>`.
fn kind_of_socket(text: &[u8]) -> Option<usize> {
    let word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = text.get(1..)?.iter().take_while(word).count();
    (length > 0 && text[1 + length..].starts_with(b":[")).then_some(length + 3)
}

/// Whether a descriptor ends before the angle bracket: `3</tmp>`, `AT_FDCWD</tmp>`.
fn ends_descriptor(before: u8) -> bool {
    before.is_ascii_digit() || before == b'D'
}

fn is_unfinished(rest: &[u8]) -> bool {
    // Fast path: most are paths of descriptors.
    if !matches!(rest.get(1), Some(b'u' | b'd')) {
        return false;
    }
    [b"<unfinished ...>".as_slice(), b"<detached ...>"]
        .iter()
        .any(|word| {
            rest.strip_prefix(*word)
                .is_some_and(|more| more.trim_ascii().is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::Arguments;

    #[test]
    fn skipped_bytes_are_plain() {
        for byte in 0..=u8::MAX {
            let is_plain = CLASS[usize::from(byte)] == PLAIN;
            for at in 0..3 * STEP {
                let mut text = [b'x'; 3 * STEP];
                text[at] = byte;
                let passed = plain(&text);
                assert!(passed == at || is_plain && passed == text.len(), "{byte} at {at}");
                assert!(
                    passed == text.len() || !is_plain || byte < b' ',
                    "{byte} stops for nothing"
                );
            }
        }
        // A remainder that is shorter than a step is left to the table.
        assert_eq!(plain(&[b'x'; 2 * STEP - 1]), STEP);
    }

    #[test]
    fn noted_ends_agree_with_the_arguments() {
        for text in [
            "",
            " ",
            "3",
            r#"3, "a, b", {x=1, y=[2, 3]}"#,
            "1, 2, 3, 4, 5, 6, 7, 8",
            " 1 ,2, ",
        ] {
            let mut cuts = Cuts::default();
            for (at, mark) in Cursor::new(text.as_bytes()) {
                if mark == Mark::Comma {
                    cuts.push(at);
                }
            }
            let mut cut = Vec::new();
            cuts.each(text.as_bytes(), MAX_ARGUMENTS, |index, part| {
                assert_eq!(index, cut.len());
                cut.push(part);
            });
            let all: Vec<_> = Arguments::of(text.as_bytes()).take(MAX_ARGUMENTS).collect();
            assert_eq!(cut, all, "{text}");
        }
    }
}
