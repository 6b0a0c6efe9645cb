//! Connections of one tester, and the exchange of a request and its response over them.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio_rustls::TlsConnector;

use super::head;
use super::response::{Reader, Response, ResponseError};
use super::timeouts::{Timeouts, Timer};
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::transport::{Security, Transport};
use crate::net::{Host, Stream};
use crate::tester::failure::Failure;

/// Number of reads in a row before the other testers of the lane run.
const MAX_READS: u32 = 16;

/// The route to an endpoint.
pub struct Route {
    /// Host to which the tester connects: the endpoint, or a proxy.
    pub host: Arc<Host>,
    /// Request for a tunnel through the proxy; none: no tunnel.
    pub tunnel: Option<Vec<u8>>,
    /// TLS with the endpoint; none: without TLS.
    pub tls: Option<Security>,
}

/// One request, and how its response is handled.
pub struct Exchange<'a> {
    /// Route of the request.
    pub route: &'a Route,
    /// Number of the route. A connection is kept per route.
    pub way: usize,
    /// Head and body of the request.
    pub request: &'a [u8],
    /// Whether the method is HEAD: the response has no body.
    pub head_only: bool,
    /// Whether the connection is kept.
    pub keep: bool,
    /// Buffer for the body of the response; none: the body is counted and discarded.
    pub body: Option<&'a mut Vec<u8>>,
    /// Buffer for the bytes of the response's head; none: they are not kept.
    pub head: Option<&'a mut Vec<u8>>,
    /// Maximum length of a body that is kept, bytes. A longer body is a failure.
    pub max_kept: usize,
    /// Timeouts within the transaction.
    pub timeouts: Timeouts,
    /// Which connection is replaced, once.
    pub replace: Replace,
}

/// Which connection is replaced, and the request sent again, if the peer closes or resets it before
/// any byte of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// None, because the request must not be repeated, and the server may have carried it out.
    Never,
    /// A reused connection.
    Kept,
    /// A reused or new connection.
    Any,
}

/// An open connection.
struct OpenConnection {
    transport: Transport,
    session: u32,
}

/// Connections of one tester, one per route.
pub struct Connections {
    io: Io,
    kept: Vec<Option<OpenConnection>>,
    sessions: u32,
    timer: Timer,
    names: Names,
    /// TLS of this tester alone; none: that of the routes.
    own_tls: Option<TlsConnector>,
    trips: RoundTrips,
    /// The route of the last exchange, if it returned a response.
    answered: Option<usize>,
    /// The connection of the last exchange, if it cannot be used again, but its `TCP_INFO` is still
    /// to be read.
    spent: Option<OpenConnection>,
}

/// Why an exchange over a connection failed.
enum ExchangeError {
    /// The peer had closed the connection before it received the request.
    Stale,
    Failed(Failure),
}

/// Why bytes could not be read or written.
enum TransferError {
    /// A timeout has expired.
    Late,
    Io(io::Error),
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Failure> for ExchangeError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ResponseError> for Failure {
    fn from(why: ResponseError) -> Self {
        match why {
            ResponseError::Bad => Self::error("bad response"),
            ResponseError::TooLong => Self::error("answer too long to keep"),
        }
    }
}

impl Connections {
    /// For `ways` routes, without open connections. `own_tls`: TLS of this tester alone.
    pub fn new(io: &Io, ways: usize, names: Names, own_tls: Option<TlsConnector>) -> Self {
        Self {
            io: Rc::clone(io),
            kept: (0..ways).map(|_| None).collect(),
            sessions: 0,
            timer: Timer::new(io),
            names,
            own_tls,
            trips: RoundTrips::new(names, ways),
            answered: None,
            spent: None,
        }
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        self.kept.fill_with(|| None);
        self.spent = None;
    }

    /// Closes the connection of a route.
    pub fn close_way(&mut self, way: usize) {
        self.kept[way] = None;
    }

    /// Closes the connection of a route, which is not used again. If its `TCP_INFO` is due, it is
    /// closed only after [`Self::ended`] has read that.
    pub fn spend(&mut self, way: usize, attempt: &Attempt) {
        if let Some(connection) = self.kept[way].take()
            && self.trips.due(way, attempt.end)
        {
            self.spent = Some(connection);
        }
    }

    /// Called when the transaction has ended, after its last stamp: reads `TCP_INFO` of the
    /// connection of the last response, if that is due. This is not part of the exchange, because
    /// another exchange may follow in the same transaction.
    #[inline]
    pub fn ended(&mut self, attempt: &mut Attempt) {
        if let Some(way) = self.answered.take()
            && self.trips.due(way, attempt.end)
        {
            let spent = self.spent.take();
            if let Some(connection) = spent.as_ref().or(self.kept[way].as_ref()) {
                self.trips.read(way, connection.transport.stream(), attempt);
            }
        }
    }

