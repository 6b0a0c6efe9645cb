//! Headers of BER elements: tag and length (X.690, section 8.1).

use super::error::LdapProtocolError;

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
/// The bit of a tag whose element consists of elements.
pub(super) const CONSTRUCTED: u8 = 0x20;

/// The header of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    pub(super) tag: u8,
    /// Length of its content, bytes.
    pub(super) length: u64,
    /// Length of the header itself, bytes.
    pub(super) header: usize,
}

/// The bytes of a header that have been read.
#[derive(Debug, Default)]
pub(super) struct Header {
    tag: Option<u8>,
    /// Number of bytes of the length that are still to be read; none: the first one.
    missing: Option<u8>,
    length: u64,
    read: usize,
}

impl Header {
    pub(super) fn is_begun(&self) -> bool {
        self.tag.is_some()
    }

    /// Adds a byte. Returns the element if the header is complete.
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<Element>, LdapProtocolError> {
        self.read += 1;
        match (self.tag, self.missing) {
            // No element of LDAP has a tag of several bytes.
            (None, _) if byte & 0x1f == 0x1f => return Err(LdapProtocolError::Invalid),
            (None, _) => {
                self.tag = Some(byte);
                return Ok(None);
            }
            (Some(_), None) => match byte {
                0..0x80 => {
                    self.length = u64::from(byte);
                    self.missing = Some(0);
                }
                // LDAP has no indefinite lengths (RFC 4511, section 5.1).
                0x80 | 0x89.. => return Err(LdapProtocolError::Invalid),
                0x81..=0x88 => self.missing = Some(byte - 0x80),
            },
            (Some(_), Some(missing)) => {
                self.length = (self.length << 8) | u64::from(byte);
                self.missing = Some(missing - 1);
            }
        }
        if self.missing != Some(0) {
            return Ok(None);
        }
        let whole = std::mem::take(self);
        Ok(whole.tag.map(|tag| Element {
            tag,
            length: whole.length,
            header: whole.read,
        }))
    }
}

/// The content of the element at the front of `bytes`, which must have this tag, and the bytes
/// behind it.
pub(super) fn split(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut header = Header::default();
    let element = bytes
        .iter()
        .find_map(|&byte| header.push(byte).transpose())?
        .ok()?;
    let content = bytes.get(element.header..)?;
    let length = usize::try_from(element.length).ok()?;
    (element.tag == tag).then(|| content.split_at_checked(length))?
}
