//! A connection to a database server, on a lane's reactor.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use plimsoll_wire::sql::{CancelKey, Event, Refusal, Session, SqlProtocolError, TransactionStatus};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::database_error::DatabaseError;
use super::network::DatabaseServer;
use crate::driver::{Attempt, Waiting};
use crate::drivers::versions::Newest;
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::net::round_trips::Names;
use crate::net::transport::Transport;
use crate::tester::failure::Failure;

/// Number of reads in a row before the other testers of the lane run.
const MAX_READS: u32 = 16;
/// Maximum capacity of the buffer for queries that a connection keeps, bytes.
const KEPT_CAPACITY: usize = 64 * 1024;

/// A connection that is logged in.
pub(super) struct Connection {
    transport: Transport,
    session: Session,
    /// Number of the connection among its tester's, from 1.
    pub(super) number: u32,
}

impl Connection {
    /// Connects and logs in. Bytes are counted; first byte and end are not stamped. `own_tls`: TLS
    /// of the tester alone.
    pub(super) async fn open(
        io: &Io,
        (server, own_tls): (&DatabaseServer, Option<&TlsConnector>),
        (number, names): (u32, Names),
        attempt: &mut Attempt,
    ) -> Result<Self, DatabaseError> {
        attempt.waiting = Waiting::Connect;
        let stream = names.connect(&server.host, io, attempt).await;
        let login = server.login.clone();
        let connection = Self {
            transport: Transport::Plain(stream.map_err(|error| Failure::connecting(&error))?),
            session: match server.tls {
                Some(_) => Session::secured(server.server, login),
                None => Session::new(server.server, login),
            },
            number,
        };
        let security = server.tls.as_ref();
        let security = security.map(|(shared, name)| (own_tls.unwrap_or(shared), name));
        let logged_in = connection.log_in(io, (security, names), attempt).await;
        let connection = logged_in.map_err(|error| match &server.login.password {
            Some(_) => error,
            None => error.without_password(),
        })?;
        attempt.connected = attempt.now();
        Ok(connection)
    }

