//! An agent: testers, recorder and monitor of one host, with a link to the controller.
//!
//! It serves several runs in turn and writes its segments into the spool of each run. It ends, with
//! all processes that it has started, when the controller or a signal asks it to, or when its link
//! was down for longer than the grace. Segments that were not collected stay on its disk.

mod affinity;
mod attach;
mod baseline;
mod children;
mod comms;
mod error;
mod files;
mod limited;
mod paths;
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
use crate::error::PrepareError;
use crate::files::Files;
use crate::limited::Limited;
use crate::probing::Probing;
use crate::run::Run;

pub use attach::{AgentDirectory, AttachError, attach};
pub use children::{end_children, end_children_but, wait_for_children};
pub use source::Source;
pub use stamped::{Datagram, GRAIN_NS, StampedSocket};

/// Maximum time, in addition to the drain, in which a run without a controller closes its segments.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time in addition to [`HANDOVER_TIMEOUT`], so that the time limit of the controller ends before
/// that of the agent.
const HANDOVER_MARGIN: Duration = Duration::from_secs(2);

/// Why an agent ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The link broke, or was down for too long.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The system refused a resource. Contains the operation and the error.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentExit {
    /// Whether its disk contains segments that were not collected.
    pub kept: bool,
}

/// Serves runs until the controller sends Quit or ends.
///
/// `version` is the version of the engine. `directory` is the agent's own directory, if it has one.
/// `name` is the name of an agent that was not started by the controller. A message on `ended` (the
/// number of a signal) asks the agent to end; after a second one it ends at once.
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
        limited: Limited::default(),
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
    /// The spool, if the agent has its own directory.
    files: Option<Files>,
    affinity: Affinity,
    limited: Limited,
    grace_ns: Arc<AtomicU64>,
    run: Option<Run>,
    /// Time at which the agent ends at the latest, once it was asked to end.
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

    /// Whether there is a run, or segments of one, and a controller that can fetch them.
    fn has_to_hand_over(&self) -> bool {
        let measuring = self.run.as_ref().is_some_and(Run::is_active);
        let has_files = self.files.as_ref().is_some_and(|files| !files.is_empty());
        self.line.link().is_some() && (measuring || has_files)
    }

    /// Stops the testers and notifies the controller. The agent then ends when the controller has
    /// fetched the segments and sends Quit, or at the time limit.
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
                    Err(error) => ToController::Failed {
                        error: error.to_string(),
                    },
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
            ToAgent::Measure(request) => baseline::measure(&request, self.line.clone()),
            ToAgent::MeasurePaths { paths } => paths::measure(paths, self.line.clone()),
            ToAgent::Quit => {}
        }
    }

    fn send(&self, message: &ToController) {
        // An error means that the line has ended; the main loop is notified of that.
        let _ = self.line.send(message);
    }

    fn prepare(&mut self, prepare: Prepare) -> Result<(), PrepareError> {
        if self.leaving.is_some() {
            return Err(PrepareError::Leaving);
        }
        // The previous run has sent Finished; otherwise the controller would not have sent this.
        if let Some(previous) = self.run.take() {
            previous.join();
        }
        self.grace_ns.store(prepare.grace_ns, Ordering::Relaxed);
        self.probing.assume(prepare.max_rate_error_ppm);
        let spool = match (&prepare.spool, &self.files) {
            (Spool::Here(path), _) => path.clone(),
            (Spool::Own(run), Some(files)) => files.create(run)?,
            (Spool::Own(_), None) => return Err(PrepareError::NoDirectory),
        };
        self.affinity.bind(&prepare.spec.tester_cpus)?;
        self.limited.set(prepare.limits)?;
        self.run = Some(Run::prepare(prepare, spool, self.probing.clone())?);
        Ok(())
    }

    /// Ends the present run. After a signal, or the end of a controller that is the parent process,
    /// it ends at once. After the grace, transactions in progress may end within the drain, so that
    /// the segments are complete.
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

/// Forwards signals that ask to end, and ends the process if it does not end by itself.
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

/// Makes this process the subreaper of its descendants: their orphans become its children, so that
/// [`end_children`] finds them.
pub fn adopt_orphans() {
    // SAFETY: this option takes plain numbers and has no memory effects.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A receiver without messages, for callers without signals.
pub fn no_signals() -> Receiver<i32> {
    let (sender, receiver) = mpsc::channel();
    drop(sender);
    receiver
}
