//! TCP on a lane's reactor.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::reactor::{Io, Way};

/// A connected, non-blocking TCP socket that belongs to the task that made it.
pub struct Stream {
    socket: TcpStream,
    source: u32,
    io: Io,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.io.forget(self.source);
    }
}

impl Stream {
    /// Connects to one address. Dropping the future closes the socket.
    pub async fn connect(io: &Io, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )?;
        socket.set_tcp_nodelay(true)?;
        let waiting = match socket.connect(&address.into()) {
            Ok(()) => false,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => true,
            Err(error) => return Err(error),
        };
        let source = io.register(socket.as_raw_fd())?;
        let stream = Self {
            socket: socket.into(),
            source,
            io: Rc::clone(io),
        };
        if waiting {
            std::future::poll_fn(|_| {
                if io.ready(source, Way::Write) || io.closed(source) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            if let Some(error) = stream.socket.take_error()? {
                return Err(error);
            }
        }
        Ok(stream)
    }

    /// Whether the peer is known to have closed.
    pub fn closed(&self) -> bool {
        self.io.closed(self.source)
    }

    /// Reads what is there; 0 at the end of the stream.
    #[inline]
    pub fn poll_recv(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.attempt(Way::Read, buffer.len(), |mut socket| socket.read(buffer))
    }

    /// Writes what there is room for.
    #[inline]
    pub fn poll_send(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attempt(Way::Write, bytes.len(), |mut socket| socket.write(bytes))
    }

    #[inline]
    fn attempt(
        &self,
        way: Way,
        length: usize,
        mut call: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if !self.io.ready(self.source, way) {
            return Poll::Pending;
        }
        loop {
            match call(&self.socket) {
                Ok(count) => {
                    if count < length {
                        self.io.exhausted(self.source, way);
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.exhausted(self.source, way);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = self.get_mut().poll_recv(buffer.initialize_unfilled());
        result.map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(std::net::Shutdown::Write))
    }
}

/// A host and its addresses, looked up once before the run: a look-up would block the lane, and its time is not the
/// service's. Where a host has several addresses, the one that last accepted is tried first.
#[derive(Debug)]
pub struct Host {
    addresses: Vec<SocketAddr>,
    good: AtomicUsize,
}

impl Host {
    /// Looks `name` up. `Err` says what to do.
    pub fn resolve(name: &str, port: u16) -> Result<Self, String> {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let found = (bare, port).to_socket_addrs().map_err(|error| {
            format!("the name {bare} cannot be looked up ({error}): check its spelling, or give the address")
        })?;
        let mut addresses: Vec<SocketAddr> = found.collect();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(format!("the name {bare} has no address"));
        }
        Ok(Self {
            addresses,
            good: AtomicUsize::new(0),
        })
    }

    /// The address that last accepted, or the first.
    pub fn address(&self) -> SocketAddr {
        self.addresses[self.good.load(Ordering::Relaxed)]
    }

    /// Connects to the first of its addresses that accepts; the error is the last one's.
    pub async fn connect(&self, io: &Io) -> io::Result<Stream> {
        let count = self.addresses.len();
        let first = self.good.load(Ordering::Relaxed);
        let mut last = None;
        for turn in 0..count {
            let which = (first + turn) % count;
            match Stream::connect(io, self.addresses[which]).await {
                Ok(stream) => {
                    if turn > 0 {
                        self.good.store(which, Ordering::Relaxed);
                    }
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
    }
}
