//! A connection to an LDAP server, on a lane's reactor. It has one request at a time.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use plimsoll_model::Outcome;
use plimsoll_wire::ldap::{
    self, EncodedFilter, Event, LdapProtocolError, LdapResult, Page, Reply, ReplyKind, SUCCESS, Scanner,
    Search,
};

use super::error::SearchError;
use super::settings::LdapServer;
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::net::round_trips::Names;
use crate::net::transport::{Security, Transport};
use crate::tester::failure::Failure;

/// Number of reads in a row before the other testers of the lane run.
const MAX_READS: u32 = 16;

/// A connection that is bound.
pub(super) struct Connection {
    transport: Transport,
    scanner: Scanner,
    /// Number of the last request.
    last_id: u32,
    /// The server has announced that it closes the connection.
    notice: Option<LdapResult>,
    out: BytesMut,
    /// Number of the connection among its tester's, from 1.
    pub(super) number: u32,
}

/// What a search has returned so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchCounts {
    pub(super) entries: u64,
    /// Bytes of the values of attributes.
    pub(super) payload: u64,
    /// References to other servers.
    pub(super) references: u64,
    /// Number of requests.
    pub(super) pages: u64,
}

/// Whether reads are stamped: those of the response to a search are, those at the beginning of the
/// connection are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Yes,
    No,
}

impl Connection {
    /// Connects, begins TLS and binds. Bytes are counted; first byte and end are not stamped.
    pub(super) async fn open(
        io: &Io,
        (server, security): (&LdapServer, Option<&Security>),
        (number, names): (u32, Names),
        attempt: &mut Attempt,
    ) -> Result<Self, SearchError> {
        attempt.waiting = Waiting::Connect;
        let stream = names.connect(&server.host, io, attempt).await;
        let mut connection = Self {
            transport: Transport::Plain(stream.map_err(|error| Failure::connecting(&error))?),
            scanner: Scanner::default(),
            last_id: 0,
            notice: None,
            out: BytesMut::new(),
            number,
        };
        if server.start_tls {
            let id = connection.next_id();
            ldap::start_tls(id, &mut connection.out);
            connection
                .first_steps(io, id, ReplyKind::Extended, attempt)
                .await?;
        }
        if let Some((connector, name)) = security {
            let Transport::Plain(stream) = connection.transport else {
                return Err(Failure::error("bad response").into());
            };
            let secured = names.secure(stream, (connector, name), attempt).await;
            connection.transport = secured.map_err(talking)?;
        }
        let id = connection.next_id();
        ldap::bind(id, &server.bind, &mut connection.out);
        connection.first_steps(io, id, ReplyKind::Bind, attempt).await?;
        attempt.connected = attempt.now();
        Ok(connection)
    }

    /// Sends an operation that begins the connection. A failure is a refused connection.
    async fn first_steps(
        &mut self,
        io: &Io,
        id: u32,
        kind: ReplyKind,
        attempt: &mut Attempt,
    ) -> Result<(), SearchError> {
        self.send(attempt).await.map_err(talking)?;
        let mut counts = SearchCounts::default();
        let reply = self
            .receive(io, (id, kind), Stamp::No, &mut counts, attempt)
            .await?;
        if reply.result.code != SUCCESS {
            return Err(SearchError::refused(Outcome::Refused, reply.result));
        }
        Ok(())
    }

    pub(super) fn stream(&self) -> &Stream {
        self.transport.stream()
    }

    /// Whether the connection can be used for another search.
    pub(super) fn is_usable(&self) -> bool {
        self.notice.is_none()
    }

