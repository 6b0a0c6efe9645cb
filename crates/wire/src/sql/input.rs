//! What has arrived and is not yet used.

use std::ops::Range;

use super::SqlProtocolError;

/// Longest message that is taken, bytes. `PostgreSQL`'s own limit for a value is as long,
/// `MariaDB`'s for a packet too.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 30;
/// Longest message of a login, bytes: what is longer comes from a server of another kind.
pub(super) const MAX_LOGIN_BYTES: usize = 64 * 1024;
/// Room that an empty buffer keeps, bytes: thousands of sessions may each have seen one large row.
const KEPT: usize = 256 * 1024;

/// Bytes in order of arrival. The message in use stays where it is until [`Input::release`].
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Where the message in use begins, or the next one.
    start: usize,
    /// Where the message in use ends; `start` if there is none.
    end: usize,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What is not yet used.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Forgets `count` bytes at the start: those of a header.
    pub(super) fn skip(&mut self, count: usize) {
        self.start += count;
        self.end = self.start;
    }

    /// Takes 4 bytes out at `at` after the start: the header between two parts of a message.
    pub(super) fn cut(&mut self, at: usize) {
        let at = self.start + at;
        self.bytes.drain(at..at + 4);
    }

    /// The next `length` bytes are the message in use.
    pub(super) fn hold(&mut self, length: usize) {
        self.end = self.start + length;
    }

    /// The message in use.
    pub(super) fn message(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether nothing has come behind the message in use.
    pub(super) fn is_last(&self) -> bool {
        self.end == self.bytes.len()
    }

    /// A part of the message in use.
    pub(super) fn part(&self, range: Range<usize>) -> &[u8] {
        &self.message()[range]
    }

    /// The message in use is done with.
    pub(super) fn release(&mut self) {
        self.start = self.end;
    }

    /// More is to come: moves what is left to the front, so that memory stays at one message and
    /// one read.
    pub(super) fn settle(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
    }
}

/// What comes before a TLS handshake and is not asked for was put there by somebody else, to be
/// taken for what comes through it (CVE-2021-23222).
pub(super) fn nothing_behind(input: &Input) -> Result<(), SqlProtocolError> {
    if input.is_last() {
        Ok(())
    } else {
        Err(SqlProtocolError::Nonsense("bytes before the TLS handshake"))
    }
}

/// The server does not take TLS.
pub(super) fn no_tls(how: &str) -> SqlProtocolError {
    SqlProtocolError::Login(format!(
        "the server does not take TLS: switch it on there ({how}), or connect without TLS"
    ))
}

/// Refuses a message before it is waited for.
pub(super) fn check_length(length: usize, limit: usize) -> Result<(), SqlProtocolError> {
    if length <= limit {
        Ok(())
    } else if limit == MAX_MESSAGE_BYTES {
        Err(SqlProtocolError::TooLong(length as u64))
    } else {
        Err(SqlProtocolError::Nonsense(
            "a message of a login that is too long",
        ))
    }
}

/// Reads the fields of one message. What is missing is an error, never a panic.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            whole: message.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How far it has read, bytes.
    pub(super) fn at(&self) -> usize {
        self.whole - self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], SqlProtocolError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(SqlProtocolError::Nonsense("a message ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], SqlProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, SqlProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    /// Up to the next NUL, which is skipped.
    pub(super) fn until_nul(&mut self) -> Result<&'a [u8], SqlProtocolError> {
        let length = memchr::memchr(0, self.rest).ok_or(SqlProtocolError::Nonsense("a text has no end"))?;
        let text = self.take(length)?;
        self.byte()?;
        Ok(text)
    }
}
