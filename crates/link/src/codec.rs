//! Frames: `u32` length of what follows (little endian), `u8` kind, body. Numbers in bodies are
//! little endian.
//!
//! | kind | body |
//! |---|---|
//! | 1 greeting | JSON: [`Greeting`](crate::Greeting), the first frame in both directions |
//! | 2 message | `u64` number, JSON: numbered from 1, in order, sent again over the next link until acknowledged |
//! | 3 beat | `u64` number of the last message received: heartbeat and acknowledgement |
//! | 4 question | `u64` id: a probe of the clocks |
//! | 5 answer | `u64` id, `i64` heard, `i64` answered: both by the clock of the side that answers, ns |
//! | 6 piece | `u32` ticket, `u64` offset, bytes of a file |
//!
//! This module has no I/O: it converts between bytes and frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use plimsoll_model::grouped;

/// Largest frame, kind included, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// Largest piece of a file in one frame, in bytes. It is small so that a heartbeat does not wait
/// long behind a piece.
pub const MAX_PIECE_BYTES: usize = 128 * 1024;
const HEAD: usize = 4;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Identity and version of the sender, as JSON: [`Greeting`](crate::Greeting).
    Greeting(Bytes),
    /// One message.
    Message {
        /// Number of the message, from 1, without gaps.
        number: u64,
        /// The message as JSON.
        body: Bytes,
    },
    /// A heartbeat with an acknowledgement.
    Beat {
        /// Number of the last message received; 0 if none.
        received: u64,
    },
    /// A probe: the request for the time of the other side.
    Question {
        /// Number of the probe; the answer contains it.
        id: u64,
    },
    /// The answer to a probe. Both times are of the clock of the side that answers.
    Answer {
        /// Number of the probe.
        id: u64,
        /// Time at which the question was read, ns.
        heard: i64,
        /// Time at which this answer was written, ns.
        answered: i64,
    },
    /// Part of a requested file.
    Piece {
        /// Ticket of the request.
        ticket: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// The bytes, at most [`MAX_PIECE_BYTES`].
        bytes: Bytes,
    },
}

/// Why bytes cannot be decoded as frames. The stream cannot be used afterwards.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than [`MAX_FRAME_BYTES`]. Contains its length.
    #[error(
        "a frame of {} bytes (at most {} bytes are allowed)",
        grouped(*.0 as u64), grouped(MAX_FRAME_BYTES as u64)
    )]
    TooLarge(usize),
    /// The kind is unknown to this version, or the length does not match the kind. Contains kind
    /// and length.
    #[error("an invalid frame of kind {} and {} bytes", .0, grouped(*.1 as u64))]
    Kind(u8, usize),
    /// The frame has no kind.
    #[error("an empty frame")]
    Empty,
    /// The body is not the expected JSON.
    #[error("a frame with an invalid message: {0}")]
    Json(#[from] serde_json::Error),
}

impl Frame {
    /// Appends this frame to `out`.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`].
    pub fn write(&self, out: &mut BytesMut) -> Result<(), FrameError> {
        let (kind, length) = match self {
            Self::Greeting(body) => (1, body.len()),
            Self::Message { body, .. } => (2, 8 + body.len()),
            Self::Beat { .. } => (3, 8),
            Self::Question { .. } => (4, 8),
            Self::Answer { .. } => (5, 24),
            Self::Piece { bytes, .. } => (6, 12 + bytes.len()),
        };
        let length = length + 1;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLarge(length));
        }
        out.reserve(HEAD + length);
        out.put_u32_le(length as u32);
        out.put_u8(kind);
        match self {
            Self::Greeting(body) => out.put_slice(body),
            Self::Message { number, body } => {
                out.put_u64_le(*number);
                out.put_slice(body);
            }
            Self::Beat { received: id } | Self::Question { id } => out.put_u64_le(*id),
            Self::Answer { id, heard, answered } => {
                out.put_u64_le(*id);
                out.put_i64_le(*heard);
                out.put_i64_le(*answered);
            }
            Self::Piece {
                ticket,
                offset,
                bytes,
            } => {
                out.put_u32_le(*ticket);
                out.put_u64_le(*offset);
                out.put_slice(bytes);
            }
        }
        Ok(())
    }

    fn read(kind: u8, mut body: Bytes) -> Result<Self, FrameError> {
        let length = body.len();
        let min_length = match kind {
            1 => 0,
            2..=4 => 8,
            5 => 24,
            6 => 12,
            _ => usize::MAX,
        };
        let is_fixed = matches!(kind, 3..=5);
        if length < min_length || is_fixed && length > min_length {
            return Err(FrameError::Kind(kind, length));
        }
        Ok(match kind {
            1 => Self::Greeting(body),
            2 => Self::Message {
                number: body.get_u64_le(),
                body,
            },
            3 => Self::Beat {
                received: body.get_u64_le(),
            },
            4 => Self::Question {
                id: body.get_u64_le(),
            },
            5 => Self::Answer {
                id: body.get_u64_le(),
                heard: body.get_i64_le(),
                answered: body.get_i64_le(),
            },
            _ => Self::Piece {
                ticket: body.get_u32_le(),
                offset: body.get_u64_le(),
                bytes: body,
            },
        })
    }
}

