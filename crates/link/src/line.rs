//! The dialogue with one peer, over one link after the other.
//!
//! A [`Line`] outlives its links: messages that are sent while there is no link, or are lost when a
//! link breaks, are sent over the next one ([`Line::converse`]). The methods of a line may be
//! called from any thread. Only [`Line::send_piece`] waits.

use std::collections::VecDeque;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use plimsoll_clock::Clock;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::LinkError;
use crate::codec::{Frame, MAX_PIECE_BYTES, missing, next_frame};
use crate::message::Greeting;
use crate::numbered::{Inbox, Outbox};

/// Maximum time between two frames of a side.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A link over which nothing was received for this time is broken.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the read that follows a timeout; see `Reading::next`.
const LAST_READ_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum number of pieces that wait to be sent; if there are more, [`Line::send_piece`] waits.
const MAX_PIECES: usize = 8;
/// Maximum number of questions and of answers that wait to be sent. A late probe is useless.
const MAX_PROBES: usize = 64;
/// Minimum capacity of the buffer for a read.
const MIN_READ_BYTES: usize = 4096;
/// Number of bytes of messages after which a write starts.
const MAX_WRITE_BYTES: usize = 256 * 1024;

/// How long one side waits for the other.
#[derive(Debug, Clone, Copy)]
pub struct LinkTimeouts {
    /// Time for the greeting over a new link. Longer than `silence` if a login precedes it.
    pub greeting: Duration,
    /// Maximum time between later frames.
    pub silence: Duration,
}

impl LinkTimeouts {
    /// The timeouts of a stream that exists, with 2 × `silence` for the greeting.
    pub fn without_login(silence: Duration) -> Self {
        Self {
            greeting: silence * 2,
            silence,
        }
    }
}

/// What a line receives.
#[derive(Debug)]
pub enum LineEvent {
    /// A message as JSON. Each message is received once and in order.
    Message(Bytes),
    /// A part of a requested file.
    Piece {
        /// Ticket of the request.
        ticket: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The answer to a probe of [`Line::send_probe`].
    Answered(Stamps),
}

/// The four stamps of a probe, ns: `sent` and `received` by the clock of this side, the others by
/// the clock of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// Time at which the question was written.
    pub sent: i64,
    /// Time at which the peer read the question.
    pub heard: i64,
    /// Time at which the peer wrote the answer.
    pub answered: i64,
    /// Time at which the answer was read.
    pub received: i64,
}

/// Handles what a line receives.
pub trait LineHandler: Send {
    /// Handles the greeting, the first frame over a new link. An error ends the link.
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError>;

    /// Handles everything else. The line reads nothing until this returns. An error ends the link.
    fn handle_event(&mut self, event: LineEvent) -> impl Future<Output = Result<(), LinkError>> + Send;
}

/// The dialogue with one peer; see the module. Clones share their state.
#[derive(Clone)]
pub struct Line(Arc<SharedState>);

struct SharedState {
    state: Mutex<State>,
    /// Notified when there is something to write.
    wake: Notify,
    /// Notified when a piece was sent, or the link has changed.
    capacity: Condvar,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    inbox: Inbox,
    pieces: VecDeque<Frame>,
    /// Ids of questions to be sent.
    questions: VecDeque<u64>,
    /// Ids of the questions without an answer, and the times at which they were written, ns.
    asked: VecDeque<(u64, i64)>,
    /// Ids of received questions to be answered, and the times at which they were read, ns.
    answers: VecDeque<(u64, i64)>,
    next_question: u64,
    /// Number of the current link, from 1; 0 if there is none.
    link: u64,
    /// Number of links so far.
    links: u64,
    closed: bool,
}

impl Line {
    /// A line whose probes are stamped by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(SharedState {
            state: Mutex::default(),
            wake: Notify::new(),
            capacity: Condvar::new(),
            clock,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. It is sent over this or a later link until it is acknowledged.
    ///
    /// # Errors
    /// [`LinkError`] if the line is closed or the other side acknowledges no messages.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), LinkError> {
        let body = Bytes::from(serde_json::to_vec(message).map_err(crate::FrameError::from)?);
        let mut state = self.state();
        if state.closed {
            return Err(LinkError::Closed);
        }
        state.outbox.push(body)?;
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Requests the time of the other side. The answer is a [`LineEvent::Answered`]; it is lost if
    /// the link breaks.
    pub fn send_probe(&self) {
        let mut state = self.state();
        if state.link != 0 && state.questions.len() < MAX_PROBES {
            let id = state.next_question;
            state.next_question += 1;
            state.questions.push_back(id);
            drop(state);
            self.0.wake.notify_one();
        }
    }

    /// Number of the current link, for [`Line::send_piece`]; `None` if there is none.
    pub fn link(&self) -> Option<u64> {
        Some(self.state().link).filter(|&link| link != 0)
    }

    /// Number of links so far, including the current one.
    pub fn links(&self) -> u64 {
        self.state().links
    }