    async fn log_in(
        mut self,
        io: &Io,
        (tls, names): (Option<(&TlsConnector, &ServerName<'static>)>, Names),
        attempt: &mut Attempt,
    ) -> Result<Self, DatabaseError> {
        loop {
            match self.event(io, attempt).await? {
                Event::Ready => return Ok(self),
                Event::StartTls => {
                    // The request for TLS must be sent before the handshake.
                    self.send(attempt).await.map_err(talking)?;
                    let (Transport::Plain(stream), Some(security)) = (self.transport, tls) else {
                        return Err(Failure::error("bad response").into());
                    };
                    let secured = names.secure(stream, security, attempt).await;
                    self.transport = secured.map_err(talking)?;
                    self.session.tls_started();
                }
                Event::Failed(refusal) => return Err(DatabaseError::login(refusal)),
                _ => {}
            }
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        self.transport.stream()
    }

    pub(super) fn cancel_key(&self) -> Option<CancelKey> {
        self.session.cancel_key()
    }

    /// Whether the connection can be used, as far as this is known without waiting. Reads what the
    /// server sent since the last query.
    pub(super) fn check_alive(&mut self, io: &Io) -> bool {
        if self.transport.is_closed() {
            return false;
        }
        let mut buffer = io.buffer();
        // A waker is not needed, because the reactor wakes tasks by the events of their sockets.
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.transport.poll_read(&mut context, &mut buffer) {
                Poll::Pending => return true,
                Poll::Ready(Ok(0) | Err(_)) => return false,
                Poll::Ready(Ok(count)) => self.session.received(&buffer[..count]),
            }
            // Between two queries a server sends only notices, except when it closes.
            if !matches!(self.session.next(), Ok(None)) {
                return false;
            }
        }
    }

    /// Sends a query and reads its whole result; counts rows and bytes, and stamps first byte and
    /// end. Returns the server's error if the query failed and the connection can be used for
    /// another.
    ///
    /// `kept`: the connection was used before; if it is closed before any byte of the response, the
    /// error is [`DatabaseError::Stale`]. `newest` receives the values of its column.
    pub(super) async fn query(
        &mut self,
        io: &Io,
        sql: &str,
        kept: bool,
        newest: &mut Option<Newest<'_>>,
        attempt: &mut Attempt,
    ) -> Result<Option<Refusal>, DatabaseError> {
        attempt.waiting = Waiting::FirstByte;
        self.session.query(sql);
        // A server that refuses a query before it has read all of it may close the connection. Its
        // response counts, if there is one.
        let unsent = self.send(attempt).await.err();
        let received = attempt.received;
        let mut refusal = None;
        let mut reads = 0;
        while !self.read_events(&mut refusal, newest, attempt)? {
            if unsent.is_none() {
                self.send(attempt).await.map_err(talking)?;
            }
            let error = match self.receive(io, |count| attempt.read(count)).await {
                Ok(1..) => {
                    reads += 1;
                    if reads % MAX_READS == 0 {
                        io.yield_now().await;
                    }
                    continue;
                }
                Ok(0) => None,
                Err(error) => Some(error),
            };
            if let Some(refusal) = refusal {
                return Err(DatabaseError::query(refusal));
            }
            if kept && attempt.received == received && error.as_ref().is_none_or(is_closed) {
                return Err(DatabaseError::Stale);
            }
            return Err(match unsent.as_ref().or(error.as_ref()) {
                None => Failure::closed_early(),
                Some(error) => Failure::talking(error),
            }
            .into());
        }
        Ok(refusal)
    }

    /// Processes the messages that have arrived. Returns whether the query has ended.
    fn read_events(
        &mut self,
        refusal: &mut Option<Refusal>,
        newest: &mut Option<Newest<'_>>,
        attempt: &mut Attempt,
    ) -> Result<bool, SqlProtocolError> {
        while let Some(event) = self.session.next()? {
            match event {
                Event::Ready => return Ok(true),
                Event::Row => {
                    attempt.items += 1;
                    let values = self.session.row().flatten();
                    attempt.payload += values.map(|value| value.len() as u64).sum::<u64>();
                    if let Some(newest) = newest
                        && let Some(text) = newest.index().and_then(|index| self.session.row().nth(index)?)
                    {
                        newest.add_text(text);
                    }
                }
                Event::CopyRow(bytes) => {
                    attempt.items += 1;
                    attempt.payload += bytes;
                }
                Event::Failed(error) => drop(refusal.get_or_insert(error)),
                Event::CopyIn => {
                    self.session.copy_fail();
                    refusal.get_or_insert_with(|| Refusal {
                        code: "0A000".to_owned(),
                        number: 0,
                        message: "COPY FROM STDIN is not supported: a query cannot send data".to_owned(),
                    });
                }
                Event::Columns(columns) => {
                    if let Some(newest) = newest {
                        newest.set_columns(columns.iter().map(|column| column.name.as_str()));
                    }
                }
                Event::Complete
                | Event::StartTls
                | Event::Notified { .. }
                | Event::Stream(_)
                | Event::Log(_) => {}
            }
        }
        Ok(false)
    }

    /// Whether the statements so far have left a transaction block open.
    pub(super) fn has_open_transaction(&self) -> bool {
        self.session.transaction() == TransactionStatus::Open
    }

    /// Ends a transaction block that a failed query has left open. Otherwise `PostgreSQL` would
    /// refuse every further query, and `MariaDB` would keep the locks. Returns whether there was a
    /// block. Bytes are counted, nothing is stamped. After an error the connection cannot be used.
    pub(super) async fn roll_back(&mut self, io: &Io, attempt: &mut Attempt) -> Result<bool, DatabaseError> {
        if self.session.transaction() == TransactionStatus::Unknown {
            self.session.ping();
            self.until_ready(io, attempt).await?;
        }
        if self.session.transaction() == TransactionStatus::Idle {
            return Ok(false);
        }
        self.session.query("ROLLBACK");
        self.until_ready(io, attempt).await?;
        Ok(true)
    }

    /// Waits for the end of a command without a result. An error of the server is returned as an
    /// error.
    async fn until_ready(&mut self, io: &Io, attempt: &mut Attempt) -> Result<(), DatabaseError> {
        loop {
            match self.event(io, attempt).await? {
                Event::Ready => return Ok(()),
                Event::Failed(refusal) => return Err(DatabaseError::query(refusal)),
                _ => {}
            }
        }
    }

    /// Waits for the next event. Bytes are counted, nothing is stamped.
    async fn event(&mut self, io: &Io, attempt: &mut Attempt) -> Result<Event, DatabaseError> {
        loop {
            if let Some(event) = self.session.next()? {
                return Ok(event);
            }
            self.send(attempt).await.map_err(talking)?;
            let count = self.receive(io, |_| ()).await.map_err(talking)?;
            if count == 0 {
                return Err(Failure::closed_early().into());
            }
            attempt.received += count as u64;
        }
    }

    /// As [`Self::leave`], and counts the bytes.
    pub(super) fn close(self, attempt: &mut Attempt) {
        attempt.sent += self.quit();
    }

    /// Sends the closing message of the protocol, if that is possible without waiting, and closes
    /// the connection.
    pub(super) fn leave(self) {
        self.quit();
    }

    /// Returns the number of bytes that were sent.
    fn quit(mut self) -> u64 {
        self.session.quit();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(count)) = self.transport.poll_write(&mut context, self.session.outgoing()) else {
            return 0;
        };
        let _ = self.transport.poll_flush(&mut context);
        count as u64
    }

    /// Sends all bytes that the session has queued.
    async fn send(&mut self, attempt: &mut Attempt) -> io::Result<()> {
        let Self {
            transport, session, ..
        } = self;
        let out = session.outgoing();
        let mut sent = 0;
        while sent < out.len() {
            let count = poll_fn(|context| transport.poll_write(context, &out[sent..])).await?;
            sent += count;
            attempt.sent += count as u64;
        }
        if sent > 0 && matches!(transport, Transport::Tls(_)) {
            poll_fn(|context| transport.poll_flush(context)).await?;
        }
        out.clear();
        out.shrink_to(KEPT_CAPACITY);
        Ok(())
    }

    /// Reads once, and passes the bytes to the session. `on_read` is called with their number
    /// immediately after the system call, unless it is 0.
    async fn receive(&mut self, io: &Io, mut on_read: impl FnMut(usize)) -> io::Result<usize> {
        poll_fn(|context| {
            let mut buffer = io.buffer();
            let count = ready!(self.transport.poll_read(context, &mut buffer))?;
            if count > 0 {
                on_read(count);
                self.session.received(&buffer[..count]);
            }
            Poll::Ready(Ok(count))
        })
        .await
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
