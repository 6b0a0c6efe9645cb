//! How an agent connects to its controller: it tries the addresses and transports of the token in
//! turn until a link is made or the time limit is reached.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::{ConnectionError, Endpoint, TransportErrorCode};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, Error};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::identity::IdentityError;
use crate::token::{Token, host_and_port};
use crate::transport::{Link, Transport, WELCOME};
use crate::{quic, tcp};

/// Maximum duration of an attempt, including handshake and welcome byte.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for QUIC if TCP is also to be tried: if UDP is blocked, there is no answer.
const ATTEMPT_TIMEOUT_QUIC: Duration = Duration::from_secs(5);
/// First and longest pause between rounds; the pause doubles with each round. Each pause is reduced
/// at random by up to half, so that agents that lost the same controller do not all reconnect at
/// the same time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of addresses of one name that are tried.
const MAX_ADDRESSES_PER_NAME: usize = 4;
/// The certificates contain no name, but the libraries require one. It is not sent.
const SERVER_NAME: &str = "controller.invalid";

/// Makes links with one token, any number of them. All its QUIC links share one socket per address
/// family.
pub struct Dialer {
    experiment: String,
    addresses: Vec<String>,
    transports: Vec<Transport>,
    tls: TlsConnector,
    quic: quinn::ClientConfig,
    endpoints: Mutex<[Option<Endpoint>; 2]>,
}

/// Why no link could be made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The token is for another version of the engine.
    #[error(
        "the token of experiment {experiment} is for engine {theirs}, this is {own}: start the agent with the engine of the controller"
    )]
    Engine {
        /// Name of the experiment.
        experiment: String,
        /// Version of the controller's engine.
        theirs: String,
        /// Version of this engine.
        own: String,
    },
    /// The keys of the token cannot be used.
    #[error(transparent)]
    Keys(#[from] IdentityError),
    /// No address and transport led to the controller.
    #[error("no link to the controller of experiment {experiment}: {}{}", fault.text(experiment), list(attempts))]
    NoLink {
        /// Name of the experiment.
        experiment: String,
        /// The greatest of the faults in `attempts`.
        fault: Fault,
        /// The attempts of the last round, and those of earlier rounds that were not repeated.
        attempts: Vec<FailedAttempt>,
    },
}

/// One attempt that failed.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// Address, as in the token.
    pub address: String,
    /// Transport of the attempt.
    pub via: Transport,
    /// Kind of the failure.
    pub fault: Fault,
    /// Error text of the library or of the operating system.
    pub detail: String,
}

/// Kind of a failure, in ascending order of specificity. The greatest one describes a failure with
/// several attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// There is no answer, no route to the host, or the name is unknown.
    NoAnswer,
    /// The host answers that no process listens on the port.
    Closed,
    /// The other side interrupted the handshake: a controller with too many handshakes, or another
    /// program.
    Busy,
    /// The other side is not the controller of this experiment.
    Stranger,
    /// The other side uses another version of the link.
    Version,
    /// The controller does not accept the agent's key.
    Refused,
}

impl Dialer {
    /// A dialer with `token` for an agent of engine version `engine`.
    ///
    /// # Errors
    /// [`DialError::Engine`], [`DialError::Keys`].
    pub fn new(token: &Token, engine: &str) -> Result<Self, DialError> {
        if token.engine != engine {
            return Err(DialError::Engine {
                experiment: token.experiment.clone(),
                theirs: token.engine.clone(),
                own: engine.to_owned(),
            });
        }
        let config = token.agent.client(token.controller)?;
        Ok(Self {
            experiment: token.experiment.clone(),
            addresses: token.addresses.clone(),
            transports: token.transports.clone(),
            quic: quic::client(config.clone())?,
            tls: TlsConnector::from(Arc::new(config)),
            endpoints: Mutex::default(),
        })
    }

