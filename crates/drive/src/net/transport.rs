//! A connection of a tester, plain or within TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Stream;

/// Configuration of TLS with a peer, and the name that its certificate must contain.
pub type Security = (TlsConnector, ServerName<'static>);

/// An open connection.
pub enum Transport {
    /// Without TLS.
    Plain(Stream),
    /// With TLS. Boxed, because its state would make every task three times as large.
    Tls(Box<TlsStream<Stream>>),
}

impl Transport {
    /// Performs the TLS handshake on a plain connection.
    pub async fn secure(
        stream: Stream,
        connector: &TlsConnector,
        name: &ServerName<'static>,
    ) -> io::Result<Self> {
        let stream = connector.connect(name.clone(), stream).await?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// The underlying socket.
    pub fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Whether the kernel has reported that the peer closed the connection.
    pub fn is_closed(&self) -> bool {
        self.stream().is_closed()
    }

    /// Reads the bytes that are available; 0 at the end of the stream.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(buffer),
            Self::Tls(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                match Pin::new(stream).poll_read(context, &mut buffer) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                    // Many servers close without the closing alert. The framing of the response
                    // shows whether it is complete.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Poll::Ready(Ok(0))
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                }
            }
        }
    }

    /// Writes as many bytes as the connection accepts.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_send(bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Sends bytes that were written and are still buffered.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
}
