//! Sockets and links over TCP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::quic;
use crate::transport::{Link, Transport};

/// Maximum number of connections that wait for `accept`. The kernel may allow fewer.
const BACKLOG: i32 = 4096;

/// Sets the options of a connection: messages are sent at once, and a peer that has disappeared is
/// detected after the same time as over QUIC, with bytes in flight (user timeout) or without
/// (keep-alive). The heartbeats of the line above usually detect it sooner.
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

/// A listener on `address`. It can bind the port of a listener that has just ended.
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
