//! The exchange of a request and its reply over the binary protocol.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, ready};

use plimsoll_wire::broker::{BrokerProtocolError, Frame, HEADER, MAX_BODY, Reply};

use super::error::DecisionError;
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::{Host, Stream};
use crate::tester::failure::Failure;

/// Capacity of the buffer for a reply that is kept between transactions, bytes.
const KEPT_CAPACITY: usize = HEADER + MAX_BODY as usize;

/// Connections of one tester, one per point.
pub(super) struct BinaryConnections {
    io: Io,
    kept: Vec<Option<(Stream, u32)>>,
    keep: bool,
    sessions: u32,
    names: Names,
    trips: RoundTrips,
    input: Vec<u8>,
}

impl BinaryConnections {
    pub(super) fn new(io: &Io, points: usize, keep: bool, names: Names) -> Self {
        Self {
            io: Rc::clone(io),
            kept: (0..points).map(|_| None).collect(),
            keep,
            sessions: 0,
            names,
            trips: RoundTrips::new(names, points),
            input: Vec::new(),
        }
    }

    pub(super) fn close(&mut self) {
        self.kept.fill_with(|| None);
    }

    /// Sends a request on the kept connection of a point or a new one, and reads the reply. A
    /// request is not repeated, because the point may have placed its job.
    pub(super) async fn exchange(
        &mut self,
        point: usize,
        host: &Host,
        request: &[u8],
        attempt: &mut Attempt,
    ) -> Result<Reply, DecisionError> {
        let kept = self.kept[point].take().filter(|(stream, _)| !stream.is_closed());
        let is_reused = kept.is_some();
        let (mut stream, session) = match kept {
            Some(kept) => kept,
            None => self.connect(host, attempt).await?,
        };
        attempt.session = if self.keep { session } else { 0 };
        attempt.waiting = Waiting::FirstByte;
        self.input.clear();
        let reply = self.round_trip(&mut stream, request, is_reused, attempt).await;
        self.input.shrink_to(KEPT_CAPACITY);
        let reply = reply?;
        self.trips.ended(point, &stream, attempt);
        if self.keep {
            self.kept[point] = Some((stream, session));
        }
        Ok(reply)
    }

    async fn connect(&mut self, host: &Host, attempt: &mut Attempt) -> Result<(Stream, u32), Failure> {
        attempt.waiting = Waiting::Connect;
        let stream = self.names.connect(host, &self.io, attempt).await;
        let stream = stream.map_err(|error| Failure::connecting(&error))?;
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok((stream, self.sessions))
    }

    async fn round_trip(
        &mut self,
        stream: &mut Stream,
        request: &[u8],
        is_reused: bool,
        attempt: &mut Attempt,
    ) -> Result<Reply, DecisionError> {
        let lost = |error: &io::Error, is_silent: bool| {
            let is_closed = matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            );
            if is_closed && is_reused && is_silent {
                Failure::not_repeated()
            } else {
                Failure::talking(error)
            }
        };
        let mut sent = 0;
        while sent < request.len() {
            let count = poll_fn(|_| stream.poll_send(&request[sent..])).await;
            let count = count.map_err(|error| lost(&error, true))?;
            sent += count;
            attempt.sent += count as u64;
        }
        loop {
            let read = poll_fn(|_| {
                let mut buffer = self.io.buffer();
                let count = ready!(stream.poll_recv(&mut buffer))?;
                if count > 0 {
                    attempt.read(count);
                }
                self.input.extend_from_slice(&buffer[..count]);
                Poll::Ready(io::Result::Ok(count))
            });
            match read.await {
                Ok(0) if is_reused && self.input.is_empty() => return Err(Failure::not_repeated().into()),
                Ok(0) => return Err(Failure::closed_early().into()),
                Ok(_) => {}
                Err(error) => return Err(lost(&error, self.input.is_empty()).into()),
            }
            if let Some(frame) = Frame::parse(&self.input)? {
                let reply = Reply::decode(frame)?;
                attempt.payload = frame.body.len() as u64;
                let excess = self.input.len() - frame.length();
                if excess > 0 {
                    return Err(BrokerProtocolError::Excess(excess).into());
                }
                return Ok(reply);
            }
        }
    }
}
