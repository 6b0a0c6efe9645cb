//! A frame of the file: a head, then bytes.
//!
//! The head has a checksum of its own, so that a changed length is distinguished from a cut file.

use std::io::{self, Read, Write};

use super::FileError;

/// Length of a head, bytes: kind, number of the frame, length of the body, checksum of the body,
/// and checksum of the head up to here. Each except the kind has 4 bytes, little-endian.
pub(super) const HEAD: usize = 17;
/// Maximum length of a body, bytes. A head with a greater length is damaged.
const MAX_FRAME_BYTES: usize = 8 << 20;

/// The contents of a frame. A reader skips frames of other kinds, which later versions may add.
pub(super) mod kind {
    pub const HEADER: u8 = b'H';
    pub const NAMES: u8 = b'N';
    pub const EVENTS: u8 = b'E';
    pub const FOOTER: u8 = b'F';
}

/// Starts a frame: reserves the space of the head. The body is appended after it.
pub(super) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(HEAD, 0);
}

/// Writes frames.
pub(super) struct Frames<W> {
    pub out: W,
    /// The number of the next frame.
    number: u32,
}

impl<W: Write> Frames<W> {
    pub fn new(out: W) -> Self {
        Self { out, number: 0 }
    }

    /// Completes the frame that [`begin`] started, and writes it with one call, so that after a
    /// kill it is complete or cut at its end.
    pub fn write(&mut self, kind: u8, frame: &mut [u8]) -> Result<(), FileError> {
        let length = frame.len() - HEAD;
        if length > MAX_FRAME_BYTES {
            let why = format!("a frame of {length} bytes exceeds the maximum of {MAX_FRAME_BYTES}");
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

/// The result of reading a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextFrame {
    /// A frame of this kind.
    Frame(u8),
    /// Less than a frame: the file is cut here, or its end was never written.
    Cut,
}

/// Reads frames.
pub(super) struct Source<R> {
    input: R,
    number: u32,
    /// Offset of the next frame in the file, bytes.
    pub at: u64,
}

impl<R: Read> Source<R> {
    /// A source whose first `at` bytes were read already.
    pub fn new(input: R, at: u64) -> Self {
        Self { input, number: 0, at }
    }

    /// Reads a frame, and its body into `body`.
    pub fn read(&mut self, body: &mut Vec<u8>) -> Result<NextFrame, FileError> {
        let mut head = [0; HEAD];
        if !fill(&mut self.input, HEAD, body)? {
            return Ok(NextFrame::Cut);
        }
        head.copy_from_slice(body);
        // Zeros: space that the file system reserved and that was never written.
        if head == [0; HEAD] {
            return Ok(NextFrame::Cut);
        }
        let number =
            |from: usize| u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
        let damaged = |why| Err(FileError::Damaged { at: self.at, why });
        if crc32fast::hash(&head[..13]) != number(13) {
            return damaged("the head of a frame does not match its checksum");
        }
        if number(1) != self.number {
            return damaged("a frame has the wrong number: frames before it are missing or out of order");
        }
        let length = number(5) as usize;
        if length > MAX_FRAME_BYTES {
            return damaged("a frame exceeds the maximum length of 8 MiB");
        }
        if !fill(&mut self.input, length, body)? {
            return Ok(NextFrame::Cut);
        }
        if crc32fast::hash(body) != number(9) {
            return damaged("a frame does not match its checksum");
        }
        self.number = self.number.wrapping_add(1);
        self.at += (HEAD + length) as u64;
        Ok(NextFrame::Frame(head[0]))
    }

    /// The remaining input after the frames that were read.
    pub fn into_rest(self) -> R {
        self.input
    }

    /// Whether the input ends here.
    pub fn check_end(&mut self) -> io::Result<bool> {
        Ok(!fill(&mut self.input, 1, &mut Vec::new())?)
    }
}

/// Reads `length` bytes. Allocates memory only for bytes that exist. Returns false if there are
/// fewer.
pub(super) fn fill(input: &mut impl Read, length: usize, into: &mut Vec<u8>) -> io::Result<bool> {
    into.clear();
    input.by_ref().take(length as u64).read_to_end(into)?;
    Ok(into.len() == length)
}
