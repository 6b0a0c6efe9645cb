//! An agent from the controller's side: its start, its line, and its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_clock::SystemClock;
use plimsoll_link::{ClockReport, Greeting, Line, TimeService, ToAgent};
use plimsoll_model::{AgentSpec, AgentStartKind, HostFacts, Limits, Role};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::handler::Handler;
use super::store::Store;
use crate::error::ArrivalError;
use crate::input::{Arrival, Input};

/// Maximum time from the kill of a process to its end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time from Quit to the end of an agent.
pub(crate) const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a local agent is started: the program, and the arguments before `--fd N`.
#[derive(Debug, Clone)]
pub struct AgentCommand {
    /// Path of the engine.
    pub program: OsString,
    /// Arguments, for instance `["agent"]`.
    pub arguments: Vec<OsString>,
    /// A link over which nothing was received for this time is broken:
    /// [`plimsoll_link::SILENCE_TIMEOUT`].
    pub silence: Duration,
}

/// The state that all peers share.
#[derive(Clone)]
pub(crate) struct PeerContext {
    pub(crate) inbox: Sender<Input>,
    pub(crate) store: Arc<Store>,
    pub(crate) own: Greeting,
    pub(crate) version: String,
    pub(crate) silence: Duration,
}

/// One agent.
pub(crate) struct Peer {
    pub(crate) spec: AgentSpec,
    /// Distinguishes messages of this agent from those of an earlier agent of the same name.
    pub(crate) generation: u64,
    pub(crate) line: Line,
    /// Number of events that the deciding thread has not yet handled.
    pub(crate) waiting: Arc<AtomicUsize>,
    pub(crate) grace_ns: Arc<AtomicU64>,
    /// The agent was asked to end: no further link is made.
    leaving: Arc<AtomicBool>,
    pub(crate) facts: Option<HostFacts>,
    pub(crate) clock: Option<ClockReport>,
    child: Option<Child>,
    /// Receives the links of an agent that dials in.
    links: Option<UnboundedSender<Arrival>>,
    /// Incarnation of the process of an agent that dials in.
    pub(crate) incarnation: Option<u64>,
    task: tokio::task::JoinHandle<()>,
    /// Process id of the command that is the present link; 0 if there is none.
    command: Arc<Mutex<u32>>,
}

