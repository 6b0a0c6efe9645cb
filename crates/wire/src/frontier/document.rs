//! Reads a whole document as a client must: finds the payloads, undoes base64 and zlib, checks
//! digest, size and records.
//!
//! No XML library: the documents have one fixed shape, and a general parser costs more than all the
//! checks together. What is read is tolerant (unknown elements and attributes, any white space);
//! what is checked is strict.

use base64::Engine;
use flate2::{Decompress, FlushDecompress, Status};
use md5::{Digest, Md5};
use memchr::memchr_iter;
use thiserror::Error;

use super::base64;
use super::markup::{Tag, Tags};
use super::payload::{self, PayloadError};
use super::request::Encoding;

/// No zlib stream inflates by more than this (1032, rounded up).
const MAX_RATIO: usize = 1040;

/// What makes a document not an answer at all. The number is that of the payload, from 1.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DocumentError {
    /// No `<frontier ...>` element.
    #[error("the answer is no Frontier document")]
    NotFrontier,
    /// The document stops before `</frontier>`.
    #[error("the document ends before </frontier>")]
    Truncated,
    /// Elements that cannot follow each other.
    #[error("unexpected <{name}> at byte {at}")]
    Misplaced {
        /// Name of the element, cut to 32 characters.
        name: String,
        /// Offset of its `<` in the document.
        at: usize,
    },
    /// Neither a payload nor an error.
    #[error("the document holds {found} payloads where {said} were announced")]
    Payloads {
        /// From the transaction element.
        said: u64,
        /// Payload elements seen.
        found: u64,
    },
    /// The name of the encoding is none of the protocol's.
    #[error("payload {0}: unknown encoding")]
    Encoding(u32),
    /// No quality element, or none of its numbers.
    #[error("payload {number}: quality has no valid {attribute}")]
    Quality {
        /// Payload, from 1.
        number: u32,
        /// What is missing.
        attribute: &'static str,
    },
    /// The data is no base64.
    #[error("payload {0}: the data is not base64")]
    Base64(u32),
    /// The digest of the data is another.
    #[error("payload {0}: md5 does not match the data")]
    Md5(u32),
    /// The data is no complete zlib stream.
    #[error("payload {0}: the data does not inflate")]
    Inflate(u32),
    /// More than the reader was told to accept.
    #[error("payload {number}: {said} bytes are more than the limit of {limit}")]
    TooBig {
        /// Payload, from 1.
        number: u32,
        /// The size announced.
        said: u64,
        /// The reader's limit.
        limit: u64,
    },
    /// Another size than announced.
    #[error("payload {number}: full_size says {said}, the data has {found} bytes or more")]
    Size {
        /// Payload, from 1.
        number: u32,
        /// From the quality element.
        said: u64,
        /// Bytes found.
        found: u64,
    },
    /// Another number of rows than announced.
    #[error("payload {number}: records says {said}, the data has {found}")]
    Records {
        /// Payload, from 1.
        number: u32,
        /// From the quality element.
        said: u64,
        /// Rows found.
        found: u64,
    },
    /// The data is no result set.
    #[error("payload {number}: {source}")]
    Payload {
        /// Payload, from 1.
        number: u32,
        /// What is wrong with it.
        source: PayloadError,
    },
}

/// An error that the server reports in a well-formed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The payload it belongs to, from 1; 0 for an error of the whole document.
    pub payload: u32,
    /// As sent, unescaped, cut to 1000 characters.
    pub message: String,
    /// Seconds that the answer may be cached, where the document says so.
    pub max_age: Option<u64>,
}

/// What a verified document holds. Errors that the server reports are data here: the document is
/// still a valid one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Payloads, good and bad.
    pub payloads: u32,
    /// Rows of all good payloads.
    pub rows: u64,
    /// Bytes of all good payloads after decoding and inflating.
    pub payload_bytes: u64,
    /// Keepalive elements seen.
    pub keepalives: u32,
    /// The first error reported; a payload's comes before the document's.
    pub error: Option<ServerError>,
}

/// Verifies documents, keeping its buffers from one to the next.
pub struct Reader {
    limit: u64,
    /// Base64 of the current payload without white space.
    text: Vec<u8>,
    packed: Vec<u8>,
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

/// Where in a payload the reader is.
#[derive(PartialEq)]
enum State<'a> {
    Outside,
    /// Inside a payload of this encoding, before or after its data.
    Payload {
        encoding: &'a [u8],
        data_seen: bool,
    },
    /// Inside `<data>`; text counts from this offset.
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

    /// Checks a whole document body (chunked transfer already undone).
    pub fn verify(&mut self, body: &[u8]) -> Result<Summary, DocumentError> {
        self.read(body, |_, _| {})
    }