    /// Tries each address over each transport, and repeats this after a pause until a link is made
    /// or `max_wait` has elapsed. An attempt with a permanent fault (another controller, a refusal,
    /// another version) is not repeated. Call it in a tokio runtime.
    ///
    /// # Errors
    /// [`DialError::NoLink`].
    pub async fn dial(&self, max_wait: Duration) -> Result<Link, DialError> {
        let end = Instant::now() + max_wait;
        let mut routes: Vec<(&str, Transport)> = self
            .addresses
            .iter()
            .flat_map(|address| self.transports.iter().map(|via| (address.as_str(), *via)))
            .collect();
        let mut pause = FIRST_PAUSE;
        let mut permanent = Vec::new();
        loop {
            let mut attempts = Vec::new();
            for (index, (address, via)) in routes.iter().enumerate() {
                let share = (end - Instant::now()) / (routes.len() - index) as u32;
                match self.attempt(address, *via, share.min(self.longest(*via))).await {
                    Ok(link) => return Ok(link),
                    Err(failure) => attempts.push(failure.at(address, *via)),
                }
            }
            permanent.extend(attempts.extract_if(.., |attempt| attempt.fault >= Fault::Stranger));
            routes.retain(|route| {
                !permanent
                    .iter()
                    .any(|attempt: &FailedAttempt| (attempt.address.as_str(), attempt.via) == *route)
            });
            if routes.is_empty() || Instant::now() + pause >= end {
                attempts.append(&mut permanent);
                return Err(self.no_link(attempts));
            }
            sleep(jittered(pause)).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    /// Waits, for at most `max_wait` per address family, until the controller was notified of the
    /// end of all QUIC links.
    pub async fn close(self, max_wait: Duration) {
        let endpoints = self
            .endpoints
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for endpoint in endpoints.into_iter().flatten() {
            // After that time the controller detects the end by its own timeout.
            let _ = timeout(max_wait, endpoint.wait_idle()).await;
        }
    }

    fn longest(&self, via: Transport) -> Duration {
        if via == Transport::Quic && self.transports.contains(&Transport::Tcp) {
            ATTEMPT_TIMEOUT_QUIC
        } else {
            ATTEMPT_TIMEOUT
        }
    }

    async fn attempt(&self, address: &str, via: Transport, within: Duration) -> Result<Link, Failure> {
        let peers = timeout(within / 2, resolve(address))
            .await
            .unwrap_or_else(|_| Err(Failure::silent(within / 2, "to the lookup of its address")))?;
        let within = within / peers.len() as u32;
        let mut worst = Failure::new(Fault::NoAnswer, "the name has no address");
        for peer in peers {
            let attempt = async {
                match via {
                    Transport::Tcp => self.over_tcp(peer).await,
                    Transport::Quic => self.over_quic(peer).await,
                }
            };
            let failure = match timeout(within, attempt).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::silent(within, "to the handshake"),
            };
            if failure.fault >= worst.fault {
                worst = failure;
            }
        }
        Err(worst)
    }

    async fn over_tcp(&self, peer: SocketAddr) -> Result<Link, Failure> {
        let stream = TcpStream::connect(peer).await.map_err(connect_failure)?;
        tcp::tune(&stream).map_err(|error| Failure::new(Fault::Busy, error))?;
        let mut stream = self
            .tls
            .connect(server_name(), stream)
            .await
            .map_err(|error| tls_failure(&error))?;
        welcome(&mut stream).await.map_err(|error| tls_failure(&error))?;
        Ok(tcp::link(stream, peer))
    }

    async fn over_quic(&self, peer: SocketAddr) -> Result<Link, Failure> {
        let endpoint = self
            .endpoint(peer)
            .map_err(|error| Failure::new(Fault::NoAnswer, error))?;
        let connection = endpoint
            .connect_with(self.quic.clone(), peer, SERVER_NAME)
            .map_err(|error| Failure::new(Fault::NoAnswer, error))?
            .await
            .map_err(|error| quic_failure(&error))?;
        let (send, mut receive) = connection
            .accept_bi()
            .await
            .map_err(|error| quic_failure(&error))?;
        welcome(&mut receive).await.map_err(|error| {
            let lost = connection.close_reason();
            lost.map_or_else(|| Failure::new(Fault::Busy, error), |lost| quic_failure(&lost))
        })?;
        Ok(quic::link(&connection, send, receive))
    }

    fn endpoint(&self, peer: SocketAddr) -> io::Result<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut endpoints[usize::from(peer.is_ipv6())];
        if let Some(endpoint) = known {
            return Ok(endpoint.clone());
        }
        Ok(known.insert(quic::client_endpoint(peer.ip())?).clone())
    }

    fn no_link(&self, attempts: Vec<FailedAttempt>) -> DialError {
        DialError::NoLink {
            experiment: self.experiment.clone(),
            fault: attempts
                .iter()
                .map(|attempt| attempt.fault)
                .max()
                .unwrap_or(Fault::NoAnswer),
            attempts,
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("experiment", &self.experiment)
            .field("addresses", &self.addresses)
            .field("transports", &self.transports)
            .finish_non_exhaustive()
    }
}

/// A failure without address and transport.
struct Failure {
    fault: Fault,
    detail: String,
}

impl Failure {
    fn new(fault: Fault, detail: impl fmt::Display) -> Self {
        Self {
            fault,
            detail: detail.to_string(),
        }
    }

