//! Replies.

use super::error::BrokerProtocolError;
use super::frame::{self, Fields, Frame, MAX_BODY};

/// Types of replies.
mod kind {
    pub(super) const PLACED: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
}

/// Bits of the quality of a refusal.
const HAS_QUALITY: u8 = 1;
const IS_MISPLACED: u8 = 2;
/// Maximum length of the text of a refusal, bytes. The rest of a body has 10 bytes.
const MAX_TEXT: usize = MAX_BODY as usize - 10;

/// Why a point has no site for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No site has capacity for the job in the view of the point.
    NoCapacity,
    /// The queue of the chosen site is full.
    QueueFull,
    /// The grid has its maximum number of jobs.
    GridFull,
    /// The grid does not answer, or its answer is no assessment.
    GridFailure,
    /// A value of the job is out of range.
    InvalidJob,
    /// The request is not one of the protocol.
    InvalidMessage,
    /// The request has another version than the point.
    UnsupportedVersion,
}

impl Status {
    /// All statuses, with their numbers and texts.
    const TABLE: [(Self, u8, &'static str); 7] = [
        (Self::NoCapacity, 1, "no capacity"),
        (Self::QueueFull, 2, "queue full"),
        (Self::GridFull, 3, "grid full"),
        (Self::GridFailure, 4, "grid failure"),
        (Self::InvalidJob, 5, "invalid job"),
        (Self::InvalidMessage, 6, "invalid message"),
        (Self::UnsupportedVersion, 7, "unsupported version"),
    ];

    fn row(self) -> (Self, u8, &'static str) {
        // The table contains every status.
        let row = Self::TABLE.iter().find(|(status, ..)| *status == self);
        row.copied().unwrap_or(Self::TABLE[0])
    }

    fn number(self) -> u8 {
        self.row().1
    }

    /// The text of the status, which JSON contains.
    pub fn text(self) -> &'static str {
        self.row().2
    }

    fn of_number(number: u8) -> Option<Self> {
        let row = Self::TABLE.iter().find(|(_, known, _)| *known == number);
        row.map(|(status, ..)| *status)
    }

    pub(super) fn of_text(text: &str) -> Option<Self> {
        let row = Self::TABLE.iter().find(|(.., known)| *known == text);
        row.map(|(status, ..)| *status)
    }
}

/// Assessment of a decision by the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Rank of the chosen site / rank of the best site, 0 to 1.
    pub accuracy: f64,
    /// The chosen site has too few free CPUs for the job.
    pub misplaced: bool,
}

impl Quality {
    /// None: the accuracy is not a number from 0 to 1.
    pub fn new(accuracy: f64, misplaced: bool) -> Option<Self> {
        let quality = Self { accuracy, misplaced };
        (0.0..=1.0).contains(&accuracy).then_some(quality)
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The job was submitted to a site.
    Placed {
        /// Number of the job.
        job: u64,
        /// Number of the site, from 0.
        site: u32,
        /// Assessment of the decision.
        quality: Quality,
    },
    /// The job was not submitted.
    Refused {
        /// Why.
        status: Status,
        /// Assessment of the decision; none if the grid has not assessed it.
        quality: Option<Quality>,
        /// The reason, for people. The binary protocol transfers its first 1,014 bytes.
        text: String,
    },
}

impl Reply {
    /// A refusal without a quality.
    pub fn refused(status: Status, text: impl std::fmt::Display) -> Self {
        Self::Refused {
            status,
            quality: None,
            text: text.to_string(),
        }
    }

    /// Assessment of the decision; none if the grid has not assessed it.
    pub fn quality(&self) -> Option<Quality> {
        match self {
            Self::Placed { quality, .. } => Some(*quality),
            Self::Refused { quality, .. } => *quality,
        }
    }

    /// Whether the queue of the chosen site is full.
    pub fn is_queue_full(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: Status::QueueFull,
                ..
            }
        )
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Placed { job, site, quality } => frame::put(out, kind::PLACED, |body| {
                body.extend_from_slice(&job.to_be_bytes());
                body.extend_from_slice(&site.to_be_bytes());
                body.extend_from_slice(&quality.accuracy.to_be_bytes());
                body.push(u8::from(quality.misplaced));
            }),
            Self::Refused {
                status,
                quality,
                text,
            } => frame::put(out, kind::REFUSED, |body| {
                body.push(status.number());
                match quality {
                    Some(quality) => {
                        let misplaced = if quality.misplaced { IS_MISPLACED } else { 0 };
                        body.push(HAS_QUALITY | misplaced);
                        body.extend_from_slice(&quality.accuracy.to_be_bytes());
                    }
                    None => body.push(0),
                }
                body.extend_from_slice(cut(text).as_bytes());
            }),
        }
    }

    /// The reply in a message.
    ///
    /// # Errors
    /// The type is not that of a reply, or the body does not have its form. An accuracy that is not
    /// a number from 0 to 1 is such a body.
    pub fn decode(frame: Frame<'_>) -> Result<Self, BrokerProtocolError> {
        let fields = Fields(frame.body);
        let reply = match frame.kind {
            kind::PLACED => placed(fields),
            kind::REFUSED => refused(fields),
            other => return Err(BrokerProtocolError::Type(other)),
        };
        reply.ok_or(BrokerProtocolError::Body(frame.kind))
    }
}

