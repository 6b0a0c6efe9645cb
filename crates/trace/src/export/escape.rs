//! Names as text. They are bytes, and come from outside.

use std::fmt::Write as _;

/// Appends `bytes` as one line of UTF-8: what is no UTF-8, and control characters, as `\xNN` (two
/// lower-case hexadecimal digits), a backslash as `\\`. A first `=`, `+`, `-` or `@` is written as
/// `\xNN` too, for spreadsheets take what follows it for a formula. So two names are never one
/// text, and the bytes can be had back.
pub(super) fn escape(bytes: &[u8], out: &mut String) {
    let begin = out.len();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let is_formula = out.len() == begin && matches!(character, '=' | '+' | '-' | '@');
            if character == '\\' {
                out.push_str("\\\\");
            } else if character.is_ascii() && (character.is_ascii_control() || is_formula) {
                hex(character as u8, out);
            } else if is_line_end(character) {
                let mut bytes = [0; 4];
                for &byte in character.encode_utf8(&mut bytes).as_bytes() {
                    hex(byte, out);
                }
            } else {
                out.push(character);
            }
        }
        for &byte in chunk.invalid() {
            hex(byte, out);
        }
    }
}

/// Readers in Python, among others, end a line at these as well: NEL, LINE SEPARATOR, PARAGRAPH
/// SEPARATOR.
fn is_line_end(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn hex(byte: u8, out: &mut String) {
    // Text takes in whatever is written to it.
    let _ = write!(out, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut text = String::from("before ");
        escape(bytes, &mut text);
        text.split_off("before ".len())
    }

    /// Undoes it.
    fn bytes(text: &str) -> Vec<u8> {
        let mut found = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = tail;
            match (first, tail) {
                (b'\\', [b'\\', tail @ ..]) => {
                    found.push(b'\\');
                    rest = tail;
                }
                (b'\\', [b'x', digits @ ..]) => {
                    let number = std::str::from_utf8(&digits[..2]).unwrap();
                    found.push(u8::from_str_radix(number, 16).unwrap());
                    rest = &digits[2..];
                }
                (&byte, _) => found.push(byte),
            }
        }
        found
    }

    #[test]
    fn what_is_no_text_has_digits_and_can_be_had_back() {
        for (name, text) in [
            (&b"/data/a b,\"c\""[..], "/data/a b,\"c\""),
            (b"/\xc3\xbc/\xff\xc3", "/\u{fc}/\\xff\\xc3"),
            (b"/a\nb\x7f", "/a\\x0ab\\x7f"),
            (b"\\x41", "\\\\x41"),
            (b"=1+1", "\\x3d1+1"),
            (b"@-", "\\x40-"),
            ("/\u{2028}".as_bytes(), "/\\xe2\\x80\\xa8"),
            (b"", ""),
        ] {
            assert_eq!(escaped(name), text);
            assert_eq!(bytes(text), name);
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&escaped(&all)), all);
        assert_eq!(escaped(&all).lines().count(), 1);
    }
}
