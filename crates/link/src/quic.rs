//! Endpoints and links over QUIC: one stream, which the controller opens, and connections that need
//! little memory and few packets while they are idle.

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

/// A connection without packets for this time has ended. It is longer than an interruption that the
/// line above survives, and not longer than the default grace for a lost link.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of keep-alive packets. It is shorter than the 30 s after which common address
/// translators drop a UDP flow. Only the agent sends them: one packet in each direction is enough,
/// and the controller would need one timer per agent.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Requested size of the kernel buffers of a socket, bytes; all connections of a controller share
/// them. The kernel allows at most `net.core.rmem_max`, by default 208 KiB: about a hundred
/// packets. If many agents connect at once, some packets are lost and are sent again.
const SOCKET_BUFFER: usize = 4 << 20;
/// Maximum number of bytes that are kept for a client before its first packet is answered: for one
/// connection, and for all.
const MAX_EARLY_BYTES: u64 = 16 << 10;
const MAX_EARLY_BYTES_TOTAL: u64 = 1 << 20;
/// Maximum number of unacknowledged bytes of an agent: 4 MiB at 315 ms allow 13 MB/s.
const AGENT_WINDOW: u32 = 4 << 20;

/// Error code of a stream whose writer was dropped before it was shut down.
const BROKEN_CODE: VarInt = VarInt::from_u32(1);

/// The endpoint of a controller on `socket`. `window` limits the bytes that it buffers for one
/// agent in each direction.
pub(crate) fn server(
    socket: UdpSocket,
    crypto: rustls::ServerConfig,
    window: u32,
    unfinished: usize,
) -> Result<Endpoint, ServerError> {
    let crypto = QuicServerConfig::try_from(crypto).map_err(IdentityError::from)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = transport(window);
    // The controller opens the only stream; an agent may not open any.
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    // A controller sends short messages. MTU discovery would cost a new link a third more packets,
    // and 1.5 kB.
    transport.mtu_discovery_config(None);
    // Address validation tokens would save a later connection one round trip. They would cost one
    // frame and one key per connection, for one round trip per run.
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

/// Why an endpoint could not be created.
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

/// The endpoint of an agent for controllers with the address family of `peer`: one socket, on a
/// port that the kernel selects.
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

/// Generates connection ids of 64 random bits.
///
/// By default quinn's ids have 24 bits, and the id in a Retry packet is not compared with those in
/// use. With very many connections, one handshake in a hundred would be assigned to another
/// connection and never be answered.
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
    // The kernel reduces a size that it does not allow. With a small buffer datagrams are lost, and
    // QUIC sends them again.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A link from the two halves of the stream.
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

type Acknowledgement = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

enum End {
    Open,
    Finishing(Acknowledgement),
    Done,
}

/// The sending half of the stream.
///
/// quinn's own sending half is not used: it finishes the stream when it is dropped, so a task that
/// failed would look like an orderly end. Its shutdown returns before the bytes have arrived, so a
/// connection that is dropped afterwards loses the bytes in flight.
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
        // If the finish is incomplete, the reset discards the bytes that the peer has not
        // acknowledged.
        if !matches!(self.end, End::Done) {
            let _ = self.send.reset(BROKEN_CODE);
        }
    }
}
