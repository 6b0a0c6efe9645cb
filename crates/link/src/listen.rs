//! The controller's door: one port for TCP and QUIC, which opens for the holder of the agents' key
//! only.
//!
//! Of a stranger nothing is read but the handshake, by rustls and quinn. How many handshakes there
//! are, how long each may take and what each may make us hold is bounded ([`Bounds`]); what is over
//! the bound is turned away at once, as a queue would make good agents wait behind bad ones. A QUIC
//! client must first show that it is where it says it is (Retry, RFC 9000, 8.1.2): nothing is kept
//! for it before, and nobody can fill the share of somebody else's address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionError, Endpoint, Incoming, TransportErrorCode};
use rustls::{AlertDescription, Error};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

pub use crate::gate::{Bounds, Counters, Reason, Refusal};
use crate::gate::{Gate, Ticket};
use crate::identity::{IdentityError, Keys};
use crate::quic::{self, ServerError};
use crate::tcp;
use crate::transport::{Link, Transport, WELCOME};

/// Links that wait for [`Listener::accept`]; those after them keep their places in the gate, and
/// then newcomers are refused.
const MAX_WAITING: usize = 64;
/// Pause when the process has no descriptors left: the connection stays in the kernel's queue.
const STARVED_PAUSE: Duration = Duration::from_millis(100);
/// Ports that the kernel picks for TCP and that are taken for UDP, before it is given up.
const MAX_PICKS: usize = 32;

/// A door to a controller. Dropping it closes the door; links that came through stay.
#[derive(Debug)]
pub struct Listener {
    links: mpsc::Receiver<Link>,
    gate: Arc<Gate>,
    address: SocketAddr,
    endpoint: Option<Endpoint>,
    tasks: Vec<AbortHandle>,
}

/// Why no door could be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The keys are of no use.
    #[error(transparent)]
    Keys(#[from] IdentityError),
    /// No port is free for all that was asked for.
    #[error(
        "no port of {first} to {last} on {address} is free for {transports}: {error}; give other ports, or end what uses them"
    )]
    Ports {
        /// Where.
        address: IpAddr,
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
        /// "tcp and quic"
        transports: String,
        /// What was said of the last one.
        error: io::Error,
    },
    /// Neither TCP nor QUIC was asked for.
    #[error("a listener needs tcp, quic or both")]
    Nothing,
}

impl Listener {
    /// Listens on the first port of `ports` that is free for all `transports` (one number for both;
    /// 0: the kernel picks one). Needs a tokio runtime with I/O and time, in which its tasks run
    /// until it is dropped.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(
        keys: &Keys,
        address: IpAddr,
        ports: RangeInclusive<u16>,
        transports: &[Transport],
        bounds: Bounds,
    ) -> Result<Self, BindError> {
        if transports.is_empty() {
            return Err(BindError::Nothing);
        }
        let config = keys.controller.server(keys.agents.pin())?;
        let sockets = Sockets::bind(address, ports, transports)?;
        let gate = Gate::new(bounds);
        let (sender, links) = mpsc::channel(MAX_WAITING);
        let mut tasks = Vec::new();
        let endpoint = sockets
            .udp
            .map(|socket| quic::server(socket, config.clone(), bounds.window, bounds.unfinished))
            .transpose()
            .map_err(|error| match error {
                ServerError::Keys(error) => BindError::Keys(error),
                ServerError::Socket(error) => no_port(sockets.address, transports, error),
            })?;
        if let Some(endpoint) = &endpoint {
            let door = Door::new(&gate, &sender);
            tasks.push(tokio::spawn(door.take_quic(endpoint.clone())).abort_handle());
        }
        if let Some(listener) = sockets.tcp {
            let door = Door::new(&gate, &sender);
            let acceptor = TlsAcceptor::from(Arc::new(config));
            tasks.push(tokio::spawn(door.take_tcp(listener, acceptor)).abort_handle());
        }
        Ok(Self {
            links,
            gate,
            address: sockets.address,
            endpoint,
            tasks,
        })
    }

    /// The next agent. Cancel safe.
    pub async fn accept(&mut self) -> Link {
        match self.links.recv().await {
            Some(link) => link,
            // The senders live in tasks that only our own drop, or the end of the runtime, ends.
            None => std::future::pending().await,
        }
    }

    /// Where it listens, for all its transports.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that was counted.
    pub fn counters(&self) -> Counters {
        self.gate.counters()
    }

    /// Who was refused since the last call: few entries, each with how often, so that a flood is an
    /// event a look and not one a packet.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.gate.take_refusals()
    }

    /// Closes the door and waits, at most so long, until the QUIC links that came through have told
    /// their peers of their end. A runtime that stops before leaves those peers waiting for a
    /// time-out.
    pub async fn close(self, max_wait: Duration) {
        let endpoint = self.endpoint.clone();
        drop(self);
        if let Some(endpoint) = endpoint {
            // Past the patience the peers find out by themselves.
            let _ = timeout(max_wait, endpoint.wait_idle()).await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.set_server_config(None);
        }
    }
}

