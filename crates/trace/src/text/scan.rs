//! Where arguments end, in text that holds whatever files are called.
//!
//! One pass from the left. A comma or a parenthesis is hidden by a string in quotation marks, by
//! brackets, and by the name that `-y` puts in angle brackets behind a descriptor; by nothing else.
//! Rejected: to look for `) = ` from the right, as a file may be called so.

use memchr::{memchr2, memmem};
use wide::u8x16;

/// What a [`Cursor`] stops at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A comma between two arguments.
    Comma,
    /// A closing bracket that nothing has opened: the end of the arguments.
    Close,
    /// `<unfinished ...>` or `<detached ...>`, the last thing on a line.
    Unfinished,
}

/// The most arguments that a call has.
pub const MAX_ARGUMENTS: usize = 6;

/// Where the first arguments of a call end, noted while its line was told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    at: [u32; MAX_ARGUMENTS],
    count: u8,
}

impl Cuts {
    /// Another comma. Those behind the last argument do not matter.
    pub fn push(&mut self, at: usize) {
        if let Some(place) = self.at.get_mut(usize::from(self.count)) {
            *place = at as u32;
            self.count += 1;
        }
    }

    /// Arguments came in two parts, of which the first one has `length` bytes: those of the second
    /// one.
    pub fn append(&mut self, length: usize, second: &Self) {
        for &at in &second.at[..usize::from(second.count)] {
            self.push(length + at as usize);
        }
    }

    /// Gives the arguments to `take`, each without the blanks around it, up to `most`. `text` is
    /// what stands between the parentheses.
    pub fn each<'a>(&self, text: &'a [u8], most: usize, mut take: impl FnMut(usize, &'a [u8])) {
        let count = usize::from(self.count);
        if count == 0 && text.trim_ascii().is_empty() {
            return;
        }
        let mut from = 0;
        for place in 0..(count + 1).min(most) {
            let to = if place < count {
                self.at[place] as usize
            } else {
                text.len()
            };
            take(place, trimmed(text.get(from..to).unwrap_or_default()));
            from = to + 1;
        }
    }
}

/// Without the blanks around it: as a rule one, in front.
#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ', rest @ ..] if rest.len() > 1 && rest[0] > b' ' && rest[rest.len() - 1] > b' ' => rest,
        _ => text.trim_ascii(),
    }
}

/// A walk over arguments.
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

/// What each byte may mean.
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
    /// Over `text`, which begins behind an opening parenthesis.
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Whether it stands within brackets.
    pub fn is_within(&self) -> bool {
        self.depth > 0
    }
}

impl Iterator for Cursor<'_> {
    type Item = (usize, Mark);

    /// The next mark outside of brackets, and where it is; none where the text ends before one.
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

/// Bytes that are looked at together.
const STEP: usize = 16;

/// How many bytes from the first on are plain, at least. Rejected: to go through the marks of all
/// of them bit by bit, which takes as many instructions.
#[inline]
fn plain(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&bytes) = text[at..].first_chunk::<STEP>() {
        let marks = may_mean(u8x16::new(bytes)).to_bitmask();
        if marks != 0 {
            return at + marks.trailing_zeros() as usize;
        }
        at += STEP;
    }
    at
}

/// All bytes that are not plain for [`CLASS`], and some control characters.
#[inline]
fn may_mean(bytes: u8x16) -> u8x16 {
    let are = |some: u8x16, byte: u8| some.simd_eq(u8x16::splat(byte));
    // Brackets and braces differ by one bit, parentheses by another one.
    let folded = bytes | u8x16::splat(0x20);
    let parentheses = are(bytes & u8x16::splat(!1), b'(');
    let braces = are(folded, b'{') | are(folded, b'}');
    parentheses | braces | are(folded, b'"') | are(folded, b',') | are(folded, b'<')
}

/// How long it is what begins with `<` here: a name, or nothing but that byte; none where the line
/// is left open.
fn angle(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if is_left_open(rest) {
        return None;
    }
    let names = at > 0 && names_descriptor(text[at - 1]) && rest.get(1) != Some(&b'<');
    Some(if names { name(rest) } else { 1 })
}

/// How long the string is that begins here, with both quotation marks; to the end where it is cut.
#[inline]
pub fn string(text: &[u8]) -> usize {
    // Nearly all data, where `-s 0` keeps them out.
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

/// How long the name in angle brackets is that begins here; to the end where it is cut.
///
/// Angle brackets in a name are written as `\74` and `\76`. Devices have a second pair within, and
/// sockets an arrow: `<TCP:[127.0.0.1:4->127.0.0.1:80]>`.
pub fn name(text: &[u8]) -> usize {
    // Most are paths.
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

/// Behind `<KIND:[`, as in `<pipe:[123]>` and `<UNIX-STREAM:[1->2]>`: where the bracket has been
/// opened.
fn kind_of_socket(text: &[u8]) -> Option<usize> {
    let word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = text.get(1..)?.iter().take_while(word).count();
    (length > 0 && text[1 + length..].starts_with(b":[")).then_some(length + 3)
}

/// `3</tmp>`, `AT_FDCWD</tmp>`.
fn names_descriptor(before: u8) -> bool {
    before.is_ascii_digit() || before == b'D'
}

fn is_left_open(rest: &[u8]) -> bool {
    // Most are names of descriptors.
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
    fn what_is_passed_over_is_plain() {
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
        // A rest that is shorter than a step is left to the table.
        assert_eq!(plain(&[b'x'; 2 * STEP - 1]), STEP);
    }

    #[test]
    fn what_was_cut_is_what_arguments_are() {
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
            cuts.each(text.as_bytes(), MAX_ARGUMENTS, |place, part| {
                assert_eq!(place, cut.len());
                cut.push(part);
            });
            let all: Vec<_> = Arguments::of(text.as_bytes()).take(MAX_ARGUMENTS).collect();
            assert_eq!(cut, all, "{text}");
        }
    }
}