    /// As [`Reader::verify`], and shows each good payload's result set, with its number from 1, to
    /// `visit`.
    pub fn read(&mut self, body: &[u8], mut visit: impl FnMut(u32, &[u8])) -> Result<Summary, DocumentError> {
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
                    self.gather(&body[from..tag.start]);
                    summary.keepalives += 1;
                    State::Data {
                        encoding,
                        from: tag.end,
                    }
                }
                (b"/data", State::Data { encoding, from }) => {
                    self.gather(&body[from..tag.start]);
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
                    self.judge(&tag, encoding, &mut summary, &mut visit)?;
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
        conclude(begun, ended, announced, summary)
    }

    /// Adds a piece of base64 text, without its line ends and blanks.
    fn gather(&mut self, piece: &[u8]) {
        let mut from = 0;
        for end in memchr_iter(b'\n', piece).chain([piece.len()]) {
            self.text.extend_from_slice(piece[from..end].trim_ascii());
            from = end + 1;
        }
    }

    /// A payload is complete: an error it reports is noted, anything else is checked.
    fn judge(
        &mut self,
        tag: &Tag<'_>,
        encoding: &[u8],
        summary: &mut Summary,
        visit: &mut impl FnMut(u32, &[u8]),
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
        self.packed.resize(self.text.len() / 4 * 3 + 3, 0);
        let length = base64().decode_slice(&self.text, &mut self.packed);
        self.packed
            .truncate(length.map_err(|_| DocumentError::Base64(number))?);
        let digest: [u8; 16] = Md5::digest(&self.packed).into();
        match tag.attribute("md5") {
            Some(said) if digest_is(said, digest) => {}
            Some(_) => return Err(DocumentError::Md5(number)),
            // A signed answer has a signature in its place. Checking it needs the server's
            // certificate: not done here.
            None if tag.attribute("sig").is_some() => {}
            None => return Err(missing("md5")),
        }
        let said = tag.number("full_size").ok_or_else(|| missing("full_size"))?;
        if said > self.limit {
            return Err(DocumentError::TooBig {
                number,
                said,
                limit: self.limit,
            });
        }
        let plain = if encoding.level().is_some() {
            self.inflate(number, said)?;
            &self.plain
        } else {
            &self.packed
        };
        let found = plain.len() as u64;
        if found != said {
            return Err(DocumentError::Size { number, said, found });
        }
        let found = payload::count_rows(plain).map_err(|source| DocumentError::Payload { number, source })?;
        let said = tag.number("records").ok_or_else(|| missing("records"))?;
        if found != said {
            return Err(DocumentError::Records { number, said, found });
        }
        summary.rows += found;
        summary.payload_bytes += plain.len() as u64;
        visit(number, plain);
        Ok(())
    }

    /// Inflates `packed` into `plain`, at most one byte more than announced.
    fn inflate(&mut self, number: u32, said: u64) -> Result<(), DocumentError> {
        self.plain.clear();
        // The announced size is the other side's word: never reserve more than the data can
        // possibly become.
        let possible = self.packed.len().saturating_mul(MAX_RATIO);
        self.plain.reserve_exact((said as usize).min(possible) + 1);
        self.inflate.reset(true);
        let status = self
            .inflate
            .decompress_vec(&self.packed, &mut self.plain, FlushDecompress::Finish);
        match status {
            Ok(Status::StreamEnd) => Ok(()),
            Ok(_) if self.plain.len() as u64 > said => Err(DocumentError::Size {
                number,
                said,
                found: self.plain.len() as u64,
            }),
            _ => Err(DocumentError::Inflate(number)),
        }
    }
}

/// The last checks, of the document as a whole.
fn conclude(begun: bool, ended: bool, announced: u64, summary: Summary) -> Result<Summary, DocumentError> {
    if !begun {
        return Err(DocumentError::NotFrontier);
    }
    if !ended {
        return Err(DocumentError::Truncated);
    }
    let found = u64::from(summary.payloads);
    // After an error the server leaves the other payloads out.
    if summary.error.is_none() && (found != announced || found == 0) {
        return Err(DocumentError::Payloads {
            said: announced,
            found,
        });
    }
    Ok(summary)
}

