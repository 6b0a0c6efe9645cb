//! Connections of one tester, and one request with its answer over them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::answer::{Answer, Reader, Unreadable};
use super::head;
use crate::driver::{Attempt, Waiting};
use crate::failure::Failure;
use crate::net::{Host, Stream};
use crate::reactor::Io;

/// Reads in a row before the other testers of the lane have their turn.
const READS: u32 = 16;

/// The way to an endpoint.
pub struct Route {
    /// Whom to connect to: the endpoint, or a proxy.
    pub host: Arc<Host>,
    /// Request for a tunnel through the proxy.
    pub tunnel: Option<Vec<u8>>,
    /// TLS with the endpoint.
    pub tls: Option<(TlsConnector, ServerName<'static>)>,
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
}

enum Transport {
    Plain(Stream),
    Tls(Box<TlsStream<Stream>>),
}

/// An open connection.
struct Kept {
    transport: Transport,
    session: u32,
}

/// Connections of one tester, one per way.
pub struct Connections {
    io: Io,
    kept: Vec<Option<Kept>>,
    sessions: u32,
}

/// Why an exchange over a connection broke.
enum Broken {
    /// The peer had closed a kept connection before it saw the request.
    Stale,
    Failed(Failure),
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
    pub fn new(io: &Io, ways: usize) -> Self {
        Self {
            io: Rc::clone(io),
            kept: (0..ways).map(|_| None).collect(),
            sessions: 0,
        }
    }

    /// Closes all.
    pub fn close(&mut self) {
        self.kept.fill_with(|| None);
    }

    /// Sends a request and reads its answer. Stamps, counts and session go to `attempt`, whose end is stamped right after
    /// the last read. A kept connection that the peer closes before any byte of an answer is replaced, once, within the
    /// same transaction (`attempt` 1): servers close idle connections at any time, and a client must expect it
    /// (RFC 9112, section 9.3.1).
    pub async fn exchange(
        &mut self,
        mut exchange: Exchange<'_>,
        attempt: &mut Attempt,
    ) -> Result<Answer, Failure> {
        let mut kept = self.kept[exchange.way]
            .take()
            .filter(|kept| !kept.transport.closed());
        loop {
            let reused = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed: the state of a TLS handshake would make every task three times as large, and the tasks of hundreds of
                // testers should fit into the cache.
                None => Box::pin(self.connect(exchange.route, attempt)).await?,
            };
            attempt.session = if exchange.keep { connection.session } else { 0 };
            attempt.waiting = Waiting::FirstByte;
            let result = round_trip(
                &self.io,
                &mut connection.transport,
                &mut exchange,
                reused,
                attempt,
            )
            .await;
            match result {
                Ok((answer, keep)) => {
                    if keep && exchange.keep {
                        self.kept[exchange.way] = Some(connection);
                    }
                    return Ok(answer);
                }
                Err(Broken::Stale) => attempt.attempt = 1,
                Err(Broken::Failed(failure)) => return Err(failure),
            }
        }
    }

    async fn connect(&mut self, route: &Route, attempt: &mut Attempt) -> Result<Kept, Failure> {
        attempt.waiting = Waiting::Connect;
        let connecting = |error: io::Error| Failure::connecting(&error);
        let mut stream = route.host.connect(&self.io).await.map_err(connecting)?;
        if let Some(tunnel) = &route.tunnel {
            open_tunnel(&self.io, &mut stream, tunnel, attempt).await?;
        }
        let transport = match &route.tls {
            None => Transport::Plain(stream),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                Transport::Tls(Box::new(stream.map_err(|error| Failure::talking(&error))?))
            }
        };
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok(Kept {
            transport,
            session: self.sessions,
        })
    }
}

impl Transport {
    fn closed(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.closed(),
            Self::Tls(stream) => stream.get_ref().0.closed(),
        }
    }

    #[inline]
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(buffer),
            Self::Tls(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                match Pin::new(stream).poll_read(context, &mut buffer) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                    // Many servers end without the closing alert; whether the answer is whole is seen by its framing.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Poll::Ready(Ok(0))
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                }
            }
        }
    }

    #[inline]
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_send(bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    async fn send(&mut self, bytes: &[u8], attempt: &mut Attempt) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            let count = poll_fn(|context| self.poll_write(context, &bytes[sent..])).await?;
            sent += count;
            attempt.sent += count as u64;
        }
        if let Self::Tls(stream) = self {
            poll_fn(|context| Pin::new(&mut **stream).poll_flush(context)).await?;
        }
        Ok(())
    }

    /// Reads until `taken` says that it has all it wants, or the peer closes: `Some` of its word, or none. The lane's one
    /// buffer serves all testers: with one for each, hundreds of testers would run out of the cache.
    async fn receive<T>(
        &mut self,
        io: &Io,
        attempt: &mut Attempt,
        mut take: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        poll_fn(|context| {
            let mut buffer = io.buffer();
            for _ in 0..READS {
                let count = ready!(self.poll_read(context, &mut buffer))?;
                if count == 0 {
                    return Poll::Ready(Ok(None));
                }
                attempt.read(count);
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

/// One request and its answer on a connection; gives also whether it may carry another.
async fn round_trip(
    io: &Io,
    transport: &mut Transport,
    exchange: &mut Exchange<'_>,
    reused: bool,
    attempt: &mut Attempt,
) -> Result<(Answer, bool), Broken> {
    let received = attempt.received;
    // A peer that answers early (413, 503) may close while we still send: its answer counts, if there is one.
    let unsent = transport.send(exchange.request, attempt).await.err();
    let mut reader = Reader::new(exchange.head_only);
    let read = transport.receive(io, attempt, |bytes| {
        match reader.feed(bytes, exchange.body.as_deref_mut()) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(why) => Some(Err(why)),
        }
    });
    let untouched = |attempt: &Attempt| reused && attempt.received == received;
    match read.await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(why))) => return Err(Failure::from(why).into()),
        Ok(None) if reader.end() => attempt.end = attempt.now(),
        Ok(None) if untouched(attempt) => return Err(Broken::Stale),
        Ok(None) => return Err(Failure::closed_early().into()),
        Err(error) => {
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
