//! Blocks of extended block mode, MODE E (GFD.20, 3.3).
//!
//! A block begins with 17 bytes: a descriptor, the number of bytes that follow, and their offset in
//! the file, both as 64 bits, the most significant byte first. A file is sent on several
//! connections in any order. The last block of each connection has the bit [`END_OF_DATA`]. Exactly
//! one block of the transfer has [`END_OF_FILE`]: its offset is the number of connections that send
//! [`END_OF_DATA`], and its count is not used. The transfer is complete when that many have ended:
//! others may not be connected yet.

use super::error::FtpProtocolError;

/// Length of the header of a block, bytes.
pub const HEADER: usize = 17;
/// Bit of the block that contains the number of connections.
pub const END_OF_FILE: u8 = 64;
/// Bit of the last block of a connection.
pub const END_OF_DATA: u8 = 8;
/// Bit of a sender that closes the connection behind the block. Without it, the connection can be
/// used for another transfer.
pub const CLOSE: u8 = 4;

const SUSPECTED_ERRORS: u8 = 32;
const RESTART_MARKER: u8 = 16;

/// The header of a block.
pub fn header(descriptor: u8, count: u64, offset: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = descriptor;
    header[1..9].copy_from_slice(&count.to_be_bytes());
    header[9..].copy_from_slice(&offset.to_be_bytes());
    header
}

/// A part of the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block<'a> {
    /// Bytes of the file, and their offset in it.
    Data {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes: a block arrives in several parts.
        bytes: &'a [u8],
    },
    /// The transfer consists of this many connections.
    EndOfFile {
        /// Number of connections that send [`Block::EndOfData`].
        connections: u64,
    },
    /// The connection sends no more blocks of this file.
    EndOfData,
}

/// Splits the bytes of one data connection into blocks. Data are passed on, not kept.
#[derive(Debug, Default)]
pub struct BlockReader {
    header: [u8; HEADER],
    filled: usize,
    /// Number of bytes that remain of the current block.
    rest: u64,
    /// Offset of the next byte of the current block.
    offset: u64,
    /// [`Block::EndOfData`] is due when the current block ends.
    is_last: bool,
    /// [`Block::EndOfData`] was returned.
    ended: bool,
    /// The sender closes the connection.
    closes: bool,
}

impl BlockReader {
    /// Takes bytes from the front of `bytes` up to the end of a part. Returns none if all bytes
    /// were taken.
    ///
    /// # Errors
    /// The bytes contradict the protocol. The reader cannot be used again.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Block<'a>>, FtpProtocolError> {
        loop {
            if self.rest > 0 {
                if bytes.is_empty() {
                    return Ok(None);
                }
                let count = self.rest.min(bytes.len() as u64);
                let (data, rest) = bytes.split_at(count as usize);
                *bytes = rest;
                let offset = self.offset;
                self.rest -= count;
                self.offset += count;
                if self.header[0] & RESTART_MARKER == 0 {
                    return Ok(Some(Block::Data { offset, bytes: data }));
                }
                continue;
            }
            if std::mem::take(&mut self.is_last) {
                self.ended = true;
                return Ok(Some(Block::EndOfData));
            }
            let count = (HEADER - self.filled).min(bytes.len());
            let (begin, rest) = bytes.split_at(count);
            self.header[self.filled..self.filled + count].copy_from_slice(begin);
            self.filled += count;
            *bytes = rest;
            if self.filled < HEADER {
                return Ok(None);
            }
            self.filled = 0;
            if let Some(block) = self.begin()? {
                return Ok(Some(block));
            }
        }
    }

    /// Whether the connection has ended as it must.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the connection can be used for another file: it has ended as it must, and the sender
    /// does not close it. Another reader is needed for that file.
    pub fn is_reusable(&self) -> bool {
        self.ended && !self.closes
    }

    /// The header of a block is complete.
    fn begin(&mut self) -> Result<Option<Block<'static>>, FtpProtocolError> {
        let number = |at: usize| {
            let bytes = &self.header[at..at + 8];
            bytes
                .iter()
                .fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let (descriptor, count, offset) = (self.header[0], number(1), number(9));
        let has = |bit: u8| descriptor & bit != 0;
        if self.ended {
            // A connection that was announced as reusable may still be closed.
            return if descriptor == CLOSE && count == 0 {
                self.closes = true;
                Ok(None)
            } else {
                Err(FtpProtocolError::Block(
                    "a block follows the last one of its connection",
                ))
            };
        }
        if has(SUSPECTED_ERRORS) {
            return Err(FtpProtocolError::Block("the server suspects errors in a block"));
        }
        if has(CLOSE) && !has(END_OF_DATA) {
            return Err(FtpProtocolError::Block(
                "a connection is closed before its end of data",
            ));
        }
        self.is_last = has(END_OF_DATA);
        self.closes = has(CLOSE);
        if has(END_OF_FILE) {
            return Ok(Some(Block::EndOfFile { connections: offset }));
        }
        if offset.checked_add(count).is_none() {
            return Err(FtpProtocolError::Block("a block ends behind 2^64 bytes"));
        }
        (self.rest, self.offset) = (count, offset);
        Ok(None)
    }
}

