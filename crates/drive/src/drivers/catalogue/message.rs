//! Requests in the protocol of an endpoint, and the exchange of SOAP messages over HTTP.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};

use plimsoll_wire::catalogue::soap::{Answer, Call, MAX_MESSAGE, MEDIA_TYPE, PATH, action};
use plimsoll_wire::catalogue::{Reply, Request, rucio};

use super::connection::{Connection, MAX_READS, Part};
use super::error::OperationError;
use super::rucio::{RucioSettings, call_of};
use super::settings::Server;
use super::steps::{Expected, Step};
use crate::driver::{Attempt, Waiting};
use crate::http1::response::{Reader, ResponseError};
use crate::lane::reactor::Io;
use crate::tester::failure::Failure;

/// A request of the stateful protocol, a SOAP message, or a request of Rucio.
pub(super) enum Message {
    Stateful(Request),
    Soap(Call),
    Rucio(rucio::Call),
}

/// The answer to a message.
pub(super) enum Answered {
    Catalogue(Reply),
    Rucio(rucio::Answer),
    /// A token of Rucio.
    Token(String),
}

/// The protocol of an endpoint.
pub(super) enum Protocol {
    Stateful,
    Soap(SoapSettings),
    Rucio(RucioSettings),
}

/// What the SOAP messages to an endpoint have in common.
pub(super) struct SoapSettings {
    /// Host and port for the field `Host`.
    pub(super) host: String,
    /// Who the tester is; empty: its certificate states it.
    pub(super) subject: String,
    /// Whether the connection is kept.
    pub(super) keep: bool,
}

impl Message {
    /// The message with one request.
    pub(super) fn of(request: Request, protocol: &Protocol) -> Self {
        let message = match protocol {
            Protocol::Stateful => None,
            Protocol::Soap(_) => Call::of(vec![request.clone()]).map(Self::Soap),
            Protocol::Rucio(_) => call_of(&request).map(Self::Rucio),
        };
        // The settings refuse operations that a protocol does not have.
        message.unwrap_or(Self::Stateful(request))
    }

    /// Whether it changes nothing, so that it may be sent again.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Stateful(request) => matches!(
                request,
                Request::StartTransaction
                    | Request::Lookup(_)
                    | Request::Stat(_)
                    | Request::ListReplicas(_)
                    | Request::GetAcl { .. }
                    | Request::List { .. }
            ),
            Self::Soap(call) => !call.operation().is_change(),
            Self::Rucio(call) => !call.is_change(),
        }
    }
}

/// The steps of an operation in the protocol of an endpoint.
pub(super) fn spoken(steps: Vec<Step>, protocol: &Protocol) -> Vec<Step> {
    match protocol {
        Protocol::Stateful => steps,
        Protocol::Soap(_) => one_message(steps),
        Protocol::Rucio(_) => {
            let translated = |step: Step| match step.message {
                Message::Stateful(request) => Step {
                    message: Message::of(request, protocol),
                    expected: step.expected,
                },
                _ => step,
            };
            steps.into_iter().map(translated).collect()
        }
    }
}

/// With SOAP, an operation is one message: all of its steps have the same kind, because the
/// settings refuse `round_trips: lfc`.
fn one_message(steps: Vec<Step>) -> Vec<Step> {
    let Some(expected) = steps.first().map(|step| step.expected) else {
        return steps;
    };
    let requests = steps.into_iter().filter_map(|step| match step.message {
        Message::Stateful(request) => Some(request),
        Message::Soap(_) | Message::Rucio(_) => None,
    });
    let mut requests: Vec<Request> = requests.collect();
    let call = match requests.pop() {
        // An entry that does not exist is no fault in the answer to this message.
        Some(Request::Lookup(keys)) if expected == Expected::Nothing => Some(Call::existence(keys)),
        last => {
            requests.extend(last);
            Call::of(requests)
        }
    };
    let message = call.map(Message::Soap);
    message
        .map(|message| Step { message, expected })
        .into_iter()
        .collect()
}

impl Connection {
    /// Sends a message and reads its answer. Returns the answer and the length of its body.
    /// `token`: of Rucio; empty: none is needed, or there is none.
    pub(super) async fn send_message(
        &mut self,
        io: &Io,
        server: &Server,
        (message, token): (&Message, &str),
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Answered, u64), OperationError> {
        let (reply, length) = match (message, &server.protocol) {
            (Message::Stateful(request), _) => self.exchange(io, request, part, attempt).await?,
            (Message::Soap(call), Protocol::Soap(settings)) => {
                self.exchange_soap(io, settings, call, part, attempt).await?
            }
            (Message::Rucio(call), Protocol::Rucio(settings)) => {
                return self
                    .exchange_rucio(io, settings, (call, token), part, attempt)
                    .await;
            }
            // Messages are made only for endpoints with their protocol.
            (Message::Soap(_) | Message::Rucio(_), _) => return Err(OperationError::unexpected()),
        };
        Ok((Answered::Catalogue(reply), length))
    }

