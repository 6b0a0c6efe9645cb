//! The preamble of a link over the standard output of a command. It marks where the link begins,
//! because a login shell may print text before it.

use bytes::{Buf, BytesMut};

/// First bytes of the link, from agent to controller. The first of them does not occur in text, so
/// no login text ends with it.
pub const PREAMBLE: &[u8] = b"\0plimsoll-link/1\n";
/// Maximum length of the text before the preamble, in bytes. A command that prints more is not an
/// agent.
pub const MAX_LOGIN_TEXT: usize = 1 << 20;
/// Number of bytes of that text that are kept for messages.
const MAX_KEPT_BYTES: usize = 200;

/// Finds the preamble in the output of a command. It does no I/O.
#[derive(Debug, Default)]
pub struct LoginText {
    bytes: BytesMut,
    length: usize,
    begin: Vec<u8>,
}

impl LoginText {
    /// Adds output of the command. Returns the bytes after the preamble if it is complete.
    pub fn take(&mut self, bytes: &[u8]) -> Option<BytesMut> {
        self.bytes.extend_from_slice(bytes);
        let preamble = self
            .bytes
            .windows(PREAMBLE.len())
            .position(|part| part == PREAMBLE);
        let length = preamble.unwrap_or_else(|| self.bytes.len().saturating_sub(PREAMBLE.len() - 1));
        let kept = length.min(MAX_KEPT_BYTES.saturating_sub(self.begin.len()));
        self.begin.extend_from_slice(&self.bytes[..kept]);
        self.length += length;
        self.bytes.advance(length);
        preamble?;
        self.bytes.advance(PREAMBLE.len());
        Some(std::mem::take(&mut self.bytes))
    }

    /// Whether the text is longer than [`MAX_LOGIN_TEXT`].
    pub fn is_too_long(&self) -> bool {
        self.length > MAX_LOGIN_TEXT
    }

    /// The first line of the text, for messages, with `?` for control characters; empty if there is
    /// no text.
    pub fn first_line(&self) -> String {
        let undecided = MAX_KEPT_BYTES
            .saturating_sub(self.begin.len())
            .min(self.bytes.len());
        let text = [&self.begin[..], &self.bytes[..undecided]].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.trim().lines().next().unwrap_or_default();
        line.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_begins_after_a_preamble_in_parts_of_any_size() {
        let long = vec![0xff; 70_000];
        let banners: [&[u8]; 5] = [b"", b"Welcome\n", b"no final newline", b"\0plimsoll-li", &long];
        for banner in banners {
            let all = [banner, PREAMBLE, &b"\x05\0\0\0frame"[..]].concat();
            for size in [1, 7, 1000, all.len()] {
                let (mut login, mut link) = (LoginText::default(), None);
                for part in all.chunks(size) {
                    match &mut link {
                        None => link = login.take(part),
                        Some(link) => link.extend_from_slice(part),
                    }
                }
                assert_eq!(link.as_deref(), Some(&b"\x05\0\0\0frame"[..]), "parts of {size}");
                assert!(!login.is_too_long());
            }
        }
    }

    #[test]
    fn endless_text_is_too_long_and_not_kept() {
        let mut login = LoginText::default();
        for _ in 0..=MAX_LOGIN_TEXT / 1024 + 1 {
            assert!(login.take(&[b'y'; 1024]).is_none());
            assert!(login.bytes.len() < PREAMBLE.len() && login.begin.len() <= MAX_KEPT_BYTES);
        }
        assert!(login.is_too_long());
    }

    #[test]
    fn the_first_line_has_no_control_characters() {
        let mut login = LoginText::default();
        assert_eq!(login.first_line(), "");
        assert!(login.take(b"\n  Wel\x1b[31mcome\nmore").is_none());
        assert_eq!(login.first_line(), "Wel?[31mcome");
    }
}
