//! An agent: testers, recorder and monitor of one host, behind a link to the controller.
//!
//! It serves several runs in turn, writes its segments into the spool that each run names, and
//! ends, with everything it has started, when it is told to, or when it has been without a
//! controller for longer than the grace. What nobody has collected by then stays on its disk.

mod affinity;
mod attach;
mod baseline;
mod children;
mod comms;
mod files;
mod probing;
mod run;
mod source;
mod stamped;
mod udp_probe;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_link::message::HANDOVER_TIMEOUT;
use plimsoll_link::{Greeting, Line, LinkError, Prepare, Spool, ToAgent, ToController};

use crate::affinity::Affinity;
use crate::comms::{AgentInput, Comms, DEFAULT_GRACE};
use crate::files::Files;
use crate::probing::Probing;
use crate::run::Run;

pub use attach::{AgentDirectory, AttachError, attach};
pub use children::{end_children, end_children_but};
pub use source::Source;
pub use stamped::{Datagram, GRAIN_NS, StampedSocket};

/// How long a run that goes on may take to end when nobody listens any more, beyond its drain.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Beyond [`HANDOVER_TIMEOUT`], so that the controller is the first to give up.
const HANDOVER_MARGIN: Duration = Duration::from_secs(2);

/// Why an agent ended otherwise than it was told to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The link broke, other than by its end, or was away for too long.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The system refuses a resource.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentExit {
    /// Segments that nobody has collected are on its disk.
    pub kept: bool,
}

/// Serves runs until the controller says Quit or is gone. `version` is the engine's; `directory`
/// the agent's own, where it has one; `name` how it calls itself, where it was not started by the
/// controller; a message on `ended` (the number of a signal) asks it to end, a second one to end at
/// once.
///
/// # Errors
/// [`AgentError`].
pub fn run_agent(
    source: Source,
    directory: Option<&Path>,
    name: Option<String>,
    version: &str,
    ended: Receiver<i32>,
) -> Result<AgentExit, AgentError> {
    let (inputs, inbox) = mpsc::channel();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let line = Line::new(clock.clone());
    let grace_ns = Arc::new(AtomicU64::new(DEFAULT_GRACE.as_nanos() as u64));
    line.send(&ToController::Facts(plimsoll_monitor::host_facts(version)))?;
    let thread = |error| AgentError::System("start a thread", error);
    let probing = Probing::start(line.clone(), clock).map_err(thread)?;
    let comms = Comms {
        line: line.clone(),
        own: Greeting {
            name,
            ..Greeting::new(version)
        },
        version: version.to_owned(),
        grace_ns: grace_ns.clone(),
        inputs: inputs.clone(),
        probing: probing.clone(),
    };
    comms.start(source).map_err(thread)?;
    watch_signals(ended, inputs).map_err(thread)?;
    let mut agent = Agent {
        line,
        probing,
        files: directory.map(Files::below),
        affinity: Affinity::current(),
        grace_ns,
        run: None,
        leaving: None,
    };
    let outcome = agent.serve(&inbox);
    agent.leave(&outcome);
    let kept = agent.files.is_some_and(|files| !files.is_empty());
    outcome.map(|()| AgentExit { kept })
}

struct Agent {
    line: Line,
    probing: Arc<Probing>,
    /// Of an agent that has a directory of its own.
    files: Option<Files>,
    affinity: Affinity,
    grace_ns: Arc<AtomicU64>,
    run: Option<Run>,
    /// It was asked to end, and does so then at the latest.
    leaving: Option<Instant>,
}

