//! Connections of one tester, and one request with its answer over them.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use super::answer::{Answer, Reader, Unreadable};
use super::head;
use super::patience::{Patience, Timer};
use crate::driver::{Attempt, Waiting};
use crate::failure::Failure;
use crate::net::transport::{Security, Transport};
use crate::net::{Host, Stream};
use crate::reactor::Io;
use crate::round_trips::{Names, RoundTrips};

/// Reads in a row before the other testers of the lane have their turn.
const READS: u32 = 16;

/// The way to an endpoint.
pub struct Route {
    /// Whom to connect to: the endpoint, or a proxy.
    pub host: Arc<Host>,
    /// Request for a tunnel through the proxy.
    pub tunnel: Option<Vec<u8>>,
    /// TLS with the endpoint.
    pub tls: Option<Security>,
}

/// One request.
pub struct Exchange<'a> {
    /// Its way.
    pub route: &'a Route,
    /// Number of the way: connections are kept per way.
    pub way: usize,
    /// Head and body.
    pub request: &'a [u8],
    /// HEAD: the answer has no body.
    pub head_only: bool,
    /// Whether the connection is kept.
    pub keep: bool,
    /// Where the body goes; none: it is counted and forgotten.
    pub body: Option<&'a mut Vec<u8>>,
    /// Longest body that is kept, bytes: a longer one is a failure.
    pub max_kept: usize,
    /// How long is waited within the time-out of the transaction.
    pub patience: Patience,
    /// What is replaced, once.
    pub replace: Replace,
}

/// Which connection that the peer closes or resets before any byte of an answer is replaced, and
/// the request sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// None: the server may have carried out a request that must not be repeated.
    Never,
    /// One that has been kept.
    Kept,
    /// A new one, too.
    Any,
}

/// An open connection.
struct OpenConnection {
    transport: Transport,
    session: u32,
}

/// Connections of one tester, one per way.
pub struct Connections {
    io: Io,
    kept: Vec<Option<OpenConnection>>,
    sessions: u32,
    timer: Timer,
    names: Names,
    trips: RoundTrips,
    /// The way of the last exchange, if that brought an answer.
    answered: Option<usize>,
    /// The connection of the last exchange, if it is of no more use but is still to be looked at.
    spent: Option<OpenConnection>,
}

/// Why an exchange over a connection broke.
enum Broken {
    /// The peer had closed a kept connection before it saw the request.
    Stale,
    Failed(Failure),
}

/// Why bytes do not come, or do not go.
enum Stop {
    /// For too long.
    Late,
    Broken(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Unreadable> for Failure {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Bad => Self::error("bad response"),
            Unreadable::TooLong => Self::error("answer too long to keep"),
        }
    }
}

impl Connections {
    /// None open yet, for `ways` ways.
    pub fn new(io: &Io, ways: usize, names: Names) -> Self {
        Self {
            io: Rc::clone(io),
            kept: (0..ways).map(|_| None).collect(),
            sessions: 0,
            timer: Timer::new(io),
            names,
            trips: RoundTrips::new(names, ways),
            answered: None,
            spent: None,
        }
    }

    /// Closes all.
    pub fn close(&mut self) {
        self.kept.fill_with(|| None);
        self.spent = None;
    }

    /// Closes the one of a way.
    pub fn close_way(&mut self, way: usize) {
        self.kept[way] = None;
    }

    /// The connection of a way has carried its last request. It is closed, at once unless
    /// [`Self::ended`] is to look at it: once a second a connection lives until the transaction
    /// ends.
    pub fn spend(&mut self, way: usize, attempt: &Attempt) {
        if let Some(connection) = self.kept[way].take()
            && self.trips.due(way, attempt.end)
        {
            self.spent = Some(connection);
        }
    }