fn digest_is(said: &[u8], digest: [u8; 16]) -> bool {
    let digit = |c: u8| char::from(c).to_digit(16);
    said.len() == 32
        && said.chunks_exact(2).zip(digest).all(|(pair, byte)| {
            matches!((digit(pair[0]), digit(pair[1])), (Some(high), Some(low)) if high * 16 + low == u32::from(byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::{example, frame};

    fn verify(body: &[u8]) -> Result<Summary, DocumentError> {
        Reader::new(1 << 20).verify(body)
    }

    fn changed(from: &str, to: &str) -> Result<Summary, DocumentError> {
        let body = String::from_utf8(example::zipped_document()).unwrap();
        assert!(body.contains(from), "{from}");
        verify(body.replace(from, to).as_bytes())
    }

    #[test]
    fn the_worked_example_verifies_in_every_encoding() {
        let expected = Summary {
            payloads: 1,
            rows: 2,
            payload_bytes: 125,
            ..Summary::default()
        };
        assert_eq!(verify(&example::zipped_document()), Ok(expected.clone()));
        for encoding in ["BLOB", "BLOBzip", "BLOBzip1", "BLOBzip5", "BLOBzip9"] {
            let mut shown = Vec::new();
            let body = example::document(encoding, &example::plain());
            let summary = Reader::new(125).read(&body, |number, plain| shown.push((number, plain.to_vec())));
            assert_eq!(summary, Ok(expected.clone()), "{encoding}");
            assert_eq!(shown, [(1, example::plain())]);
        }
    }

    #[test]
    fn every_kind_of_damage_has_its_name() {
        let number = 1;
        assert_eq!(changed("eF5j", "eF5k"), Err(DocumentError::Md5(1)));
        assert_eq!(changed("c8b48c", "c8b48d"), Err(DocumentError::Md5(1)));
        assert_eq!(changed("eF5j", "e*5j"), Err(DocumentError::Base64(1)));
        assert_eq!(
            changed("records=\"2\"", "records=\"3\""),
            Err(DocumentError::Records {
                number,
                said: 3,
                found: 2
            })
        );
        assert_eq!(
            changed("=\"125\"", "=\"124\""),
            Err(DocumentError::Size {
                number,
                said: 124,
                found: 125
            })
        );
        assert_eq!(
            changed("=\"125\"", "=\"126\""),
            Err(DocumentError::Size {
                number,
                said: 126,
                found: 125
            })
        );
        let huge = DocumentError::TooBig {
            number,
            said: 9_999_999_999,
            limit: 1 << 20,
        };
        assert_eq!(changed("=\"125\"", "=\"9999999999\""), Err(huge));
        assert_eq!(changed("BLOBzip5", "BLOBzap5"), Err(DocumentError::Encoding(1)));
        assert_eq!(
            changed("error=\"0\"", ""),
            Err(DocumentError::Quality {
                number,
                attribute: "error"
            })
        );
        assert_eq!(changed("</frontier>", ""), Err(DocumentError::Truncated));
        assert_eq!(
            changed("payloads=\"1\"", "payloads=\"2\""),
            Err(DocumentError::Payloads { said: 2, found: 1 })
        );
        assert!(matches!(
            changed("<data>", ""),
            Err(DocumentError::Misplaced { .. })
        ));
        // Plain bytes under a zipped name, with a right digest: the trap of BLOBzip0.
        let body = String::from_utf8(example::document("BLOB", &example::plain())).unwrap();
        assert_eq!(
            verify(body.replace("BLOB", "BLOBzip5").as_bytes()),
            Err(DocumentError::Inflate(1))
        );
        assert_eq!(verify(b"<html>502</html>"), Err(DocumentError::NotFrontier));
        assert_eq!(verify(b""), Err(DocumentError::NotFrontier));
    }

    #[test]
    fn white_space_and_keepalives_do_not_matter() {
        let body = String::from_utf8(example::zipped_document()).unwrap();
        let windows = body.replace('\n', "\r\n");
        assert_eq!(verify(windows.as_bytes()).unwrap().rows, 2);
        let kept = body.replace("<data>", "<data>\n   <keepalive />\n   <keepalive />");
        let summary = verify(kept.as_bytes()).unwrap();
        assert_eq!((summary.rows, summary.keepalives), (2, 2));
    }

    #[test]
    fn reported_errors_are_data() {
        let mut body = Vec::new();
        frame::begin(&mut body);
        frame::transaction(&mut body, 2);
        frame::payload(&mut body, "frontier_request", "1", "BLOBzip5");
        let error = frame::Quality {
            error: Some("SQL <error> & 'more'".into()),
            max_age: 300,
            ..Default::default()
        };
        frame::quality(&mut body, "srv", &error);
        frame::end_transaction(&mut body);
        frame::global_error(&mut body, "srv", "late");
        frame::end(&mut body);
        let summary = verify(&body).unwrap();
        let error = summary.error.unwrap();
        assert_eq!((error.payload, error.max_age), (1, Some(300)));
        assert_eq!(error.message, "srv SQL <error> & 'more'");

        let mut body = Vec::new();
        frame::begin(&mut body);
        frame::global_error(&mut body, "srv", "X-frontier-id header missing");
        frame::end(&mut body);
        let summary = verify(&body).unwrap();
        assert_eq!(summary.error.unwrap().message, "srv X-frontier-id header missing");
        assert_eq!(summary.payloads, 0);
    }

    #[test]
    fn a_bomb_stops_at_the_announced_size() {
        let bomb = vec![7_u8; 4 << 20];
        let body = String::from_utf8(example::document("BLOBzip9", &bomb)).unwrap();
        let lying = body.replace("full_size=\"4194304\"", "full_size=\"1000\"");
        let error = verify(lying.as_bytes()).unwrap_err();
        assert!(matches!(error, DocumentError::Size { said: 1000, .. }), "{error}");
        assert!(matches!(
            verify(body.as_bytes()),
            Err(DocumentError::TooBig { .. })
        ));
    }
}
