//! TCP on a lane's reactor, and TLS above it.
//!
//! This file contains sockets and the lookup of hosts, `listener` sockets that accept connections,
//! `source` the local addresses of connections, `tls` the configuration of TLS, `identity` the
//! certificate or proxy of a client, `transport` a connection with or without TLS, and
//! `round_trips` the metrics of connections.

pub mod error;
pub mod identity;
pub mod listener;
pub mod round_trips;
pub mod source;
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

use crate::lane::reactor::{Io, Way};
use error::{HostError, LookupError, SourceError};
use source::SourceTurns;

/// A connected, non-blocking TCP socket that belongs to the task that made it.
pub struct Stream {
    socket: TcpStream,
    source: u32,
    io: Io,
}

/// What the kernel has measured for a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpInfo {
    /// Minimum time from a segment to its acknowledgement, s, in whole microseconds; greater than
    /// 0. Before Linux 4.6: the smoothed time (RFC 6298).
    pub round_trip_s: f64,
    /// Segments that were retransmitted since the connection was established.
    pub retransmits: u32,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.io.forget(self.source);
    }
}

impl Stream {
    /// Connects to one address, from the local address `source` or from the one that the kernel
    /// selects. Dropping the future closes the socket.
    pub async fn connect(io: &Io, address: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = source {
            source::bind(&socket, source)?;
        }
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
                if io.is_ready(source, Way::Write) || io.is_closed(source) {
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

    /// Takes over a connection that this host has accepted.
    fn accepted(io: &Io, socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Self {
            source: io.register(socket.as_raw_fd())?,
            socket,
            io: Rc::clone(io),
        })
    }

    /// The local address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The address of the peer.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Whether the kernel has reported that the peer closed the connection.
    pub fn is_closed(&self) -> bool {
        self.io.is_closed(self.source)
    }

    /// What the kernel has measured so far; none if it has no measurement yet or does not report
    /// it.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        let info = read_tcp_info(&self.socket)?;
        // Before Linux 4.6 there is no minimum.
        let minimum = Some(info.tcpi_min_rtt).filter(|us| (1..u32::MAX).contains(us));
        let round_trip_us = minimum.unwrap_or(info.tcpi_rtt);
        (round_trip_us > 0).then(|| TcpInfo {
            round_trip_s: f64::from(round_trip_us) * 1e-6,
            retransmits: info.tcpi_total_retrans,
        })
    }

    /// Reads the bytes that are available; 0 at the end of the stream.
    #[inline]
    pub fn poll_recv(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.attempt(Way::Read, buffer.len(), |mut socket| socket.read(buffer))
    }

