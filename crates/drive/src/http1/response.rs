//! Parser of one response, which may arrive in any pieces. No I/O: the input are bytes, the output
//! is whether the response is complete.

use plimsoll_model::Cache;

use super::chunks::ChunkDecoder;
use super::head::{self, Framing, Head, MAX_HEAD_BYTES, SyntaxError};

/// A complete response, without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// HTTP status, three digits.
    pub status: u16,
    /// Length of the body without transfer coding, bytes.
    pub body: u64,
    /// What caches reported.
    pub cache: Cache,
    /// Time for which the response was in caches, s; none if they did not report it.
    pub age: Option<u64>,
}

/// Why a response cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// It is not valid HTTP.
    Bad,
    /// Its body is longer than can be kept.
    TooLong,
}

impl From<SyntaxError> for ResponseError {
    fn from(_: SyntaxError) -> Self {
        Self::Bad
    }
}

/// Reads one response. Bytes of a head are copied only if it arrives in pieces.
#[derive(Debug)]
pub struct Reader {
    head_only: bool,
    /// Maximum length of a body that is kept, bytes.
    max_kept: usize,
    /// The pieces of a head so far.
    partial: Vec<u8>,
    head: Option<Head>,
    /// The bytes of the head, if they are kept.
    kept_head: Option<Vec<u8>>,
    chunked: ChunkDecoder,
    length: u64,
    /// Bytes followed the end of the response.
    excess: bool,
}

impl Reader {
    /// `head_only`: the request was HEAD. `max_kept`: maximum length of a body that is kept, bytes;
    /// a longer one is [`ResponseError::TooLong`].
    pub fn new(head_only: bool, max_kept: usize) -> Self {
        Self {
            head_only,
            max_kept,
            partial: Vec::new(),
            head: None,
            kept_head: None,
            chunked: ChunkDecoder::default(),
            length: 0,
            excess: false,
        }
    }

    /// Keeps the bytes of the head.
    #[must_use]
    pub fn keeping_head(mut self) -> Self {
        self.kept_head = Some(Vec::new());
        self
    }

    /// Removes and returns the bytes of the head; empty if they are not kept.
    pub fn take_head(&mut self) -> Vec<u8> {
        self.kept_head.take().unwrap_or_default()
    }

    /// Reads a piece, and returns whether the response is complete. The body is appended to `keep`,
    /// unless that is none.
    pub fn feed(&mut self, bytes: &[u8], keep: Option<&mut Vec<u8>>) -> Result<bool, ResponseError> {
        if self.head.is_some() {
            return self.feed_body(bytes, keep);
        }
        if self.partial.is_empty() {
            return match self.find_head(bytes)? {
                Some(from) => self.feed_body(&bytes[from..], keep),
                None => Ok(false),
            };
        }
        let seen = self.partial.len();
        self.partial.extend_from_slice(bytes);
        // A head that arrives byte by byte must not be parsed again for each byte. The parser
        // detects a head that is too long.
        if self.partial.len() < MAX_HEAD_BYTES && !head::may_be_whole(&self.partial, seen) {
            return Ok(false);
        }
        let pieces = std::mem::take(&mut self.partial);
        match self.find_head(&pieces)? {
            Some(from) => self.feed_body(&pieces[from..], keep),
            None => Ok(false),
        }
    }

    /// Parses a head, and skips interim ones; returns the offset of the body. Stores an incomplete
    /// head.
    fn find_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, SyntaxError> {
        let mut from = 0;
        loop {
            match head::parse(&bytes[from..], self.head_only)? {
                // Status 101 changes the protocol, which was not requested.
                Some(head) if head.status == 101 => return Err(SyntaxError),
                Some(head) if head.status < 200 => from += head.length,
                Some(head) => {
                    self.head = Some(head);
                    if let Some(kept) = &mut self.kept_head {
                        kept.extend_from_slice(&bytes[from..from + head.length]);
                    }
                    return Ok(Some(from + head.length));
                }
                None => {
                    self.partial = bytes[from..].to_vec();
                    return Ok(None);
                }
            }
        }
    }

