//! Paths of files as shown to users. They are untrusted: nothing in them may control a terminal or
//! mislead a reader.

use std::fmt::Write as _;

/// The path with all invisible characters and all bytes that are not UTF-8 escaped, byte by byte as
/// `\xNN`. The backslash is escaped, too, so that [`unshown`] can restore the path.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '\\' || is_invisible(letter) {
                escape(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(letter);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// The path of a text of [`shown`]. None if [`shown`] does not produce such a text.
pub fn unshown(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let Some((&first, tail)) = remaining.split_first() {
        if first == b'\\' {
            let digits = tail.strip_prefix(b"x")?.get(..2)?;
            let digits = str::from_utf8(digits).ok()?;
            name.push(u8::from_str_radix(digits, 16).ok()?);
            remaining = &tail[3..];
        } else {
            name.push(first);
            remaining = tail;
        }
    }
    Some(name)
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Control characters, and those that change the direction of text or have no width.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_restored() {
        for (name, text) in [
            (&b"/plain name.txt"[..], "/plain name.txt"),
            ("/žluť".as_bytes(), "/žluť"),
            (b"a\nb\x1b[31m", r"a\x0ab\x1b[31m"),
            (br"a\x0a", r"a\x5cx0a"),
            (b"\xff\xfe ok \xc3", r"\xff\xfe ok \xc3"),
            ("gpj\u{202e}exe".as_bytes(), r"gpj\xe2\x80\xaeexe"),
        ] {
            assert_eq!(shown(name), text);
            assert_eq!(unshown(text).as_deref(), Some(name));
        }
        assert_eq!((unshown(r"a\n"), unshown(r"a\x4")), (None, None));
    }
}
