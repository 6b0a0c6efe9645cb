//! The controller's door: a listener on one port for TCP and QUIC that accepts only clients with
//! the agents' key.
//!
//! Before authentication only the handshake is read, by rustls and quinn. The number of handshakes,
//! their duration and the memory of each are limited ([`Bounds`]). A connection above a limit is
//! refused at once: in a queue, agents would wait behind other clients. A QUIC client must first
//! prove its address (Retry, RFC 9000, 8.1.2). Before that the listener keeps no state for it, so a
//! client with a forged address cannot use up the share of that address.

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

/// Maximum number of links that wait for [`Listener::accept`]. Further links keep their tickets of
/// the gate, until the gate refuses new connections.
const MAX_WAITING: usize = 64;
/// Pause if the process has no free descriptor. The connection stays in the queue of the kernel.
const STARVED_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of attempts to obtain from the kernel a TCP port that is free for UDP as well.
const MAX_PICKS: usize = 32;

/// The listener of a controller. Dropping it stops listening; accepted links stay open.
#[derive(Debug)]
pub struct Listener {
    links: mpsc::Receiver<Link>,
    gate: Arc<Gate>,
    address: SocketAddr,
    endpoint: Option<Endpoint>,
    tasks: Vec<AbortHandle>,
}

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] IdentityError),
    /// No port is free for all requested transports.
    #[error(
        "no port of {first} to {last} on {address} is free for {transports}: {error}; choose other ports, or end the \
         programs that use them"
    )]
    Ports {
        /// Address of the listener.
        address: IpAddr,
        /// First port that was tried.
        first: u16,
        /// Last port that was tried.
        last: u16,
        /// Names of the transports: "tcp and quic".
        transports: String,
        /// Error of the last port.
        error: io::Error,
    },
    /// No transport was requested.
    #[error("no transport was requested: use tcp, quic or both")]
    Nothing,
}

impl Listener {
    /// Listens on the first port of `ports` that is free for all `transports`. Both transports use
    /// the same port number; 0: the kernel selects it. Call it in a tokio runtime with I/O and
    /// time. The tasks of the listener run there until it is dropped.
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

    /// Waits for the link of the next agent. Cancel safe.
    pub async fn accept(&mut self) -> Link {
        match self.links.recv().await {
            Some(link) => link,
            // The senders belong to tasks that end only with this listener or with the runtime.
            None => std::future::pending().await,
        }
    }

    /// Address of the listener for all its transports.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts since the listener was bound.
    pub fn counters(&self) -> Counters {
        self.gate.counters()
    }

    /// The refusals since the last call. The list is short and each entry has a count, so a flood
    /// of connections causes a few events per call instead of one per packet.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.gate.take_refusals()
    }

    /// Stops listening and waits, for at most `max_wait`, until all accepted QUIC links have ended
    /// and their peers were notified. If the runtime stops before, those peers wait for a timeout.
    pub async fn close(self, max_wait: Duration) {
        let endpoint = self.endpoint.clone();
        drop(self);
        if let Some(endpoint) = endpoint {
            // After that time the peers detect the end by their own timeout.
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
                    Err(cause) => error = cause,
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

/// The state that both transports need to admit a connection.
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

    /// Accepts TCP connections until the task is aborted. Handshakes end with this task.
    async fn take_tcp(self, listener: TcpListener, acceptor: TlsAcceptor) {
        let mut handshakes = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = handshakes.join_next() => continue,
            };
            match accepted {
                // Above a limit the connection is dropped here, before a byte is read.
                Ok((stream, peer)) => {
                    if let Ok(ticket) = self.gate.enter(peer.ip(), Transport::Tcp) {
                        let handshake = shake_tcp(stream, peer, acceptor.clone());
                        handshakes.spawn(self.clone().admit(ticket, peer.ip(), Transport::Tcp, handshake));
                    }
                }
                // The client closed the connection before it was accepted. accept(2) recommends to
                // retry at once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.gate.count_starved();
                    sleep(STARVED_PAUSE).await;
                }
            }
        }
    }

    /// Accepts QUIC connections until the endpoint is closed.
    async fn take_quic(self, endpoint: Endpoint) {
        let mut handshakes = JoinSet::new();
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                Some(_) = handshakes.join_next() => continue,
            };
            let Some(incoming) = incoming else { return };
            if !incoming.remote_address_validated() {
                // It cannot fail: a retry is allowed for an address that is not validated.
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
                // Fails if the listener was dropped; the link is then dropped, too.
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

/// The reason for a QUIC error. Of a TLS error quinn keeps only the alert that is sent to the peer.
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
