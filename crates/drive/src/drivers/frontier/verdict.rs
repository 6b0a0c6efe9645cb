//! Verification of responses: outcome and code of the transaction, and the kind of failure that
//! determines the next try.

use std::cell::Cell;

use plimsoll_model::{Code, Codes, Outcome};
use plimsoll_wire::frontier::document::{DocumentError, Reader, STEP, ServerError, Summary};
use plimsoll_wire::frontier::payload::{Field, Fields};

use super::failover::{FailedTry, Trouble};
use crate::driver::{Attempt, Waiting};
use crate::drivers::http::Statuses;
use crate::drivers::versions::Newest;
use crate::http1::response::Response;
use crate::lane::reactor::Io;
use crate::tester::failure::Failure;

/// Maximum size of a result set, bytes after inflating.
const MAX_PAYLOAD: u64 = 256 * 1024 * 1024;

thread_local! {
    /// The reader of the testers of a lane; none while a tester uses it. One for all of them: its
    /// buffers (three times a response) stay in the cache, and memory does not grow with the number
    /// of testers.
    static READER: Cell<Option<Reader>> = const { Cell::new(None) };
    /// Whether a tester uses the reader for a long response.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// The reader while it verifies a long response; it returns it also if the tester is cancelled.
struct HeldReader(Option<Reader>);

impl HeldReader {
    /// Waits until no other tester uses the reader. The tester that uses it is always ready to run,
    /// so the lane does not sleep meanwhile, and asking again costs little.
    async fn take(io: &Io) -> Self {
        while IS_BUSY.replace(true) {
            io.yield_now().await;
        }
        Self(READER.take())
    }

    fn reader(&mut self) -> &mut Reader {
        self.0.get_or_insert_with(|| Reader::new(MAX_PAYLOAD))
    }
}

impl Drop for HeldReader {
    fn drop(&mut self) {
        READER.set(self.0.take());
        IS_BUSY.set(false);
    }
}

/// Reads a document. A long one is read in steps, between which the other testers of the lane run:
/// the check of 20 MB takes longer than the stall of a tester that makes a run invalid.
async fn read(body: &[u8], visit: impl FnMut(u32, &[u8]), io: &Io) -> Result<Summary, DocumentError> {
    if body.len() > STEP {
        let mut held = HeldReader::take(io).await;
        let pause = async || {
            // The lane checks its timers only if the time has advanced.
            io.stamp();
            io.yield_now().await;
        };
        return held.reader().read_in_steps(body, visit, pause).await;
    }
    let mut reader = READER.take().unwrap_or_else(|| Reader::new(MAX_PAYLOAD));
    let summary = reader.read(body, visit);
    READER.set(Some(reader));
    summary
}

/// A correct response.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoodResponse {
    pub(super) rows: u64,
    pub(super) payload: u64,
    /// The newest version in the response; none if versions are not read or there is none.
    pub(super) newest: Option<i64>,
}

/// A response that is not correct, or an exchange that failed.
#[derive(Debug)]
pub(super) struct FailedResponse {
    cause: Cause,
    pub(super) failed_try: FailedTry,
    /// Description for the user.
    pub(super) note: Option<String>,
}

#[derive(Debug)]
enum Cause {
    Failure(Failure),
    Response(Outcome, Code),
}

impl FailedResponse {
    /// Ends the transaction with outcome and code of this failure.
    pub(super) fn conclude(&self, attempt: &mut Attempt) {
        match &self.cause {
            Cause::Failure(failure) => attempt.fail(failure),
            Cause::Response(outcome, code) => attempt.conclude(*outcome, *code),
        }
    }

