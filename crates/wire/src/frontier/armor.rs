//! Encodes a result set as the text of a `<data>` element: zlib, MD5 and base64, as one stream.
//!
//! The digest covers the compressed bytes, which are the input of base64. It is MD5, or SHA-256 if
//! the response is signed. Lines of the text have 76 characters. A newline follows every full line,
//! including a full last one, but not a partial last line.

use base64::Engine;
use flate2::{Compress, Compression, FlushCompress, Status};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::base64;
use super::request::Encoding;

/// Number of bytes in one full line of text.
const LINE_BYTES: usize = 57;
/// Number of characters in a full line.
const LINE_CHARS: usize = 76;
/// Number of bytes that are encoded at once: a whole number of lines, so that the scratch text fits
/// into the L1 cache.
const GROUP: usize = LINE_BYTES * 256;

/// Digest of the bytes that are encoded in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// MD5, which is sent to the client.
    Md5([u8; 16]),
    /// SHA-256 for the signature. It also covers a part of the request, see [`Armor::signed`].
    Sha256([u8; 32]),
}

/// Values of a finished payload for its `<quality>` element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Digest of the bytes that are encoded in base64.
    pub digest: Digest,
    /// Size before compression, bytes.
    pub full_size: u64,
}

/// The encoder, a stream. It stores less than one line and the window of the compressor.
pub struct Armor {
    zlib: Option<Compress>,
    packed: Vec<u8>,
    digest: Hasher,
    /// Compressed bytes that do not fill a line.
    partial: Vec<u8>,
    scratch: Vec<u8>,
    full_size: u64,
}

/// A digest in progress.
enum Hasher {
    Md5(Md5),
    Sha256(Sha256),
}

impl Hasher {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Digest {
        match self {
            Self::Md5(hasher) => Digest::Md5(hasher.finalize().into()),
            Self::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
        }
    }
}

impl std::fmt::Debug for Armor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Armor")
            .field("full_size", &self.full_size)
            .finish_non_exhaustive()
    }
}

impl Armor {
    /// An encoder for one payload.
    pub fn new(encoding: Encoding) -> Self {
        Self::with(encoding, Hasher::Md5(Md5::new()))
    }

    /// An encoder for one payload of a signed response. `request`: the part of the request that the
    /// signature covers ([`super::request::signed_part`]).
    pub fn signed(encoding: Encoding, request: &[u8]) -> Self {
        Self::with(encoding, Hasher::Sha256(Sha256::new_with_prefix(request)))
    }

    fn with(encoding: Encoding, digest: Hasher) -> Self {
        Self {
            zlib: encoding
                .level()
                .map(|level| Compress::new(Compression::new(level), true)),
            packed: Vec::new(),
            digest,
            partial: Vec::with_capacity(LINE_BYTES),
            scratch: vec![0; GROUP / 3 * 4],
            full_size: 0,
        }
    }

    /// Encodes `plain`, and appends the complete lines to `text`.
    pub fn push(&mut self, plain: &[u8], text: &mut Vec<u8>) {
        self.full_size += plain.len() as u64;
        if self.zlib.is_some() {
            self.deflate(plain, FlushCompress::None, text);
        } else {
            self.digest.update(plain);
            self.append_lines(plain, text);
        }
    }

    /// Ends the payload: appends the rest of the text, and returns digest and size.
    pub fn finish(mut self, text: &mut Vec<u8>) -> Seal {
        if self.zlib.is_some() {
            self.deflate(&[], FlushCompress::Finish, text);
        }
        if !self.partial.is_empty() {
            let length = base64()
                .encode_slice(&self.partial, &mut self.scratch)
                .unwrap_or(0);
            text.extend_from_slice(&self.scratch[..length]);
        }
        Seal {
            digest: self.digest.finish(),
            full_size: self.full_size,
        }
    }

