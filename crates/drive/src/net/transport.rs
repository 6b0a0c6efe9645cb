//! A connection of a tester, plain or within TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Stream;

/// How TLS with a peer is begun, and the name that its certificate must have.
pub type Security = (TlsConnector, ServerName<'static>);

/// An open connection.
pub enum Transport {
    /// As it is.
    Plain(Stream),
    /// Boxed: its state would make every task three times as large.
    Tls(Box<TlsStream<Stream>>),
}

impl Transport {
    /// Begins TLS, on a plain connection.
    pub async fn secure(stream: Stream, (connector, name): &Security) -> io::Result<Self> {
        let stream = connector.connect(name.clone(), stream).await?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// The socket below.
    pub fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Whether the peer is known to have closed.
    pub fn closed(&self) -> bool {
        self.stream().closed()
    }

    /// Reads what is there; 0 at the end of the stream.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(buffer),
            Self::Tls(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                match Pin::new(stream).poll_read(context, &mut buffer) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                    // Many servers end without the closing alert; whether the answer is whole is
                    // seen by its framing.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Poll::Ready(Ok(0))
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                }
            }
        }
    }

    /// Writes what there is room for.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_send(bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Sends what was written and is still held.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
}
