//! One connection to a database server, on a lane's reactor.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use plimsoll_wire::sql::{CancelKey, Event, Refusal, Session, SqlProtocolError, TransactionStatus};

use super::broken::Broken;
use super::network::Place;
use crate::driver::{Attempt, Waiting};
use crate::drivers::versions::Newest;
use crate::failure::Failure;
use crate::net::Stream;
use crate::net::transport::{Security, Transport};
use crate::reactor::Io;
use crate::round_trips::Names;

/// Reads in a row before the other testers of the lane have their turn.
const READS: u32 = 16;
/// Room for queries that a connection keeps, bytes.
const KEPT: usize = 64 * 1024;

/// A connection that is logged in.
pub(super) struct Connection {
    transport: Transport,
    session: Session,
    /// Number of the connection among its tester's, from 1.
    pub(super) number: u32,
}

impl Connection {
    /// Connects and logs in. The bytes count; neither first byte nor end is stamped.
    pub(super) async fn open(
        io: &Io,
        place: &Place,
        (number, names): (u32, Names),
        attempt: &mut Attempt,
    ) -> Result<Self, Broken> {
        attempt.waiting = Waiting::Connect;
        let stream = names.connect(&place.host, io, attempt).await;
        let login = place.login.clone();
        let connection = Self {
            transport: Transport::Plain(stream.map_err(|error| Failure::connecting(&error))?),
            session: match place.tls {
                Some(_) => Session::secured(place.server, login),
                None => Session::new(place.server, login),
            },
            number,
        };
        let logged_in = connection.log_in(io, (place.tls.as_ref(), names), attempt).await;
        let connection = logged_in.map_err(|broken| match &place.login.password {
            Some(_) => broken,
            None => broken.without_password(),
        })?;
        attempt.connected = attempt.now();
        Ok(connection)
    }

