//! A connection to a catalogue, on a lane's reactor. It has one request at a time.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use plimsoll_model::{NOT_HAPPENED, Outcome};
use plimsoll_wire::catalogue::{Frame, Reply, Request, Status};

use super::error::OperationError;
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::round_trips::Names;
use crate::net::transport::{Security, Transport};
use crate::net::{Host, Stream};
use crate::tester::failure::Failure;

/// Number of reads in a row before the other testers of the lane run.
pub(super) const MAX_READS: u32 = 16;

/// Whether an exchange is a part of the transaction, whose stamps and bytes are recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Transaction,
    /// Preparation or verification: the tester's own work.
    Own,
}

/// A connection.
pub(super) struct Connection {
    pub(super) transport: Transport,
    input: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// A request for a session is before the first request.
    begins_session: bool,
    /// Whether a reply was received.
    pub(super) is_used: bool,
    /// Whether the server closes the connection after its last reply.
    pub(super) is_spent: bool,
    /// Number of the connection among its tester's, from 1.
    pub(super) number: u32,
}

impl Connection {
    /// Connects, and begins TLS. `subject`: a session begins together with the first request.
    pub(super) async fn open(
        io: &Io,
        (host, security): (&Host, Option<&Security>),
        (number, names): (u32, Names),
        subject: Option<&str>,
        attempt: &mut Attempt,
    ) -> Result<Self, OperationError> {
        attempt.waiting = Waiting::Connect;
        let stream = names.connect(host, io, attempt).await;
        let stream = stream.map_err(|error| Failure::connecting(&error))?;
        let transport = match security {
            None => Transport::Plain(stream),
            Some((connector, name)) => names
                .secure(stream, (connector, name), attempt)
                .await
                .map_err(|error| Failure::talking(&error))?,
        };
        if attempt.connected == NOT_HAPPENED {
            attempt.connected = attempt.now();
        }
        let mut output = Vec::new();
        if let Some(subject) = subject {
            let subject = subject.to_owned();
            Request::StartSession { subject }.encode(&mut output);
        }
        Ok(Self {
            transport,
            input: Vec::new(),
            output,
            begins_session: subject.is_some(),
            is_used: false,
            is_spent: false,
            number,
        })
    }

    pub(super) fn stream(&self) -> &Stream {
        self.transport.stream()
    }

    /// Whether the connection can be used, as far as this is known without waiting.
    pub(super) fn check_alive(&mut self, io: &Io) -> bool {
        if self.is_spent || self.transport.is_closed() {
            return false;
        }
        let mut buffer = io.buffer();
        // A waker is not needed, because the reactor wakes tasks by the events of their sockets.
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.transport.poll_read(&mut context, &mut buffer), Poll::Pending)
    }

    /// Sends a request and reads its reply. Returns the reply and the length of its body. If a used
    /// connection is closed before any byte of the reply, the error is [`OperationError::Stale`].
    pub(super) async fn exchange(
        &mut self,
        io: &Io,
        request: &Request,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Reply, u64), OperationError> {
        attempt.waiting = Waiting::FirstByte;
        request.encode(&mut self.output);
        self.send(part, attempt)
            .await
            .map_err(|error| self.lost(&error, self.input.is_empty()))?;
        if std::mem::take(&mut self.begins_session) {
            match self.receive(io, part, attempt).await?.0 {
                Reply::Result(Status::OK, _) => {}
                Reply::Result(status, message) => {
                    return Err(OperationError::Answer {
                        outcome: Outcome::Refused,
                        code: status.text().into(),
                        message,
                    });
                }
                _ => return Err(OperationError::unexpected()),
            }
        }
        let reply = self.receive(io, part, attempt).await?;
        self.is_used = true;
        Ok(reply)
    }

    async fn receive(
        &mut self,
        io: &Io,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Reply, u64), OperationError> {
        let mut reads = 0;
        loop {
            if let Some(frame) = Frame::parse(&self.input)? {
                let (length, body) = (frame.length(), frame.body.len() as u64);
                let reply = Reply::decode(frame)?;
                self.input.drain(..length);
                return Ok((reply, body));
            }
            let read = poll_fn(|context| {
                let mut buffer = io.buffer();
                let count = ready!(self.transport.poll_read(context, &mut buffer))?;
                if count > 0 && part == Part::Transaction {
                    attempt.read(count);
                }
                self.input.extend_from_slice(&buffer[..count]);
                Poll::Ready(io::Result::Ok(count))
            });
            match read.await {
                Ok(0) if self.is_used && self.input.is_empty() => return Err(OperationError::Stale),
                Ok(0) => return Err(Failure::closed_early().into()),
                Ok(_) => {}
                Err(error) => return Err(self.lost(&error, self.input.is_empty())),
            }
            reads += 1;
            if reads % MAX_READS == 0 {
                io.yield_now().await;
            }
        }
    }

    /// Why an exchange failed. `is_silent`: no byte of the reply was read.
    pub(super) fn lost(&self, error: &io::Error, is_silent: bool) -> OperationError {
        let is_closed = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        if is_closed && self.is_used && is_silent {
            OperationError::Stale
        } else {
            Failure::talking(error).into()
        }
    }

    /// Sends what is in `output`.
    pub(super) async fn send(&mut self, part: Part, attempt: &mut Attempt) -> io::Result<()> {
        let Self {
            transport, output, ..
        } = self;
        let mut sent = 0;
        while sent < output.len() {
            let count = poll_fn(|context| transport.poll_write(context, &output[sent..])).await?;
            sent += count;
            if part == Part::Transaction {
                attempt.sent += count as u64;
            }
        }
        output.clear();
        poll_fn(|context| transport.poll_flush(context)).await
    }
}
