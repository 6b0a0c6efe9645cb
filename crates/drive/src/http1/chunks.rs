//! Decoder of chunked bodies, which may arrive in any pieces.

use super::head::SyntaxError;

/// Maximum length of the line with the size of a chunk and its extensions, and of the trailers,
/// bytes.
const MAX_LINE: u32 = 16 * 1024;

/// A decoder of the chunked coding (RFC 9112, section 7.1). Extensions and trailers are ignored.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    state: State,
    left: u64,
    line: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    SizeStart,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    TrailerStart,
    Trailer,
    Done,
}

impl ChunkDecoder {
    /// Decodes the bytes of the body at the start of `bytes`, and passes the data to `data`.
    /// Returns the number of bytes that belong to the body: all of them, unless [`Self::is_done`].
    pub fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, SyntaxError> {
        let mut offset = 0;
        while offset < bytes.len() && self.state != State::Done {
            if self.state == State::Data {
                let count = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - offset);
                data(&bytes[offset..offset + count]);
                offset += count;
                self.left -= count as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.step(bytes[offset])?;
                offset += 1;
            }
        }
        Ok(offset)
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn step(&mut self, byte: u8) -> Result<(), SyntaxError> {
        self.line += 1;
        if self.line > MAX_LINE {
            return Err(SyntaxError);
        }
        self.state = match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if self.left >> 60 != 0 {
                    return Err(SyntaxError);
                }
                self.left = self.left << 4 | u64::from((byte as char).to_digit(16).ok_or(SyntaxError)?);
                State::Size
            }
            (State::Size | State::Extension, b'\r') => State::SizeEnd,
            (State::Size | State::Extension | State::SizeEnd, b'\n') => {
                self.line = 0;
                if self.left == 0 {
                    State::TrailerStart
                } else {
                    State::Data
                }
            }
            (State::Size, b';' | b' ' | b'\t') | (State::Extension, _) => State::Extension,
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => {
                self.line = 0;
                State::SizeStart
            }
            (State::TrailerStart, b'\r') | (State::Trailer, b'\n') => State::TrailerStart,
            (State::TrailerStart, b'\n') => State::Done,
            (State::TrailerStart | State::Trailer, _) => State::Trailer,
            _ => return Err(SyntaxError),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), SyntaxError> {
        let (mut chunked, mut out, mut taken) = (ChunkDecoder::default(), Vec::new(), 0);
        for piece in pieces {
            taken += chunked.feed(piece, |data| out.extend_from_slice(data))?;
        }
        Ok((out, taken, chunked.is_done()))
    }

    #[test]
    fn pieces_of_any_size_produce_the_same_body() {
        let whole = b"4;x=y\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: a\r\n\r\nnext";
        let body = b"Wikipedia in \r\n\r\nchunks.";
        let end = whole.len() - 4;
        for cut in 0..whole.len() {
            let (out, taken, done) = decode(&[&whole[..cut], &whole[cut..]]).unwrap();
            if cut > end {
                continue;
            }
            assert_eq!(
                (out.as_slice(), taken, done),
                (&body[..], end, true),
                "cut at {cut}"
            );
        }
        let single: Vec<&[u8]> = whole[..end].chunks(1).collect();
        assert_eq!(decode(&single).unwrap(), (body.to_vec(), end, true));
    }

    #[test]
    fn invalid_chunks_are_refused() {
        let flood = vec![b'1'; 100];
        let line = [b"1;".to_vec(), vec![b'x'; 20_000]].concat();
        for bytes in [&b"x\r\n"[..], b"\r\n", b"-1\r\n", b"3\r\nabcd", &flood, &line] {
            assert_eq!(
                decode(&[bytes]),
                Err(SyntaxError),
                "{:?}",
                String::from_utf8_lossy(&bytes[..8.min(bytes.len())])
            );
        }
    }
}