impl Agent {
    fn serve(&mut self, inbox: &Receiver<AgentInput>) -> Result<(), AgentError> {
        loop {
            let input = match self.leaving {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match input {
                Ok(AgentInput::Message(ToAgent::Quit) | AgentInput::LinkLost(LinkError::Closed)) | Err(_) => {
                    return Ok(());
                }
                Ok(AgentInput::Message(message)) => self.obey(message),
                Ok(AgentInput::Signal(number)) if self.leaving.is_none() && self.has_to_hand_over() => {
                    self.begin_leave(number);
                }
                Ok(AgentInput::Signal(_)) => return Ok(()),
                Ok(AgentInput::LinkLost(error)) => return Err(error.into()),
            }
        }
    }

    /// There is a run, or what is left of one, and somebody who could take it.
    fn has_to_hand_over(&self) -> bool {
        let measuring = self.run.as_ref().is_some_and(Run::is_active);
        let keeps = self.files.as_ref().is_some_and(|files| !files.is_empty());
        self.line.link().is_some() && (measuring || keeps)
    }

    /// Stops the testers, and says so. The controller fetches what there is and says Quit, or the
    /// time is over.
    fn begin_leave(&mut self, signal: i32) {
        self.leaving = Some(Instant::now() + HANDOVER_TIMEOUT + HANDOVER_MARGIN);
        let reason = signal_name(signal).to_owned();
        self.send(&ToController::Leaving { reason });
        if let Some(run) = &mut self.run {
            run.stop(&self.line);
        }
    }

    fn obey(&mut self, message: ToAgent) {
        match message {
            ToAgent::Time(service) => self.probing.use_service(&service),
            ToAgent::Prepare(prepare) => {
                let answer = match self.prepare(*prepare) {
                    Ok(()) => ToController::Prepared,
                    Err(error) => ToController::Failed { error },
                };
                self.send(&answer);
            }
            ToAgent::Go { t0_ns } => {
                if let Some(run) = &mut self.run {
                    let (t0_raw_ns, bound_ns) = self.probing.to_agent(t0_ns);
                    let _ = self.line.send(&ToController::Going { t0_raw_ns, bound_ns });
                    run.go(t0_raw_ns, &self.line);
                }
            }
            ToAgent::Stop => {
                if let Some(run) = &mut self.run {
                    run.stop(&self.line);
                }
            }
            ToAgent::List { run } => {
                let files = self
                    .files
                    .as_ref()
                    .map(|files| files.list(&run))
                    .unwrap_or_default();
                self.send(&ToController::Files { run, files });
            }
            ToAgent::Fetch {
                ticket,
                run,
                name,
                offset,
            } => {
                if let Some(files) = &self.files {
                    files.send(&self.line, ticket, &run, &name, offset);
                }
            }
            ToAgent::Forget { run } => {
                if let Some(files) = &self.files {
                    files.forget(&run);
                }
            }
            ToAgent::Measure(what) => baseline::measure(what, self.line.clone()),
            ToAgent::Quit => {}
        }
    }

    fn send(&self, message: &ToController) {
        // What cannot be said shows as the end of the line.
        let _ = self.line.send(message);
    }

    fn prepare(&mut self, prepare: Prepare) -> Result<(), String> {
        if self.leaving.is_some() {
            return Err("it was asked to end".into());
        }
        // The former run has said Finished, or this would not have been sent.
        if let Some(former) = self.run.take() {
            former.join();
        }
        self.grace_ns.store(prepare.grace_ns, Ordering::Relaxed);
        self.probing.assume(prepare.max_rate_error_ppm);
        let spool = match (&prepare.spool, &self.files) {
            (Spool::Here(path), _) => path.clone(),
            (Spool::Own(run), Some(files)) => files.create(run)?,
            (Spool::Own(_), None) => return Err("this agent has no directory of its own".into()),
        };
        self.affinity.bind(&prepare.spec.tester_cpus)?;
        self.run = Some(Run::prepare(prepare, spool, self.probing.clone())?);
        Ok(())
    }

    /// Ends what goes on. A run that nobody listens to is ended at once by a signal or the end of a
    /// controller that is our parent; past the grace its transactions in progress have the drain to
    /// end in, so that segments are whole.
    fn leave(&mut self, outcome: &Result<(), AgentError>) {
        if let Some(run) = self.run.take() {
            let max_wait = if outcome.is_err() {
                run.drain()
            } else {
                Duration::ZERO
            };
            run.abandon(max_wait + CLOSE_TIMEOUT);
        }
        self.line.close();
        end_children();
    }
}

/// Passes on the wish to end, and ends the process if that does not lead to it.
fn watch_signals(ended: Receiver<i32>, inputs: Sender<AgentInput>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let Ok(first) = ended.recv() else { return };
            let _ = inputs.send(AgentInput::Signal(first));
            if let Ok(second) = ended.recv_timeout(HANDOVER_TIMEOUT + HANDOVER_MARGIN + CLOSE_TIMEOUT * 2) {
                let _ = inputs.send(AgentInput::Signal(second));
                std::thread::sleep(CLOSE_TIMEOUT * 3);
            }
            end_children();
            std::process::exit(1);
        })?;
    Ok(())
}

fn signal_name(number: i32) -> &'static str {
    match number {
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

/// Makes this process the one that orphans below it are handed to, so that [`end_children`] finds
/// them.
pub fn adopt_orphans() {
    // SAFETY: this option takes plain numbers and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A channel whose receiver never hears anything, for callers without signals.
pub fn no_signals() -> Receiver<i32> {
    let (sender, receiver) = mpsc::channel();
    drop(sender);
    receiver
}
