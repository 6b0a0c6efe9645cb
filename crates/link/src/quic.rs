//! QUIC as a link needs it: one stream, opened by the controller, and connections that cost little
//! while they wait.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, IdleTimeout, RecvStream,
    SendStream, StoppedError, TokioRuntime, TransportConfig, ValidationTokenConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncWrite;

use crate::identity::IdentityError;
use crate::transport::{Link, Transport};

/// Longer than a cut that the session above survives without noticing, and no longer than it keeps
/// a lost link's place.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Shorter than the 30 s after which common address translators forget a UDP flow. The agent keeps
/// alive, the controller does not: one packet each way is enough, and the controller's timers are
/// many.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Kernel buffers of a controller's socket, which all its connections share. The kernel gives no
/// more than `net.core.rmem_max`, by default 208 KiB: a hundred packets, so that many agents at
/// once lose some and come in later.
const SOCKET_BUFFER: usize = 4 << 20;
/// What a stranger may make us keep before his first packet is answered: of one connection, and of
/// all.
const MAX_EARLY_BYTES: u64 = 16 << 10;
const MAX_EARLY_BYTES_TOTAL: u64 = 1 << 20;
/// Bytes an agent may have on the way unacknowledged: 4 MiB at 315 ms are 13 MB/s.
const AGENT_WINDOW: u32 = 4 << 20;

/// Error code of a stream whose writer was dropped before it was shut down.
const BROKEN_CODE: VarInt = VarInt::from_u32(1);

/// A controller's endpoint on `socket`. `window` bounds what one agent can make it hold, bytes in
/// each direction.
pub(crate) fn server(
    socket: UdpSocket,
    crypto: rustls::ServerConfig,
    window: u32,
    unfinished: usize,
) -> Result<Endpoint, ServerError> {
    let crypto = QuicServerConfig::try_from(crypto).map_err(IdentityError::from)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = transport(window);
    // The controller opens the one stream: an agent can open none.
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    // What a controller sends is short. To look for longer packets would cost a new link a third
    // more of them, and 1.5 KB.
    transport.mtu_discovery_config(None);
    // Tokens that spare a later connection its round trip would be one frame and one key each, for
    // a round trip a run.
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config
        .transport_config(Arc::new(transport))
        .validation_token_config(tokens)
        .max_incoming(unfinished)
        .incoming_buffer_size(MAX_EARLY_BYTES)
        .incoming_buffer_size_total(MAX_EARLY_BYTES_TOTAL);
    endpoint(socket, Some(config)).map_err(ServerError::Socket)
}

/// Why no endpoint could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error(transparent)]
    Keys(#[from] IdentityError),
    #[error(transparent)]
    Socket(io::Error),
}

/// Settings of an agent's connections.
pub(crate) fn client(crypto: rustls::ClientConfig) -> Result<quinn::ClientConfig, IdentityError> {
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let mut transport = transport(AGENT_WINDOW);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// An agent's endpoint for controllers of the address family of `peer`: one socket, on a port that
/// the kernel picks.
pub(crate) fn client_endpoint(peer: IpAddr) -> io::Result<Endpoint> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    endpoint(bind(SocketAddr::new(any, 0))?, None)
}

fn endpoint(socket: UdpSocket, server: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.cid_generator(|| Box::new(ConnectionIds));
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime))
}

/// Makes connection ids of 64 random bits.
///
/// Those of quinn's default have 24, and the one that stands in a Retry is not compared with those
/// in use: of very many connections, one handshake in a hundred would be taken for a packet of
/// another connection, and never answered.
struct ConnectionIds;

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&rand::random::<u64>().to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A UDP socket with large buffers.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel clips what it does not allow; a small buffer loses datagrams, which QUIC sends
    // again.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The two halves of the one stream as a link.
pub(crate) fn link(connection: &Connection, send: SendStream, receive: RecvStream) -> Link {
    Link {
        reader: Box::new(receive),
        writer: Box::new(Writer { send, end: End::Open }),
        peer: connection.remote_address(),
        via: Transport::Quic,
    }
}

fn transport(window: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(window))
        .send_window(u64::from(window))
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(
            IDLE_TIMEOUT.as_millis() as u32,
        ))));
    transport
}

type Acknowledged = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

enum End {
    Open,
    Finishing(Acknowledged),
    Done,
}

/// The sending half.
///
/// quinn's own finishes the stream when it is dropped, so that a task that failed half-way would
/// look like an orderly end, and its shutdown returns before anything has arrived, so that a
/// connection dropped after it loses what is on the way.
struct Writer {
    send: SendStream,
    end: End,
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.end {
                End::Open => {
                    let acknowledged = Box::pin(self.send.stopped());
                    self.send.finish()?;
                    self.end = End::Finishing(acknowledged);
                }
                End::Finishing(acknowledged) => {
                    let stopped = ready!(acknowledged.as_mut().poll(context));
                    self.end = End::Done;
                    return Poll::Ready(match stopped {
                        Ok(None) => Ok(()),
                        Ok(Some(_)) => Err(io::ErrorKind::BrokenPipe.into()),
                        Err(error) => Err(error.into()),
                    });
                }
                End::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Of a stream whose finish was begun, the reset takes back what the peer has not
        // acknowledged.
        if !matches!(self.end, End::Done) {
            let _ = self.send.reset(BROKEN_CODE);
        }
    }
}
