//! The thread that runs the dialogue with the controller, over one link after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use plimsoll_link::{
    FrameError, Greeting, Line, LineEvent, LineHandler, LinkError, LinkTimeouts, SILENCE_TIMEOUT, ToAgent,
};
use tokio::time::{Instant, timeout_at};

use crate::probing::Probing;
use crate::source::{Links, Source, Stream};

/// How long an agent continues without a link before a run has set the grace.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(60);
/// How long an agent redials if the controller accepts the connection and closes it: another agent
/// has its name. That agent may have ended without the controller having detected it.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(15);
/// Time between such attempts.
const REDIAL_INTERVAL: Duration = Duration::from_secs(1);

/// What the main thread of the agent receives.
pub(crate) enum AgentInput {
    /// A message of the controller.
    Message(ToAgent),
    /// There was no link for longer than the grace, or there will be no further link.
    LinkLost(LinkError),
    /// A signal of this number asks the process to end.
    Signal(i32),
}

/// The state of the thread that runs the dialogue.
pub(crate) struct Comms {
    pub(crate) line: Line,
    pub(crate) own: Greeting,
    pub(crate) version: String,
    /// How long the agent continues without a link, ns.
    pub(crate) grace_ns: Arc<AtomicU64>,
    pub(crate) inputs: Sender<AgentInput>,
    pub(crate) probing: Arc<Probing>,
}

impl Comms {
    /// Starts the thread. It ends when the line is closed, or after it has sent
    /// [`AgentInput::LinkLost`].
    ///
    /// # Errors
    /// The system refuses a thread or a runtime.
    pub(crate) fn start(self, source: Source) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new().name("link".into()).spawn(move || {
            let why = runtime.block_on(async {
                match source.open() {
                    Ok(links) => self.speak(links).await,
                    Err(error) => LinkError::Io(error),
                }
            });
            let _ = self.inputs.send(AgentInput::LinkLost(why));
        })?;
        Ok(())
    }

    async fn speak(&self, mut links: Links) -> LinkError {
        let mut why = LinkError::Silent(self.grace());
        let mut next: Option<Stream> = None;
        let mut cut = Instant::now();
        let mut refused: Option<Instant> = None;
        loop {
            let stream = if let Some(stream) = next.take() {
                stream
            } else {
                let grace = cut + self.grace();
                let until = refused.map_or(grace, |since| grace.min(since + REFUSED_TIMEOUT));
                match timeout_at(until, links.next()).await {
                    Ok(Some(stream)) => stream,
                    Err(_) if refused.is_some() => return LinkError::Refused,
                    Ok(None) | Err(_) => return why,
                }
            };
            self.probing.set_link_address(stream.link_address);
            let mut handler = Handler {
                comms: self,
                greeted: false,
            };
            let timeouts = timeouts(matches!(links, Links::Once(_)));
            let dialogue =
                self.line
                    .converse(stream.reader, stream.writer, &self.own, &mut handler, timeouts);
            tokio::select! {
                ended = dialogue => why = ended,
                newer = links.next(), if matches!(links, Links::Listen(_)) => next = newer,
            }
            if handler.greeted {
                (cut, refused) = (Instant::now(), None);
            } else if matches!(links, Links::Dial(_)) {
                if matches!(why, LinkError::Version(_)) {
                    return why; // a retry cannot succeed
                }
                refused.get_or_insert_with(Instant::now);
                tokio::time::sleep(REDIAL_INTERVAL).await;
            }
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_nanos(self.grace_ns.load(Ordering::Relaxed))
    }
}

/// The timeouts of a link. On the controller's host the end of the controller closes the link, so a
/// long timeout is used: a controller that is stopped for some time (a suspended laptop, a
/// debugger) must not end the run.
fn timeouts(once: bool) -> LinkTimeouts {
    LinkTimeouts::without_login(if once {
        Duration::from_secs(3600)
    } else {
        SILENCE_TIMEOUT
    })
}

struct Handler<'a> {
    comms: &'a Comms,
    /// The controller's greeting was received over this link.
    greeted: bool,
}

impl LineHandler for Handler<'_> {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        theirs.check("the controller", "agent", &self.comms.version)?;
        self.greeted = true;
        Ok(())
    }

    async fn handle_event(&mut self, event: LineEvent) -> Result<(), LinkError> {
        match event {
            LineEvent::Message(body) => {
                let message = serde_json::from_slice(&body).map_err(FrameError::from)?;
                self.comms
                    .inputs
                    .send(AgentInput::Message(message))
                    .map_err(|_| LinkError::Closed)
            }
            LineEvent::Answered(stamps) => {
                self.comms.probing.add_stamps(stamps);
                Ok(())
            }
            LineEvent::Piece { .. } => Ok(()), // a controller sends no files
        }
    }
}