impl Peer {
    /// Starts a local agent, a child of this process. Program and arguments of `how` are followed
    /// by `--fd N`. If its link ends, the agent is lost.
    ///
    /// # Errors
    /// The system refuses a process or a socket.
    pub(crate) fn local(
        spec: &AgentSpec,
        generation: u64,
        how: &AgentCommand,
        context: &PeerContext,
        runtime: &tokio::runtime::Handle,
    ) -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        let far = OwnedFd::from(far);
        let fd = far.as_raw_fd();
        let mut command = Command::new(&how.program);
        command.args(&how.arguments).arg("--fd").arg(fd.to_string());
        // Standard output of the controller may only contain events to the lab. A panic of the
        // agent is printed on the standard error of the controller.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        end_with_us(&mut command, fd);
        let child = command.spawn()?;
        drop(far);
        let mut peer = Self::new(spec, generation, context, |handler, line| {
            runtime.spawn(handler.by_socket_pair(line, near))
        });
        peer.child = Some(child);
        let _ = peer.line.send(&ToAgent::Time(TimeService {
            same: true,
            udp: None,
        }));
        Ok(peer)
    }

    /// An agent whose links are the standard input and output of a command. The command is started
    /// again if it ends too early.
    pub(crate) fn command(
        spec: &AgentSpec,
        generation: u64,
        argv: &[String],
        context: &PeerContext,
        runtime: &tokio::runtime::Handle,
        time: TimeService,
    ) -> Self {
        let peer = Self::new(spec, generation, context, |handler, line| {
            runtime.spawn(handler.by_command(line, argv.to_vec()))
        });
        let _ = peer.line.send(&ToAgent::Time(time));
        peer
    }

    /// An agent that has dialled in.
    pub(crate) fn joined(
        arrival: Arrival,
        generation: u64,
        context: &PeerContext,
        runtime: &tokio::runtime::Handle,
        time: TimeService,
    ) -> Self {
        let spec = AgentSpec {
            name: arrival.name.clone(),
            host: arrival.name.clone(),
            site: String::new(),
            role: Role::Testers,
            start: AgentStartKind::Joined,
            watch: Vec::new(),
            files: BTreeMap::new(),
            limits: Limits::default(),
        };
        let incarnation = arrival.greeting.incarnation;
        let (links, arrivals) = unbounded_channel();
        let _ = links.send(arrival);
        let mut peer = Self::new(&spec, generation, context, |handler, line| {
            runtime.spawn(handler.by_arrivals(line, arrivals))
        });
        (peer.links, peer.incarnation) = (Some(links), Some(incarnation));
        let _ = peer.line.send(&ToAgent::Time(time));
        peer
    }

    /// Checks that an arrival may be a further link of this agent. Another process may replace the
    /// agent only if the agent's link is down.
    ///
    /// # Errors
    /// [`ArrivalError`].
    pub(crate) fn check_arrival(&self, theirs: &Greeting, version: &str) -> Result<(), ArrivalError> {
        theirs.check("the agent", "engine", version)?;
        // Without any link so far, the first one is being made.
        let is_connected = self.line.links() == 0 || self.line.link().is_some();
        if is_connected && self.incarnation != Some(theirs.incarnation) {
            return Err(ArrivalError::NameInUse);
        }
        Ok(())
    }

    /// Adds a further link of an agent that dials in.
    pub(crate) fn add_link(&self, arrival: Arrival) {
        if let Some(links) = &self.links {
            let _ = links.send(arrival);
        }
    }

    fn new(
        spec: &AgentSpec,
        generation: u64,
        context: &PeerContext,
        speak: impl FnOnce(Handler, Line) -> tokio::task::JoinHandle<()>,
    ) -> Self {
        let line = Line::new(Arc::new(SystemClock));
        let waiting = Arc::new(AtomicUsize::new(0));
        let grace_ns = Arc::new(AtomicU64::new(0));
        let command = Arc::new(Mutex::new(0));
        let leaving = Arc::new(AtomicBool::new(false));
        let handler = Handler {
            name: spec.name.as_str().into(),
            generation,
            context: context.clone(),
            waiting: waiting.clone(),
            grace_ns: grace_ns.clone(),
            leaving: leaving.clone(),
            command: command.clone(),
            incarnation: None,
        };
        Self {
            spec: spec.clone(),
            generation,
            task: speak(handler, line.clone()),
            line,
            waiting,
            grace_ns,
            leaving,
            facts: None,
            clock: None,
            child: None,
            links: None,
            incarnation: None,
            command,
        }
    }

    /// Whether the agent is on this host: it has the controller's clock and writes into the
    /// directory of the run.
    pub(crate) fn is_local(&self) -> bool {
        self.spec.start == AgentStartKind::Local
    }

    /// Sends a message. If it cannot be sent, the loss of the agent is reported as an event.
    pub(crate) fn send(&self, message: &ToAgent) {
        let _ = self.line.send(message);
    }

    /// The children of this process that belong to this agent. They must be spared when the
    /// processes of another agent are ended.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let command = *self.command.lock().unwrap_or_else(PoisonError::into_inner);
        let child = self.child.as_ref().map(Child::id);
        child
            .into_iter()
            .chain((command != 0).then_some(command))
            .collect()
    }

    /// Asks the agent to end. No further link is made.
    pub(crate) fn ask_to_quit(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.send(&ToAgent::Quit);
    }

    /// Waits until the agent has ended after [`Peer::ask_to_quit`], for at most [`QUIT_TIMEOUT`]
    /// from `since`. Then its processes on this host are ended.
    pub(crate) fn wait_for_end(mut self, since: Instant) {
        while since.elapsed() < QUIT_TIMEOUT {
            let has_ended = match &mut self.child {
                Some(child) => !matches!(child.try_wait(), Ok(None)),
                None => self.task.is_finished(),
            };
            if has_ended {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// Ends the line and the processes on this host at once. Returns the exit status of a local
    /// agent as text; otherwise an empty text.
    pub(crate) fn kill(mut self) -> String {
        self.line.close();
        let Some(mut child) = self.child.take() else {
            self.task.abort();
            let pid = *self.command.lock().unwrap_or_else(PoisonError::into_inner);
            if pid != 0 {
                // SAFETY: kill has no memory effects. The process is a child of this process that
                // only its `LinkCommand` reaps.
                unsafe { libc::kill(pid.cast_signed(), libc::SIGTERM) };
            }
            return String::new();
        };
        let own = child.try_wait().ok().flatten();
        let is_killed = own.is_some_and(|status| status.signal() == Some(libc::SIGKILL));
        let at_limit = self.spec.limits.memory.filter(|_| is_killed);
        let _ = child.kill();
        // A process that waits for a disk that does not respond cannot be killed, so the wait is
        // limited.
        let since = Instant::now();
        let ended = loop {
            let ended = child.try_wait();
            if !matches!(ended, Ok(None)) || since.elapsed() > KILL_TIMEOUT {
                break ended.ok().flatten();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let text = own
            .or(ended)
            .map_or_else(|| "it cannot be killed".to_owned(), |status| status.to_string());
        match at_limit {
            Some(bytes) => {
                format!("{text}; it may have met its memory limit of {bytes} bytes (hosts.limits)")
            }
            None => text,
        }
    }
}

/// Makes the child end with the thread that starts it, and keep descriptor `fd`.
fn end_with_us(command: &mut Command, fd: i32) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and calls only functions that are allowed
    // there.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) < 0
            {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the request.
            if libc::getppid().cast_unsigned() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
}