    /// Queues a part of a file for `link` and waits while the queue is full. Returns false if that
    /// link has ended: the peer then requests the file again.
    pub fn send_piece(&self, link: u64, ticket: u32, offset: u64, bytes: Bytes) -> bool {
        let mut state = self.state();
        while state.link == link && state.pieces.len() >= MAX_PIECES && !state.closed {
            state = self
                .0
                .capacity
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.link != link || state.closed {
            return false;
        }
        state.pieces.push_back(Frame::Piece {
            ticket,
            offset,
            bytes,
        });
        drop(state);
        self.0.wake.notify_one();
        true
    }

    /// Whether all messages are acknowledged.
    pub fn is_settled(&self) -> bool {
        self.state().outbox.is_empty()
    }

    /// Whether [`Line::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Ends the current link after its messages are written, and prevents further links.
    pub fn close(&self) {
        self.state().closed = true;
        self.0.capacity.notify_all();
        self.0.wake.notify_one();
    }

    /// Runs one link until it ends and returns the cause. `own` is the greeting of this side.
    pub async fn converse(
        &self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin,
        own: &Greeting,
        handler: &mut impl LineHandler,
        timeouts: LinkTimeouts,
    ) -> LinkError {
        let _end = EndOfLink(self);
        self.over_one_link(reader, writer, own, handler, timeouts).await
    }

    async fn over_one_link(
        &self,
        reader: impl AsyncRead + Send + Unpin,
        mut writer: impl AsyncWrite + Send + Unpin,
        own: &Greeting,
        handler: &mut impl LineHandler,
        timeouts: LinkTimeouts,
    ) -> LinkError {
        let LinkTimeouts { greeting, silence } = timeouts;
        let mut reading = Reading {
            line: self,
            reader,
            bytes: BytesMut::new(),
            silence: greeting,
        };
        // Both directions at the same time: over a pipe with little capacity each side would wait
        // for the other to read first. A peer of another version may send its greeting and close
        // the stream before it has read ours. Its greeting is read even if ours cannot be written,
        // because it explains more than the error of the write.
        let written = async { Ok(self.greet(&mut writer, own).await) };
        let greetings = async { tokio::try_join!(written, reading.receive_greeting(handler)) };
        let sent = match timeout(greeting, greetings).await {
            Ok(Ok((Ok(()), sent))) => sent,
            Ok(Ok((Err(error), _)) | Err(error)) => return error,
            Err(_) => return LinkError::Silent(greeting),
        };
        reading.silence = silence;
        let writing = Writing {
            line: self,
            writer,
            sent,
            beat: Instant::now(),
            silence,
        };
        // A peer that no longer reads may have sent messages before: they are read to the end.
        let writing = async {
            let error = writing.run().await;
            if matches!(error, LinkError::Io(_)) {
                tokio::time::sleep(silence).await;
            }
            error
        };
        tokio::select! {
            error = reading.run(handler) => error,
            error = writing => error,
        }
    }

    async fn greet(&self, writer: &mut (impl AsyncWrite + Unpin), own: &Greeting) -> Result<(), LinkError> {
        let greeting = Greeting {
            received: self.state().inbox.received(),
            ..own.clone()
        };
        let body = serde_json::to_vec(&greeting).map_err(crate::FrameError::from)?;
        let mut bytes = BytesMut::new();
        Frame::Greeting(body.into()).write(&mut bytes)?;
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        Ok(())
    }
}

/// Clears the state of one link, also if the future of the dialogue is dropped.
struct EndOfLink<'a>(&'a Line);

impl Drop for EndOfLink<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.link = 0;
        state.pieces.clear();
        state.questions.clear();
        state.asked.clear();
        state.answers.clear();
        drop(state);
        self.0.0.capacity.notify_all();
    }
}

struct Reading<'a, R> {
    line: &'a Line,
    reader: R,
    bytes: BytesMut,
    silence: Duration,
}

