//! Reads a document as a client must: finds the payloads, decodes base64 and zlib, and checks
//! digest, size and number of records.
//!
//! Rejected: an XML library, because the documents have one fixed structure, and a general parser
//! costs more than all checks together. The parser is tolerant (unknown elements and attributes,
//! any white space); the checks are strict.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use base64::Engine;
use flate2::{Decompress, FlushDecompress, Status};
use md5::{Digest, Md5};
use memchr::memchr_iter;
use thiserror::Error;

use super::base64;
use super::markup::{Tag, Tags};
use super::payload::{self, PayloadError};
use super::request::Encoding;

/// Work between two pauses, bytes of text or of the inflated payload: some milliseconds. A multiple
/// of 4, so that each piece of base64 text can be decoded alone.
pub const STEP: usize = 1 << 20;

/// Why a document is not a valid response. Payloads are numbered from 1.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DocumentError {
    /// The document has no `<frontier ...>` element.
    #[error("the response is not a Frontier document")]
    NotFrontier,
    /// The document ends before `</frontier>`.
    #[error("the document ends before </frontier>")]
    Truncated,
    /// An element occurs where it is not allowed.
    #[error("unexpected <{name}> at byte {at}")]
    Misplaced {
        /// Name of the element.
        name: String,
        /// Offset of its `<` in the document, bytes.
        at: usize,
    },
    /// The number of payloads is not the announced one, or 0, and the document reports no error.
    #[error("the document contains {found} payloads, but announces {announced}")]
    Payloads {
        /// Number in the transaction element.
        announced: u64,
        /// Number of payload elements.
        found: u64,
    },
    /// The encoding of a payload is unknown. The value is the number of the payload.
    #[error("payload {0}: unknown encoding")]
    Encoding(u32),
    /// An attribute of the quality element is missing or not a number.
    #[error("payload {number}: quality has no valid {attribute}")]
    Quality {
        /// Number of the payload.
        number: u32,
        /// Name of the attribute.
        attribute: &'static str,
    },
    /// The data is not base64. The value is the number of the payload.
    #[error("payload {0}: the data is not base64")]
    Base64(u32),
    /// The MD5 digest of the data differs. The value is the number of the payload.
    #[error("payload {0}: the md5 does not match the data")]
    Md5(u32),
    /// The data is not a complete zlib stream. The value is the number of the payload.
    #[error("payload {0}: the data is not a complete zlib stream")]
    Inflate(u32),
    /// The announced size exceeds the limit of the reader.
    #[error("payload {number}: its size, {announced} bytes, exceeds the limit of {limit} bytes")]
    TooBig {
        /// Number of the payload.
        number: u32,
        /// Announced size, bytes.
        announced: u64,
        /// Limit of the reader, bytes.
        limit: u64,
    },
    /// The size is not the announced one.
    #[error("payload {number}: full_size is {announced}, but the data has at least {found} bytes")]
    Size {
        /// Number of the payload.
        number: u32,
        /// Size in the quality element, bytes.
        announced: u64,
        /// Size of the data, bytes; a lower bound if inflating was stopped.
        found: u64,
    },
    /// The number of rows is not the announced one.
    #[error("payload {number}: records is {announced}, but the data has {found} rows")]
    Records {
        /// Number of the payload.
        number: u32,
        /// Number in the quality element.
        announced: u64,
        /// Number of rows in the data.
        found: u64,
    },
    /// The data is not a result set.
    #[error("payload {number}: {source}")]
    Payload {
        /// Number of the payload.
        number: u32,
        /// Where and why the data is not a result set.
        source: PayloadError,
    },
}

/// An error that the server reports in a well-formed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Number of the payload, from 1; 0 for an error of the whole document.
    pub payload: u32,
    /// Text of the error, unescaped, cut to 1,000 characters.
    pub message: String,
    /// Time for which the response may be cached, s; none if the document does not state it.
    pub max_age: Option<u64>,
}

/// Content of a verified document. It can include an error that the server reports: the document is
/// valid all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of payloads, including those with an error.
    pub payloads: u32,
    /// Number of rows in all payloads without an error.
    pub rows: u64,
    /// Size of all payloads without an error, decoded and inflated, bytes.
    pub payload_bytes: u64,
    /// Number of keepalive elements.
    pub keepalives: u32,
    /// The first error that the server reports; none if there is none. An error of a payload occurs
    /// before one of the document.
    pub error: Option<ServerError>,
}

/// Verifies documents. Its buffers are reused.
pub struct Reader {
    limit: u64,
    /// Base64 of the current payload without white space.
    text: Vec<u8>,
    /// The decoded payload, before inflating.
    packed: Vec<u8>,
    /// The inflated payload.
    plain: Vec<u8>,
    inflate: Decompress,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Position of the reader in the document.
#[derive(PartialEq)]
enum State<'a> {
    Outside,
    /// In a payload with this encoding, before or after its data.
    Payload {
        encoding: &'a [u8],
        data_seen: bool,
    },
    /// In `<data>`, whose text begins at offset `from`.
    Data {
        encoding: &'a [u8],
        from: usize,
    },
}

