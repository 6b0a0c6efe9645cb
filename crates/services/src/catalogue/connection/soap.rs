//! A connection of the stateless protocol: HTTP/1.1 with SOAP messages, on a thread.
//!
//! An HTTP server of its own, because [`HttpConnection`](crate::http::HttpConnection) is for tasks,
//! and the threads of the catalogue are the limit that is to be shown. Heads are read as there.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use plimsoll_wire::catalogue::soap::{
    Answer, Call, Fault, MAX_MESSAGE, MEDIA_TYPE, Message, Operation, PATH, failure, wsdl,
};
use plimsoll_wire::catalogue::{Reply, Request, Status};

use super::{DatabaseError, MESSAGE_TIMEOUT, PIECE, Session, Worker};
use crate::http::{Head, MAX_HEAD, Refusal, Response, reason};

/// Maximum time and number of bytes that are read after a refused request.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 16 * 1024 * 1024);

/// Why a connection ends without a further request.
enum ReceiveError {
    /// The client has closed it, or was silent for too long.
    Silent,
    /// The client sent something else than a request, or too slowly.
    Invalid(Refusal),
}

impl From<Refusal> for ReceiveError {
    fn from(refusal: Refusal) -> Self {
        Self::Invalid(refusal)
    }
}

impl Worker<'_> {
    /// Answers messages until the client or the service ends the connection.
    pub(super) fn converse_soap<S: Read + Write>(
        &mut self,
        stream: &mut S,
        limit: impl Fn(&mut S, Instant),
        session: &mut Session,
    ) {
        let mut head = Head::default();
        loop {
            let body = match self.receive_http(stream, &limit, &mut head) {
                Ok(body) => body,
                Err(ReceiveError::Silent) => return,
                Err(ReceiveError::Invalid(refusal)) => {
                    self.shared.counters.refused();
                    let (status, text) = refusal.answer();
                    put_response(&mut self.output, &Response::text(status), text, true);
                    limit(stream, Instant::now() + MESSAGE_TIMEOUT);
                    if stream
                        .write_all(&self.output)
                        .and_then(|()| stream.flush())
                        .is_ok()
                    {
                        limit(stream, Instant::now() + LINGER.0);
                        self.discard(stream);
                    }
                    return;
                }
            };
            let (response, text) = self.respond(session, &head, body);
            let close = response.close || !head.keep_alive;
            put_response(&mut self.output, &response, &text, close);
            limit(stream, Instant::now() + MESSAGE_TIMEOUT);
            let written = stream.write_all(&self.output).and_then(|()| stream.flush());
            if written.is_err() || close {
                return;
            }
            limit(stream, Instant::now() + self.shared.idle_timeout);
        }
    }

    /// The next request: sets its head, and returns its body.
    fn receive_http<S: Read + Write>(
        &mut self,
        stream: &mut S,
        limit: &impl Fn(&mut S, Instant),
        head: &mut Head,
    ) -> Result<Vec<u8>, ReceiveError> {
        let mut is_begun = false;
        let mut begin: Option<usize> = None;
        let mut searched = 0;
        loop {
            // A head ends with a newline, so it is parsed only when another newline has arrived.
            if begin.is_none() && self.input[searched..].contains(&b'\n') {
                begin = head.parse(&self.input)?;
                if begin.is_some() {
                    if head.length > MAX_MESSAGE as u64 {
                        return Err(Refusal::BodyTooBig.into());
                    }
                    let waits = head
                        .field("expect")
                        .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
                    if waits {
                        let interim = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                        interim
                            .and_then(|()| stream.flush())
                            .map_err(|_| ReceiveError::Silent)?;
                    }
                }
            }
            searched = self.input.len();
            if let Some(begin) = begin {
                let end = begin + head.length as usize;
                if self.input.len() >= end {
                    let body = self.input[begin..end].to_vec();
                    self.input.drain(..end);
                    return Ok(body);
                }
            } else if self.input.len() > MAX_HEAD {
                return Err(Refusal::HeadTooBig.into());
            }
            if !is_begun && !self.input.is_empty() {
                is_begun = true;
                limit(stream, Instant::now() + MESSAGE_TIMEOUT);
            }
            let length = self.input.len();
            self.input.resize(length + PIECE, 0);
            let read = stream.read(&mut self.input[length..]);
            self.input.truncate(length + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) if length == 0 => return Err(ReceiveError::Silent),
                Ok(0) => return Err(Refusal::Malformed.into()),
                Err(_) => return Err(Refusal::TooSlow.into()),
            }
        }
    }

    /// Reads the rest of a refused request. Otherwise the close would reset the connection before
    /// the client has read the response.
    fn discard<S: Read>(&mut self, stream: &mut S) {
        let mut remaining = LINGER.1;
        self.input.resize(PIECE, 0);
        while let Ok(count @ 1..) = stream.read(&mut self.input) {
            match remaining.checked_sub(count) {
                Some(rest) => remaining = rest,
                None => return,
            }
        }
    }

    /// The response to a request.
    fn respond(&mut self, session: &mut Session, head: &Head, body: Vec<u8>) -> (Response, String) {
        let counters = &self.shared.counters;
        match head.method() {
            "POST" => {}
            "GET" => {
                let scheme = if self.shared.tls.is_some() {
                    "https"
                } else {
                    "http"
                };
                return description(head, scheme);
            }
            _ => {
                counters.refused();
                let response = Response {
                    fields: "Allow: GET, POST\r\n".into(),
                    ..Response::text(405)
                };
                return (response, "this is a catalogue: POST a SOAP message\n".into());
            }
        }
        let is_xml = |value: &str| {
            value
                .trim_start()
                .get(..8)
                .is_some_and(|kind| kind.eq_ignore_ascii_case("text/xml"))
        };
        if !head.field("content-type").is_some_and(is_xml) {
            counters.refused();
            let text = "expected a SOAP 1.1 message: Content-Type text/xml\n";
            return (Response::text(415), text.into());
        }
        let mut text = String::new();
        let message = match Message::decode(&body) {
            Ok(message) => message,
            Err(fault) => {
                counters.refused();
                // The kind of the message is not part of a fault.
                put_fault(fault, &mut text);
                return (xml(500), text);
            }
        };
        drop(body);
        counters.received(1);
        if session.stated != message.subject {
            session.stated.clone_from(&message.subject);
            session.user = None;
        }
        let answer = self.carry_out_whole(session, &message.call);
        let status = match &answer {
            Answer::Done(_) => 200,
            Answer::Fault(_) => 500,
        };
        answer.encode(message.call.operation(), count_of(&message.call), &mut text);
        counters.answered(1);
        (xml(status), text)
    }

    /// Carries out a message: all of its operations, or none.
    fn carry_out_whole(&mut self, session: &mut Session, call: &Call) -> Answer {
        let carried_out = self.carry_out_all(session, call);
        for request in call.requests() {
            self.shared.tally.count(request);
        }
        match carried_out {
            Ok(answer) => answer,
            Err(error) => {
                // The database undoes a transaction whose session is closed.
                let (status, text) = self.database_failed(&error);
                Answer::Fault(Fault::of(status, 0, text))
            }
        }
    }

    fn carry_out_all(&mut self, session: &mut Session, call: &Call) -> Result<Answer, DatabaseError> {
        let operation = call.operation();
        if operation.is_change() {
            self.carry_out(session, &Request::StartTransaction)?;
        }
        let mut last = Reply::Result(Status::OK, String::new());
        for (before, request) in call.requests().iter().enumerate() {
            let reply = self.carry_out(session, request)?;
            if let Some((status, index)) = failure(operation, &reply) {
                if operation.is_change() {
                    self.carry_out(session, &Request::AbortTransaction)?;
                }
                let text = match reply {
                    Reply::Result(_, text) => text,
                    _ => status.text().into(),
                };
                return Ok(Answer::Fault(Fault::of(status, before + index, text)));
            }
            last = reply;
        }
        if operation.is_change() {
            self.carry_out(session, &Request::EndTransaction)?;
        }
        Ok(Answer::Done(last))
    }
}