    fn deflate(&mut self, mut plain: &[u8], flush: FlushCompress, text: &mut Vec<u8>) {
        let mut packed = std::mem::take(&mut self.packed);
        packed.reserve(GROUP);
        while let Some(zlib) = self.zlib.as_mut() {
            let before = zlib.total_in();
            // The compressor does not fail with correct input. An error counts as the end, so that
            // the function returns no error.
            let status = zlib
                .compress_vec(plain, &mut packed, flush)
                .unwrap_or(Status::StreamEnd);
            plain = &plain[(zlib.total_in() - before) as usize..];
            let is_full = packed.len() == packed.capacity();
            if !packed.is_empty() {
                self.digest.update(&packed);
                self.append_lines(&packed, text);
                packed.clear();
            }
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => plain.is_empty() && !is_full,
            };
            if done {
                break;
            }
        }
        self.packed = packed;
    }

    /// Appends full lines of base64, and stores the remaining bytes for the next call.
    fn append_lines(&mut self, mut bytes: &[u8], text: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            let count = bytes.len().min(LINE_BYTES - self.partial.len());
            self.partial.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if self.partial.len() < LINE_BYTES {
                return;
            }
            let line = std::mem::take(&mut self.partial);
            self.append_group(&line, text);
            self.partial = line;
            self.partial.clear();
        }
        let full_lines = bytes.len() / LINE_BYTES * LINE_BYTES;
        for group in bytes[..full_lines].chunks(GROUP) {
            self.append_group(group, text);
        }
        self.partial.extend_from_slice(&bytes[full_lines..]);
    }

    /// Encodes many lines with one call of base64 and then adds the newlines, which is twice as
    /// fast as a call per line.
    fn append_group(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let length = base64().encode_slice(bytes, &mut self.scratch).unwrap_or(0);
        text.reserve(length + length / LINE_CHARS + 1);
        for line in self.scratch[..length].chunks_exact(LINE_CHARS) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::example;

    fn encode(plain: &[u8], encoding: Encoding, step: usize) -> (Vec<u8>, Seal) {
        let mut armor = Armor::new(encoding);
        let mut text = Vec::new();
        for piece in plain.chunks(step) {
            armor.push(piece, &mut text);
        }
        let seal = armor.finish(&mut text);
        (text, seal)
    }

    #[test]
    fn the_digest_of_the_worked_example_without_compression_is_exact() {
        for step in [1, 56, 57, 58, 1000] {
            let (_, seal) = encode(&example::plain(), Encoding::Blob, step);
            assert_eq!(seal.full_size, 125);
            let Digest::Md5(md5) = seal.digest else {
                panic!("{seal:?}");
            };
            assert_eq!(example::hex(&md5), "8daa348815876d8f868f4b506ca6801b");
        }
    }

    #[test]
    fn an_empty_compressed_payload_is_a_complete_zlib_stream() {
        let (text, seal) = encode(&[], Encoding::BlobZipLevel(5), 1);
        let packed = base64().decode(&text).unwrap();
        assert_eq!(
            flate2::Decompress::new(true)
                .decompress_vec(
                    &packed,
                    &mut Vec::with_capacity(8),
                    flate2::FlushDecompress::Finish
                )
                .unwrap(),
            Status::StreamEnd
        );
        assert_eq!(seal.full_size, 0);
    }

    #[test]
    fn newlines_follow_full_lines_only() {
        for length in [0, 1, 56, 57, 58, 114, 115, GROUP, GROUP + 57, 3 * GROUP + 1] {
            let plain: Vec<u8> = (0..length).map(|i| (i * 31) as u8).collect();
            let mut expected = String::new();
            for line in plain.chunks(57) {
                expected.push_str(&base64().encode(line));
                if line.len() == 57 {
                    expected.push('\n');
                }
            }
            for step in [1, 57, 100, usize::MAX] {
                assert_eq!(
                    encode(&plain, Encoding::Blob, step).0,
                    expected.as_bytes(),
                    "{length} by {step}"
                );
            }
        }
    }

    #[test]
    fn a_large_compressed_stream_is_decoded_to_its_input() {
        let mut state = 1_u32;
        let plain: Vec<u8> = (0..300_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 27) as u8
            })
            .collect();
        for level in [1, 5, 9] {
            let (text, seal) = encode(&plain, Encoding::BlobZipLevel(level), 7_777);
            let stripped: Vec<u8> = text.iter().copied().filter(|&b| b != b'\n').collect();
            let packed = base64().decode(stripped).unwrap();
            assert_eq!(Digest::Md5(Md5::digest(&packed).into()), seal.digest);
            let mut out = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(packed.as_slice()), &mut out)
                .unwrap();
            assert!(out == plain, "level {level}");
        }
    }
}
