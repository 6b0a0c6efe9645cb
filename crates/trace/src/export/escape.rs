//! Converts paths to text. They are arbitrary, untrusted bytes.

use std::fmt::Write as _;

/// Appends `bytes` as one line of UTF-8. Invalid UTF-8 and control characters become `\xNN` (two
/// lower-case hexadecimal digits), a backslash becomes `\\`. A leading `=`, `+`, `-` or `@` becomes
/// `\xNN`, too, because spreadsheets would interpret the text as a formula. So different paths have
/// different texts, and the bytes can be restored.
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

/// Python, for example, also ends a line at NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR.
fn is_line_end(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn hex(byte: u8, out: &mut String) {
    // Writing to a String does not fail.
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

    /// The inverse of [`escape`].
    fn bytes(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut remaining = text.as_bytes();
        while let [first, tail @ ..] = remaining {
            remaining = tail;
            match (first, tail) {
                (b'\\', [b'\\', tail @ ..]) => {
                    bytes.push(b'\\');
                    remaining = tail;
                }
                (b'\\', [b'x', digits @ ..]) => {
                    let number = std::str::from_utf8(&digits[..2]).unwrap();
                    bytes.push(u8::from_str_radix(number, 16).unwrap());
                    remaining = &digits[2..];
                }
                (&byte, _) => bytes.push(byte),
            }
        }
        bytes
    }

    #[test]
    fn invalid_text_is_escaped_and_can_be_restored() {
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