    /// Text of the code.
    pub(super) fn code_text(&self, codes: &Codes) -> String {
        match &self.cause {
            Cause::Failure(failure) => failure.code.to_string(),
            Cause::Response(_, code) => codes
                .texts()
                .get(usize::from(code.0))
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Verifies responses, with the codes of those that are not correct.
pub(super) struct Verifier {
    codes: Codes,
    statuses: Statuses,
    error: Code,
    payloads: Code,
}

impl Verifier {
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

    /// The result of an exchange that failed while the tester waited for `waiting`.
    pub(super) fn broken(failure: Failure, waiting: Waiting) -> FailedResponse {
        let trouble = match (failure.code.as_ref(), failure.outcome) {
            ("bad response" | "answer too long to keep", _) => Trouble::Protocol,
            (_, Outcome::Refused) => Trouble::Connect,
            (_, Outcome::Timeout) if waiting == Waiting::Connect => Trouble::Connect,
            _ => Trouble::Network,
        };
        FailedResponse {
            cause: Cause::Failure(failure),
            failed_try: FailedTry {
                trouble,
                age: None,
                max_age: None,
            },
            note: None,
        }
    }

    /// Verifies a complete response to a request with `payloads` payloads. `column`: column of the
    /// versions to read; none: versions are not read.
    pub(super) async fn verify(
        &self,
        response: Response,
        body: &[u8],
        payloads: u32,
        column: Option<&str>,
        io: &Io,
    ) -> Result<GoodResponse, FailedResponse> {
        let failed = |outcome, code, trouble, max_age, note| FailedResponse {
            cause: Cause::Response(outcome, code),
            failed_try: FailedTry {
                trouble,
                age: response.age,
                max_age,
            },
            note,
        };
        if response.status != 200 {
            let trouble = match response.status {
                404 | 500..=599 => Trouble::Server,
                _ => Trouble::Protocol,
            };
            let code = self.statuses.code(response.status);
            return Err(failed(Outcome::Error, code, trouble, None, None));
        }
        let mut newest = None;
        let on_result = |_, result: &[u8]| newest = column.and_then(|column| newest_in(result, column));
        match read(body, on_result, io).await {
            Ok(Summary {
                error: Some(error), ..
            }) => {
                let note = Some(format!("the gateway reports: {}", error.message));
                let trouble = trouble_of(&error);
                Err(failed(Outcome::Error, self.error, trouble, error.max_age, note))
            }
            Ok(summary) if summary.payloads == payloads => Ok(GoodResponse {
                rows: summary.rows,
                payload: summary.payload_bytes,
                newest,
            }),
            // A valid document, but the response to another request.
            Ok(_) => Err(failed(
                Outcome::Wrong,
                self.payloads,
                Trouble::Protocol,
                None,
                None,
            )),
            Err(error) => {
                let code = self.codes.number(code_text(&error));
                let note = Some(error.to_string());
                Err(failed(Outcome::Wrong, code, Trouble::Protocol, None, note))
            }
        }
    }
}

/// The greatest integer in a column of a result set; none if there is none.
fn newest_in(result: &[u8], column: &str) -> Option<i64> {
    let mut newest = Newest::of(column);
    let mut names = Vec::new();
    let (mut is_row, mut index) = (false, 0);
    for field in Fields::new(result) {
        match field.ok()? {
            Field::EndOfRecord => {
                if !is_row {
                    newest.set_columns(names.iter().copied());
                }
                (is_row, index) = (true, 0);
                continue;
            }
            // The header contains the name and the type of each column in turn.
            Field::Bytes(name) if !is_row && index % 2 == 0 => {
                names.push(std::str::from_utf8(name).unwrap_or_default());
            }
            Field::Bytes(text) if is_row && newest.index() == Some(index) => newest.add_text(text),
            Field::Int4(number) if is_row && newest.index() == Some(index) => {
                newest.add_number(number.into());
            }
            Field::Int8(number) if is_row && newest.index() == Some(index) => newest.add_number(number),
            _ => {}
        }
        index += 1;
    }
    newest.version()
}

/// The public client handles an error of a query as one of the server, and an error of the document
/// as one of the protocol.
fn trouble_of(error: &ServerError) -> Trouble {
    if error.payload > 0 {
        Trouble::Server
    } else {
        Trouble::Protocol
    }
}

fn code_text(error: &DocumentError) -> &'static str {
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
