//! The task that makes the links to an agent, again after each cut up to the grace, and runs the
//! dialogue over them.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_link::{FrameError, Greeting, Line, LineEvent, LineHandler, LinkError, LinkTimeouts, LoginText};
use plimsoll_model::grouped;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc::UnboundedReceiver;

use super::carrier::{LinkCommand, start};
use super::peer::PeerContext;
use crate::input::{AgentEvent, Arrival, Input};

/// Maximum time to the greeting of an agent that is reached by a command. A login precedes it: with
/// a round trip of 315 ms it needs a dozen round trips, and computation on a host that may be busy.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum number of messages of one agent that wait for the deciding thread. If there are more,
/// the agent's link is not read.
const MAX_WAITING: usize = 4096;
/// Times between attempts to make a link again.
const RETRY_INTERVALS: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The task that runs the dialogue with an agent.
pub(super) struct Handler {
    pub(super) name: Arc<str>,
    pub(super) generation: u64,
    pub(super) context: PeerContext,
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) grace_ns: Arc<AtomicU64>,
    pub(super) leaving: Arc<AtomicBool>,
    pub(super) command: Arc<Mutex<u32>>,
    /// Incarnation of the agent's process, once its greeting was received.
    pub(super) incarnation: Option<u64>,
}

impl Handler {
    /// Sends an event to the deciding thread.
    fn forward(&self, event: AgentEvent) -> Result<(), LinkError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let input = Input::Agent {
            name: self.name.clone(),
            generation: self.generation,
            event,
        };
        self.context.inbox.send(input).map_err(|_| LinkError::Closed)
    }

    async fn converse(
        &mut self,
        line: &Line,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin,
        timeouts: LinkTimeouts,
    ) -> LinkError {
        let own = self.context.own.clone();
        line.converse(reader, writer, &own, self, timeouts).await
    }

    /// The timeouts of a link without a login.
    fn timeouts(&self) -> LinkTimeouts {
        LinkTimeouts::without_login(self.context.silence)
    }

    /// The timeouts of a link after a login. `overdue` limits the time for a further link to the
    /// grace.
    fn timeouts_with_login(&self) -> LinkTimeouts {
        let usual = self.timeouts();
        LinkTimeouts {
            greeting: usual.greeting.max(LOGIN_TIMEOUT),
            ..usual
        }
    }

    pub(super) async fn by_socket_pair(mut self, line: Line, near: UnixStream) {
        let stream = near
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(near));
        let why = match stream {
            Ok(stream) => {
                let (reader, writer) = stream.into_split();
                let timeouts = self.timeouts();
                self.converse(&line, reader, writer, timeouts).await
            }
            Err(error) => error.into(),
        };
        let _ = self.forward(AgentEvent::Lost(why));
    }

    pub(super) async fn by_command(mut self, line: Line, argv: Vec<String>) {
        let mut attempt = 0;
        let mut cut: Option<Instant> = None;
        loop {
            let known = self.incarnation.is_some();
            let links = line.links();
            let grace = self.grace_ns.clone();
            let why = tokio::select! {
                why = self.converse_by_command(&line, &argv) => why,
                // An attempt that does not end must not extend the grace.
                why = overdue(&line, links, cut, &grace) => why,
            };
            if line.is_closed() || self.leaving.load(Ordering::Relaxed) {
                return;
            }
            if line.links() > links {
                (attempt, cut) = (0, None);
            }
            let since = *cut.get_or_insert_with(Instant::now);
            // A run may have set another grace during the attempt.
            let grace = Duration::from_nanos(self.grace_ns.load(Ordering::Relaxed));
            let is_final = matches!(why, LinkError::Version(_) | LinkError::NewProcess);
            // The first attempt is not repeated: address, key or program is wrong.
            if !known && self.incarnation.is_none() || is_final || since.elapsed() >= grace {
                let _ = self.forward(AgentEvent::Lost(why));
                return;
            }
            if attempt == 0 && self.forward(AgentEvent::Cut(why)).is_err() {
                return;
            }
            tokio::time::sleep(RETRY_INTERVALS[attempt.min(RETRY_INTERVALS.len() - 1)]).await;
            attempt += 1;
        }
    }

    pub(super) async fn by_arrivals(mut self, line: Line, mut arrivals: UnboundedReceiver<Arrival>) {
        let mut next: Option<Arrival> = None;
        let mut why = LinkError::Closed;
        let mut cut = tokio::time::Instant::now();
        loop {
            let grace = Duration::from_nanos(self.grace_ns.load(Ordering::Relaxed));
            let arrival = match next.take() {
                Some(arrival) => arrival,
                None => match tokio::time::timeout_at(cut + grace, arrivals.recv()).await {
                    Ok(Some(arrival)) => arrival,
                    Ok(None) | Err(_) => break,
                },
            };
            let reader = AsyncReadExt::chain(std::io::Cursor::new(arrival.read), arrival.link.reader);
            let timeouts = self.timeouts();
            tokio::select! {
                ended = self.converse(&line, reader, arrival.link.writer, timeouts) => why = ended,
                newer = arrivals.recv() => next = newer,
            }
            if line.is_closed() || self.leaving.load(Ordering::Relaxed) {
                return;
            }
            if matches!(why, LinkError::Version(_) | LinkError::NewProcess) {
                break;
            }
            cut = tokio::time::Instant::now();
            if next.is_none() {
                // The cause is reported now. If there is no further link, the agent is lost because
                // its link was down.
                let cause = std::mem::replace(&mut why, LinkError::Down(grace));
                if self.forward(AgentEvent::Cut(cause)).is_err() {
                    return;
                }
            }
        }
        if matches!(why, LinkError::Down(_)) {
            why = LinkError::Down(cut.elapsed());
        }
        let _ = self.forward(AgentEvent::Lost(why));
    }

    async fn converse_by_command(&mut self, line: &Line, argv: &[String]) -> LinkError {
        let (child, stream) = match start(argv) {
            Ok(started) => started,
            Err(error) => return error.into(),
        };
        let mut child = LinkCommand::new(child, &self.command);
        let (mut reader, writer) = stream.into_split();
        let timeouts = self.timeouts_with_login();
        let why = match after_login(&mut reader, timeouts.greeting).await {
            Ok(first) => {
                let reader = AsyncReadExt::chain(std::io::Cursor::new(first), reader);
                self.converse(line, reader, writer, timeouts).await
            }
            Err(why) => {
                drop((reader, writer)); // the end of its input lets the command end and print the cause
                why
            }
        };
        let cause = tokio::task::block_in_place(|| child.end());
        match why {
            // After a timeout the cause is not used: the command ended because its input was
            // closed.
            LinkError::Closed | LinkError::Io(_) if !cause.is_empty() => {
                LinkError::Io(io::Error::other(cause))
            }
            LinkError::NoLink(text) if !cause.is_empty() => LinkError::NoLink(format!("{text}; {cause}")),
            other => other,
        }
    }
}