    /// The transaction has ended, with its last stamp: looks at the connection that brought its
    /// last answer, if it is time to. Not a part of the exchange, as another one may follow it in
    /// the same transaction.
    #[inline]
    pub fn ended(&mut self, attempt: &mut Attempt) {
        if let Some(way) = self.answered.take()
            && self.trips.due(way, attempt.end)
        {
            let spent = self.spent.take();
            if let Some(connection) = spent.as_ref().or(self.kept[way].as_ref()) {
                self.trips.look(way, connection.transport.stream(), attempt);
            }
        }
    }

    /// Whether the next request on a way would find a connection.
    pub fn is_open(&self, way: usize) -> bool {
        self.kept[way]
            .as_ref()
            .is_some_and(|kept| !kept.transport.closed())
    }

    /// Sends a request and reads its answer. Stamps, counts and session go to `attempt`, whose end
    /// is stamped right after the last read. A kept connection that the peer closes before any byte
    /// of an answer is replaced, once, within the same transaction (one more `attempt`): servers
    /// close idle connections at any time, and a client must expect it (RFC 9112, section 9.3.1).
    /// Not for a request that must not be sent again: it may have been carried out.
    pub async fn exchange(
        &mut self,
        mut exchange: Exchange<'_>,
        attempt: &mut Attempt,
    ) -> Result<Answer, Failure> {
        self.answered = None;
        self.spent = None;
        let mut kept = self.kept[exchange.way]
            .take()
            .filter(|kept| !kept.transport.closed());
        let mut replace = kept.is_some() || exchange.replace == Replace::Any;
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed: the state of a TLS handshake would make every task three times as large,
                // and the tasks of hundreds of testers should fit into the cache.
                None => Box::pin(self.connect(exchange.route, exchange.patience, attempt)).await?,
            };
            attempt.session = if exchange.keep { connection.session } else { 0 };
            attempt.waiting = Waiting::FirstByte;
            let transport = &mut connection.transport;
            let result = self.round_trip(transport, &mut exchange, replace, attempt).await;
            match result {
                Ok((answer, keep)) => {
                    self.answered = Some(exchange.way);
                    self.kept[exchange.way] = Some(connection);
                    if !(keep && exchange.keep) {
                        self.spend(exchange.way, attempt);
                    }
                    return Ok(answer);
                }
                Err(Broken::Stale) if exchange.replace == Replace::Never => {
                    return Err(Failure::not_repeated());
                }
                Err(Broken::Stale) => {
                    attempt.attempt = attempt.attempt.saturating_add(1);
                    replace = false;
                }
                Err(Broken::Failed(failure)) => return Err(failure),
            }
        }
    }

    async fn connect(
        &mut self,
        route: &Route,
        patience: Patience,
        attempt: &mut Attempt,
    ) -> Result<OpenConnection, Failure> {
        attempt.waiting = Waiting::Connect;
        let deadline = match patience.connect_ns {
            i64::MAX => i64::MAX,
            limit => attempt.now().saturating_add(limit),
        };
        let opened = self
            .timer
            .within(deadline, open(&self.io, route, self.names, attempt))
            .await;
        let transport = opened.ok_or_else(|| Failure::late(Waiting::Connect))??;
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok(OpenConnection {
            transport,
            session: self.sessions,
        })
    }

    /// One request and its answer on a connection; gives also whether it may carry another.
    /// `replace`: a connection that breaks before any byte of the answer is told from one that
    /// fails.
    async fn round_trip(
        &self,
        transport: &mut Transport,
        exchange: &mut Exchange<'_>,
        replace: bool,
        attempt: &mut Attempt,
    ) -> Result<(Answer, bool), Broken> {
        let received = attempt.received;
        let patience = exchange.patience;
        let deadline = match patience.read_ns {
            i64::MAX => i64::MAX,
            limit => attempt.now().saturating_add(limit),
        };
        // A peer that answers early (413, 503) may close while we still send: its answer counts, if
        // there is one.
        let sent = transport.send(exchange.request, &self.timer, deadline, attempt);
        let unsent = match sent.await {
            Ok(()) => None,
            Err(Stop::Late) => return Err(Failure::late(attempt.waiting).into()),
            Err(Stop::Broken(error)) => Some(error),
        };
        let mut reader = Reader::new(exchange.head_only, exchange.max_kept);
        let limits = (&self.timer, deadline, patience);
        let read = transport.receive(&self.io, limits, attempt, |bytes| {
            match reader.feed(bytes, exchange.body.as_deref_mut()) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(why) => Some(Err(why)),
            }
        });
        let untouched = |attempt: &Attempt| replace && attempt.received == received;
        match read.await {
            Ok(Some(Ok(()))) => {}
            Ok(Some(Err(why))) => return Err(Failure::from(why).into()),
            Ok(None) if reader.end() => attempt.end = attempt.now(),
            Ok(None) if untouched(attempt) => return Err(Broken::Stale),
            Ok(None) => return Err(Failure::closed_early().into()),
            Err(Stop::Late) => return Err(Failure::late(attempt.waiting).into()),
            Err(Stop::Broken(error)) => {
                let gone = matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                );
                if gone && untouched(attempt) {
                    return Err(Broken::Stale);
                }
                return Err(Failure::talking(unsent.as_ref().unwrap_or(&error)).into());
            }
        }
        let (answer, keep) = reader.answer().ok_or_else(Failure::closed_early)?;
        Ok((answer, keep && unsent.is_none()))
    }
}

