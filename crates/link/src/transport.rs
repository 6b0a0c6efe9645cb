//! A secured link, independent of its transport.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// The transport of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TLS 1.3 over TCP.
    Tcp,
    /// QUIC, RFC 9000: for links with loss or a long round trip, and for very many agents.
    Quic,
}

/// A link with an authenticated peer.
///
/// The end of a link is either orderly or an error. After `shutdown` of the writer, the peer reads
/// all bytes and then an end of file. If the link is dropped without `shutdown`, the process is
/// killed or the network is interrupted, the peer reads an error. Over QUIC, `shutdown` waits until
/// the peer's host has acknowledged all bytes, so use a timeout. Over TCP, written bytes may stay
/// in a buffer until `flush`.
pub struct Link {
    /// Reads bytes from the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Writes bytes to the peer.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Transport of the link.
    pub via: Transport,
}

/// First byte on every link, from controller to agent: the controller accepts the agent's key.
///
/// With TLS 1.3 the handshake of a client ends before the server has checked the client's
/// certificate. Without this byte an agent could not distinguish a link from a refusal.
pub(crate) const WELCOME: u8 = b'W';

impl Transport {
    /// Name in tokens and messages: `tcp` or `quic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({} {})", self.via, self.peer)
    }
}
