//! A secured link, whatever carries it.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// What a link runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TLS 1.3 over TCP.
    Tcp,
    /// QUIC, RFC 9000: for lossy and long links and very many agents.
    Quic,
}

/// A link whose peer has proved who it is.
///
/// Its end is told apart like this: after `shutdown` on the writer the peer reads all that was
/// written and then an orderly end of file; a link that is dropped without it, a process that is
/// killed, or a way that is cut is an error there. `shutdown` over QUIC waits until the peer's host
/// has everything, and so wants a time-out. Over TCP what is written may wait in a buffer until
/// `flush`.
pub struct Link {
    /// Bytes from the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes to the peer.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Where the peer is.
    pub peer: SocketAddr,
    /// What carries it.
    pub via: Transport,
}

/// First byte on every link, from controller to agent: "I know you".
///
/// With TLS 1.3 a client's handshake ends before the server has seen the client's certificate, so
/// without a word from the server an agent could not tell a link from a refusal.
pub(crate) const WELCOME: u8 = b'W';

impl Transport {
    /// As it stands in tokens and messages.
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
