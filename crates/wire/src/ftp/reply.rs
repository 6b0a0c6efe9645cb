//! Replies on a control connection (RFC 959, 4.2).

use super::error::{FtpProtocolError, MAX_REPLY};

/// A complete reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Code, 100 to 699. The codes from 600 are those of protected replies (RFC 2228).
    pub code: u16,
    /// Text of all lines, separated by line feeds, without the codes of the first and the last
    /// line.
    pub text: String,
}

impl Reply {
    /// Whether another reply to the same command follows.
    pub fn is_preliminary(&self) -> bool {
        self.code < 200
    }

    /// Whether the command has succeeded.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Splits the bytes of a control connection into replies, with bounded memory.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// The line in progress.
    line: Vec<u8>,
    /// Code of the reply in progress, if it has several lines.
    open: Option<u16>,
    /// Texts of its complete lines.
    text: Vec<u8>,
}

impl ReplyReader {
    /// Takes bytes from the front of `bytes` up to the end of a reply. Returns none if all bytes
    /// were taken and the reply is not complete.
    ///
    /// # Errors
    /// The bytes are not a reply. The reader cannot be used again.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Reply>, FtpProtocolError> {
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let (taken, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            if self.text.len() + self.line.len() + taken.len() > MAX_REPLY {
                return Err(FtpProtocolError::LongReply);
            }
            self.line.extend_from_slice(taken);
            *bytes = rest;
            // Other protocols are detected at once, not at the end of a line that may never come.
            if self.open.is_none() && !self.line.iter().take(3).all(u8::is_ascii_digit) {
                return Err(FtpProtocolError::NoReply);
            }
            if end.is_some()
                && let Some(reply) = self.end_line()?
            {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Whether the last bytes were the beginning of a reply.
    pub fn is_within_reply(&self) -> bool {
        self.open.is_some() || !self.line.is_empty()
    }

    /// The line in progress is complete. Returns the reply if it was its last line.
    fn end_line(&mut self) -> Result<Option<Reply>, FtpProtocolError> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let coded = code_of(line);
        match (self.open, coded) {
            // The last line begins with the code of the first and a space. Some servers send the
            // code alone.
            (None, Some((_, b' '))) => {}
            (Some(open), Some((code, b' '))) if open == code => {}
            (None, Some((code, b'-'))) => {
                self.open = Some(code);
                self.add_line(&line[4..]);
                return Ok(None);
            }
            (None, _) => return Err(FtpProtocolError::NoReply),
            (Some(_), _) => {
                self.add_line(line);
                return Ok(None);
            }
        }
        self.add_line(line.get(4..).unwrap_or_default());
        self.open = None;
        let text = std::mem::take(&mut self.text);
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        Ok(coded.map(|(code, _)| Reply {
            code,
            text: String::from_utf8_lossy(text).into_owned(),
        }))
    }

    fn add_line(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
    }
}

/// The code at the beginning of a line and the byte behind it, which is a space at the end of the
/// line.
fn code_of(line: &[u8]) -> Option<(u16, u8)> {
    let digits = line.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit) || !(b'1'..=b'6').contains(&digits[0]) {
        return None;
    }
    let code = digits
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match line.get(3) {
        None => Some((code, b' ')),
        Some(&mark @ (b' ' | b'-')) => Some((code, mark)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies of a stream that arrives in pieces of `size` bytes.
    fn replies(stream: &[u8], size: usize) -> Result<Vec<(u16, String)>, FtpProtocolError> {
        let mut reader = ReplyReader::default();
        let mut replies = Vec::new();
        for mut piece in stream.chunks(size) {
            while let Some(reply) = reader.next(&mut piece)? {
                replies.push((reply.code, reply.text));
            }
        }
        assert!(!reader.is_within_reply());
        Ok(replies)
    }

    #[test]
    fn replies_are_split_in_the_same_way_however_they_arrive() {
        let stream = b"220 hello\r\n211-Extensions:\r\n PASV\r\n211 \r\n200\r\n\
            112-Perf Marker\r\n 211 no end\r\n112-not the end\r\n112 End\r\n226 Done.\n";
        let expected = [
            (220, "hello"),
            (211, "Extensions:\n PASV\n"),
            (200, ""),
            (112, "Perf Marker\n 211 no end\n112-not the end\nEnd"),
            (226, "Done."),
        ];
        for size in [1, 2, 7, stream.len()] {
            let found = replies(stream, size).unwrap();
            let found: Vec<(u16, &str)> = found.iter().map(|(code, text)| (*code, text.as_str())).collect();
            assert_eq!(found, expected, "{size}");
        }
    }

    #[test]
    fn a_continued_reply_ends_only_with_its_own_code() {
        let found = replies(b"150-a\r\n226 b\r\n1500 c\r\n150 d\r\n", 3).unwrap();
        assert_eq!(found, [(150, "a\n226 b\n1500 c\nd".to_owned())]);
    }

    #[test]
    fn other_bytes_are_refused_at_once() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"22",
            b"220x\r\n",
            b"099 a\r\n",
            b"700 a\r\n",
            b"\r\n",
            &[0x30, 0x0c, 2],
        ] {
            let mut reader = ReplyReader::default();
            let result = reader.next(&mut &bytes[..]);
            if bytes == b"22" {
                assert_eq!(result, Ok(None));
                assert!(reader.is_within_reply());
            } else {
                assert_eq!(result, Err(FtpProtocolError::NoReply), "{bytes:?}");
            }
        }
    }

    #[test]
    fn a_reply_without_an_end_needs_bounded_memory() {
        for line in [&b"x".repeat(1000)[..], b"\n"] {
            let mut reader = ReplyReader::default();
            reader.next(&mut &b"220-begin\r\n"[..]).unwrap();
            let mut result = Ok(None);
            for _ in 0..=MAX_REPLY {
                result = reader.next(&mut &*line);
                if result.is_err() {
                    break;
                }
            }
            assert_eq!(result, Err(FtpProtocolError::LongReply));
            assert!(reader.text.capacity() + reader.line.capacity() <= 4 * MAX_REPLY);
        }
    }

    #[test]
    fn text_in_another_encoding_is_kept_as_far_as_possible() {
        assert_eq!(replies(b"550 caf\xe9\r\n", 4).unwrap()[0].1, "caf\u{fffd}");
    }
}
