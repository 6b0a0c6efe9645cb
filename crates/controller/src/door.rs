//! Agents that dial in: the door, and what happens at it before anybody is let to an agent's place.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::sync::mpsc::Sender;
use std::time::Duration;

use bytes::BytesMut;
use plimsoll_link::codec::next_frame;
use plimsoll_link::listen::{BindError, Bounds, Listener};
use plimsoll_link::token::Token;
use plimsoll_link::transport::{Link, Transport};
use plimsoll_link::{Frame, Greeting};
use plimsoll_model::ListenSpec;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::input::{Arrival, Input};

/// A known agent must say its name within so long.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often strangers are told of.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// Opens a door; agents come as [`Input::Arrived`], refused strangers as [`Input::Strangers`].
/// Gives its port.
///
/// # Errors
/// [`BindError`], or an address that is none.
pub(crate) fn open(
    spec: &ListenSpec,
    keys: &plimsoll_link::identity::Keys,
    inbox: &Sender<Input>,
    runtime: &tokio::runtime::Handle,
) -> Result<u16, String> {
    let _entered = runtime.enter();
    let listener = bind(spec, keys)?;
    let port = listener.address().port();
    runtime.spawn(watch(listener, inbox.clone()));
    Ok(port)
}

/// The transports of a door, the better one for what it is for first.
pub(crate) fn transports(spec: &ListenSpec) -> Vec<Transport> {
    if spec.quic {
        vec![Transport::Quic, Transport::Tcp]
    } else {
        vec![Transport::Tcp]
    }
}

fn bind(spec: &ListenSpec, keys: &plimsoll_link::identity::Keys) -> Result<Listener, String> {
    let address = address(spec)?;
    let bind = |address| Listener::bind(keys, address, ports(spec), &transports(spec), Bounds::default());
    match bind(address) {
        // An address that agents dial, but that is translated before it reaches this host.
        Err(BindError::Ports { error, .. }) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            bind(unspecified(address))
        }
        other => other,
    }
    .map_err(|error| error.to_string())
}

/// The address that agents dial.
///
/// # Errors
/// A text for people.
pub(crate) fn address(spec: &ListenSpec) -> Result<IpAddr, String> {
    let found = (spec.address.as_str(), 0).to_socket_addrs();
    found
        .and_then(|mut all| all.next().ok_or(io::ErrorKind::NotFound.into()))
        .map(|address| address.ip())
        .map_err(|error| format!("controller.address {}: {error}", spec.address))
}

/// The ports that may be taken.
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

/// Reads up to the greeting; none for what does not greet with a name.
async fn read_greeting(mut link: Link) -> Option<Arrival> {
    let mut read = BytesMut::new();
    loop {
        // Looked at in a copy: the line reads the greeting again.
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

/// The right to be an agent of this session's experiment, as JSON.
///
/// # Errors
/// A text for people.
pub(crate) fn token(
    spec: &ListenSpec,
    version: &str,
    keys: &plimsoll_link::identity::Keys,
    port: u16,
    time_port: u16,
) -> Result<serde_json::Value, String> {
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
    let text = token.map_err(|error| error.to_string())?.reveal();
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