/// Removes the next complete frame from the front of `bytes`. Returns `None` if more bytes are
/// needed.
///
/// # Errors
/// [`FrameError`]; the stream cannot be used afterwards.
pub fn next_frame(bytes: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*head) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    if bytes.len() < HEAD + length {
        return Ok(None);
    }
    bytes.advance(HEAD);
    let mut frame = bytes.split_to(length).freeze();
    if frame.is_empty() {
        return Err(FrameError::Empty);
    }
    let kind = frame.get_u8();
    Frame::read(kind, frame).map(Some)
}

/// Number of bytes that are missing from the first frame of `bytes`; 0 if its length is not yet
/// known or exceeds [`MAX_FRAME_BYTES`].
pub fn missing(bytes: &[u8]) -> usize {
    let length = bytes
        .first_chunk::<HEAD>()
        .map_or(0, |head| u32::from_le_bytes(*head) as usize);
    if length > MAX_FRAME_BYTES {
        return 0;
    }
    (HEAD + length).saturating_sub(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        vec![
            Frame::Greeting(Bytes::from_static(b"{}")),
            Frame::Message {
                number: 7,
                body: Bytes::from("\"ü\"".repeat(1000)),
            },
            Frame::Beat { received: u64::MAX },
            Frame::Question { id: 3 },
            Frame::Answer {
                id: 3,
                heard: -5,
                answered: i64::MAX,
            },
            Frame::Piece {
                ticket: 9,
                offset: 1 << 40,
                bytes: Bytes::from(vec![0xff; 3000]),
            },
        ]
    }

    #[test]
    fn frames_are_decoded_from_parts_of_any_size() {
        let mut bytes = BytesMut::new();
        for frame in frames() {
            frame.write(&mut bytes).unwrap();
        }
        for size in [1, 2, 3, 7, 64, bytes.len()] {
            let mut waiting = BytesMut::new();
            let mut decoded = Vec::new();
            for part in bytes.chunks(size) {
                waiting.extend_from_slice(part);
                while let Some(frame) = next_frame(&mut waiting).unwrap() {
                    decoded.push(frame);
                }
                assert!(waiting.len() < HEAD || missing(&waiting) > 0);
            }
            assert_eq!(decoded, frames(), "parts of {size}");
            assert!(waiting.is_empty());
        }
    }

    #[test]
    fn invalid_frames_are_rejected_without_an_allocation() {
        let cases: [(&[u8], &str); 6] = [
            (&[0xff, 0xff, 0xff, 0xff, 1], "at most"),
            (&[0, 0, 0, 0, 1], "empty"),
            (&[1, 0, 0, 0, 99], "kind 99"),
            (&[3, 0, 0, 0, 2, b'{', b'?'], "kind 2 and 2 bytes"),
            (&[10, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9], "kind 3 and 9 bytes"),
            (b"GET / HTTP/1.1\r\n", "at most"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(missing(bytes), 0);
            let error = next_frame(&mut BytesMut::from(bytes)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let large = Frame::Greeting(Bytes::from(vec![b'x'; MAX_FRAME_BYTES]));
        assert!(matches!(
            large.write(&mut BytesMut::new()),
            Err(FrameError::TooLarge(_))
        ));
    }

    #[test]
    fn mutated_frames_never_panic() {
        let mut good = BytesMut::new();
        for frame in frames() {
            frame.write(&mut good).unwrap();
        }
        let mut seed = 7_u64;
        for _ in 0..10_000 {
            let mut bytes = good.clone();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (seed >> 33) as usize % bytes.len();
            bytes[index] = (seed >> 24) as u8;
            while let Ok(Some(_)) = next_frame(&mut bytes) {}
        }
    }
}