    /// Whether a route has an open connection for the next request.
    pub fn is_open(&self, way: usize) -> bool {
        self.kept[way]
            .as_ref()
            .is_some_and(|kept| !kept.transport.is_closed())
    }

    /// Sends a request and reads its response. Stamps, counts and session are set in `attempt`; its
    /// end is stamped immediately after the last read.
    ///
    /// If the peer closes a kept connection before any byte of a response, the connection is
    /// replaced once within the same transaction (one more `attempt`): servers close idle
    /// connections at any time, and a client must expect it (RFC 9112, section 9.3.1). A request
    /// that must not be sent again is an exception, because the server may have carried it out.
    pub async fn exchange(
        &mut self,
        mut exchange: Exchange<'_>,
        attempt: &mut Attempt,
    ) -> Result<Response, Failure> {
        self.answered = None;
        self.spent = None;
        let mut kept = self.kept[exchange.way]
            .take()
            .filter(|kept| !kept.transport.is_closed());
        let mut replace = kept.is_some() || exchange.replace == Replace::Any;
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed, because the state of a TLS handshake would make every task three times as
                // large, and the tasks of hundreds of testers should fit into the cache.
                None => Box::pin(self.connect(exchange.route, exchange.timeouts, attempt)).await?,
            };
            attempt.session = if exchange.keep { connection.session } else { 0 };
            attempt.waiting = Waiting::FirstByte;
            let transport = &mut connection.transport;
            let result = self.round_trip(transport, &mut exchange, replace, attempt).await;
            match result {
                Ok((response, keep)) => {
                    self.answered = Some(exchange.way);
                    self.kept[exchange.way] = Some(connection);
                    if !(keep && exchange.keep) {
                        self.spend(exchange.way, attempt);
                    }
                    return Ok(response);
                }
                Err(ExchangeError::Stale) if exchange.replace == Replace::Never => {
                    return Err(Failure::not_repeated());
                }
                Err(ExchangeError::Stale) => {
                    attempt.attempt = attempt.attempt.saturating_add(1);
                    replace = false;
                }
                Err(ExchangeError::Failed(failure)) => return Err(failure),
            }
        }
    }

    async fn connect(
        &mut self,
        route: &Route,
        timeouts: Timeouts,
        attempt: &mut Attempt,
    ) -> Result<OpenConnection, Failure> {
        attempt.waiting = Waiting::Connect;
        let deadline = match timeouts.connect_ns {
            i64::MAX => i64::MAX,
            limit => attempt.now().saturating_add(limit),
        };
        let names = (self.names, self.own_tls.as_ref());
        let opened = self
            .timer
            .within(deadline, open(&self.io, route, names, attempt))
            .await;
        let transport = opened.ok_or_else(|| Failure::late(Waiting::Connect))??;
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok(OpenConnection {
            transport,
            session: self.sessions,
        })
    }

    /// Sends one request on a connection and reads its response. Also returns whether the
    /// connection can be used for another request. `replace`: a connection that is closed before
    /// any byte of the response is [`ExchangeError::Stale`].
    async fn round_trip(
        &self,
        transport: &mut Transport,
        exchange: &mut Exchange<'_>,
        replace: bool,
        attempt: &mut Attempt,
    ) -> Result<(Response, bool), ExchangeError> {
        let received = attempt.received;
        let timeouts = exchange.timeouts;
        let deadline = match timeouts.read_ns {
            i64::MAX => i64::MAX,
            limit => attempt.now().saturating_add(limit),
        };
        // A peer that responds early (413, 503) may close while the request is being sent. Its
        // response counts, if there is one.
        let sent = transport.send(exchange.request, &self.timer, deadline, attempt);
        let unsent = match sent.await {
            Ok(()) => None,
            Err(TransferError::Late) => return Err(Failure::late(attempt.waiting).into()),
            Err(TransferError::Io(error)) => Some(error),
        };
        let mut reader = Reader::new(exchange.head_only, exchange.max_kept);
        if exchange.head.is_some() {
            reader = reader.keeping_head();
        }
        let limits = (&self.timer, deadline, timeouts);
        let read = transport.receive(&self.io, limits, attempt, |bytes| {
            match reader.feed(bytes, exchange.body.as_deref_mut()) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(why) => Some(Err(why)),
            }
        });
        let is_stale = |attempt: &Attempt| replace && attempt.received == received;
        match read.await {
            Ok(Some(Ok(()))) => {}
            Ok(Some(Err(why))) => return Err(Failure::from(why).into()),
            Ok(None) if reader.ends_at_close() => attempt.end = attempt.now(),
            Ok(None) if is_stale(attempt) => return Err(ExchangeError::Stale),
            Ok(None) => return Err(Failure::closed_early().into()),
            Err(TransferError::Late) => return Err(Failure::late(attempt.waiting).into()),
            Err(TransferError::Io(error)) => {
                let is_closed = matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                );
                if is_closed && is_stale(attempt) {
                    return Err(ExchangeError::Stale);
                }
                return Err(Failure::talking(unsent.as_ref().unwrap_or(&error)).into());
            }
        }
        let (response, keep) = reader.response().ok_or_else(Failure::closed_early)?;
        if let Some(head) = &mut exchange.head {
            **head = reader.take_head();
        }
        Ok((response, keep && unsent.is_none()))
    }
}

