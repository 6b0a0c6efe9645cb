//! Connections of one tester, and one request with its answer over them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use plimsoll_model::Cache;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::body::Chunked;
use super::head::{self, Bad, Framing, Head};
use crate::driver::{Attempt, Waiting};
use crate::failure::Failure;
use crate::net::{Host, Stream};
use crate::reactor::Io;

/// Longest body that is kept in memory, bytes.
pub const LONGEST_KEPT: usize = 256 * 1024 * 1024;

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

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Three digits.
    pub status: u16,
    /// Bytes of the body, transfer coding removed.
    pub body: u64,
    /// What caches said.
    pub cache: Cache,
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
    buffer: Box<[u8]>,
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

impl From<Bad> for Failure {
    fn from(_: Bad) -> Self {
        Self::error("bad response")
    }
}

impl Connections {
    /// None open yet, for `ways` ways.
    pub fn new(io: &Io, ways: usize) -> Self {
        Self {
            io: Rc::clone(io),
            kept: (0..ways).map(|_| None).collect(),
            sessions: 0,
            buffer: vec![0; head::LONGEST].into_boxed_slice(),
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
                None => self.connect(exchange.route, attempt).await?,
            };
            attempt.session = if exchange.keep { connection.session } else { 0 };
            attempt.waiting = Waiting::FirstByte;
            let result = round_trip(
                &mut connection.transport,
                &mut self.buffer,
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
            open_tunnel(&mut stream, &mut self.buffer, tunnel, attempt).await?;
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

    #[inline]
    async fn receive(&mut self, buffer: &mut [u8], attempt: &mut Attempt) -> io::Result<usize> {
        let count = poll_fn(|context| self.poll_read(context, buffer)).await?;
        if count > 0 {
            attempt.read(count);
        }
        Ok(count)
    }
}

async fn open_tunnel(
    stream: &mut Stream,
    buffer: &mut [u8],
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
    let mut filled = 0;
    loop {
        let count = poll_fn(|_| stream.poll_recv(&mut buffer[filled..]))
            .await
            .map_err(talking)?;
        if count == 0 {
            return Err(Failure::closed_early());
        }
        attempt.received += count as u64;
        filled += count;
        if let Some(head) = head::parse(&buffer[..filled], true)? {
            return match head.status {
                200..300 if head.length == filled => Ok(()),
                200..300 => Err(Failure::error("bad response")),
                status => Err(Failure::error(format!("proxy {status}"))),
            };
        }
    }
}

/// One request and its answer on a connection; gives also whether it may carry another.
async fn round_trip(
    transport: &mut Transport,
    buffer: &mut [u8],
    exchange: &mut Exchange<'_>,
    reused: bool,
    attempt: &mut Attempt,
) -> Result<(Answer, bool), Broken> {
    let received = attempt.received;
    // A peer that answers early (413, 503) may close while we still send: its answer counts, if there is one.
    let unsent = transport.send(exchange.request, attempt).await.err();
    let (head, filled) = match read_head(transport, buffer, exchange.head_only, attempt).await {
        Ok(found) => found,
        Err(None) if reused && attempt.received == received => return Err(Broken::Stale),
        Err(None) => return Err(Failure::closed_early().into()),
        Err(Some(ReadHead::Io(error))) => {
            let gone = matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            );
            if reused && gone && attempt.received == received {
                return Err(Broken::Stale);
            }
            return Err(Failure::talking(unsent.as_ref().unwrap_or(&error)).into());
        }
        Err(Some(ReadHead::Bad)) => return Err(Failure::from(Bad).into()),
    };
    let body = read_body(
        transport,
        buffer,
        &head,
        filled,
        exchange.body.as_deref_mut(),
        attempt,
    )
    .await?;
    let clean = body.clean && unsent.is_none();
    Ok((
        Answer {
            status: head.status,
            body: body.length,
            cache: head.cache,
        },
        head.keep && clean,
    ))
}

enum ReadHead {
    Io(io::Error),
    Bad,
}

/// Reads to the end of a head, past any interim answers; gives it with the number of bytes in `buffer`, head included.
/// `Err(None)`: the peer closed.
async fn read_head(
    transport: &mut Transport,
    buffer: &mut [u8],
    head_only: bool,
    attempt: &mut Attempt,
) -> Result<(Head, usize), Option<ReadHead>> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            return Err(Some(ReadHead::Bad));
        }
        let count = transport
            .receive(&mut buffer[filled..], attempt)
            .await
            .map_err(|error| Some(ReadHead::Io(error)))?;
        if count == 0 {
            return Err(None);
        }
        let seen = filled;
        filled += count;
        // A head that comes byte by byte must not be parsed anew for each. What is plainly not HTTP is seen at once.
        if seen > 16 && !head::may_be_whole(&buffer[..filled], seen) {
            continue;
        }
        loop {
            match head::parse(&buffer[..filled], head_only) {
                Err(Bad) => return Err(Some(ReadHead::Bad)),
                Ok(None) => break,
                Ok(Some(head)) if head.status == 101 => return Err(Some(ReadHead::Bad)),
                Ok(Some(head)) if head.status < 200 => {
                    buffer.copy_within(head.length..filled, 0);
                    filled -= head.length;
                }
                Ok(Some(head)) => return Ok((head, filled)),
            }
        }
    }
}

/// A body that was read.
struct Body {
    length: u64,
    /// Nothing came after it.
    clean: bool,
}

async fn read_body(
    transport: &mut Transport,
    buffer: &mut [u8],
    head: &Head,
    filled: usize,
    mut keep: Option<&mut Vec<u8>>,
    attempt: &mut Attempt,
) -> Result<Body, Failure> {
    let (mut from, mut to) = (head.length, filled);
    let mut length = 0_u64;
    let mut chunked = Chunked::default();
    loop {
        let so_far = length;
        let mut take = |data: &[u8]| {
            length += data.len() as u64;
            if let Some(keep) = &mut keep {
                keep.extend_from_slice(data);
            }
        };
        let done = match head.framing {
            Framing::Length(whole) => {
                let left = usize::try_from(whole - so_far).unwrap_or(usize::MAX);
                let count = left.min(to - from);
                take(&buffer[from..from + count]);
                from += count;
                count == left
            }
            Framing::Chunked => {
                from += chunked.feed(&buffer[from..to], &mut take)?;
                chunked.done()
            }
            Framing::ToEnd => {
                take(&buffer[from..to]);
                false
            }
        };
        if done {
            return Ok(Body {
                length,
                clean: from == to,
            });
        }
        if keep.as_ref().is_some_and(|kept| kept.len() > LONGEST_KEPT) {
            return Err(Failure::error("answer too long to keep"));
        }
        let count = transport
            .receive(buffer, attempt)
            .await
            .map_err(|error| Failure::talking(&error))?;
        (from, to) = (0, count);
        if count == 0 {
            if head.framing == Framing::ToEnd {
                // The end of the stream is the end of the answer.
                attempt.end = attempt.now();
                return Ok(Body { length, clean: true });
            }
            return Err(Failure::closed_early());
        }
    }
}