/// The first bytes of a text that fit into a body, as whole characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn placed(mut fields: Fields<'_>) -> Option<Reply> {
    let job = fields.take().map(u64::from_be_bytes)?;
    let site = fields.take().map(u32::from_be_bytes)?;
    let accuracy = fields.take().map(f64::from_be_bytes)?;
    let misplaced = match fields.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let quality = Quality::new(accuracy, misplaced)?;
    let reply = Reply::Placed { job, site, quality };
    fields.0.is_empty().then_some(reply)
}

fn refused(mut fields: Fields<'_>) -> Option<Reply> {
    let status = Status::of_number(fields.byte()?)?;
    let flags = fields.byte()?;
    let quality = match flags {
        0 => None,
        _ if flags & HAS_QUALITY == 0 || flags > HAS_QUALITY | IS_MISPLACED => return None,
        _ => {
            let accuracy = fields.take().map(f64::from_be_bytes)?;
            Some(Quality::new(accuracy, flags & IS_MISPLACED != 0)?)
        }
    };
    let text = std::str::from_utf8(fields.0).ok()?.to_owned();
    Some(Reply::Refused {
        status,
        quality,
        text,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Replies of every form.
    pub(in super::super) fn replies() -> Vec<Reply> {
        let qualities = [(0.0, true), (0.5, false), (1.0, true)]
            .map(|(accuracy, misplaced)| Quality { accuracy, misplaced });
        let mut replies: Vec<Reply> = qualities
            .iter()
            .map(|&quality| Reply::Placed {
                job: 1 << 40,
                site: 299,
                quality,
            })
            .collect();
        for (status, ..) in Status::TABLE {
            replies.push(Reply::refused(status, "Straße voll"));
            replies.extend(qualities.map(|quality| Reply::Refused {
                status,
                quality: Some(quality),
                text: String::new(),
            }));
        }
        replies
    }

    fn encoded(reply: &Reply) -> Vec<u8> {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_reply_is_decoded_as_it_was_encoded() {
        for reply in replies() {
            let bytes = encoded(&reply);
            let frame = Frame::parse(&bytes).unwrap().unwrap();
            assert_eq!(frame.length(), bytes.len());
            assert_eq!(Reply::decode(frame), Ok(reply));
        }
        assert_eq!(encoded(&replies()[0]).len(), 29);
    }

    #[test]
    fn the_bytes_are_those_of_the_description() {
        let quality = Quality {
            accuracy: 0.5,
            misplaced: true,
        };
        let placed = Reply::Placed {
            job: 258,
            site: 7,
            quality,
        };
        let expected = b"\x03B\x01\x02\0\0\0\x15\0\0\0\0\0\0\x01\x02\0\0\0\x07\x3f\xe0\0\0\0\0\0\0\x01";
        assert_eq!(encoded(&placed), expected);
        let refused = Reply::Refused {
            status: Status::QueueFull,
            quality: Some(quality),
            text: "full".into(),
        };
        let expected = b"\x03B\x01\x03\0\0\0\x0e\x02\x03\x3f\xe0\0\0\0\0\0\0full";
        assert_eq!(encoded(&refused), expected);
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let bytes = encoded(&Reply::refused(Status::GridFailure, "ä".repeat(5_000)));
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        let Ok(Reply::Refused { text, .. }) = Reply::decode(frame) else {
            panic!();
        };
        assert_eq!(text, "ä".repeat(MAX_TEXT / 2));
    }

    #[test]
    fn bodies_that_no_point_sends_are_refused() {
        let placed = |accuracy: f64, misplaced: u8| {
            let mut body = vec![0; 12];
            body.extend_from_slice(&accuracy.to_be_bytes());
            body.push(misplaced);
            (2, body)
        };
        let refused = |bytes: &[u8]| (3, bytes.to_vec());
        let mut bodies = vec![
            placed(f64::NAN, 0),
            placed(f64::INFINITY, 0),
            placed(-0.1, 0),
            placed(1.1, 0),
            placed(1.0, 2),
            refused(b""),
            refused(b"\x01"),
            refused(b"\0\0"),
            refused(b"\x08\0"),
            refused(b"\x01\x02text"),
            refused(b"\x01\x04text"),
            refused(b"\x01\x01text"),
            refused(b"\x01\0\xff"),
        ];
        let whole = placed(1.0, 1).1;
        bodies.extend((0..whole.len()).map(|length| (2, whole[..length].to_vec())));
        bodies.push((2, [whole, vec![0]].concat()));
        for (kind, body) in bodies {
            let result = Reply::decode(Frame { kind, body: &body });
            assert_eq!(result, Err(BrokerProtocolError::Body(kind)), "{body:?}");
        }
        for kind in [0, 1, 4, 255] {
            let result = Reply::decode(Frame { kind, body: b"" });
            assert_eq!(result, Err(BrokerProtocolError::Type(kind)));
        }
    }
}
