//! Secured links over sockets of the loopback interface: transfer of data, refusal of other
//! clients, and connecting to a controller.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs)]

mod dialing;
mod links;
mod relay;
mod strangers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use plimsoll_link::dial::Dialer;
use plimsoll_link::identity::Keys;
use plimsoll_link::listen::{Bounds, Listener};
use plimsoll_link::token::Token;
use plimsoll_link::transport::{Link, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Longer than any step takes, also on a slow machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);
pub const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Quic];
pub const ENGINE: &str = "1.2.3";
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A listener with new keys, for TCP and QUIC.
pub fn open(bounds: Bounds) -> (Listener, Keys) {
    let keys = Keys::generate().unwrap();
    let listener = Listener::bind(&keys, LOOPBACK, 0..=0, &BOTH, bounds).unwrap();
    (listener, keys)
}

pub fn token(keys: &Keys, addresses: &[SocketAddr], transports: &[Transport]) -> Token {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    Token::new("study", ENGINE, keys, addresses, transports.to_vec(), 0).unwrap()
}

pub fn dialer(keys: &Keys, address: SocketAddr, via: Transport) -> Dialer {
    Dialer::new(&token(keys, &[address], &[via]), ENGINE).unwrap()
}

/// Both ends of a new link: the controller's and the agent's.
pub async fn link(listener: &mut Listener, dialer: &Dialer) -> (Link, Link) {
    let (near, far) = tokio::join!(
        timeout(TIMEOUT, listener.accept()),
        timeout(TIMEOUT, dialer.dial(TIMEOUT))
    );
    (near.unwrap(), far.unwrap().unwrap())
}

/// Checks that a link transfers bytes in both directions.
pub async fn talk(near: &mut Link, far: &mut Link) {
    send(near, far).await;
    send(far, near).await;
}

async fn send(from: &mut Link, to: &mut Link) {
    from.writer.write_all(b"hello").await.unwrap();
    from.writer.flush().await.unwrap();
    let mut heard = [0; 5];
    timeout(TIMEOUT, to.reader.read_exact(&mut heard))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&heard, b"hello");
}