    /// Writes as many bytes as the socket accepts.
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
        if !self.io.is_ready(self.source, way) {
            return Poll::Pending;
        }
        loop {
            match call(&self.socket) {
                Ok(count) => {
                    if count < length {
                        self.io.clear_ready(self.source, way);
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.clear_ready(self.source, way);
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

/// Reads `TCP_INFO` of a socket. Fields that an old kernel does not have are 0.
fn read_tcp_info(socket: &TcpStream) -> Option<libc::tcp_info> {
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

/// A host and its addresses, looked up once before the run: a lookup would block the lane, and its
/// time is not that of the service. If a host has several addresses, the one that last accepted a
/// connection is tried first.
#[derive(Debug)]
pub struct Host {
    addresses: Vec<SocketAddr>,
    /// Index of the address that last accepted.
    last_good: AtomicUsize,
    /// Local addresses of the connections; none: the kernel selects one.
    sources: Option<SourceTurns>,
}

impl Host {
    /// Looks up the addresses of `name`.
    pub fn resolve(name: &str, port: u16) -> Result<Self, HostError> {
        let name = without_brackets(name);
        let addresses = look_up(name).map_err(|source| HostError {
            name: name.to_owned(),
            source,
        })?;
        let addresses = addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port));
        Ok(Self {
            addresses: addresses.collect(),
            last_good: AtomicUsize::new(0),
            sources: None,
        })
    }

    /// Connects from these local addresses in turn, if there are any. Addresses of the host of a
    /// family that no source has are not used.
    ///
    /// # Errors
    /// No address of the host has the family of a source, or the kernel refuses a source for an
    /// address of the host.
    pub fn connect_from(&mut self, sources: &[IpAddr]) -> Result<(), SourceError> {
        if !sources.is_empty() {
            self.addresses = source::reachable(&self.addresses, sources)?;
            self.sources = Some(SourceTurns::new(sources));
        }
        Ok(())
    }

    /// Whether a connection to one of its addresses can come from `source`, by its family.
    pub fn has_family_of(&self, source: IpAddr) -> bool {
        let same = |address: &SocketAddr| address.is_ipv4() == source.is_ipv4();
        self.addresses.iter().any(same)
    }

    /// The address that last accepted, or the first.
    pub fn address(&self) -> SocketAddr {
        self.addresses[self.last_good.load(Ordering::Relaxed)]
    }

    /// Connects to the first of its addresses that accepts. The error is that of the last address.
    pub async fn connect(&self, io: &Io) -> io::Result<Stream> {
        let count = self.addresses.len();
        let first = self.last_good.load(Ordering::Relaxed);
        let mut last_error = None;
        for turn in 0..count {
            let index = (first + turn) % count;
            let address = self.addresses[index];
            let source = self.sources.as_ref().and_then(|turns| turns.next(address));
            match Stream::connect(io, address, source).await {
                Ok(stream) => {
                    if turn > 0 {
                        self.last_good.store(index, Ordering::Relaxed);
                    }
                    return Ok(stream);
                }
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
    }
}

/// Maximum duration of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of addresses of a name that are used.
const MAX_ADDRESSES: usize = 64;

/// Whether `name` is an IP address, in brackets or not: it needs no lookup.
pub fn is_address(name: &str) -> bool {
    without_brackets(name).parse::<IpAddr>().is_ok()
}

fn without_brackets(name: &str) -> &str {
    name.trim_start_matches('[').trim_end_matches(']')
}

/// The addresses of a name in the order in which they are tried, at least one.
///
/// The program `getent` of the host is called. Rejected: `getaddrinfo` of the C library, which
/// loads the modules named in /etc/nsswitch.conf into the process. In a statically linked process
/// this works only if they have the version of the C library with which it was built. On a host
/// without `getent` (musl, `BusyBox`) /etc/hosts is read.
pub fn look_up(name: &str) -> Result<Vec<IpAddr>, LookupError> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    if name.is_empty()
        || name.starts_with('-')
        || name.contains(|sign: char| sign.is_whitespace() || sign == '\0')
    {
        return Err(LookupError::Invalid);
    }
    let addresses = match run_getent(name) {
        Ok(output) => parse_getent(&output),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hosts = fs::read_to_string("/etc/hosts").map_err(LookupError::HostsFile)?;
            parse_hosts_file(&hosts, name)
        }
        Err(error) => return Err(LookupError::Getent(error)),
    };
    if addresses.is_empty() {
        return Err(LookupError::Unknown);
    }
    Ok(addresses)
}

/// Output of `getent ahosts`; empty if the name is unknown. The error `NotFound` means that the
/// host has no `getent`.
fn run_getent(name: &str) -> io::Result<String> {
    let mut child = Command::new("getent")
        .args(["ahosts", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take();
    let ended = wait(&mut child, Instant::now() + LOOKUP_TIMEOUT);
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let mut text = String::new();
    if let Some(output) = output {
        // The program has ended, and the content of a pipe is bounded: this does not block.
        output.take(1 << 20).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn wait(child: &mut Child, deadline: Instant) -> io::Result<()> {
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(()),
            // An agent reaps every child that has ended.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            Err(error) => return Err(error),
        }
        if Instant::now() > deadline {
            let message = format!("no response within {} s", LOOKUP_TIMEOUT.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The addresses in lines such as "192.0.2.1  STREAM  name", each once.
fn parse_getent(lines: &str) -> Vec<IpAddr> {
    parse_distinct(lines.lines().filter_map(|line| line.split_whitespace().next()))
}

/// The addresses of a name in the text of /etc/hosts, each once.
fn parse_hosts_file(hosts: &str, name: &str) -> Vec<IpAddr> {
    parse_distinct(hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    }))
}

fn parse_distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for address in texts.filter_map(|text| text.parse().ok()) {
        if !addresses.contains(&address) && addresses.len() < MAX_ADDRESSES {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_lookup_and_names_are_looked_up_on_the_host() {
        assert_eq!(
            look_up("192.0.2.7").unwrap(),
            ["192.0.2.7".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(look_up("::1").unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert!(look_up("localhost").unwrap().iter().all(IpAddr::is_loopback));
        let host = Host::resolve("[::1]", 80).unwrap();
        assert_eq!(host.address(), "[::1]:80".parse().unwrap());
    }

    #[test]
    fn invalid_and_unknown_names_are_refused() {
        for name in ["", "-x", "a b", "a\0b", "nowhere.invalid"] {
            assert!(look_up(name).is_err(), "{name:?}");
        }
        let message = Host::resolve("nowhere.invalid", 80).unwrap_err().to_string();
        assert!(
            message.contains("\"nowhere.invalid\" cannot be looked up"),
            "{message}"
        );
    }

    #[test]
    fn addresses_of_getent_keep_their_order_and_are_listed_once() {
        let output =
            "2001:db8::1 STREAM h.example\n2001:db8::1 DGRAM\n192.0.2.1  STREAM\nfe80::1%eth0 STREAM\n";
        let expected: Vec<IpAddr> = vec!["2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
        assert_eq!(parse_getent(output), expected);
        assert!(parse_getent("").is_empty());
    }

    #[test]
    fn the_hosts_file_is_read_without_its_comments() {
        let hosts = "# 192.0.2.9 db\n192.0.2.1\tdb.example DB # also\n192.0.2.2 other\n::1 db\nrubbish db\n";
        let expected: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(parse_hosts_file(hosts, "db"), expected);
        assert!(parse_hosts_file(hosts, "also").is_empty());
    }

    #[test]
    fn waiting_for_a_program_ends_at_the_deadline() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let error = wait(&mut child, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