    async fn log_in(
        mut self,
        io: &Io,
        (tls, names): (Option<&Security>, Names),
        attempt: &mut Attempt,
    ) -> Result<Self, Broken> {
        loop {
            match self.event(io, attempt).await? {
                Event::Ready => return Ok(self),
                Event::StartTls => {
                    // What asks for TLS must be sent before it begins.
                    self.send(attempt).await.map_err(talking)?;
                    let (Transport::Plain(stream), Some(security)) = (self.transport, tls) else {
                        return Err(Failure::error("bad response").into());
                    };
                    let secured = names.secure(stream, security, attempt).await;
                    self.transport = secured.map_err(talking)?;
                    self.session.tls_started();
                }
                Event::Failed(refusal) => return Err(Broken::login(refusal)),
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

    /// Whether the server still listens, as far as is known without waiting. Takes in what it said
    /// since the last query.
    pub(super) fn check_alive(&mut self, io: &Io) -> bool {
        if self.transport.closed() {
            return false;
        }
        let mut buffer = io.buffer();
        // The reactor wakes tasks by what it knows of sockets.
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.transport.poll_read(&mut context, &mut buffer) {
                Poll::Pending => return true,
                Poll::Ready(Ok(0) | Err(_)) => return false,
                Poll::Ready(Ok(count)) => self.session.received(&buffer[..count]),
            }
            // Between two queries anything but a notice is a farewell.
            if !matches!(self.session.next(), Ok(None)) {
                return false;
            }
        }
    }

    /// Asks a query and fetches its whole result; counts rows and bytes, and stamps first byte and
    /// end. Gives the server's error if the query failed and the connection takes another.
    ///
    /// `kept`: a connection that breaks before any byte of the answer is told from one that fails.
    /// `newest`: shown the values of its column.
    pub(super) async fn ask(
        &mut self,
        io: &Io,
        sql: &str,
        kept: bool,
        newest: &mut Option<Newest<'_>>,
        attempt: &mut Attempt,
    ) -> Result<Option<Refusal>, Broken> {
        attempt.waiting = Waiting::FirstByte;
        self.session.query(sql);
        // A server that refuses a query before it has read all of it may close: its answer counts,
        // if there is one.
        let unsent = self.send(attempt).await.err();
        let received = attempt.received;
        let mut refusal = None;
        let mut reads = 0;
        while !self.take_in(&mut refusal, newest, attempt)? {
            if unsent.is_none() {
                self.send(attempt).await.map_err(talking)?;
            }
            let broken = match self.receive(io, |count| attempt.read(count)).await {
                Ok(1..) => {
                    reads += 1;
                    if reads % READS == 0 {
                        io.yield_now().await;
                    }
                    continue;
                }
                Ok(0) => None,
                Err(error) => Some(error),
            };
            if let Some(refusal) = refusal {
                return Err(Broken::query(refusal));
            }
            if kept && attempt.received == received && broken.as_ref().is_none_or(is_gone) {
                return Err(Broken::Stale);
            }
            return Err(match unsent.as_ref().or(broken.as_ref()) {
                None => Failure::closed_early(),
                Some(error) => Failure::talking(error),
            }
            .into());
        }
        Ok(refusal)
    }

    /// Takes what has arrived; gives whether the query is over.
    fn take_in(
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
                        && let Some(text) = newest.at().and_then(|at| self.session.row().nth(at)?)
                    {
                        newest.text(text);
                    }
                }
                Event::CopyRow(bytes) => {
                    attempt.items += 1;
                    attempt.payload += bytes;
                }
                Event::Failed(told) => drop(refusal.get_or_insert(told)),
                Event::CopyIn => {
                    self.session.copy_fail();
                    refusal.get_or_insert_with(|| Refusal {
                        code: "0A000".to_owned(),
                        number: 0,
                        message: "COPY FROM STDIN: a query has no data to give".to_owned(),
                    });
                }
                Event::Columns(columns) => {
                    if let Some(newest) = newest {
                        newest.columns(columns.iter().map(|column| column.name.as_str()));
                    }
                }
                Event::Complete | Event::StartTls | Event::Notified { .. } | Event::Log(_) => {}
            }
        }
        Ok(false)
    }

    /// Whether statements so far have left a transaction block open.
    pub(super) fn has_open_transaction(&self) -> bool {
        self.session.transaction() == TransactionStatus::Open
    }

    /// Ends a transaction block that a failed query has left behind: with it `PostgreSQL` would
    /// refuse every further query, and `MariaDB` would keep its locks. Returns whether there was
    /// one. Bytes are counted, nothing is stamped. After an error the connection is of no more use.
    pub(super) async fn roll_back(&mut self, io: &Io, attempt: &mut Attempt) -> Result<bool, Broken> {
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

    /// Waits for the end of a command that has no result; an error of the server is one here, too.
    async fn until_ready(&mut self, io: &Io, attempt: &mut Attempt) -> Result<(), Broken> {
        loop {
            match self.event(io, attempt).await? {
                Event::Ready => return Ok(()),
                Event::Failed(refusal) => return Err(Broken::query(refusal)),
                _ => {}
            }
        }
    }

    /// What comes next. Bytes are counted, nothing is stamped.
    async fn event(&mut self, io: &Io, attempt: &mut Attempt) -> Result<Event, Broken> {
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

    /// Says good-bye, as far as that can be done without waiting, and closes.
    pub(super) fn close(mut self, attempt: &mut Attempt) {
        self.session.quit();
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Ok(count)) = self.transport.poll_write(&mut context, self.session.outgoing()) {
            attempt.sent += count as u64;
            let _ = self.transport.poll_flush(&mut context);
        }
    }

    /// Sends whatever the session has to send.
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
        out.shrink_to(KEPT);
        Ok(())
    }

    /// Reads once, into the session; `note` is called right after the system call, if it brought
    /// something.
    async fn receive(&mut self, io: &Io, mut note: impl FnMut(usize)) -> io::Result<usize> {
        poll_fn(|context| {
            let mut buffer = io.buffer();
            let count = ready!(self.transport.poll_read(context, &mut buffer))?;
            if count > 0 {
                note(count);
                self.session.received(&buffer[..count]);
            }
            Poll::Ready(Ok(count))
        })
        .await
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn talking(error: io::Error) -> Failure {
    Failure::talking(&error)
}
