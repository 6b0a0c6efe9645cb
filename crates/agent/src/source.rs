//! The source of an agent's links.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};

use plimsoll_link::dial::{DialError, Dialer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::attach::read_origin;

/// Maximum duration of one round of dialling; another round follows.
const DIAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// An authenticated stream to the controller.
pub(crate) struct Stream {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Address of the controller, if it is known.
    pub(crate) link_address: Option<IpAddr>,
}

/// How an agent obtains its links.
pub enum Source {
    /// One link for the whole lifetime: an inherited socket pair, for a child of the controller.
    Once(UnixStream),
    /// Each connection to this socket in the agent's own directory, which only its user can make:
    /// the relay that ssh starts. A new connection replaces the present one, because a broken link
    /// may not yet be detected.
    Listen(UnixListener),
    /// Dials the controller with a token, and again when a link breaks.
    Dial(Box<Dialer>),
}

/// The same, registered with the tokio runtime.
pub(crate) enum Links {
    Once(Option<tokio::net::UnixStream>),
    Listen(tokio::net::UnixListener),
    Dial(Box<Dialer>),
}

impl Source {
    /// Registers the source with the runtime. Call it within the runtime.
    pub(crate) fn open(self) -> io::Result<Links> {
        match self {
            Self::Once(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Links::Once(Some(tokio::net::UnixStream::from_std(stream)?)))
            }
            Self::Listen(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Links::Listen(tokio::net::UnixListener::from_std(listener)?))
            }
            Self::Dial(dialer) => Ok(Links::Dial(dialer)),
        }
    }
}

impl Links {
    /// Waits for the next link; `None` if there will be no further one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Stream> {
        match self {
            Self::Once(stream) => stream.take().map(|stream| split(stream, None)),
            Self::Listen(listener) => loop {
                match listener.accept().await {
                    Ok((stream, _)) => return Some(split(stream, read_origin())),
                    // There is no free descriptor now; there may be one later.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                }
            },
            // Dialling is repeated; the caller ends the wait when the grace is over.
            Self::Dial(dialer) => loop {
                match dialer.dial(DIAL_TIMEOUT).await {
                    Ok(link) => {
                        return Some(Stream {
                            reader: link.reader,
                            writer: link.writer,
                            link_address: Some(link.peer.ip()),
                        });
                    }
                    Err(error) => {
                        log_error(&error);
                        tokio::time::sleep(DIAL_TIMEOUT / 20).await;
                    }
                }
            },
        }
    }
}

/// Writes to standard error, which is usually the log of a batch system. There is no other way to
/// report why an agent cannot reach its controller.
fn log_error(error: &DialError) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "plimsoll-engine agent: {error}");
}

fn split(stream: tokio::net::UnixStream, link_address: Option<IpAddr>) -> Stream {
    let (reader, writer) = stream.into_split();
    Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        link_address,
    }
}