impl Reader {
    /// A reader that accepts payloads of at most `limit` bytes after inflating.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            text: Vec::new(),
            packed: Vec::new(),
            plain: Vec::new(),
            inflate: Decompress::new(true),
        }
    }

    /// Verifies a document, which is the body of a response without transfer coding.
    pub fn verify(&mut self, body: &[u8]) -> Result<Summary, DocumentError> {
        self.read(body, |_, _| {})
    }

    /// Verifies a document as [`Reader::verify`] does, and calls `visit` with the number and the
    /// result set of each payload without an error.
    pub fn read(&mut self, body: &[u8], visit: impl FnMut(u32, &[u8])) -> Result<Summary, DocumentError> {
        let reading = pin!(self.read_in_steps(body, visit, async || {}));
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => unreachable!("nothing waits except in a pause"),
        }
    }

    /// Reads a document as [`Reader::read`] does, and awaits `pause` after each [`STEP`] of work.
    /// So a long document does not stop the other work of a thread. If the future is dropped before
    /// its end, the reader can be used for the next document.
    pub async fn read_in_steps(
        &mut self,
        body: &[u8],
        mut visit: impl FnMut(u32, &[u8]),
        pause: impl AsyncFn(),
    ) -> Result<Summary, DocumentError> {
        let mut summary = Summary::default();
        let mut announced = 0;
        let (mut begun, mut ended) = (false, false);
        let mut state = State::Outside;
        let mut tags = Tags::new(body);
        while let Some(tag) = tags.next() {
            state = match (tag.name, state) {
                (b"frontier", State::Outside) => {
                    begun = true;
                    State::Outside
                }
                (b"/frontier", State::Outside) => {
                    ended = true;
                    break;
                }
                (b"transaction", State::Outside) => {
                    announced = tag.number("payloads").unwrap_or(0);
                    State::Outside
                }
                (b"payload", State::Outside) => {
                    summary.payloads += 1;
                    State::Payload {
                        encoding: tag.attribute("encoding").unwrap_or_default(),
                        data_seen: false,
                    }
                }
                (
                    b"data",
                    State::Payload {
                        encoding,
                        data_seen: false,
                    },
                ) => {
                    self.text.clear();
                    if tag.empty {
                        State::Payload {
                            encoding,
                            data_seen: true,
                        }
                    } else {
                        State::Data {
                            encoding,
                            from: tag.end,
                        }
                    }
                }
                (b"keepalive", State::Data { encoding, from }) => {
                    self.gather(&body[from..tag.start], &pause).await;
                    summary.keepalives += 1;
                    State::Data {
                        encoding,
                        from: tag.end,
                    }
                }
                (b"/data", State::Data { encoding, from }) => {
                    self.gather(&body[from..tag.start], &pause).await;
                    State::Payload {
                        encoding,
                        data_seen: true,
                    }
                }
                (
                    b"quality",
                    State::Payload {
                        encoding,
                        data_seen: true,
                    },
                ) => {
                    self.end_payload(&tag, encoding, &mut summary, &mut visit, &pause)
                        .await?;
                    State::Outside
                }
                (b"global_error", State::Outside) => {
                    summary.error.get_or_insert_with(|| ServerError {
                        payload: 0,
                        message: tag.text("msg"),
                        max_age: None,
                    });
                    State::Outside
                }
                (
                    name @ (b"frontier" | b"/frontier" | b"transaction" | b"payload" | b"data" | b"keepalive"
                    | b"/data" | b"quality" | b"/payload" | b"global_error"),
                    before,
                ) if name != b"/payload" || before != State::Outside => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    return Err(DocumentError::Misplaced { name, at: tag.start });
                }
                (_, before) => before,
            };
        }
        check_document(begun, ended, announced, summary)
    }

    /// Appends a piece of base64 text, without line ends and blanks.
    async fn gather(&mut self, piece: &[u8], pause: &impl AsyncFn()) {
        let (mut from, mut paused) = (0, 0);
        for end in memchr_iter(b'\n', piece).chain([piece.len()]) {
            self.text.extend_from_slice(piece[from..end].trim_ascii());
            from = end + 1;
            if from - paused > STEP {
                paused = from;
                pause().await;
            }
        }
    }

    /// Ends a payload: stores the error that it reports, or verifies its data.
    async fn end_payload(
        &mut self,
        tag: &Tag<'_>,
        encoding: &[u8],
        summary: &mut Summary,
        visit: &mut impl FnMut(u32, &[u8]),
        pause: &impl AsyncFn(),
    ) -> Result<(), DocumentError> {
        let number = summary.payloads;
        let missing = |attribute| DocumentError::Quality { number, attribute };
        if tag.number("error").ok_or_else(|| missing("error"))? != 0 {
            summary.error.get_or_insert_with(|| ServerError {
                payload: number,
                message: tag.text("message"),
                max_age: tag.number("max_age"),
            });
            return Ok(());
        }
        let encoding = std::str::from_utf8(encoding).ok().and_then(Encoding::parse);
        let encoding = encoding.ok_or(DocumentError::Encoding(number))?;
        let digest = self.decode(number, pause).await?;
        match tag.attribute("md5") {
            Some(text) if is_digest(text, digest) => {}
            Some(_) => return Err(DocumentError::Md5(number)),
            // A signed response has a signature instead. It is not verified here, because that
            // requires the certificate of the server.
            None if tag.attribute("sig").is_some() => {}
            None => return Err(missing("md5")),
        }
        let announced = tag.number("full_size").ok_or_else(|| missing("full_size"))?;
        if announced > self.limit {
            return Err(DocumentError::TooBig {
                number,
                announced,
                limit: self.limit,
            });
        }
        let plain = if encoding.level().is_some() {
            self.inflate(number, announced, pause).await?;
            &self.plain
        } else {
            &self.packed
        };
        let found = plain.len() as u64;
        if found != announced {
            return Err(DocumentError::Size {
                number,
                announced,
                found,
            });
        }
        let found = payload::count_rows(plain).map_err(|source| DocumentError::Payload { number, source })?;
        let announced = tag.number("records").ok_or_else(|| missing("records"))?;
        if found != announced {
            return Err(DocumentError::Records {
                number,
                announced,
                found,
            });
        }
        summary.rows += found;
        summary.payload_bytes += plain.len() as u64;
        visit(number, plain);
        Ok(())
    }

    /// Decodes `text` into `packed`, and returns its MD5 digest.
    async fn decode(&mut self, number: u32, pause: &impl AsyncFn()) -> Result<[u8; 16], DocumentError> {
        self.packed.resize(self.text.len() / 4 * 3 + 3, 0);
        let mut md5 = Md5::new();
        let mut end = 0;
        let mut pieces = self.text.chunks(STEP).peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            let length = base64()
                .decode_slice(piece, &mut self.packed[end..])
                .map_err(|_| DocumentError::Base64(number))?;
            // Only the last piece may end with padding.
            if !is_last && length != STEP / 4 * 3 {
                return Err(DocumentError::Base64(number));
            }
            md5.update(&self.packed[end..end + length]);
            end += length;
            if !is_last {
                pause().await;
            }
        }
        self.packed.truncate(end);
        Ok(md5.finalize().into())
    }

    /// Inflates `packed` into `plain`, up to one byte more than announced.
    async fn inflate(
        &mut self,
        number: u32,
        announced: u64,
        pause: &impl AsyncFn(),
    ) -> Result<(), DocumentError> {
        let limit = announced as usize + 1;
        self.inflate.reset(true);
        let mut filled = 0;
        loop {
            // The announced size is not trusted: the buffer grows with the data.
            let end = limit.min(filled + STEP);
            self.plain.resize(end, 0);
            let from = self.inflate.total_in() as usize;
            let status = self.inflate.decompress(
                &self.packed[from..],
                &mut self.plain[filled..end],
                FlushDecompress::None,
            );
            filled = self.inflate.total_out() as usize;
            match status {
                Ok(Status::StreamEnd) => break,
                Ok(_) if filled == end && end < limit => pause().await,
                Ok(_) if filled as u64 > announced => {
                    return Err(DocumentError::Size {
                        number,
                        announced,
                        found: filled as u64,
                    });
                }
                _ => return Err(DocumentError::Inflate(number)),
            }
        }
        self.plain.truncate(filled);
        Ok(())
    }
}

/// Checks the document as a whole.
fn check_document(
    begun: bool,
    ended: bool,
    announced: u64,
    summary: Summary,
) -> Result<Summary, DocumentError> {
    if !begun {
        return Err(DocumentError::NotFrontier);
    }
    if !ended {
        return Err(DocumentError::Truncated);
    }
    let found = u64::from(summary.payloads);
    // After an error the server omits the other payloads.
    if summary.error.is_none() && (found != announced || found == 0) {
        return Err(DocumentError::Payloads { announced, found });
    }
    Ok(summary)
}

/// Whether the hexadecimal text `text` is `digest`.
fn is_digest(text: &[u8], digest: [u8; 16]) -> bool {
    let digit = |c: u8| char::from(c).to_digit(16);
    text.len() == 32
        && text.chunks_exact(2).zip(digest).all(|(pair, byte)| {
            matches!((digit(pair[0]), digit(pair[1])), (Some(high), Some(low)) if high * 16 + low == u32::from(byte))
        })
}

#[cfg(test)]
mod tests;