    fn feed_body(&mut self, bytes: &[u8], mut keep: Option<&mut Vec<u8>>) -> Result<bool, ResponseError> {
        let Some(head) = self.head else { return Ok(false) };
        let previous_length = self.length;
        let mut length = previous_length;
        let max_kept = self.max_kept as u64;
        let mut take = |data: &[u8]| {
            length += data.len() as u64;
            if let Some(keep) = &mut keep
                && length <= max_kept
            {
                keep.extend_from_slice(data);
            }
        };
        let (taken, done) = match head.framing {
            Framing::Length(total) => {
                let left = usize::try_from(total - previous_length).unwrap_or(usize::MAX);
                let count = left.min(bytes.len());
                take(&bytes[..count]);
                (count, count == left)
            }
            Framing::Chunked => {
                let count = self.chunked.feed(bytes, &mut take)?;
                (count, self.chunked.is_done())
            }
            Framing::ToEnd => {
                take(bytes);
                (bytes.len(), false)
            }
        };
        self.length = length;
        self.excess = taken < bytes.len();
        if keep.is_some() && length > max_kept {
            return Err(ResponseError::TooLong);
        }
        Ok(done)
    }

    /// Whether the response is complete when the peer closes the connection.
    pub fn ends_at_close(&self) -> bool {
        self.head.is_some_and(|head| head.framing == Framing::ToEnd)
    }

    /// The response, which must be complete, and whether the connection can be used for another
    /// request; none without a head.
    pub fn response(&self) -> Option<(Response, bool)> {
        let head = self.head?;
        let response = Response {
            status: head.status,
            body: self.length,
            cache: head.cache,
            age: head.age,
        };
        Some((response, head.keep && !self.excess))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_produce_the_same_response() {
        let plain = "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = "HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        for (text, status) in [(plain, 200), (chunked, 201)] {
            let bytes = text.as_bytes();
            for size in 1..=bytes.len() {
                let (mut reader, mut body) = (Reader::new(false, 1024).keeping_head(), Vec::new());
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                for (index, piece) in pieces.iter().enumerate() {
                    let done = reader.feed(piece, Some(&mut body)).unwrap();
                    assert_eq!(done, index + 1 == pieces.len(), "{text:?} by {size}");
                }
                let expected = Response {
                    status,
                    body: 5,
                    cache: Cache::None,
                    age: None,
                };
                assert_eq!(reader.response(), Some((expected, true)));
                assert_eq!(body, b"hello");
                let head = reader.take_head();
                assert!(
                    head.starts_with(format!("HTTP/1.1 {status}").as_bytes()) && head.ends_with(b"\r\n\r\n")
                );
            }
        }
    }

    #[test]
    fn a_connection_is_not_reused_after_excess_bytes() {
        let mut reader = Reader::new(false, 1024);
        assert_eq!(
            reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", None),
            Ok(true)
        );
        assert!(!reader.response().unwrap().1);
    }

    #[test]
    fn a_body_without_a_length_ends_with_the_connection() {
        let mut reader = Reader::new(false, 1024);
        assert!(!reader.ends_at_close());
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nab", None), Ok(false));
        assert!(reader.ends_at_close());
        assert_eq!(reader.response().unwrap().0.body, 2);
    }

    #[test]
    fn a_body_that_is_too_long_to_keep_is_an_error_and_not_stored() {
        let response = format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(2000));
        let (mut reader, mut body) = (Reader::new(false, 1024), Vec::new());
        let mut result = Ok(false);
        for piece in response.as_bytes().chunks(100) {
            result = reader.feed(piece, Some(&mut body));
            if result.is_err() {
                break;
            }
        }
        assert_eq!(result, Err(ResponseError::TooLong));
        assert!(body.capacity() <= 2048, "{}", body.capacity());
        assert_eq!(
            Reader::new(false, 1024).feed(response.as_bytes(), None),
            Ok(false)
        );
    }

    #[test]
    fn mutated_responses_do_not_panic() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nAge: 3\r\n\r\n4\r\nwiki\r\n0\r\n\r\n";
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..20_000 {
            let mut bytes = text.to_vec();
            for _ in 0..=next() % 4 {
                let index = next() % bytes.len();
                bytes[index] = next() as u8;
            }
            let mut reader = Reader::new(false, 1024);
            let size = 1 + next() % bytes.len();
            for piece in bytes.chunks(size) {
                if reader.feed(piece, None) != Ok(false) {
                    break;
                }
            }
        }
    }
}
