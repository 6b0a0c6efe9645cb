//! A listening socket on a lane's reactor, for protocols in which the server connects.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::task::Poll;

use super::Stream;
use crate::lane::reactor::{Io, Way};

/// A listening, non-blocking TCP socket that belongs to the task that made it.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    source: u32,
    io: Io,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.io.forget(self.source);
    }
}

impl Listener {
    /// Listens on a free port of `address`.
    pub fn bind(io: &Io, address: IpAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(SocketAddr::new(address, 0))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            address: socket.local_addr()?,
            source: io.register(socket.as_raw_fd())?,
            socket,
            io: Rc::clone(io),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts a connection.
    pub fn poll_accept(&self) -> Poll<io::Result<Stream>> {
        if !self.io.is_ready(self.source, Way::Read) {
            return Poll::Pending;
        }
        loop {
            match self.socket.accept() {
                Ok((socket, _)) => return Poll::Ready(Stream::accepted(&self.io, socket)),
                // A connection that has already failed is not an error of the listener.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.clear_ready(self.source, Way::Read);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
