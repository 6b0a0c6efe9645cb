//! Where an agent's links come from.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};

use plimsoll_link::dial::{DialError, Dialer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::attach::read_origin;

/// One attempt to dial; another follows.
const DIAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// A stream to the controller that both sides trust.
pub(crate) struct Stream {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The address by which it goes to the controller, where that is known.
    pub(crate) reached: Option<IpAddr>,
}

/// How an agent comes to its links.
pub enum Source {
    /// One for its life: a child of the controller on an inherited socket pair.
    Once(UnixStream),
    /// Whoever connects to this socket in the agent's own directory, which only its user can: the
    /// relay that ssh starts. The last one counts, because a link that is dead may not be known to
    /// be yet.
    Listen(UnixListener),
    /// Dials the controller with a token, again whenever a link breaks.
    Dial(Box<Dialer>),
}

/// The same, on the runtime.
pub(crate) enum Links {
    Once(Option<tokio::net::UnixStream>),
    Listen(tokio::net::UnixListener),
    Dial(Box<Dialer>),
}

impl Source {
    /// To be called on the runtime.
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
    /// The next link, when there is one; none when there will be no other. May be dropped while it
    /// waits.
    pub(crate) async fn next(&mut self) -> Option<Stream> {
        match self {
            Self::Once(stream) => stream.take().map(|stream| split(stream, None)),
            Self::Listen(listener) => loop {
                match listener.accept().await {
                    Ok((stream, _)) => return Some(split(stream, read_origin())),
                    // No descriptor is to be had now; one may be later.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                }
            },
            // Whoever waits for this gives up when its grace is over; until then it is tried again.
            Self::Dial(dialer) => loop {
                match dialer.dial(DIAL_TIMEOUT).await {
                    Ok(link) => {
                        return Some(Stream {
                            reader: link.reader,
                            writer: link.writer,
                            reached: Some(link.peer.ip()),
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

/// Into the log of whatever batch system runs this: nobody else would ever hear why an agent does
/// not come.
fn log_error(error: &DialError) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "plimsoll-engine agent: {error}");
}

fn split(stream: tokio::net::UnixStream, reached: Option<IpAddr>) -> Stream {
    let (reader, writer) = stream.into_split();
    Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        reached,
    }
}