impl<R: AsyncRead + Send + Unpin> Reading<'_, R> {
    async fn next(&mut self) -> Result<Frame, LinkError> {
        loop {
            if let Some(frame) = next_frame(&mut self.bytes)? {
                return Ok(frame);
            }
            // The capacity for a whole piece is reserved at once, because each growth of the buffer
            // would copy it. A link that waits for a frame has a small buffer.
            self.bytes
                .reserve(missing(&self.bytes).clamp(MIN_READ_BYTES, MAX_PIECE_BYTES));
            let mut read = timeout(self.silence, self.reader.read_buf(&mut self.bytes)).await;
            if read.is_err() {
                // If this process was stopped, the timer expires before the socket is read: frames
                // may have arrived.
                read = timeout(LAST_READ_TIMEOUT, self.reader.read_buf(&mut self.bytes)).await;
            }
            match read {
                Ok(Ok(0)) => return Err(LinkError::Closed),
                Ok(Ok(_)) => {}
                // A peer that was killed: the kernel reports the first, TLS the second, because the
                // closing alert is missing.
                Ok(Err(error))
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                    ) =>
                {
                    return Err(LinkError::Closed);
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(LinkError::Silent(self.silence)),
            }
        }
    }

    /// Reads the greeting of the other side. Returns the number of the last message that it has
    /// received.
    async fn receive_greeting(&mut self, handler: &mut impl LineHandler) -> Result<u64, LinkError> {
        let Frame::Greeting(body) = self.next().await? else {
            return Err(LinkError::NoGreeting);
        };
        let theirs: Greeting = serde_json::from_slice(&body).map_err(crate::FrameError::from)?;
        handler.handle_greeting(&theirs)?;
        let mut state = self.line.state();
        if state.closed {
            return Err(LinkError::Closed);
        }
        state.outbox.acknowledge(theirs.received)?;
        state.links += 1;
        state.link = state.links;
        Ok(theirs.received)
    }

    async fn run(&mut self, handler: &mut impl LineHandler) -> LinkError {
        loop {
            let frame = match self.next().await {
                Ok(frame) => frame,
                Err(error) => return error,
            };
            match self.take(frame) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if let Err(error) = handler.handle_event(event).await {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }

    fn take(&self, frame: Frame) -> Result<Option<LineEvent>, LinkError> {
        let now = self.line.0.clock.raw_ns();
        let mut state = self.line.state();
        let event = match frame {
            Frame::Message { number, body } => state.inbox.take(number)?.then_some(LineEvent::Message(body)),
            Frame::Beat { received } => {
                state.outbox.acknowledge(received)?;
                None
            }
            Frame::Question { id } => {
                if state.answers.len() < MAX_PROBES {
                    state.answers.push_back((id, now));
                    self.line.0.wake.notify_one();
                }
                None
            }
            Frame::Answer { id, heard, answered } => {
                let index = state.asked.iter().position(|&(asked, _)| asked == id);
                index
                    .and_then(|index| state.asked.remove(index))
                    .map(|(_, sent)| {
                        LineEvent::Answered(Stamps {
                            sent,
                            heard,
                            answered,
                            received: now,
                        })
                    })
            }
            Frame::Piece {
                ticket,
                offset,
                bytes,
            } => Some(LineEvent::Piece {
                ticket,
                offset,
                bytes,
            }),
            Frame::Greeting(_) => return Err(LinkError::NoGreeting),
        };
        Ok(event)
    }
}

struct Writing<'a, W> {
    line: &'a Line,
    writer: W,
    /// Number of the last message sent over this link.
    sent: u64,
    /// When the next heartbeat is due.
    beat: Instant,
    silence: Duration,
}

impl<W: AsyncWrite + Send + Unpin> Writing<'_, W> {
    async fn run(mut self) -> LinkError {
        let mut bytes = BytesMut::new();
        loop {
            match self.fill(&mut bytes) {
                Ok(true) => {
                    if let Err(error) = self.write(&mut bytes).await {
                        return error;
                    }
                }
                // Nothing to write: waits until there is something, or a heartbeat is due.
                Ok(false) => {
                    let _ = tokio::time::timeout_at(self.beat, self.line.0.wake.notified()).await;
                }
                Err(error) => return error,
            }
        }
    }

    /// Appends what is to be written now, the most urgent first. Returns false if there is nothing.
    ///
    /// A question or an answer is written alone and is stamped last, so that no other bytes delay
    /// it after the stamp.
    fn fill(&mut self, bytes: &mut BytesMut) -> Result<bool, LinkError> {
        let mut state = self.line.state();
        if state.closed && state.outbox.after(self.sent).is_none() {
            return Err(LinkError::Closed);
        }
        if let Some((id, heard)) = state.answers.pop_front() {
            let answered = self.line.0.clock.raw_ns();
            Frame::Answer { id, heard, answered }.write(bytes)?;
            return Ok(true);
        }
        if let Some(id) = state.questions.pop_front() {
            if state.asked.len() >= MAX_PROBES {
                state.asked.pop_front();
            }
            let sent = self.line.0.clock.raw_ns();
            state.asked.push_back((id, sent));
            Frame::Question { id }.write(bytes)?;
            return Ok(true);
        }
        while bytes.len() < MAX_WRITE_BYTES
            && let Some((number, body)) = state.outbox.after(self.sent)
        {
            Frame::Message { number, body }.write(bytes)?;
            self.sent = number;
        }
        if Instant::now() >= self.beat {
            let received = state.inbox.received();
            Frame::Beat { received }.write(bytes)?;
            self.beat = Instant::now() + HEARTBEAT_INTERVAL;
        }
        if bytes.is_empty()
            && let Some(piece) = state.pieces.pop_front()
        {
            piece.write(bytes)?;
            self.line.0.capacity.notify_one();
        }
        Ok(!bytes.is_empty())
    }

    async fn write(&mut self, bytes: &mut BytesMut) -> Result<(), LinkError> {
        while !bytes.is_empty() {
            match timeout(self.silence, self.writer.write_buf(bytes)).await {
                Ok(Ok(0)) => return Err(LinkError::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(LinkError::Silent(self.silence)),
            }
        }
        match timeout(self.silence, self.writer.flush()).await {
            Ok(flushed) => Ok(flushed?),
            Err(_) => Err(LinkError::Silent(self.silence)),
        }
    }
}

#[cfg(test)]
mod tests;
