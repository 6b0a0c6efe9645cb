//! Splits a stream of bytes into LDAP messages with bounded memory.

use std::ops::Range;

use super::error::{LdapProtocolError, MAX_MESSAGE};
use super::header::{CONSTRUCTED, Element, Header, INTEGER, SEQUENCE};
use super::message::{Reply, reply};

/// Maximum depth of nested elements. An entry has 6 levels, a result with a control 5.
const MAX_DEPTH: usize = 16;
/// Number of elements around a value of an attribute: message, entry, attributes, attribute, set.
const VALUE_DEPTH: usize = 5;
/// Maximum capacity of the buffer for a message that is kept between messages, bytes.
const KEPT_CAPACITY: usize = 4096;

const CONTROLS: u8 = 0xa0;
const ENTRY: u8 = 0x64;
const REFERENCE: u8 = 0x73;

/// A complete message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An entry of a search.
    Entry {
        /// Number of the request.
        id: u32,
        /// Sum of the lengths of all values of its attributes, bytes.
        payload: u64,
    },
    /// A reference to another server, where a search can be continued.
    Reference {
        /// Number of the request.
        id: u32,
    },
    /// The end of an operation, or a notice.
    Reply(Reply),
}

/// A message whose content is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discarded {
    Entry,
    Reference,
}

/// Splits the bytes of a server into messages. It checks the lengths of all elements, and the depth
/// at which they are nested, before anything is decoded.
#[derive(Debug, Default)]
pub struct Scanner {
    header: Header,
    /// Per open element, the outermost first: number of its bytes that no element has claimed yet.
    open: Vec<u64>,
    /// Number of bytes that remain of a primitive element.
    rest: u64,
    /// Bytes of the message in progress, unless it is discarded.
    kept: Vec<u8>,
    /// Length of the message in progress, and of its header, bytes.
    length: u64,
    header_length: usize,
    /// Number of elements of the message that have begun.
    elements: u32,
    /// Where the number of the message is in `kept`.
    id_bytes: Range<usize>,
    id: u32,
    discarded: Option<Discarded>,
    payload: u64,
}

