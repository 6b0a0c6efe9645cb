//! Requests that are lines: the simplest protocol of a reference service.

use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum length of a line, in bytes without its end.
const MAX_LINE: usize = 64 * 1024;
/// Maximum time for a client to read a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection whose requests are lines.
pub(crate) struct LineConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Index of the first byte that was not consumed.
    from: usize,
}

impl LineConnection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(4096),
            from: 0,
        }
    }

    /// The next line without its `\n` or `\r\n`, if it has arrived.
    pub(crate) fn buffered(&mut self) -> Option<&[u8]> {
        let length = memchr(b'\n', &self.buffer[self.from..])?;
        let line = &self.buffer[self.from..self.from + length];
        self.from += length + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Reads from the socket. Returns false if no further line can arrive: the connection was
    /// closed or failed, or a line is too long.
    pub(crate) async fn fill(&mut self) -> bool {
        self.buffer.drain(..self.from);
        self.from = 0;
        self.buffer.len() <= MAX_LINE
            && matches!(self.stream.read_buf(&mut self.buffer).await, Ok(n) if n > 0)
    }

    /// Writes a response. Returns false if the client does not read it.
    pub(crate) async fn write(&mut self, answer: &[u8]) -> bool {
        matches!(
            timeout(WRITE_TIMEOUT, self.stream.write_all(answer)).await,
            Ok(Ok(()))
        )
    }
}
