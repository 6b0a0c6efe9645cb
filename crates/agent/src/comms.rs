//! The thread that speaks with the controller, over one link after the other.

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

/// How long an agent lives without a controller when no run has said otherwise.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(60);
/// How long an agent dials again that is let in and hung up on: another one has its name. It may be
/// one whose place this one takes, and whose end the controller has not noticed yet.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(15);
/// Between such attempts.
const REDIAL_INTERVAL: Duration = Duration::from_secs(1);

/// What the agent's main thread hears.
pub(crate) enum AgentInput {
    /// A word of the controller.
    Message(ToAgent),
    /// There was no link for longer than the grace, or there will be none any more.
    LinkLost(LinkError),
    /// Somebody asks this process to end, by the signal of this number.
    Signal(i32),
}

/// How this agent speaks.
pub(crate) struct Comms {
    pub(crate) line: Line,
    pub(crate) own: Greeting,
    pub(crate) version: String,
    /// How long it goes on without a link, ns.
    pub(crate) grace_ns: Arc<AtomicU64>,
    pub(crate) inputs: Sender<AgentInput>,
    pub(crate) probing: Arc<Probing>,
}

impl Comms {
    /// Starts the thread. It ends when the line is closed, or says [`AgentInput::LinkLost`] as its last
    /// word.
    ///
    /// # Errors
    /// No thread or runtime is to be had.
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
            let once = matches!(links, Links::Once(_));
            tokio::select! {
                ended = self.line.converse(stream.reader, stream.writer, &self.own, &mut handler, timeouts(once)) => why = ended,
                newer = links.next(), if matches!(links, Links::Listen(_)) => next = newer,
            }
            if handler.greeted {
                (cut, refused) = (Instant::now(), None);
            } else if matches!(links, Links::Dial(_)) {
                if matches!(why, LinkError::Version(_)) {
                    return why; // it will be the same tomorrow
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

/// A controller that is stopped for a while (a suspended laptop, a debugger) must not cost a run on
/// its own host: there its end closes the link.
fn timeouts(once: bool) -> LinkTimeouts {
    LinkTimeouts::without_login(if once {
        Duration::from_secs(3600)
    } else {
        SILENCE_TIMEOUT
    })
}

struct Handler<'a> {
    comms: &'a Comms,
    /// The controller has said over this link who it is.
    greeted: bool,
}

impl LineHandler for Handler<'_> {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        theirs.check("the controller", "agent", &self.comms.version)?;
        self.greeted = true;
        Ok(())
    }

    async fn handle_event(&mut self, heard: LineEvent) -> Result<(), LinkError> {
        match heard {
            LineEvent::Message(body) => {
                let said = serde_json::from_slice(&body).map_err(FrameError::from)?;
                self.comms
                    .inputs
                    .send(AgentInput::Message(said))
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