impl Scanner {
    /// Takes bytes from the front of `bytes` up to the end of a message. Returns none if all bytes
    /// were taken and the message is not complete.
    ///
    /// # Errors
    /// The bytes are not LDAP. The scanner cannot be used again.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, LdapProtocolError> {
        while let Some(&byte) = bytes.first() {
            if self.rest > 0 {
                let count = self.rest.min(bytes.len() as u64);
                self.take(bytes, count as usize);
                self.rest -= count;
            } else {
                self.take(bytes, 1);
                if let Some(element) = self.header.push(byte)? {
                    self.begin(&element)?;
                }
            }
            if self.close_ended() {
                return self.finish().map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the last bytes were the beginning of a message.
    pub fn is_within_message(&self) -> bool {
        !self.open.is_empty() || self.header.is_begun()
    }

    fn take(&mut self, bytes: &mut &[u8], count: usize) {
        let (taken, rest) = bytes.split_at(count);
        if self.discarded.is_none() {
            self.kept.extend_from_slice(taken);
        }
        *bytes = rest;
    }

    fn begin(&mut self, element: &Element) -> Result<(), LdapProtocolError> {
        let size = element.length.checked_add(element.header as u64);
        let size = size.ok_or(LdapProtocolError::Invalid)?;
        let depth = self.open.len();
        match self.open.last_mut() {
            Some(unclaimed) => {
                *unclaimed = unclaimed.checked_sub(size).ok_or(LdapProtocolError::Invalid)?;
            }
            None if element.tag == SEQUENCE => {
                (self.length, self.header_length) = (size, element.header);
            }
            None => return Err(LdapProtocolError::Invalid),
        }
        if depth == 1 {
            self.begin_part(element)?;
        }
        if element.tag & CONSTRUCTED != 0 {
            if depth == MAX_DEPTH {
                return Err(LdapProtocolError::Invalid);
            }
            self.open.push(element.length);
        } else {
            self.rest = element.length;
            if depth == VALUE_DEPTH && self.discarded == Some(Discarded::Entry) {
                self.payload += element.length;
            }
        }
        Ok(())
    }

    /// An element of the message itself: its number, its operation, or its controls.
    fn begin_part(&mut self, element: &Element) -> Result<(), LdapProtocolError> {
        self.elements += 1;
        match (self.elements, element.tag) {
            (1, INTEGER) if (1..=4).contains(&element.length) => {
                let start = self.header_length + element.header;
                self.id_bytes = start..start + element.length as usize;
                Ok(())
            }
            (2, tag) if tag & 0xc0 == 0x40 => {
                let id = &self.kept[self.id_bytes.clone()];
                self.id = id.iter().fold(0, |id, &byte| (id << 8) | u32::from(byte));
                self.discarded = match tag {
                    ENTRY => Some(Discarded::Entry),
                    REFERENCE => Some(Discarded::Reference),
                    _ if self.length > MAX_MESSAGE => return Err(LdapProtocolError::TooLong(self.length)),
                    _ => None,
                };
                Ok(())
            }
            (3, CONTROLS) => Ok(()),
            _ => Err(LdapProtocolError::Invalid),
        }
    }

    /// Closes the elements that have ended. Returns whether the message has ended.
    fn close_ended(&mut self) -> bool {
        if self.rest > 0 || self.header.is_begun() {
            return false;
        }
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        self.open.is_empty()
    }

    fn finish(&mut self) -> Result<Event, LdapProtocolError> {
        let event = match self.discarded {
            _ if self.elements < 2 => return Err(LdapProtocolError::Invalid),
            Some(Discarded::Entry) => Event::Entry {
                id: self.id,
                payload: self.payload,
            },
            Some(Discarded::Reference) => Event::Reference { id: self.id },
            None => Event::Reply(reply(&self.kept).ok_or(LdapProtocolError::Invalid)?),
        };
        self.kept.clear();
        self.kept.shrink_to(KEPT_CAPACITY);
        (self.elements, self.payload, self.discarded) = (0, 0, None);
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::ReplyKind;
    use super::*;

    /// An element with this content.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        match content.len() {
            length @ 0..0x80 => bytes.push(length as u8),
            length => {
                bytes.push(0x84);
                bytes.extend_from_slice(&(length as u32).to_be_bytes());
            }
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn message(id: u8, operation: &[u8]) -> Vec<u8> {
        element(0x30, &[&[2, 1, id], operation].concat())
    }

    fn entry(id: u8, attributes: &[(&str, &[&str])]) -> Vec<u8> {
        let attributes: Vec<u8> = attributes
            .iter()
            .flat_map(|(name, values)| {
                let values: Vec<u8> = values
                    .iter()
                    .flat_map(|value| element(4, value.as_bytes()))
                    .collect();
                element(
                    0x30,
                    &[element(4, name.as_bytes()), element(0x31, &values)].concat(),
                )
            })
            .collect();
        let dn = element(4, b"cn=x,o=grid");
        message(id, &element(ENTRY, &[dn, element(0x30, &attributes)].concat()))
    }

    fn done(id: u8, code: u8) -> Vec<u8> {
        message(id, &element(0x65, &[10, 1, code, 4, 0, 4, 0]))
    }

    /// The events of a stream that arrives in pieces of `size` bytes.
    fn events(stream: &[u8], size: usize) -> Result<Vec<Event>, LdapProtocolError> {
        let mut scanner = Scanner::default();
        let mut events = Vec::new();
        for mut piece in stream.chunks(size) {
            while let Some(event) = scanner.next(&mut piece)? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn a_stream_is_split_in_the_same_way_however_it_arrives() {
        let long = "v".repeat(70_000);
        let stream = [
            entry(2, &[("objectClass", &["GlueCE", "GlueKey"]), ("cn", &["x"])]),
            entry(2, &[("long", &[&long])]),
            entry(2, &[]),
            message(2, &element(REFERENCE, &element(4, b"ldap://other/o=grid"))),
            done(2, 0),
        ]
        .concat();
        for size in [1, 2, 3, 1000, stream.len()] {
            let events = events(&stream, size).unwrap();
            assert_eq!(events[0], Event::Entry { id: 2, payload: 14 });
            assert_eq!(
                events[1],
                Event::Entry {
                    id: 2,
                    payload: 70_000
                }
            );
            assert_eq!(events[2], Event::Entry { id: 2, payload: 0 });
            assert_eq!(events[3], Event::Reference { id: 2 });
            let Event::Reply(reply) = &events[4] else {
                panic!("{events:?}")
            };
            assert_eq!((reply.id, reply.kind, reply.result.code), (2, ReplyKind::Done, 0));
            assert_eq!(events.len(), 5);
        }
    }

    #[test]
    fn an_entry_of_any_length_needs_no_memory() {
        // A value announced with 2^40 bytes; 100 MB of it arrive.
        let mut stream = vec![
            0x30, 0x86, 1, 0, 0, 0, 1, 0, 2, 1, 2, ENTRY, 0x86, 1, 0, 0, 0, 0, 0,
        ];
        stream.extend_from_slice(&[
            4, 0, 0x30, 0x85, 0xf0, 0, 0, 0, 0, 0x30, 0x85, 0xe0, 0, 0, 0, 0, 4, 1, b'a',
        ]);
        stream.extend_from_slice(&[0x31, 0x85, 0xd0, 0, 0, 0, 0, 4, 0x85, 0xc0, 0, 0, 0, 0]);
        let mut scanner = Scanner::default();
        assert_eq!(scanner.next(&mut stream.as_slice()), Ok(None));
        let zeros = vec![0; 1_000_000];
        for _ in 0..100 {
            assert_eq!(scanner.next(&mut zeros.as_slice()), Ok(None));
        }
        assert!(scanner.kept.capacity() < 1000, "{}", scanner.kept.capacity());
        assert_eq!(scanner.rest, 0xc0_0000_0000 - 100_000_000);
    }

    #[test]
    fn other_bytes_are_refused_at_once() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            &[0x30, 0x80, 2, 1, 1],                              // indefinite length
            &[0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1],            // length of 9 bytes
            &[0x30, 0],                                          // empty message
            &[0x30, 3, 2, 1, 1],                                 // no operation
            &[0x30, 5, 2, 5, 1, 1, 1],                           // number longer than the message
            &[0x30, 8, 2, 0, 0x65, 4, 10, 1, 0, 4],              // number without bytes
            &[0x30, 5, 2, 1, 1, 0x30, 0],                        // operation of another class
            &[0x30, 12, 2, 1, 1, 0x65, 9, 10, 1, 0, 4, 0, 4],    // element longer than its parent
            &[0x30, 9, 2, 1, 1, 0x65, 4, 0x1f, 2, 0, 0],         // tag of several bytes
            &[0x30, 11, 2, 1, 1, 0x65, 6, 10, 2, 0x80, 0, 4, 0], // negative result code
        ] {
            assert_eq!(events(bytes, 1), Err(LdapProtocolError::Invalid), "{bytes:x?}");
        }
    }

    #[test]
    fn nested_elements_do_not_overflow_the_stack() {
        let mut nested = Vec::new();
        for _ in 0..10_000 {
            nested = element(0x30, &nested);
        }
        let stream = message(1, &element(0x65, &nested));
        assert_eq!(events(&stream, 4096), Err(LdapProtocolError::Invalid));
    }

    #[test]
    fn a_result_that_is_too_long_is_refused_before_it_is_read() {
        let stream = [0x30, 0x84, 0x40, 0, 0, 0, 2, 1, 1, 0x65, 0x84, 0x3f, 0, 0, 0];
        let error = events(&stream, 1).unwrap_err();
        assert_eq!(error, LdapProtocolError::TooLong(0x4000_0006));
    }

    #[test]
    fn arbitrary_bytes_never_panic() {
        use rand::{RngExt as _, SeedableRng as _};
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let valid = [entry(2, &[("cn", &["x", "y"])]), done(2, 4)].concat();
        for _ in 0..20_000 {
            let mut bytes = valid.clone();
            for _ in 0..rng.random_range(1..4) {
                let index = rng.random_range(0..bytes.len());
                bytes[index] = rng.random();
            }
            let _ = events(&bytes, rng.random_range(1..20));
        }
    }
}