impl Transport {
    async fn send(
        &mut self,
        bytes: &[u8],
        timer: &Timer,
        deadline: i64,
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        let mut sent = 0;
        while sent < bytes.len() {
            let count = poll_fn(|context| match self.poll_write(context, &bytes[sent..]) {
                Poll::Pending if timer.check_expired(deadline) => Poll::Ready(Err(TransferError::Late)),
                polled => polled.map_err(TransferError::Io),
            });
            let count = count.await?;
            sent += count;
            attempt.sent += count as u64;
        }
        if let Self::Tls(_) = self {
            poll_fn(|context| self.poll_flush(context)).await?;
        }
        Ok(())
    }

    /// Reads until `feed` returns a result, which is returned, or until the peer closes, which is
    /// none. All testers of a lane share one buffer: with a buffer for each, hundreds of testers
    /// would not fit into the cache. `deadline` applies to the first bytes; each read sets a new
    /// one from `timeouts`.
    async fn receive<T>(
        &mut self,
        io: &Io,
        (timer, mut deadline, timeouts): (&Timer, i64, Timeouts),
        attempt: &mut Attempt,
        mut feed: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, TransferError> {
        poll_fn(|context| {
            let mut buffer = io.buffer();
            for _ in 0..MAX_READS {
                let count = match self.poll_read(context, &mut buffer) {
                    Poll::Pending if timer.check_expired(deadline) => {
                        return Poll::Ready(Err(TransferError::Late));
                    }
                    polled => ready!(polled)?,
                };
                if count == 0 {
                    return Poll::Ready(Ok(None));
                }
                attempt.read(count);
                deadline = attempt.end.saturating_add(timeouts.read_ns);
                if let Some(result) = feed(&buffer[..count]) {
                    return Poll::Ready(Ok(Some(result)));
                }
            }
            io.wake(io.current());
            Poll::Pending
        })
        .await
    }
}

async fn open_tunnel(
    io: &Io,
    stream: &mut Stream,
    tunnel: &[u8],
    attempt: &mut Attempt,
) -> Result<(), Failure> {
    let talking = |error: io::Error| Failure::talking(&error);
    let mut sent = 0;
    while sent < tunnel.len() {
        sent += poll_fn(|_| stream.poll_send(&tunnel[sent..]))
            .await
            .map_err(talking)?;
    }
    attempt.sent += sent as u64;
    let mut response = Vec::new();
    loop {
        let count = poll_fn(|_| {
            let mut buffer = io.buffer();
            let count = ready!(stream.poll_recv(&mut buffer))?;
            response.extend_from_slice(&buffer[..count]);
            Poll::Ready(io::Result::Ok(count))
        });
        let count = count.await.map_err(talking)?;
        if count == 0 {
            return Err(Failure::closed_early());
        }
        attempt.received += count as u64;
        if let Some(head) = head::parse(&response, true).map_err(ResponseError::from)? {
            return match head.status {
                200..300 if head.length == response.len() => Ok(()),
                200..300 => Err(ResponseError::Bad.into()),
                status => Err(Failure::error(format!("proxy {status}"))),
            };
        }
    }
}

/// Connects, and opens the tunnel and performs the TLS handshake if the route has them.
async fn open(
    io: &Io,
    route: &Route,
    (names, own_tls): (Names, Option<&TlsConnector>),
    attempt: &mut Attempt,
) -> Result<Transport, Failure> {
    let connecting = |error: io::Error| Failure::connecting(&error);
    let mut stream = names
        .connect(&route.host, io, attempt)
        .await
        .map_err(connecting)?;
    if let Some(tunnel) = &route.tunnel {
        open_tunnel(io, &mut stream, tunnel, attempt).await?;
    }
    Ok(match &route.tls {
        None => Transport::Plain(stream),
        Some((shared, name)) => {
            let connector = own_tls.unwrap_or(shared);
            let secured = names.secure(stream, (connector, name), attempt).await;
            secured.map_err(|error| Failure::talking(&error))?
        }
    })
}