/// Sockets on one port number.
struct Sockets {
    tcp: Option<TcpListener>,
    udp: Option<std::net::UdpSocket>,
    address: SocketAddr,
}

impl Sockets {
    fn bind(
        address: IpAddr,
        ports: RangeInclusive<u16>,
        transports: &[Transport],
    ) -> Result<Self, BindError> {
        let (first, last) = (*ports.start(), *ports.end());
        let mut error = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for port in ports {
            for _ in 0..if port == 0 { MAX_PICKS } else { 1 } {
                match Self::bind_port(SocketAddr::new(address, port), transports) {
                    Ok(sockets) => return Ok(sockets),
                    Err(found) => error = found,
                }
            }
        }
        Err(BindError::Ports {
            address,
            first,
            last,
            transports: names(transports),
            error,
        })
    }

    fn bind_port(mut address: SocketAddr, transports: &[Transport]) -> io::Result<Self> {
        let (mut tcp, mut udp) = (None, None);
        if transports.contains(&Transport::Tcp) {
            let listener = tcp::bind(address)?;
            address = listener.local_addr()?;
            tcp = Some(listener);
        }
        if transports.contains(&Transport::Quic) {
            let socket = quic::bind(address)?;
            address = socket.local_addr()?;
            udp = Some(socket);
        }
        Ok(Self { tcp, udp, address })
    }
}

fn no_port(address: SocketAddr, transports: &[Transport], error: io::Error) -> BindError {
    BindError::Ports {
        address: address.ip(),
        first: address.port(),
        last: address.port(),
        transports: names(transports),
        error,
    }
}

fn names(transports: &[Transport]) -> String {
    let names: Vec<_> = transports.iter().map(|transport| transport.name()).collect();
    names.join(" and ")
}

/// What both kinds of newcomers pass.
#[derive(Clone)]
struct Door {
    gate: Arc<Gate>,
    links: mpsc::Sender<Link>,
}

impl Door {
    fn new(gate: &Arc<Gate>, links: &mpsc::Sender<Link>) -> Self {
        Self {
            gate: Arc::clone(gate),
            links: links.clone(),
        }
    }