/// Reads the text of a login up to the preamble. Returns the first bytes of the link.
async fn after_login(
    reader: &mut (impl AsyncRead + Unpin),
    max_wait: Duration,
) -> Result<bytes::BytesMut, LinkError> {
    let mut login = LoginText::default();
    let mut bytes = vec![0; 4096];
    let reading = async {
        loop {
            match reader.read(&mut bytes).await? {
                0 => return Ok(None),
                count => {
                    if let Some(first) = login.take(&bytes[..count]) {
                        return Ok(Some(first));
                    }
                }
            }
            if login.is_too_long() {
                return Ok(None);
            }
        }
    };
    let begun: Result<Option<_>, io::Error> = tokio::time::timeout(max_wait, reading)
        .await
        .map_err(|_| LinkError::Silent(max_wait))?;
    match begun? {
        Some(first) => Ok(first),
        None if login.is_too_long() => Err(LinkError::NoLink(format!(
            "its login printed more than {} bytes and no agent answered; the text begins with {:?}",
            grouped(plimsoll_link::MAX_LOGIN_TEXT as u64),
            login.first_line()
        ))),
        None if login.first_line().is_empty() => Err(LinkError::Closed),
        None => Err(LinkError::NoLink(format!(
            "no agent answered; its login printed {:?}",
            login.first_line()
        ))),
    }
}

impl LineHandler for Handler {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        theirs.check("the agent", "engine", &self.context.version)?;
        let again = self.incarnation.is_some();
        if self.incarnation.is_some_and(|known| known != theirs.incarnation) {
            return Err(LinkError::NewProcess);
        }
        self.incarnation = Some(theirs.incarnation);
        self.forward(AgentEvent::Up { again })
    }

    async fn handle_event(&mut self, event: LineEvent) -> Result<(), LinkError> {
        match event {
            LineEvent::Message(body) => {
                let message = serde_json::from_slice(&body).map_err(FrameError::from)?;
                // If an agent sends more than the deciding thread can handle, its link is not read.
                while self.waiting.load(Ordering::Relaxed) > MAX_WAITING {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                self.forward(AgentEvent::Message(message))
            }
            LineEvent::Piece {
                ticket,
                offset,
                bytes,
            } => {
                if let Some(input) =
                    tokio::task::block_in_place(|| self.context.store.take(ticket, offset, &bytes))
                {
                    self.context.inbox.send(input).map_err(|_| LinkError::Closed)?;
                }
                Ok(())
            }
            LineEvent::Answered(_) => Ok(()), // a controller sends no probes
        }
    }
}

/// Returns when the grace has elapsed since `cut`, unless a link was made before. `links` is the
/// number of links so far.
async fn overdue(line: &Line, links: u64, cut: Option<Instant>, grace_ns: &AtomicU64) -> LinkError {
    if let Some(since) = cut {
        let grace = Duration::from_nanos(grace_ns.load(Ordering::Relaxed));
        tokio::time::sleep_until((since + grace).into()).await;
        if line.links() == links {
            return LinkError::Down(grace);
        }
    }
    std::future::pending().await
}
