//! The exchange of a request and its reply over the binary protocol.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, ready};

use plimsoll_wire::broker::{BrokerProtocolError, Frame, HEADER, MAX_BODY, Reply};

use super::error::DecisionError;
use crate::driver::{Attempt, Waiting};
use crate::http1::connection::Route;
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::transport::Transport;
use crate::tester::failure::Failure;

/// Capacity of the buffer for a reply that is kept between transactions, bytes.
const KEPT_CAPACITY: usize = HEADER + MAX_BODY as usize;

/// Connections of one tester, one per point.
pub(super) struct BinaryConnections {
    io: Io,
    kept: Vec<Option<(Transport, u32)>>,
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
        route: &Route,
        request: &[u8],
        attempt: &mut Attempt,
    ) -> Result<Reply, DecisionError> {
        let kept = self.kept[point]
            .take()
            .filter(|(transport, _)| !transport.is_closed());
        let is_reused = kept.is_some();
        let (mut transport, session) = match kept {
            Some(kept) => kept,
            None => self.connect(route, attempt).await?,
        };
        attempt.session = if self.keep { session } else { 0 };
        attempt.waiting = Waiting::FirstByte;
        self.input.clear();
        let reply = self.round_trip(&mut transport, request, is_reused, attempt).await;
        self.input.shrink_to(KEPT_CAPACITY);
        let reply = reply?;
        self.trips.ended(point, transport.stream(), attempt);
        if self.keep {
            self.kept[point] = Some((transport, session));
        }
        Ok(reply)
    }

    async fn connect(&mut self, route: &Route, attempt: &mut Attempt) -> Result<(Transport, u32), Failure> {
        attempt.waiting = Waiting::Connect;
        let stream = self.names.connect(&route.host, &self.io, attempt).await;
        let stream = stream.map_err(|error| Failure::connecting(&error))?;
        let transport = match &route.tls {
            None => Transport::Plain(stream),
            Some((connector, name)) => self
                .names
                .secure(stream, (connector, name), attempt)
                .await
                .map_err(|error| Failure::talking(&error))?,
        };
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok((transport, self.sessions))
    }

    async fn round_trip(
        &mut self,
        transport: &mut Transport,
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
            let count = poll_fn(|context| transport.poll_write(context, &request[sent..])).await;
            let count = count.map_err(|error| lost(&error, true))?;
            sent += count;
            attempt.sent += count as u64;
        }
        let flushed = poll_fn(|context| transport.poll_flush(context)).await;
        flushed.map_err(|error| lost(&error, true))?;
        loop {
            let read = poll_fn(|context| {
                let mut buffer = self.io.buffer();
                let count = ready!(transport.poll_read(context, &mut buffer))?;
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