    fn silent(waited: Duration, what: &str) -> Self {
        Self::new(
            Fault::NoAnswer,
            format_args!("no answer {what} in {:.1} s", waited.as_secs_f64()),
        )
    }

    fn at(self, address: &str, via: Transport) -> FailedAttempt {
        FailedAttempt {
            address: address.to_owned(),
            via,
            fault: self.fault,
            detail: self.detail,
        }
    }
}

impl Fault {
    fn text(self, experiment: &str) -> String {
        match self {
            Self::NoAnswer => {
                "no answer: check that the controller is running and that its ports are open for this host"
                    .into()
            }
            Self::Closed => "the port is closed: check that the controller is running".into(),
            Self::Busy => {
                "the handshake was interrupted; the controller has too many handshakes, or its port belongs to \
                 another program"
                    .into()
            }
            Self::Stranger => format!("this is not the controller of experiment {experiment}"),
            Self::Version => {
                "it uses another version of the link; start the agent with the engine of the controller".into()
            }
            Self::Refused => {
                "the controller does not know this token's key; use the token of its present start".into()
            }
        }
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, Failure> {
    let (host, port) =
        host_and_port(address).ok_or_else(|| Failure::new(Fault::NoAnswer, "not host:port"))?;
    let addresses = lookup_host((host, port))
        .await
        .map_err(|error| Failure::new(Fault::NoAnswer, error))?;
    let peers: Vec<_> = addresses.take(MAX_ADDRESSES_PER_NAME).collect();
    if peers.is_empty() {
        return Err(Failure::new(Fault::NoAnswer, "the name has no address"));
    }
    Ok(peers)
}

async fn welcome(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    match reader.read_u8().await? {
        WELCOME => Ok(()),
        other => Err(io::Error::other(format!(
            "expected a welcome byte {WELCOME}, got {other}"
        ))),
    }
}

fn server_name() -> ServerName<'static> {
    // The constant is a domain name; a test checks it.
    ServerName::try_from(SERVER_NAME).expect("a domain name")
}

/// The failure of a TCP connection that could not be made.
fn connect_failure(error: io::Error) -> Failure {
    let fault = match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Closed,
        io::ErrorKind::ConnectionReset => Fault::Busy,
        _ => Fault::NoAnswer,
    };
    Failure::new(fault, error)
}

/// The failure of a TLS handshake or of the wait for the welcome byte.
fn tls_failure(error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let fault = match inner {
        None => Fault::Busy,
        Some(Error::AlertReceived(alert)) => alert_fault(*alert),
        // Another certificate, another version of TLS, or no TLS.
        Some(_) => Fault::Stranger,
    };
    Failure::new(fault, error)
}

fn quic_failure(error: &ConnectionError) -> Failure {
    let is = |code: TransportErrorCode, alert| code == TransportErrorCode::crypto(u8::from(alert));
    let fault = match error {
        // This side rejected the peer's certificate.
        ConnectionError::TransportError(_) => Fault::Stranger,
        ConnectionError::ConnectionClosed(close) => [
            AlertDescription::NoApplicationProtocol,
            AlertDescription::AccessDenied,
            AlertDescription::DecryptError,
            AlertDescription::CertificateRequired,
        ]
        .into_iter()
        .find(|alert| is(close.error_code, *alert))
        .map_or(Fault::Busy, alert_fault),
        ConnectionError::VersionMismatch => Fault::Version,
        ConnectionError::TimedOut => Fault::NoAnswer,
        _ => Fault::Busy,
    };
    Failure::new(fault, error)
}

/// The fault that an alert of the other side reports.
fn alert_fault(alert: AlertDescription) -> Fault {
    match alert {
        AlertDescription::NoApplicationProtocol => Fault::Version,
        AlertDescription::AccessDenied
        | AlertDescription::DecryptError
        | AlertDescription::CertificateRequired => Fault::Refused,
        _ => Fault::Stranger,
    }
}

/// A random duration between half of `pause` and `pause`.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

fn list(attempts: &[FailedAttempt]) -> String {
    let lines: Vec<_> = attempts
        .iter()
        .map(|attempt| format!("{} {} ({})", attempt.via, attempt.address, attempt.detail))
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!("; tried {}", lines.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_reduced_by_at_most_half() {
        let pauses: Vec<_> = (0..200).map(|_| jittered(LAST_PAUSE)).collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (LAST_PAUSE / 2..=LAST_PAUSE).contains(pause)),
            "{pauses:?}"
        );
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }

    #[test]
    fn the_server_name_is_a_domain_name() {
        assert_eq!(server_name().to_str(), SERVER_NAME);
    }
}
