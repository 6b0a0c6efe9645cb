//! The conversation with one peer, over as many links as it takes.
//!
//! A [`Line`] outlives the streams below it: what is said while there is none, or is lost when one
//! breaks, is sent over the next ([`Line::converse`]). Its own methods may be called from any
//! thread and wait for nothing but [`Line::piece`].

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

/// A side speaks at least so often.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A side that was not heard for so long is not there any more.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
const LAST_READ_TIMEOUT: Duration = Duration::from_millis(100);
/// Pieces that may wait to be sent; [`Line::piece`] waits for room.
const MAX_PIECES: usize = 8;
/// Questions and answers of probes that may wait: they are worth nothing later.
const MAX_PROBES: usize = 64;
/// Room for what is read at a time, at least.
const MIN_READ_BYTES: usize = 4096;
/// What one write takes of messages.
const MAX_WRITE_BYTES: usize = 256 * 1024;

/// How long one side waits for the other.
#[derive(Debug, Clone, Copy)]
pub struct LinkTimeouts {
    /// For the first word over a new link. Longer than `silence` where a login comes before it.
    pub greeting: Duration,
    /// For any further word.
    pub silence: Duration,
}

impl LinkTimeouts {
    /// Over a link that is there already.
    pub fn over(silence: Duration) -> Self {
        Self {
            greeting: silence * 2,
            silence,
        }
    }
}

/// What a line hears.
#[derive(Debug)]
pub enum LineEvent {
    /// A message, once and in order: JSON.
    Message(Bytes),
    /// A part of a file.
    Piece {
        /// Of the request.
        ticket: u32,
        /// Where it belongs.
        offset: u64,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The answer to a question of ours.
    Answered(Stamps),
}

/// The four stamps of a probe, ns: `sent` and `received` by our clock, the others by the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// Question written.
    pub sent: i64,
    /// Question read.
    pub heard: i64,
    /// Answer written.
    pub answered: i64,
    /// Answer read.
    pub received: i64,
}

/// Who listens to a line.
pub trait LineHandler: Send {
    /// The first word over a new link. An error ends it.
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError>;

    /// Everything else. Nothing more is read before this is done.
    fn handle_event(&mut self, heard: LineEvent) -> impl Future<Output = Result<(), LinkError>> + Send;
}

/// What both directions share; see the module.
#[derive(Clone)]
pub struct Line(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    wake: Notify,
    /// Room for a piece, or another link.
    capacity: Condvar,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    inbox: Inbox,
    pieces: VecDeque<Frame>,
    /// Ids of questions to be asked.
    questions: VecDeque<u64>,
    /// Those that wait for an answer, and when they were written.
    asked: VecDeque<(u64, i64)>,
    /// Ids of questions to be answered, and when they were read.
    answers: VecDeque<(u64, i64)>,
    next_question: u64,
    /// Number of the link that is up, from 1; 0 for none.
    link: u64,
    links: u64,
    closed: bool,
}

impl Line {
    /// A line whose probes are stamped by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            wake: Notify::new(),
            capacity: Condvar::new(),
            clock,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a message. It arrives unless the line is given up.
    ///
    /// # Errors
    /// [`LinkError`] when the line is closed or the other side acknowledges nothing.
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

    /// Asks the other side for its time; the answer comes as [`LineEvent::Answered`], or never.
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

    /// Number of the link that is up, for [`Line::piece`]; none without one.
    pub fn link(&self) -> Option<u64> {
        Some(self.state().link).filter(|&link| link != 0)
    }

    /// Number of links that have been up so far.
    pub fn links(&self) -> u64 {
        self.state().links
    }

    /// Sends a part of a file over `link`, when there is room. False when that link is gone:
    /// whoever wants the file asks again.
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

    /// Whether everything that was said has arrived.
    pub fn is_settled(&self) -> bool {
        self.state().outbox.is_empty()
    }

    /// Whether [`Line::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Ends the link that is up, and lets none begin.
    pub fn close(&self) {
        self.state().closed = true;
        self.0.capacity.notify_all();
        self.0.wake.notify_one();
    }

    /// Speaks over one link until it ends; gives why. `own` is how we greet.
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
        // Both at once: over a narrow pipe each side would wait for the other to read first. One
        // that greets and hangs up before it hears us may be of another version: what it said is
        // read first, and tells more than a broken pipe.
        let said = async { Ok(self.greet(&mut writer, own).await) };
        let first = async { tokio::try_join!(said, reading.be_greeted(handler)) };
        let sent = match timeout(greeting, first).await {
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
        // Whoever does not read any more may have had something to say before: that is read to its
        // end.
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

/// Clears what belongs to one link, also when the conversation is dropped.
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
            // All of a piece at once, or it would be copied each time the buffer grows; little for
            // a link that waits.
            self.bytes
                .reserve(missing(&self.bytes).clamp(MIN_READ_BYTES, MAX_PIECE_BYTES));
            let mut read = timeout(self.silence, self.reader.read_buf(&mut self.bytes)).await;
            if read.is_err() {
                // Of a process that was stopped the timer ends before the kernel is asked what has
                // come meanwhile.
                read = timeout(LAST_READ_TIMEOUT, self.reader.read_buf(&mut self.bytes)).await;
            }
            match read {
                Ok(Ok(0)) => return Err(LinkError::Closed),
                Ok(Ok(_)) => {}
                // Of one that was killed the kernel says the first, and TLS, which misses a
                // farewell, the second.
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

    /// The other side's greeting; gives the number of our last message that it has.
    async fn be_greeted(&mut self, handler: &mut impl LineHandler) -> Result<u64, LinkError> {
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
                Ok(Some(heard)) => {
                    if let Err(error) = handler.handle_event(heard).await {
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
        let heard = match frame {
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
                let found = state.asked.iter().position(|&(asked, _)| asked == id);
                found.and_then(|at| state.asked.remove(at)).map(|(_, sent)| {
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
        Ok(heard)
    }
}

struct Writing<'a, W> {
    line: &'a Line,
    writer: W,
    /// Number of the last message sent over this link.
    sent: u64,
    /// When the next beat is due.
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
                // Not ready: sleeps until somebody has something to say, or a beat is due.
                Ok(false) => {
                    let _ = tokio::time::timeout_at(self.beat, self.line.0.wake.notified()).await;
                }
                Err(error) => return error,
            }
        }
    }

    /// What is to be written now, in the order of its urgency. A question or an answer goes alone
    /// and is stamped last, so that no other bytes stand between the stamp and the wire.
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