/// Counts the connections of a transfer that have ended.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    ended: u64,
    /// Of the stripes whose [`Block::EndOfFile`] has arrived.
    expected: u64,
    /// Stripes whose [`Block::EndOfFile`] has not arrived.
    stripes: u64,
}

impl Default for Ends {
    fn default() -> Self {
        Self::of_stripes(1)
    }
}

impl Ends {
    /// Of a file that arrives in `stripes` parts. Each has connections of its own, and a block that
    /// states their number (seen with version 13.24 of the server).
    pub fn of_stripes(stripes: u64) -> Self {
        Self {
            ended: 0,
            expected: 0,
            stripes,
        }
    }

    /// A connection has sent [`Block::EndOfData`].
    pub fn add(&mut self) -> Result<(), FtpProtocolError> {
        self.ended += 1;
        self.check()
    }

    /// [`Block::EndOfFile`] has arrived. `max`: the largest number of connections that there can
    /// be.
    pub fn expect(&mut self, connections: u64, max: u64) -> Result<(), FtpProtocolError> {
        let Some(stripes) = self.stripes.checked_sub(1) else {
            return Err(FtpProtocolError::Block(
                "more blocks end the file than were expected",
            ));
        };
        let expected = self.expected.checked_add(connections);
        let Some(expected) = expected.filter(|&sum| connections > 0 && sum <= max) else {
            return Err(FtpProtocolError::Block(
                "the number of connections is not possible",
            ));
        };
        (self.stripes, self.expected) = (stripes, expected);
        self.check()
    }

    /// Whether the whole file has arrived.
    pub fn is_complete(&self) -> bool {
        self.stripes == 0 && self.ended == self.expected
    }

