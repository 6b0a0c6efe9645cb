//! What an answer is worth: to the record, and to the choice of the next try.

use std::cell::RefCell;

use plimsoll_model::{Code, Codes, Outcome};
use plimsoll_wire::frontier::document::{DocumentError, Reader, ServerError, Summary};
use plimsoll_wire::frontier::payload::{Field, Fields};

use super::failover::{Failed, Trouble};
use crate::driver::{Attempt, Waiting};
use crate::drivers::http::Statuses;
use crate::drivers::versions::Newest;
use crate::failure::Failure;
use crate::http1::answer::Answer;

/// Largest result set that is accepted, bytes after inflating.
const MAX_PAYLOAD: u64 = 256 * 1024 * 1024;

thread_local! {
    /// One for all testers of a lane, as no verification is ever interrupted: its buffers (three
    /// times an answer) stay in the cache, and memory does not grow with the number of testers.
    static READER: RefCell<Reader> = RefCell::new(Reader::new(MAX_PAYLOAD));
}

/// A good answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Good {
    pub(super) rows: u64,
    pub(super) payload: u64,
    /// The newest version, of whom it was asked.
    pub(super) newest: Option<i64>,
}

/// One that is not, or none.
#[derive(Debug)]
pub(super) struct Bad {
    why: Why,
    pub(super) failed: Failed,
    /// In words, for a person.
    pub(super) note: Option<String>,
}

#[derive(Debug)]
enum Why {
    Failure(Failure),
    Answer(Outcome, Code),
}

impl Bad {
    /// Ends the transaction with it.
    pub(super) fn conclude(&self, attempt: &mut Attempt) {
        match &self.why {
            Why::Failure(failure) => attempt.fail(failure),
            Why::Answer(outcome, code) => attempt.conclude(*outcome, *code),
        }
    }

    /// A word or two, as in the column `code`.
    pub(super) fn word(&self, codes: &Codes) -> String {
        match &self.why {
            Why::Failure(failure) => failure.code.to_string(),
            Why::Answer(_, code) => codes
                .texts()
                .get(usize::from(code.0))
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Codes of answers that are no good.
pub(super) struct Judge {
    codes: Codes,
    statuses: Statuses,
    error: Code,
    payloads: Code,
}

impl Judge {
    pub(super) fn new(codes: &Codes) -> Self {
        Self {
            codes: codes.clone(),
            statuses: Statuses::new(codes),
            error: codes.number("frontier error"),
            payloads: codes.number("payloads"),
        }
    }

    pub(super) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Of an exchange that broke while `waiting`.
    pub(super) fn broken(failure: Failure, waiting: Waiting) -> Bad {
        let trouble = match (failure.code.as_ref(), failure.outcome) {
            ("bad response" | "answer too long to keep", _) => Trouble::Protocol,
            (_, Outcome::Refused) => Trouble::Connect,
            (_, Outcome::Timeout) if waiting == Waiting::Connect => Trouble::Connect,
            _ => Trouble::Network,
        };
        Bad {
            why: Why::Failure(failure),
            failed: Failed {
                trouble,
                age: None,
                max_age: None,
            },
            note: None,
        }
    }

    /// Of a whole answer to a request for so many `payloads`. `column`: of versions that it is to
    /// be looked through for.
    pub(super) fn answered(
        &self,
        answer: Answer,
        body: &[u8],
        payloads: u32,
        column: Option<&str>,
    ) -> Result<Good, Bad> {
        let bad = |outcome, code, trouble, max_age, note| Bad {
            why: Why::Answer(outcome, code),
            failed: Failed {
                trouble,
                age: answer.age,
                max_age,
            },
            note,
        };
        if answer.status != 200 {
            let trouble = match answer.status {
                404 | 500..=599 => Trouble::Server,
                _ => Trouble::Protocol,
            };
            let code = self.statuses.code(answer.status);
            return Err(bad(Outcome::Error, code, trouble, None, None));
        }
        let mut newest = None;
        let look = |_, result: &[u8]| newest = column.and_then(|column| newest_in(result, column));
        match READER.with_borrow_mut(|reader| reader.read(body, look)) {
            Ok(Summary {
                error: Some(error), ..
            }) => {
                let note = Some(format!("the gateway says: {}", error.message));
                let trouble = trouble_of(&error);
                Err(bad(Outcome::Error, self.error, trouble, error.max_age, note))
            }
            Ok(found) if found.payloads == payloads => Ok(Good {
                rows: found.rows,
                payload: found.payload_bytes,
                newest,
            }),
            // A good document, and an answer to another question.
            Ok(_) => Err(bad(Outcome::Wrong, self.payloads, Trouble::Protocol, None, None)),
            Err(error) => {
                let code = self.codes.number(word(&error));
                let note = Some(error.to_string());
                Err(bad(Outcome::Wrong, code, Trouble::Protocol, None, note))
            }
        }
    }
}

/// The greatest number in a column of a result set.
fn newest_in(result: &[u8], column: &str) -> Option<i64> {
    let mut newest = Newest::of(column);
    let mut names = Vec::new();
    let (mut is_row, mut at) = (false, 0);
    for field in Fields::new(result) {
        match field.ok()? {
            Field::EndOfRecord => {
                if !is_row {
                    newest.columns(names.iter().copied());
                }
                (is_row, at) = (true, 0);
                continue;
            }
            // Names and types of columns, in turn.
            Field::Bytes(name) if !is_row && at % 2 == 0 => {
                names.push(std::str::from_utf8(name).unwrap_or_default());
            }
            Field::Bytes(text) if is_row && newest.at() == Some(at) => newest.text(text),
            Field::Int4(number) if is_row && newest.at() == Some(at) => newest.number(number.into()),
            Field::Int8(number) if is_row && newest.at() == Some(at) => newest.number(number),
            _ => {}
        }
        at += 1;
    }
    newest.found()
}

/// The client takes an error of a query for one of the server, and an error of the document for one
/// of the protocol.
fn trouble_of(error: &ServerError) -> Trouble {
    if error.payload > 0 {
        Trouble::Server
    } else {
        Trouble::Protocol
    }
}

fn word(error: &DocumentError) -> &'static str {
    match error {
        DocumentError::NotFrontier => "not frontier",
        DocumentError::Truncated => "truncated",
        DocumentError::Misplaced { .. } => "misplaced",
        DocumentError::Payloads { .. } => "payloads",
        DocumentError::Encoding(_) => "encoding",
        DocumentError::Quality { .. } => "quality",
        DocumentError::Base64(_) => "base64",
        DocumentError::Md5(_) => "md5",
        DocumentError::Inflate(_) => "inflate",
        DocumentError::TooBig { .. } => "too big",
        DocumentError::Size { .. } => "size",
        DocumentError::Records { .. } => "records",
        DocumentError::Payload { .. } => "result set",
    }
}
