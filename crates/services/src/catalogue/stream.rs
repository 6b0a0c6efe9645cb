//! A connection of a client on a thread: every wait for it has a limit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time of a wait: 0 would mean no limit.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// A socket with a time until which its reads and writes must end.
pub(super) struct LimitedStream {
    stream: Arc<TcpStream>,
    deadline: Instant,
}

impl LimitedStream {
    pub(super) fn new(stream: Arc<TcpStream>, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    pub(super) fn limit(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(remaining.max(MIN_WAIT))
    }
}

impl Read for LimitedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        (&*self.stream).read(buffer)
    }
}

impl Write for LimitedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends the connection when it is dropped, also while a thread waits for it.
pub(super) struct CloseOnDrop(pub(super) Arc<TcpStream>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
