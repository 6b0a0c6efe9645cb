//! One answer, read from whatever pieces it comes in. No I/O: bytes in, whether it is complete out.

use plimsoll_model::Cache;

use super::body::Chunked;
use super::head::{self, Bad, Framing, Head, MAX_HEAD_BYTES};

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Three digits.
    pub status: u16,
    /// Bytes of the body, transfer coding removed.
    pub body: u64,
    /// What caches said.
    pub cache: Cache,
    /// Seconds that it has been in caches, where they say so.
    pub age: Option<u64>,
}

/// Why an answer cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not HTTP.
    Bad,
    /// Its body does not fit into memory.
    TooLong,
}

impl From<Bad> for Unreadable {
    fn from(_: Bad) -> Self {
        Self::Bad
    }
}

/// Reads one answer. Nothing is copied unless a head comes in pieces.
#[derive(Debug)]
pub struct Reader {
    head_only: bool,
    /// Longest body that is kept, bytes.
    max_kept: usize,
    /// The pieces of a head so far.
    partial: Vec<u8>,
    head: Option<Head>,
    chunked: Chunked,
    length: u64,
    /// Bytes came after the end of the answer.
    excess: bool,
}

impl Reader {
    /// `head_only`: the request was HEAD. `max_kept`: bytes of a body that is kept, above which it
    /// is [`Unreadable::TooLong`].
    pub fn new(head_only: bool, max_kept: usize) -> Self {
        Self {
            head_only,
            max_kept,
            partial: Vec::new(),
            head: None,
            chunked: Chunked::default(),
            length: 0,
            excess: false,
        }
    }

    /// Takes a piece; gives whether the answer is complete. The body goes to `keep`, if there is
    /// one.
    pub fn feed(&mut self, bytes: &[u8], keep: Option<&mut Vec<u8>>) -> Result<bool, Unreadable> {
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
        // A head that comes byte by byte must not be parsed anew for each; what is too long is
        // found by the parser.
        if self.partial.len() < MAX_HEAD_BYTES && !head::may_be_whole(&self.partial, seen) {
            return Ok(false);
        }
        let pieces = std::mem::take(&mut self.partial);
        match self.find_head(&pieces)? {
            Some(from) => self.feed_body(&pieces[from..], keep),
            None => Ok(false),
        }
    }

    /// Parses a head, past interim ones; gives where the body begins. What is incomplete is put
    /// aside.
    fn find_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Bad> {
        let mut from = 0;
        loop {
            match head::parse(&bytes[from..], self.head_only)? {
                // 101 would be another protocol, which nobody has asked for.
                Some(head) if head.status == 101 => return Err(Bad),
                Some(head) if head.status < 200 => from += head.length,
                Some(head) => {
                    self.head = Some(head);
                    return Ok(Some(from + head.length));
                }
                None => {
                    self.partial = bytes[from..].to_vec();
                    return Ok(None);
                }
            }
        }
    }

    fn feed_body(&mut self, bytes: &[u8], mut keep: Option<&mut Vec<u8>>) -> Result<bool, Unreadable> {
        let Some(head) = self.head else { return Ok(false) };
        let so_far = self.length;
        let mut length = so_far;
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
            Framing::Length(whole) => {
                let left = usize::try_from(whole - so_far).unwrap_or(usize::MAX);
                let count = left.min(bytes.len());
                take(&bytes[..count]);
                (count, count == left)
            }
            Framing::Chunked => {
                let count = self.chunked.feed(bytes, &mut take)?;
                (count, self.chunked.done())
            }
            Framing::ToEnd => {
                take(bytes);
                (bytes.len(), false)
            }
        };
        self.length = length;
        self.excess = taken < bytes.len();
        if keep.is_some() && length > max_kept {
            return Err(Unreadable::TooLong);
        }
        Ok(done)
    }

    /// The peer has closed; gives whether that completes the answer.
    pub fn end(&self) -> bool {
        self.head.is_some_and(|head| head.framing == Framing::ToEnd)
    }

    /// The answer, and whether the connection may carry another. Only of one that is complete.
    pub fn answer(&self) -> Option<(Answer, bool)> {
        let head = self.head?;
        let answer = Answer {
            status: head.status,
            body: self.length,
            cache: head.cache,
            age: head.age,
        };
        Some((answer, head.keep && !self.excess))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_answer() {
        let plain = "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = "HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        for (text, status) in [(plain, 200), (chunked, 201)] {
            let bytes = text.as_bytes();
            for size in 1..=bytes.len() {
                let (mut reader, mut body) = (Reader::new(false, 1024), Vec::new());
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                for (at, piece) in pieces.iter().enumerate() {
                    let done = reader.feed(piece, Some(&mut body)).unwrap();
                    assert_eq!(done, at + 1 == pieces.len(), "{text:?} by {size}");
                }
                let expected = Answer {
                    status,
                    body: 5,
                    cache: Cache::None,
                    age: None,
                };
                assert_eq!(reader.answer(), Some((expected, true)));
                assert_eq!(body, b"hello");
            }
        }
    }

    #[test]
    fn what_follows_an_answer_spoils_the_connection() {
        let mut reader = Reader::new(false, 1024);
        assert_eq!(
            reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", None),
            Ok(true)
        );
        assert!(!reader.answer().unwrap().1);
    }

    #[test]
    fn a_body_without_a_length_ends_with_the_connection() {
        let mut reader = Reader::new(false, 1024);
        assert!(!reader.end());
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nab", None), Ok(false));
        assert!(reader.end());
        assert_eq!(reader.answer().unwrap().0.body, 2);
    }

    #[test]
    fn a_body_that_is_too_long_to_keep_is_not_kept() {
        let answer = format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(2000));
        let (mut reader, mut body) = (Reader::new(false, 1024), Vec::new());
        let mut fed = Ok(false);
        for piece in answer.as_bytes().chunks(100) {
            fed = reader.feed(piece, Some(&mut body));
            if fed.is_err() {
                break;
            }
        }
        assert_eq!(fed, Err(Unreadable::TooLong));
        assert!(body.capacity() <= 2048, "{}", body.capacity());
        assert_eq!(Reader::new(false, 1024).feed(answer.as_bytes(), None), Ok(false));
    }

    #[test]
    fn mutated_answers_never_panic() {
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
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
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