    /// Takes TCP connections for ever. Handshakes end with this task.
    async fn take_tcp(self, listener: TcpListener, acceptor: TlsAcceptor) {
        let mut handshakes = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = handshakes.join_next() => continue,
            };
            match accepted {
                // Over the bound the connection is dropped here, before a byte is read.
                Ok((stream, peer)) => {
                    if let Ok(ticket) = self.gate.enter(peer.ip(), Transport::Tcp) {
                        let handshake = shake_tcp(stream, peer, acceptor.clone());
                        handshakes.spawn(self.clone().admit(ticket, peer.ip(), Transport::Tcp, handshake));
                    }
                }
                // Gone while it waited; accept(2) says to go on at once, as to most errors of the
                // network.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.gate.count_starved();
                    sleep(STARVED_PAUSE).await;
                }
            }
        }
    }

    /// Takes QUIC connections until the endpoint is closed.
    async fn take_quic(self, endpoint: Endpoint) {
        let mut handshakes = JoinSet::new();
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                Some(_) = handshakes.join_next() => continue,
            };
            let Some(incoming) = incoming else { return };
            if !incoming.remote_address_validated() {
                // It cannot fail: whoever is not validated may be asked again.
                let _ = incoming.retry();
                continue;
            }
            let peer = incoming.remote_address().ip();
            match self.gate.enter(peer, Transport::Quic) {
                Ok(ticket) => {
                    handshakes.spawn(
                        self.clone()
                            .admit(ticket, peer, Transport::Quic, shake_quic(incoming)),
                    );
                }
                Err(_) => incoming.refuse(),
            }
        }
    }

    async fn admit(
        self,
        ticket: Ticket,
        peer: IpAddr,
        via: Transport,
        handshake: impl Future<Output = Result<Link, Reason>>,
    ) {
        let done = timeout(self.gate.bounds().handshake, handshake).await;
        match done.unwrap_or(Err(Reason::Slow)) {
            Ok(link) => {
                self.gate.count_accepted();
                // Fails if the listener is gone, and the link with it.
                let _ = self.links.send(link).await;
            }
            Err(reason) => self.gate.count_refused(peer, via, reason),
        }
        drop(ticket);
    }
}

async fn shake_tcp(stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor) -> Result<Link, Reason> {
    tcp::tune(&stream).map_err(|_| Reason::Left)?;
    let mut stream = acceptor
        .accept(stream)
        .await
        .map_err(|error| tls_reason(&error))?;
    if stream.get_ref().1.alpn_protocol().is_none() {
        return Err(Reason::Version);
    }
    stream.write_all(&[WELCOME]).await.map_err(|_| Reason::Left)?;
    stream.flush().await.map_err(|_| Reason::Left)?;
    Ok(tcp::link(stream, peer))
}

async fn shake_quic(incoming: Incoming) -> Result<Link, Reason> {
    let connecting = incoming.accept().map_err(|error| quic_reason(&error))?;
    let connection = connecting.await.map_err(|error| quic_reason(&error))?;
    let (mut send, receive) = connection.open_bi().await.map_err(|error| quic_reason(&error))?;
    send.write_all(&[WELCOME]).await.map_err(|_| Reason::Left)?;
    Ok(quic::link(&connection, send, receive))
}

fn tls_reason(error: &io::Error) -> Reason {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_)) => Reason::WrongKey,
        Some(Error::NoCertificatesPresented) => Reason::NoKey,
        Some(Error::NoApplicationProtocol) => Reason::Version,
        Some(Error::PeerIncompatible(_)) => Reason::OldTls,
        Some(Error::AlertReceived(_)) | None => Reason::Left,
        Some(_) => Reason::Garbage,
    }
}

/// quinn keeps of the errors of TLS only the alert that tells the peer of it.
fn quic_reason(error: &ConnectionError) -> Reason {
    let ConnectionError::TransportError(error) = error else {
        return match error {
            ConnectionError::TimedOut => Reason::Slow,
            ConnectionError::VersionMismatch => Reason::Version,
            _ => Reason::Left,
        };
    };
    let alerts = [
        (AlertDescription::AccessDenied, Reason::WrongKey),
        (AlertDescription::DecryptError, Reason::WrongKey),
        (AlertDescription::BadCertificate, Reason::WrongKey),
        (AlertDescription::CertificateRequired, Reason::NoKey),
        (AlertDescription::NoApplicationProtocol, Reason::Version),
        (AlertDescription::ProtocolVersion, Reason::OldTls),
    ];
    alerts
        .into_iter()
        .find(|(alert, _)| TransportErrorCode::crypto(u8::from(*alert)) == error.code)
        .map_or(Reason::Garbage, |(_, reason)| reason)
}