/// Number of operations of a message.
fn count_of(call: &Call) -> usize {
    call.requests().iter().map(super::entries_of).sum::<u64>() as usize
}

fn put_fault(fault: Fault, text: &mut String) {
    Answer::Fault(fault).encode(Operation::Create, 0, text);
}

fn xml(status: u16) -> Response {
    Response {
        status,
        content_type: MEDIA_TYPE,
        ..Response::default()
    }
}

/// The response to a GET: the description of the service, at the address that the client has used.
pub(in crate::catalogue) fn description(head: &Head, scheme: &str) -> (Response, String) {
    let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
    if !query.eq_ignore_ascii_case("wsdl") {
        let text = "this is a catalogue: GET ?wsdl returns its description, POST a SOAP message\n";
        return (
            Response {
                close: true,
                ..Response::text(404)
            },
            text.into(),
        );
    }
    let host = head.field("host").unwrap_or("localhost");
    let path = if path.starts_with('/') { path } else { PATH };
    let response = Response {
        close: true,
        ..xml(200)
    };
    (response, wsdl(&format!("{scheme}://{host}{path}")))
}

fn put_response(out: &mut Vec<u8>, response: &Response, body: &str, close: bool) {
    out.clear();
    let (status, length) = (response.status.to_string(), body.len().to_string());
    for part in [
        "HTTP/1.1 ",
        &status,
        " ",
        reason(response.status),
        "\r\nContent-Type: ",
        response.content_type,
        "\r\nContent-Length: ",
        &length,
        "\r\n",
        &response.fields,
        if close {
            "Connection: close\r\n\r\n"
        } else {
            "\r\n"
        },
        body,
    ] {
        out.extend_from_slice(part.as_bytes());
    }
}