    /// Whether the connection can be used, as far as this is known without waiting. Reads what the
    /// server sent since the last search, which can only be a notice.
    pub(super) fn check_alive(&mut self, io: &Io) -> bool {
        if self.transport.is_closed() {
            return false;
        }
        let mut buffer = io.buffer();
        // A waker is not needed, because the reactor wakes tasks by the events of their sockets.
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.transport.poll_read(&mut context, &mut buffer), Poll::Pending)
    }

    /// Sends a search, one request for each page, and reads all entries. Counts in `counts`, and
    /// stamps first byte and end.
    ///
    /// `kept`: the connection was used before; if it is closed before any byte of the response, the
    /// error is [`SearchError::Stale`].
    pub(super) async fn search(
        &mut self,
        io: &Io,
        (search, filter, page_size): (&Search<'_>, &EncodedFilter, Option<u32>),
        kept: bool,
        counts: &mut SearchCounts,
        attempt: &mut Attempt,
    ) -> Result<LdapResult, SearchError> {
        attempt.waiting = Waiting::FirstByte;
        let received = attempt.received;
        let mut cookie = Vec::new();
        loop {
            let page = page_size.map(|size| Page {
                size,
                cookie: &cookie,
            });
            let id = self.next_id();
            ldap::search(id, search, filter, page.as_ref(), &mut self.out);
            counts.pages += 1;
            // A server that refuses a request may close the connection before it has read all of
            // it. Its response counts, if there is one.
            if let Err(error) = self.send(attempt).await
                && !is_closed(&error)
            {
                return Err(talking(error).into());
            }
            let wanted = (id, ReplyKind::Done);
            let exchanged = self.receive(io, wanted, Stamp::Yes, counts, attempt).await;
            let reply = exchanged.map_err(|error| match error {
                SearchError::Stale if !kept || attempt.received > received => self.closed(),
                error => error,
            })?;
            match reply.cookie {
                Some(next) if reply.result.code == SUCCESS && page_size.is_some() => cookie = next,
                _ => return Ok(reply.result),
            }
        }
    }

    /// The error for a connection that the server has closed.
    fn closed(&mut self) -> SearchError {
        match self.notice.take() {
            Some(result) if result.code != SUCCESS => SearchError::refused(Outcome::Error, result),
            _ => Failure::closed_early().into(),
        }
    }

    /// The number of the next request. A server may not accept 0.
    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id % (i32::MAX as u32) + 1;
        self.last_id
    }

    /// Reads up to the end of the operation. If the connection is closed before, the error is
    /// [`SearchError::Stale`] for a search, and a failure at the beginning of the connection.
    async fn receive(
        &mut self,
        io: &Io,
        wanted: (u32, ReplyKind),
        stamp: Stamp,
        counts: &mut SearchCounts,
        attempt: &mut Attempt,
    ) -> Result<Reply, SearchError> {
        let mut reads = 0;
        loop {
            let read = poll_fn(|context| {
                let mut buffer = io.buffer();
                let count = ready!(self.transport.poll_read(context, &mut buffer))?;
                if count > 0 && stamp == Stamp::Yes {
                    attempt.read(count);
                } else {
                    attempt.received += count as u64;
                }
                let mut received = Received {
                    scanner: &mut self.scanner,
                    notice: &mut self.notice,
                    counts: &mut *counts,
                };
                let reply = received.take(&buffer[..count], wanted);
                Poll::Ready(io::Result::Ok((count, reply)))
            });
            match read.await {
                Ok((0, _)) if stamp == Stamp::No => return Err(self.closed()),
                Ok((0, _)) => return Err(SearchError::Stale),
                Ok((_, reply)) => {
                    if let Some(reply) = reply? {
                        return Ok(reply);
                    }
                }
                Err(error) if is_closed(&error) && stamp == Stamp::Yes => return Err(SearchError::Stale),
                Err(error) => return Err(talking(error).into()),
            }
            reads += 1;
            if reads % MAX_READS == 0 {
                io.yield_now().await;
            }
        }
    }

    /// As [`Self::leave`], and counts the bytes.
    pub(super) fn close(self, attempt: &mut Attempt) {
        attempt.sent += self.unbind();
    }

    /// Sends an unbind, if that is possible without waiting, and closes the connection.
    pub(super) fn leave(self) {
        self.unbind();
    }

    /// Returns the number of bytes that were sent.
    fn unbind(mut self) -> u64 {
        self.out.clear();
        let id = self.next_id();
        ldap::unbind(id, &mut self.out);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(count)) = self.transport.poll_write(&mut context, &self.out) else {
            return 0;
        };
        let _ = self.transport.poll_flush(&mut context);
        count as u64
    }

    /// Sends the request that is in `out`.
    async fn send(&mut self, attempt: &mut Attempt) -> io::Result<()> {
        let Self { transport, out, .. } = self;
        let mut sent = 0;
        while sent < out.len() {
            let count = poll_fn(|context| transport.poll_write(context, &out[sent..])).await?;
            sent += count;
            attempt.sent += count as u64;
        }
        out.clear();
        poll_fn(|context| transport.poll_flush(context)).await
    }
}

/// Where the messages of a server go.
struct Received<'a> {
    scanner: &'a mut Scanner,
    notice: &'a mut Option<LdapResult>,
    counts: &'a mut SearchCounts,
}

impl Received<'_> {
    /// Counts the messages in `bytes`. Returns the end of the operation `id`, if it is one of them.
    /// Behind it, only a notice may follow: in particular, nothing may follow the reply to
    /// `StartTLS`, because it would be taken for a part of the secured connection.
    fn take(
        &mut self,
        mut bytes: &[u8],
        (id, kind): (u32, ReplyKind),
    ) -> Result<Option<Reply>, LdapProtocolError> {
        let mut end = None;
        while let Some(event) = self.scanner.next(&mut bytes)? {
            match event {
                Event::Reply(reply) if reply.kind == ReplyKind::Disconnection => {
                    *self.notice = Some(reply.result);
                }
                Event::Entry { id: of, payload } if (of, kind) == (id, ReplyKind::Done) && end.is_none() => {
                    self.counts.entries += 1;
                    self.counts.payload += payload;
                }
                Event::Reference { id: of } if (of, kind) == (id, ReplyKind::Done) && end.is_none() => {
                    self.counts.references += 1;
                }
                Event::Reply(reply) if (reply.id, reply.kind) == (id, kind) && end.is_none() => {
                    end = Some(reply);
                }
                _ => return Err(LdapProtocolError::Invalid),
            }
        }
        if end.is_some() && self.scanner.is_within_message() {
            return Err(LdapProtocolError::Invalid);
        }
        Ok(end)
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn talking(error: io::Error) -> Failure {
    Failure::talking(&error)
}
