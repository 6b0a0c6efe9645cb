//! A piece of the file, by itself: head, then bytes.
//!
//! The head has a checksum of its own, so that a length that was changed is told from a file that
//! was cut.

use std::io::{self, Read, Write};

use super::FileError;

/// Bytes of a head: kind, number of the frame, length of what follows, its checksum, and that of
/// the head so far; each but the kind 4 bytes, the lowest first.
pub(super) const HEAD: usize = 17;
/// The most that follows a head. More is no frame.
const MAX_FRAME_BYTES: usize = 8 << 20;

/// What a frame holds. Frames of other kinds are skipped: later writers may add some.
pub(super) mod kind {
    pub const HEADER: u8 = b'H';
    pub const NAMES: u8 = b'N';
    pub const EVENTS: u8 = b'E';
    pub const FOOTER: u8 = b'F';
}

/// Leaves room for the head; what is to follow it is appended.
pub(super) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(HEAD, 0);
}

/// Where frames go.
pub(super) struct Frames<W> {
    pub out: W,
    /// Of the next one.
    number: u32,
}

impl<W: Write> Frames<W> {
    pub fn new(out: W) -> Self {
        Self { out, number: 0 }
    }

    /// Makes a frame of what [`begin`] and others have put into `frame`, and writes it at once: a
    /// kill leaves it whole or cut at the end.
    pub fn write(&mut self, kind: u8, frame: &mut [u8]) -> Result<(), FileError> {
        let length = frame.len() - HEAD;
        if length > MAX_FRAME_BYTES {
            let why = format!("{length} bytes do not fit in a frame of {MAX_FRAME_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
        }
        let checksum = crc32fast::hash(&frame[HEAD..]);
        frame[0] = kind;
        frame[1..5].copy_from_slice(&self.number.to_le_bytes());
        frame[5..9].copy_from_slice(&(length as u32).to_le_bytes());
        frame[9..13].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32fast::hash(&frame[..13]);
        frame[13..HEAD].copy_from_slice(&checksum.to_le_bytes());
        self.out.write_all(frame)?;
        self.number = self.number.wrapping_add(1);
        Ok(())
    }
}

/// What was found where a frame should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextFrame {
    /// A frame of this kind.
    Frame(u8),
    /// Less than a frame: the file was cut here, or its end was never written.
    Cut,
}

/// Where frames come from.
pub(super) struct Source<R> {
    input: R,
    number: u32,
    /// Where the next frame begins: bytes of the file.
    pub at: u64,
}

impl<R: Read> Source<R> {
    /// Of a file of which `at` bytes were read.
    pub fn new(input: R, at: u64) -> Self {
        Self { input, number: 0, at }
    }

    /// Reads a frame, and what follows its head into `body`.
    pub fn read(&mut self, body: &mut Vec<u8>) -> Result<NextFrame, FileError> {
        let mut head = [0; HEAD];
        if !fill(&mut self.input, HEAD, body)? {
            return Ok(NextFrame::Cut);
        }
        head.copy_from_slice(body);
        // Room that a file system gave, and nobody came to fill.
        if head == [0; HEAD] {
            return Ok(NextFrame::Cut);
        }
        let number =
            |from: usize| u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
        let damaged = |why| Err(FileError::Damaged { at: self.at, why });
        if crc32fast::hash(&head[..13]) != number(13) {
            return damaged("the checksum of a head does not hold");
        }
        if number(1) != self.number {
            return damaged("frames are missing before this one, or it is not in its place");
        }
        let length = number(5) as usize;
        if length > MAX_FRAME_BYTES {
            return damaged("a frame is longer than any may be");
        }
        if !fill(&mut self.input, length, body)? {
            return Ok(NextFrame::Cut);
        }
        if crc32fast::hash(body) != number(9) {
            return damaged("a checksum does not hold");
        }
        self.number = self.number.wrapping_add(1);
        self.at += (HEAD + length) as u64;
        Ok(NextFrame::Frame(head[0]))
    }

    /// What follows the frames that were read.
    pub fn into_rest(self) -> R {
        self.input
    }

    /// Whether nothing follows.
    pub fn check_end(&mut self) -> io::Result<bool> {
        Ok(!fill(&mut self.input, 1, &mut Vec::new())?)
    }
}

/// Reads so many bytes, and takes memory for no more than there are. False where they are fewer.
pub(super) fn fill(input: &mut impl Read, length: usize, into: &mut Vec<u8>) -> io::Result<bool> {
    into.clear();
    input.by_ref().take(length as u64).read_to_end(into)?;
    Ok(into.len() == length)
}
