//! The door: the listener for agents that dial in, up to their greeting.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::sync::mpsc::Sender;
use std::time::Duration;

use bytes::BytesMut;
use plimsoll_link::codec::next_frame;
use plimsoll_link::identity::{IdentityError, Keys};
use plimsoll_link::listen::{BindError, Bounds, Listener};
use plimsoll_link::token::{Token, TokenError};
use plimsoll_link::transport::{Link, Transport};
use plimsoll_link::{Frame, Greeting};
use plimsoll_model::ListenSpec;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::input::{Arrival, Input};

/// Maximum time from the handshake to the greeting of an agent.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which refused clients are reported.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// Why the door cannot be opened, or its token cannot be generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoorError {
    /// The keys of the experiment cannot be generated.
    #[error(transparent)]
    Keys(#[from] IdentityError),
    /// The address that agents dial cannot be resolved.
    #[error("controller.address {address}: {source}")]
    Address { address: String, source: io::Error },
    /// The listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The token is invalid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token is not JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Opens a door and returns its port. Agents that dial in are sent as [`Input::Arrived`], refused
/// clients as [`Input::Stranger`].
///
/// # Errors
/// [`DoorError::Bind`], or [`DoorError::Address`].
pub(crate) fn open(
    spec: &ListenSpec,
    keys: &Keys,
    inbox: &Sender<Input>,
    runtime: &tokio::runtime::Handle,
) -> Result<u16, DoorError> {
    let _entered = runtime.enter();
    let listener = bind(spec, keys)?;
    let port = listener.address().port();
    runtime.spawn(watch(listener, inbox.clone()));
    Ok(port)
}

/// The transports of a door, the preferred one first.
pub(crate) fn transports(spec: &ListenSpec) -> Vec<Transport> {
    if spec.quic {
        vec![Transport::Quic, Transport::Tcp]
    } else {
        vec![Transport::Tcp]
    }
}

fn bind(spec: &ListenSpec, keys: &Keys) -> Result<Listener, DoorError> {
    let address = address(spec)?;
    let bind = |address| Listener::bind(keys, address, ports(spec), &transports(spec), Bounds::default());
    let bound = match bind(address) {
        // Agents dial this address, but it is translated before it reaches this host.
        Err(BindError::Ports { error, .. }) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            bind(unspecified(address))
        }
        other => other,
    };
    Ok(bound?)
}

/// The address that agents dial.
///
/// # Errors
/// [`DoorError::Address`].
pub(crate) fn address(spec: &ListenSpec) -> Result<IpAddr, DoorError> {
    let addresses = (spec.address.as_str(), 0).to_socket_addrs();
    addresses
        .and_then(|mut all| all.next().ok_or(io::ErrorKind::NotFound.into()))
        .map(|address| address.ip())
        .map_err(|source| DoorError::Address {
            address: spec.address.clone(),
            source,
        })
}

/// The ports that the door may use.
pub(crate) fn ports(spec: &ListenSpec) -> RangeInclusive<u16> {
    spec.ports.0..=spec.ports.1.max(spec.ports.0)
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

async fn watch(mut listener: Listener, inbox: Sender<Input>) {
    let mut interval = tokio::time::interval(REFUSALS_INTERVAL);
    loop {
        tokio::select! {
            link = listener.accept() => {
                let inbox = inbox.clone();
                tokio::spawn(async move {
                    if let Ok(Some(arrival)) = timeout(GREETING_TIMEOUT, read_greeting(link)).await {
                        let _ = inbox.send(Input::Arrived(Box::new(arrival)));
                    }
                });
            }
            _ = interval.tick() => {
                for refusal in listener.refusals() {
                    if inbox.send(Input::Stranger(refusal.to_string())).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Reads the greeting. Returns `None` if it is invalid or contains no name.
async fn read_greeting(mut link: Link) -> Option<Arrival> {
    let mut read = BytesMut::new();
    loop {
        // The frame is decoded from a copy, because the line reads the greeting again.
        if let Some(frame) = next_frame(&mut read.clone()).ok()? {
            let Frame::Greeting(body) = frame else { return None };
            let greeting: Greeting = serde_json::from_slice(&body).ok()?;
            let name = greeting.name.clone()?;
            return Some(Arrival {
                name,
                greeting,
                link,
                read,
            });
        }
        if link.reader.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

/// The token for the agents of this session, as JSON.
///
/// # Errors
/// [`DoorError::Token`], or [`DoorError::Json`].
pub(crate) fn token(
    spec: &ListenSpec,
    version: &str,
    keys: &Keys,
    port: u16,
    time_port: u16,
) -> Result<serde_json::Value, DoorError> {
    let address = match spec.address.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}"),
        Err(_) => format!("{}:{port}", spec.address),
    };
    let transports = transports(spec);
    let token = Token::new(
        &spec.experiment,
        version,
        keys,
        vec![address],
        transports,
        time_port,
    );
    let text = token?.reveal();
    Ok(serde_json::from_str(&text)?)
}