impl Transport {
    async fn send(
        &mut self,
        bytes: &[u8],
        timer: &Timer,
        deadline: i64,
        attempt: &mut Attempt,
    ) -> Result<(), Stop> {
        let mut sent = 0;
        while sent < bytes.len() {
            let count = poll_fn(|context| match self.poll_write(context, &bytes[sent..]) {
                Poll::Pending if timer.over(deadline) => Poll::Ready(Err(Stop::Late)),
                polled => polled.map_err(Stop::Broken),
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

    /// Reads until `taken` says that it has all it wants, or the peer closes: `Some` of its word,
    /// or none. The lane's one buffer serves all testers: with one for each, hundreds of testers
    /// would run out of the cache. `deadline` is for the first bytes, and moves by `patience` with
    /// each read.
    async fn receive<T>(
        &mut self,
        io: &Io,
        (timer, mut deadline, patience): (&Timer, i64, Patience),
        attempt: &mut Attempt,
        mut take: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        poll_fn(|context| {
            let mut buffer = io.buffer();
            for _ in 0..READS {
                let count = match self.poll_read(context, &mut buffer) {
                    Poll::Pending if timer.over(deadline) => return Poll::Ready(Err(Stop::Late)),
                    polled => ready!(polled)?,
                };
                if count == 0 {
                    return Poll::Ready(Ok(None));
                }
                attempt.read(count);
                deadline = attempt.end.saturating_add(patience.read_ns);
                if let Some(taken) = take(&buffer[..count]) {
                    return Poll::Ready(Ok(Some(taken)));
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
    let mut answer = Vec::new();
    loop {
        let count = poll_fn(|_| {
            let mut buffer = io.buffer();
            let count = ready!(stream.poll_recv(&mut buffer))?;
            answer.extend_from_slice(&buffer[..count]);
            Poll::Ready(io::Result::Ok(count))
        });
        let count = count.await.map_err(talking)?;
        if count == 0 {
            return Err(Failure::closed_early());
        }
        attempt.received += count as u64;
        if let Some(head) = head::parse(&answer, true).map_err(Unreadable::from)? {
            return match head.status {
                200..300 if head.length == answer.len() => Ok(()),
                200..300 => Err(Unreadable::Bad.into()),
                status => Err(Failure::error(format!("proxy {status}"))),
            };
        }
    }
}

/// Connects, and does what must be done before a request can be sent.
async fn open(io: &Io, route: &Route, names: Names, attempt: &mut Attempt) -> Result<Transport, Failure> {
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
        Some(security) => {
            let secured = names.secure(stream, security, attempt).await;
            secured.map_err(|error| Failure::talking(&error))?
        }
    })
}
