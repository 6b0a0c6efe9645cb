//! The frame of messages.

use super::error::BrokerProtocolError;

/// First byte of every message. It is not that of an HTTP request or of TLS, so that one port can
/// serve both protocols.
pub const FIRST_BYTE: u8 = 0x03;
/// First bytes of every message.
const MAGIC: [u8; 2] = [FIRST_BYTE, b'B'];
/// Version of the protocol. It changes if an older reader would not understand a message.
pub const VERSION: u8 = 1;
/// Length of the beginning of a message, bytes.
pub const HEADER: usize = 8;
/// Maximum length of a body, bytes: a refusal with its text.
pub const MAX_BODY: u32 = 1024;

/// A complete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type of the message.
    pub kind: u8,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The message at the beginning of `bytes`. None: it is incomplete.
    ///
    /// # Errors
    /// The bytes are not a message of this version, or its body is too long. This is known from the
    /// first bytes, so that a reader stores at most `HEADER + MAX_BODY` bytes of a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, BrokerProtocolError> {
        let begun = bytes.len().min(MAGIC.len());
        if bytes[..begun] != MAGIC[..begun] {
            return Err(BrokerProtocolError::Magic);
        }
        if let Some(&version) = bytes.get(MAGIC.len())
            && version != VERSION
        {
            return Err(BrokerProtocolError::Version(version));
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [_, _, _, kind, length @ ..] = *header;
        let length = u32::from_be_bytes(length);
        if length > MAX_BODY {
            return Err(BrokerProtocolError::TooLong(length));
        }
        Ok(rest.get(..length as usize).map(|body| Self { kind, body }))
    }

    /// Number of bytes of the message, with its header.
    pub fn length(&self) -> usize {
        HEADER + self.body.len()
    }
}

/// Appends a message whose body `write` appends.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[MAGIC[0], MAGIC[1], VERSION, kind, 0, 0, 0, 0]);
    let at = out.len();
    write(out);
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at - 4..at].copy_from_slice(&length.to_be_bytes());
}

/// Reads the fields of a body. None: the body is too short.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, 9, |body| body.extend_from_slice(b"abc"));
        bytes
    }

    #[test]
    fn a_message_is_complete_with_its_last_byte() {
        let mut bytes = message();
        assert_eq!(bytes, b"\x03B\x01\x09\0\0\0\x03abc");
        for length in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..length]), Ok(None));
        }
        bytes.push(b'x');
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.body, frame.length()), (9, &b"abc"[..], 11));
    }

    #[test]
    fn other_bytes_are_refused_from_their_first_bytes_on() {
        for (bytes, error) in [
            (&b"GET / HTTP/1.1"[..], BrokerProtocolError::Magic),
            (b"\x16", BrokerProtocolError::Magic),
            (b"\x03P", BrokerProtocolError::Magic),
            (b"\x03B\x02", BrokerProtocolError::Version(2)),
            (b"\x03B\0\x01\0\0\0\0", BrokerProtocolError::Version(0)),
            (b"\x03B\x01\x01\0\0\x04\x01", BrokerProtocolError::TooLong(1025)),
            (b"\x03B\x01\x01\x40\0\0\0", BrokerProtocolError::TooLong(1 << 30)),
        ] {
            assert_eq!(Frame::parse(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }
}
