//! Blocking transport over an inherited socket pair.
//!
//! Threads suit the two ends better than a runtime: an agent's cores belong to its testers, and a controller has one
//! reader per agent. Every read and write has a time-out.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{Decoder, FrameError, encode};

/// An agent speaks once a second; one that was silent for so long is lost.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Why the link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other side has closed it, or ended.
    #[error("the other side has ended")]
    Closed,
    /// Nothing came for a while.
    #[error("nothing was heard for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The operating system refused.
    #[error("the link broke: {0}")]
    Io(#[from] io::Error),
    /// The other side sends rubbish.
    #[error("the other side sent {0}")]
    Frame(#[from] FrameError),
}

/// Both ends of a link; the second is meant for a child process.
///
/// # Errors
/// No socket is to be had.
pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
    UnixStream::pair()
}

/// Receiving half.
#[derive(Debug)]
pub struct Reader {
    stream: UnixStream,
    decoder: Decoder,
    buffer: Vec<u8>,
    silence: Option<Duration>,
}

/// Sending half; clones share it, and messages are never mixed.
#[derive(Debug, Clone)]
pub struct Writer(Arc<Mutex<UnixStream>>);

impl Reader {
    /// Both halves of `stream`; with `silence` a receive fails after so long without a byte.
    ///
    /// # Errors
    /// [`LinkError::Io`].
    pub fn split(stream: UnixStream, silence: Option<Duration>) -> Result<(Self, Writer), LinkError> {
        stream.set_read_timeout(silence)?;
        stream.set_write_timeout(Some(SILENCE))?;
        let writer = Writer(Arc::new(Mutex::new(stream.try_clone()?)));
        Ok((
            Self {
                stream,
                decoder: Decoder::default(),
                buffer: vec![0; 64 * 1024],
                silence,
            },
            writer,
        ))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`LinkError`]; the link is of no use afterwards.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, LinkError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.decoder.push(&self.buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(LinkError::Silent(self.silence.unwrap_or_default()));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(LinkError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Writer {
    /// Sends one message.
    ///
    /// # Errors
    /// [`LinkError`]; the link is of no use afterwards.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), LinkError> {
        let frame = encode(message)?;
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match stream.write_all(&frame) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Half a frame may be on its way: nothing that follows could be understood.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Err(LinkError::Closed),
                    io::ErrorKind::WouldBlock => Err(LinkError::Silent(SILENCE)),
                    _ => Err(error.into()),
                }
            }
        }
    }

    /// Ends the link in both directions; a reader that waits is woken.
    pub fn close(&self) {
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::{AgentBooks, SecondReport};

    use super::*;
    use crate::ToController;

    #[test]
    fn messages_cross_in_order_from_several_threads() {
        let (near, far) = pair().unwrap();
        let (_keep, writer) = Reader::split(near, None).unwrap();
        let (mut reader, _writer) = Reader::split(far, Some(SILENCE)).unwrap();
        let other = writer.clone();
        let beats = std::thread::spawn(move || {
            for _ in 0..100 {
                other.send(&ToController::Heartbeat).unwrap();
            }
        });
        let thread = std::thread::spawn(move || {
            for second in 0..100 {
                let report = SecondReport {
                    second,
                    response: "x".repeat(10_000),
                    ..SecondReport::default()
                };
                writer.send(&ToController::Second(report)).unwrap();
            }
            beats.join().unwrap();
            let books = AgentBooks::default();
            writer
                .send(&ToController::Finished { books, window_ns: -1 })
                .unwrap();
        });
        let (mut seconds, mut beats) = (0, 0);
        loop {
            match reader.receive().unwrap() {
                ToController::Second(report) => {
                    assert_eq!(report.second, seconds);
                    seconds += 1;
                }
                ToController::Heartbeat => beats += 1,
                ToController::Finished { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((seconds, beats), (100, 100));
        thread.join().unwrap();
    }

    #[test]
    fn an_end_and_a_silence_are_told_apart() {
        let (near, far) = pair().unwrap();
        let (mut reader, _writer) = Reader::split(far, Some(Duration::from_millis(20))).unwrap();
        assert!(matches!(
            reader.receive::<ToController>(),
            Err(LinkError::Silent(_))
        ));
        drop(near);
        assert!(matches!(reader.receive::<ToController>(), Err(LinkError::Closed)));
    }

    #[test]
    fn rubbish_ends_the_link() {
        let (mut near, far) = pair().unwrap();
        let (mut reader, _writer) = Reader::split(far, Some(SILENCE)).unwrap();
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let error = reader.receive::<ToController>().unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
    }

    #[test]
    fn closing_wakes_a_waiting_reader() {
        let (near, _far) = pair().unwrap();
        let (mut reader, writer) = Reader::split(near, None).unwrap();
        let thread = std::thread::spawn(move || reader.receive::<ToController>().is_err());
        writer.close();
        assert!(thread.join().unwrap());
    }
}
