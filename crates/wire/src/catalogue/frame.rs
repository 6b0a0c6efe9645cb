//! The frame of messages.

use super::error::CatalogueProtocolError;

/// First bytes of every message. The first one is not that of an HTTP request or of TLS.
const MAGIC: u32 = 0x0350_4C43;
/// Length of the beginning of a message, bytes.
pub const HEADER: usize = 12;
/// Maximum length of a body, bytes: 1,000 entries whose paths and replicas have 1,024 bytes each.
pub const MAX_BODY: u32 = 4 * 1024 * 1024;

/// A complete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type of the message.
    pub kind: u32,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The message at the beginning of `bytes`. None: it is incomplete.
    ///
    /// # Errors
    /// The bytes are not a message, or its body is too long. This is known from the first bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, CatalogueProtocolError> {
        let magic = MAGIC.to_be_bytes();
        let begun = bytes.len().min(magic.len());
        if bytes[..begun] != magic[..begun] {
            return Err(CatalogueProtocolError::Magic);
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let number = |from: usize| {
            u32::from_be_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]])
        };
        let length = number(8);
        if length > MAX_BODY {
            return Err(CatalogueProtocolError::TooLong(length));
        }
        let kind = number(4);
        Ok(rest.get(..length as usize).map(|body| Self { kind, body }))
    }

    /// Number of bytes of the message, with its header.
    pub fn length(&self) -> usize {
        HEADER + self.body.len()
    }
}

/// Appends a message whose body `write` appends.
pub(super) fn put(out: &mut Vec<u8>, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&MAGIC.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_with_its_last_byte() {
        let mut bytes = Vec::new();
        put(&mut bytes, 59, |body| body.extend_from_slice(b"abc"));
        for length in 0..bytes.len() {
            assert_eq!(Frame::parse(&bytes[..length]), Ok(None));
        }
        bytes.push(b'x');
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.body, frame.length()), (59, &b"abc"[..], 15));
    }

    #[test]
    fn other_bytes_and_long_messages_are_refused_before_they_are_complete() {
        assert_eq!(
            Frame::parse(b"GET / HTTP/1.1"),
            Err(CatalogueProtocolError::Magic)
        );
        assert_eq!(Frame::parse(b"\x16"), Err(CatalogueProtocolError::Magic));
        let mut bytes = Vec::new();
        put(&mut bytes, 59, |_| {});
        bytes[8..12].copy_from_slice(&(MAX_BODY + 1).to_be_bytes());
        let long = CatalogueProtocolError::TooLong(MAX_BODY + 1);
        assert_eq!(Frame::parse(&bytes), Err(long));
    }
}
