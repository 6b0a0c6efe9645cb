//! TCP on a lane's reactor, and TLS above it.

pub mod tls;
pub mod transport;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::reactor::{Io, Way};

/// A connected, non-blocking TCP socket that belongs to the task that made it.
pub struct Stream {
    socket: TcpStream,
    source: u32,
    io: Io,
}

/// What the kernel has measured of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Smoothed time from a segment to its acknowledgement (RFC 6298), s, in whole microseconds;
    /// above 0.
    pub round_trip_s: f64,
    /// Segments that were sent anew since the connection was made.
    pub retransmits: u32,
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

    /// What the kernel has measured so far; none where it has not measured, or does not tell.
    pub fn measured(&self) -> Option<Measured> {
        let info = tcp_info(&self.socket)?;
        // Before Linux 4.6 there is no least one.
        let least = Some(info.tcpi_min_rtt).filter(|us| (1..u32::MAX).contains(us));
        let round_trip_us = least.unwrap_or(info.tcpi_rtt);
        (round_trip_us > 0).then(|| Measured {
            round_trip_s: f64::from(round_trip_us) * 1e-6,
            retransmits: info.tcpi_total_retrans,
        })
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

/// What the kernel says of a TCP socket. Fields that it is too old to know are 0.
fn tcp_info(socket: &TcpStream) -> Option<libc::tcp_info> {
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: plain numbers, for which zero is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    // SAFETY: the socket is open as long as the borrow; the kernel writes at most `length` bytes
    // into `info`.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (rc == 0).then_some(info)
}

/// A host and its addresses, looked up once before the run: a look-up would block the lane, and its
/// time is not the service's. Where a host has several addresses, the one that last accepted is
/// tried first.
#[derive(Debug)]
pub struct Host {
    addresses: Vec<SocketAddr>,
    good: AtomicUsize,
}

impl Host {
    /// Looks `name` up. `Err` says what to do.
    pub fn resolve(name: &str, port: u16) -> Result<Self, String> {
        let bare = bare(name);
        let found = look_up(bare).map_err(|error| {
            format!("the name {bare} cannot be looked up ({error}): check its spelling, or give the address")
        })?;
        let addresses = found.into_iter().map(|address| SocketAddr::new(address, port));
        Ok(Self {
            addresses: addresses.collect(),
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

/// Longest look-up of one name.
const LOOK_UP: Duration = Duration::from_secs(20);
/// Most addresses of one name that are of use.
const MAX_ADDRESSES: usize = 64;

/// Whether `name` is an IP address, in brackets or not: it needs no lookup.
pub fn is_address(name: &str) -> bool {
    bare(name).parse::<IpAddr>().is_ok()
}

fn bare(name: &str) -> &str {
    name.trim_start_matches('[').trim_end_matches(']')
}

/// The addresses of a name in the order in which they are to be tried, at least one.
///
/// The host's own `getent` is asked. The C library's `getaddrinfo` is not called: it loads what
/// /etc/nsswitch.conf names into the process, which a statically linked one survives only where
/// that is of the very version that it was built with. A host without `getent` (musl, `BusyBox`)
/// has its /etc/hosts.
pub fn look_up(name: &str) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    if name.is_empty()
        || name.starts_with('-')
        || name.contains(|sign: char| sign.is_whitespace() || sign == '\0')
    {
        return Err("this is no name of a host".into());
    }
    let found = match ask_getent(name) {
        Ok(said) => told(&said),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hosts = fs::read_to_string("/etc/hosts").map_err(|error| format!("/etc/hosts: {error}"))?;
            listed(&hosts, name)
        }
        Err(error) => return Err(format!("getent: {error}")),
    };
    if found.is_empty() {
        return Err("no such name".into());
    }
    Ok(found)
}

/// What `getent ahosts` says; empty where it knows no such name. `NotFound`: there is no `getent`.
fn ask_getent(name: &str) -> io::Result<String> {
    let mut child = Command::new("getent")
        .args(["ahosts", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take();
    let ended = wait(&mut child, Instant::now() + LOOK_UP);
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let mut said = String::new();
    if let Some(output) = output {
        // It has ended, and what a pipe holds is bounded: there is nothing to wait for.
        output.take(1 << 20).read_to_string(&mut said)?;
    }
    Ok(said)
}

fn wait(child: &mut Child, deadline: Instant) -> io::Result<()> {
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(()),
            // An agent reaps whatever has ended.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            Err(error) => return Err(error),
        }
        if Instant::now() > deadline {
            let said = format!("no answer within {} s", LOOK_UP.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, said));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The addresses in lines such as "192.0.2.1  STREAM  name", each once.
fn told(lines: &str) -> Vec<IpAddr> {
    once(lines.lines().filter_map(|line| line.split_whitespace().next()))
}

/// The addresses of a name in the text of /etc/hosts.
fn listed(hosts: &str, name: &str) -> Vec<IpAddr> {
    once(hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    }))
}

fn once<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for address in addresses.filter_map(|text| text.parse().ok()) {
        if !found.contains(&address) && found.len() < MAX_ADDRESSES {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_look_up_and_names_are_the_hosts_own() {
        assert_eq!(
            look_up("192.0.2.7").unwrap(),
            ["192.0.2.7".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(look_up("::1").unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert!(look_up("localhost").unwrap().iter().all(IpAddr::is_loopback));
        let two = Host::resolve("[::1]", 80).unwrap();
        assert_eq!(two.address(), "[::1]:80".parse().unwrap());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["", "-x", "a b", "a\0b", "nowhere.invalid"] {
            assert!(look_up(name).is_err(), "{name:?}");
        }
        let said = Host::resolve("nowhere.invalid", 80).unwrap_err();
        assert!(said.contains("nowhere.invalid cannot be looked up"), "{said}");
    }

    #[test]
    fn answers_are_read_in_their_order_and_each_once() {
        let said =
            "2001:db8::1 STREAM h.example\n2001:db8::1 DGRAM\n192.0.2.1  STREAM\nfe80::1%eth0 STREAM\n";
        let wanted: Vec<IpAddr> = vec!["2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
        assert_eq!(told(said), wanted);
        assert!(told("").is_empty());
    }

    #[test]
    fn the_file_of_hosts_is_read_without_its_remarks() {
        let hosts = "# 192.0.2.9 db\n192.0.2.1\tdb.example DB # also\n192.0.2.2 other\n::1 db\nrubbish db\n";
        let wanted: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(listed(hosts, "db"), wanted);
        assert!(listed(hosts, "also").is_empty());
    }

    #[test]
    fn who_does_not_answer_is_left() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let error = wait(&mut child, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
