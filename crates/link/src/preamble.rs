//! The mark at which a link begins that goes over a command's standard output: a login shell may
//! print text before it.

use bytes::{Buf, BytesMut};

/// Begins the link, from agent to controller. Its first byte does not occur in text, so that no
/// banner ends with it.
pub const PREAMBLE: &[u8] = b"\0plimsoll-link/1\n";
/// Longest text of a login, in bytes. What prints more than that is not an agent.
pub const MAX_LOGIN_TEXT: usize = 1 << 20;
/// Kept of that text for messages, in bytes.
const MAX_KEPT_BYTES: usize = 200;

/// Looks for the preamble in what a command prints. Pure: bytes in.
#[derive(Debug, Default)]
pub struct LoginText {
    bytes: BytesMut,
    length: usize,
    begin: Vec<u8>,
}

impl LoginText {
    /// Takes bytes. Once the preamble has come: what follows it.
    pub fn take(&mut self, bytes: &[u8]) -> Option<BytesMut> {
        self.bytes.extend_from_slice(bytes);
        let found = self
            .bytes
            .windows(PREAMBLE.len())
            .position(|part| part == PREAMBLE);
        let text = found.unwrap_or_else(|| self.bytes.len().saturating_sub(PREAMBLE.len() - 1));
        let kept = text.min(MAX_KEPT_BYTES.saturating_sub(self.begin.len()));
        self.begin.extend_from_slice(&self.bytes[..kept]);
        self.length += text;
        self.bytes.advance(text);
        found?;
        self.bytes.advance(PREAMBLE.len());
        Some(std::mem::take(&mut self.bytes))
    }

    /// Whether more came than a login prints.
    pub fn is_too_long(&self) -> bool {
        self.length > MAX_LOGIN_TEXT
    }

    /// The first line of the text, for messages; empty where nothing came.
    pub fn first_line(&self) -> String {
        let rest = MAX_KEPT_BYTES
            .saturating_sub(self.begin.len())
            .min(self.bytes.len());
        let text = [&self.begin[..], &self.bytes[..rest]].concat();
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
    fn the_link_begins_after_the_preamble_however_it_is_cut() {
        let long = vec![0xff; 70_000];
        let banners: [&[u8]; 5] = [b"", b"Welcome\n", b"no final newline", b"\0plimsoll-li", &long];
        for banner in banners {
            let all = [banner, PREAMBLE, &b"\x05\0\0\0frame"[..]].concat();
            for size in [1, 7, 1000, all.len()] {
                let (mut login, mut rest) = (LoginText::default(), None);
                for part in all.chunks(size) {
                    match &mut rest {
                        None => rest = login.take(part),
                        Some(rest) => rest.extend_from_slice(part),
                    }
                }
                assert_eq!(rest.as_deref(), Some(&b"\x05\0\0\0frame"[..]), "parts of {size}");
                assert!(!login.is_too_long());
            }
        }
    }

    #[test]
    fn endless_text_is_noticed_and_not_kept() {
        let mut login = LoginText::default();
        for _ in 0..=MAX_LOGIN_TEXT / 1024 + 1 {
            assert!(login.take(&[b'y'; 1024]).is_none());
            assert!(login.bytes.len() < PREAMBLE.len() && login.begin.len() <= MAX_KEPT_BYTES);
        }
        assert!(login.is_too_long());
    }

    #[test]
    fn the_first_line_is_for_people() {
        let mut login = LoginText::default();
        assert_eq!(login.first_line(), "");
        assert!(login.take(b"\n  Wel\x1b[31mcome\nmore").is_none());
        assert_eq!(login.first_line(), "Wel?[31mcome");
    }
}