    fn check(self) -> Result<(), FtpProtocolError> {
        if self.stripes == 0 && self.ended > self.expected {
            return Err(FtpProtocolError::Block(
                "more connections have ended than the block at the end of the file states",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Event {
        Data(u64, Vec<u8>),
        EndOfFile(u64),
        EndOfData,
    }

    /// The events of a connection whose bytes arrive in pieces of `size` bytes. Parts of a block
    /// are joined.
    fn events(stream: &[u8], size: usize) -> Result<Vec<Event>, FtpProtocolError> {
        let mut reader = BlockReader::default();
        let mut events: Vec<Event> = Vec::new();
        for mut piece in stream.chunks(size) {
            while let Some(block) = reader.next(&mut piece)? {
                match (block, events.last_mut()) {
                    (Block::Data { offset, bytes }, Some(Event::Data(begin, data)))
                        if *begin + data.len() as u64 == offset =>
                    {
                        data.extend_from_slice(bytes);
                    }
                    (Block::Data { offset, bytes }, _) => events.push(Event::Data(offset, bytes.to_vec())),
                    (Block::EndOfFile { connections }, _) => events.push(Event::EndOfFile(connections)),
                    (Block::EndOfData, _) => events.push(Event::EndOfData),
                }
            }
            assert!(piece.is_empty());
        }
        Ok(events)
    }

    fn block(descriptor: u8, offset: u64, data: &[u8]) -> Vec<u8> {
        [&header(descriptor, data.len() as u64, offset)[..], data].concat()
    }

    #[test]
    fn blocks_are_split_in_the_same_way_however_they_arrive() {
        let stream = [
            block(0, 262_144, b"second"),
            block(RESTART_MARKER, 0, b"a marker"),
            block(0, 0, b"first"),
            block(128, 9, b""),
            // As a server sent them: EOF and EOD in one block, with three connections.
            vec![0x48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
            block(CLOSE, 0, b""),
        ]
        .concat();
        for size in [1, 5, 17, 18, stream.len()] {
            let expected = [
                Event::Data(262_144, b"second".to_vec()),
                Event::Data(0, b"first".to_vec()),
                Event::EndOfFile(3),
                Event::EndOfData,
            ];
            assert_eq!(events(&stream, size).unwrap(), expected, "{size}");
        }
        assert_eq!(
            events(&block(END_OF_DATA | CLOSE, 4, b"last"), 3).unwrap(),
            [Event::Data(4, b"last".to_vec()), Event::EndOfData]
        );
    }

    #[test]
    fn a_transfer_is_complete_when_as_many_connections_ended_as_were_announced() {
        let mut ends = Ends::default();
        ends.add().unwrap();
        assert!(!ends.is_complete());
        ends.expect(2, 4).unwrap();
        assert!(!ends.is_complete(), "one connection has sent nothing yet");
        ends.add().unwrap();
        assert!(ends.is_complete());
        assert!(ends.add().is_err());
        assert!(ends.expect(2, 4).is_err(), "two blocks end the file");
        for connections in [0, 5, u64::MAX] {
            assert!(Ends::default().expect(connections, 4).is_err(), "{connections}");
        }
        let mut late = Ends::default();
        late.add().unwrap();
        late.add().unwrap();
        assert!(late.expect(1, 4).is_err());
    }

    #[test]
    fn each_stripe_announces_its_own_connections() {
        let mut ends = Ends::of_stripes(2);
        ends.expect(2, 4).unwrap();
        ends.add().unwrap();
        ends.add().unwrap();
        assert!(!ends.is_complete(), "the other stripe has announced nothing yet");
        ends.add().unwrap();
        ends.expect(2, 4).unwrap();
        assert!(!ends.is_complete());
        ends.add().unwrap();
        assert!(ends.is_complete());
        assert!(ends.expect(1, 4).is_err());
        let mut many = Ends::of_stripes(2);
        many.expect(3, 4).unwrap();
        assert!(many.expect(2, 4).is_err());
    }

    #[test]
    fn blocks_that_contradict_the_protocol_are_refused() {
        let end = block(END_OF_DATA, 0, b"");
        for stream in [
            block(CLOSE, 0, b""),
            block(SUSPECTED_ERRORS, 0, b"x"),
            [end.clone(), block(0, 0, b"x")].concat(),
            [end.clone(), end].concat(),
            header(0, u64::MAX, 1).to_vec(),
            b"220 another protocol".to_vec(),
        ] {
            assert!(events(&stream, 7).is_err(), "{stream:?}");
        }
    }

    #[test]
    fn a_connection_can_be_used_again_unless_its_sender_closes_it() {
        let ended = |stream: &[u8]| {
            let mut reader = BlockReader::default();
            let mut bytes = stream;
            while reader.next(&mut bytes).unwrap().is_some() {}
            assert!(reader.is_ended());
            reader.is_reusable()
        };
        assert!(ended(&header(END_OF_DATA, 0, 0)));
        assert!(ended(&header(END_OF_FILE | END_OF_DATA, 0, 1)));
        assert!(!ended(&header(END_OF_DATA | CLOSE, 0, 0)));
        assert!(!ended(&[header(END_OF_DATA, 0, 0), header(CLOSE, 0, 0)].concat()));
        assert!(!BlockReader::default().is_reusable());
    }

    #[test]
    fn a_block_of_any_length_needs_no_memory() {
        let mut reader = BlockReader::default();
        assert_eq!(reader.next(&mut &header(0, u64::MAX, 0)[..]), Ok(None));
        let zeros = vec![0; 1 << 20];
        for turn in 0..100 {
            let mut piece = &zeros[..];
            let expected = Block::Data {
                offset: turn << 20,
                bytes: &zeros,
            };
            assert_eq!(reader.next(&mut piece), Ok(Some(expected)));
        }
        assert!(!reader.is_ended());
    }
}
