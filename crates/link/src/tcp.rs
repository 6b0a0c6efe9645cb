//! TCP as a link needs it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::quic;
use crate::transport::{Link, Transport};

/// Connections that wait to be taken; the kernel may allow fewer.
const BACKLOG: i32 = 4096;

/// Messages leave at once, and a peer that has vanished is found out after as long as over QUIC,
/// whether bytes are on the way to it (user time-out) or not (keep-alive). The session above has
/// heartbeats of its own and mostly knows sooner.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new()
        .with_time(quic::KEEP_ALIVE_INTERVAL)
        .with_interval(Duration::from_secs(10))
        .with_retries(4);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(quic::IDLE_TIMEOUT))
}

/// A listener that takes over the port of one that has just ended.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A TLS stream as a link.
pub(crate) fn link(stream: impl AsyncRead + AsyncWrite + Send + 'static, peer: SocketAddr) -> Link {
    let (reader, writer) = tokio::io::split(stream);
    Link {
        reader: Box::new(reader),
        writer: Box::new(writer),
        peer,
        via: Transport::Tcp,
    }
}