    async fn exchange_soap(
        &mut self,
        io: &Io,
        settings: &SoapSettings,
        call: &Call,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Reply, u64), OperationError> {
        attempt.waiting = Waiting::FirstByte;
        put(&mut self.output, settings, call);
        self.send(part, attempt)
            .await
            .map_err(|error| self.lost(&error, true))?;
        let mut reader = Reader::new(false, MAX_MESSAGE);
        let (status, body) = self.receive_response(io, &mut reader, part, attempt).await?;
        self.is_used = true;
        self.is_spent |= !settings.keep;
        let reply = match Answer::decode(call.operation(), &body) {
            Ok(Answer::Done(reply)) => reply,
            Ok(Answer::Fault(fault)) => match fault.failed {
                Some((failed, _)) => Reply::Result(failed, fault.text),
                None => return Err(OperationError::error("soap fault".into(), fault.text)),
            },
            // Another server, a proxy, or a server that could not read the request.
            Err(_) if status != 200 => {
                let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
                return Err(OperationError::error(
                    format!("http {status}").into(),
                    text.into(),
                ));
            }
            Err(error) => return Err(OperationError::error("bad response".into(), error.to_string())),
        };
        Ok((reply, body.len() as u64))
    }

    /// The status and the body of a response.
    pub(super) async fn receive_response(
        &mut self,
        io: &Io,
        reader: &mut Reader,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(u16, Vec<u8>), OperationError> {
        let mut body = Vec::new();
        let (mut reads, mut is_silent) = (0, true);
        loop {
            let read = poll_fn(|context| {
                let mut buffer = io.buffer();
                let count = ready!(self.transport.poll_read(context, &mut buffer))?;
                if count > 0 && part == Part::Transaction {
                    attempt.read(count);
                }
                let fed = reader.feed(&buffer[..count], Some(&mut body));
                Poll::Ready(io::Result::Ok((count, fed)))
            });
            let is_complete = match read.await {
                Ok((0, _)) if reader.ends_at_close() => true,
                Ok((0, _)) if self.is_used && is_silent => return Err(OperationError::Stale),
                Ok((0, _)) => return Err(Failure::closed_early().into()),
                Ok((_, Ok(is_complete))) => is_complete,
                Ok((_, Err(ResponseError::Bad))) => {
                    let why = "the response is not valid HTTP".to_owned();
                    return Err(OperationError::error("bad response".into(), why));
                }
                Ok((_, Err(ResponseError::TooLong))) => {
                    let why = "the message is longer than can be kept".to_owned();
                    return Err(OperationError::error("answer too long".into(), why));
                }
                Err(error) => return Err(self.lost(&error, is_silent)),
            };
            is_silent = false;
            if is_complete {
                let (response, keep) = reader.response().ok_or_else(Failure::closed_early)?;
                self.is_spent = !keep;
                return Ok((response.status, body));
            }
            reads += 1;
            if reads % MAX_READS == 0 {
                io.yield_now().await;
            }
        }
    }
}

/// Appends the request with a message.
fn put(out: &mut Vec<u8>, settings: &SoapSettings, call: &Call) {
    let mut body = String::new();
    call.encode(&settings.subject, &mut body);
    for part in [
        "POST ",
        PATH,
        " HTTP/1.1\r\nHost: ",
        &settings.host,
        "\r\nContent-Type: ",
        MEDIA_TYPE,
        "\r\nSOAPAction: ",
        &action(call.operation()),
        "\r\nContent-Length: ",
        &body.len().to_string(),
        if settings.keep {
            "\r\n\r\n"
        } else {
            "\r\nConnection: close\r\n\r\n"
        },
        &body,
    ] {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::catalogue::Key;
    use plimsoll_wire::catalogue::soap::Operation;

    use super::*;

    fn settings() -> SoapSettings {
        SoapSettings {
            host: "[::1]:5010".into(),
            subject: "/CN=ä".into(),
            keep: false,
        }
    }

    #[test]
    fn an_operation_is_one_message() {
        let mode = |path: &str| Request::SetMode {
            path: path.into(),
            mode: 0o600,
        };
        let steps = || {
            ["/a", "/b"]
                .map(|path| Step::new(mode(path), Expected::Done))
                .into()
        };
        let soap = Protocol::Soap(settings());
        assert_eq!(spoken(steps(), &Protocol::Stateful).len(), 2);
        let [step] = spoken(steps(), &soap).try_into().ok().unwrap();
        let Message::Soap(call) = step.message else {
            panic!("not SOAP");
        };
        assert_eq!(call.requests(), [mode("/a"), mode("/b")]);
        let lookup = || Request::Lookup(vec![Key::Path("/a".into())]);
        for (expected, operation) in [
            (Expected::Nothing, Operation::HasEntry),
            (Expected::Entries, Operation::ListReplicas),
        ] {
            let [step] = spoken(vec![Step::new(lookup(), expected)], &soap)
                .try_into()
                .ok()
                .unwrap();
            assert!(step.message.is_repeatable());
            assert!(matches!(step.message, Message::Soap(call) if call.operation() == operation));
        }
        assert!(spoken(vec![], &soap).is_empty());
    }

    #[test]
    fn a_request_has_its_length_and_its_action() {
        let call = Call::existence(vec![Key::Guid("g".into())]);
        let mut out = Vec::new();
        put(&mut out, &settings(), &call);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("SOAPAction: \"urn:plimsoll:catalogue#hasEntry\""));
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(head.ends_with("Connection: close"));
    }
}
