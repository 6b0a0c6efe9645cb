//! The buffer for bytes that were received and not yet processed.

use std::ops::Range;

use super::SqlProtocolError;

/// Maximum length of a message, bytes: the limits of `PostgreSQL` for a value and of `MariaDB` for
/// a packet.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 30;
/// Maximum length of a message during the login, bytes. A longer one is sent by a server of another
/// kind.
pub(super) const MAX_LOGIN_BYTES: usize = 64 * 1024;
/// Maximum capacity of an empty buffer, bytes, because thousands of sessions may each have received
/// one large row.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Bytes in order of arrival. The message in use is not moved until [`Input::release`].
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Start of the message in use, or of the next one.
    start: usize,
    /// End of the message in use; `start` if there is none.
    end: usize,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are not yet processed.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Skips `count` bytes at the start, which are a header.
    pub(super) fn skip(&mut self, count: usize) {
        self.start += count;
        self.end = self.start;
    }

    /// Removes 4 bytes at `offset` after the start: the header between two parts of a message.
    pub(super) fn cut(&mut self, offset: usize) {
        let from = self.start + offset;
        self.bytes.drain(from..from + 4);
    }

    /// Makes the next `length` bytes the message in use.
    pub(super) fn hold(&mut self, length: usize) {
        self.end = self.start + length;
    }

    /// The message in use.
    pub(super) fn message(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether no bytes follow the message in use.
    pub(super) fn is_last(&self) -> bool {
        self.end == self.bytes.len()
    }

    /// A part of the message in use.
    pub(super) fn part(&self, range: Range<usize>) -> &[u8] {
        &self.message()[range]
    }

    /// Ends the use of the message in use.
    pub(super) fn release(&mut self) {
        self.start = self.end;
    }

    /// Moves the remaining bytes to the front before more are received, so that the buffer contains
    /// at most one message and one read.
    pub(super) fn settle(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_CAPACITY);
        }
    }
}

/// Refuses bytes that follow the response to a TLS request: an attacker can have inserted them, so
/// that the client would read them as if they were received through TLS (CVE-2021-23222).
pub(super) fn check_no_excess(input: &Input) -> Result<(), SqlProtocolError> {
    if input.is_last() {
        Ok(())
    } else {
        Err(SqlProtocolError::Nonsense("bytes before the TLS handshake"))
    }
}

/// The error for a server without TLS. `settings`: the settings of the server that enable it.
pub(super) fn no_tls(settings: &str) -> SqlProtocolError {
    SqlProtocolError::Login(format!(
        "the server does not support TLS: enable it on the server ({settings}), or connect without TLS"
    ))
}

/// Refuses a message that is too long, before it is received.
pub(super) fn check_length(length: usize, limit: usize) -> Result<(), SqlProtocolError> {
    if length <= limit {
        Ok(())
    } else if limit == MAX_MESSAGE_BYTES {
        Err(SqlProtocolError::TooLong(length as u64))
    } else {
        Err(SqlProtocolError::Nonsense("message of a login that is too long"))
    }
}

/// Reads the fields of one message. A missing field is an error, not a panic.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Length of the message, bytes.
    length: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            length: message.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Offset of the next field, bytes.
    pub(super) fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], SqlProtocolError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(SqlProtocolError::Nonsense("message that ends too early"))?;
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

    /// The bytes up to the next NUL, which is skipped.
    pub(super) fn until_nul(&mut self) -> Result<&'a [u8], SqlProtocolError> {
        let length = memchr::memchr(0, self.rest).ok_or(SqlProtocolError::Nonsense("text without an end"))?;
        let text = self.take(length)?;
        self.byte()?;
        Ok(text)
    }
}
