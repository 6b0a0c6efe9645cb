//! The process of an agent on this host: a child on an inherited socket pair, in a process group of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use plimsoll_link::{Greeting, LinkError, Reader, ToAgent, ToController, Writer, pair};

use crate::session::Input;

/// How long a killed process may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How the agent is started: the program, and the arguments before `--fd N`.
#[derive(Debug, Clone)]
pub struct AgentCommand {
    /// Path of the engine.
    pub program: OsString,
    /// For instance `["agent"]`.
    pub arguments: Vec<OsString>,
    /// An agent that says nothing for so long is lost: [`plimsoll_link::SILENCE`].
    pub silence: Duration,
}

/// A running agent.
pub(crate) struct AgentHost {
    pub(crate) name: String,
    /// Tells messages of this process from those of one before.
    pub(crate) generation: u64,
    writer: Writer,
    child: Child,
}

impl AgentHost {
    /// Starts the process, greets it as engine `version`, and starts a thread that passes on what it says.
    ///
    /// # Errors
    /// No process, no socket, or no thread is to be had.
    pub(crate) fn spawn(
        name: &str,
        generation: u64,
        how: &AgentCommand,
        version: &str,
        inbox: Sender<Input>,
    ) -> io::Result<Self> {
        let (near, far) = pair()?;
        let (mut reader, writer) =
            Reader::split(near, Some(how.silence)).map_err(|error| io::Error::other(error.to_string()))?;
        let far = OwnedFd::from(far);
        let fd = far.as_raw_fd();
        let mut command = Command::new(&how.program);
        command.args(&how.arguments).arg("--fd").arg(fd.to_string());
        // Events to the lab are all that may stand on stdout; a panic of the agent goes to our stderr.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        let parent = std::process::id();
        // SAFETY: the closure runs between fork and exec and calls only functions that are safe there.
        unsafe {
            command.pre_exec(move || {
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) < 0
                {
                    return Err(io::Error::last_os_error());
                }
                // We may have died before the request was made.
                if libc::getppid().cast_unsigned() != parent {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(())
            });
        }
        let child = command.spawn()?;
        drop(far);
        // An agent that has ended already shows as the end of its link.
        let _ = writer.send(&ToAgent::Hello(Greeting::new(version)));
        std::thread::Builder::new()
            .name(format!("agent-{name}"))
            .spawn(move || {
                loop {
                    let message = reader.receive::<ToController>();
                    let last = message.is_err();
                    if inbox.send(Input::Agent { generation, message }).is_err() || last {
                        return;
                    }
                }
            })?;
        Ok(Self {
            name: name.to_owned(),
            generation,
            writer,
            child,
        })
    }

    /// Sends a message; what cannot be sent shows as the end of the link.
    pub(crate) fn send(&self, message: &ToAgent) -> Result<(), LinkError> {
        self.writer.send(message)
    }

    /// Asks it to end, waits a moment, kills it, and ends whatever it left behind.
    pub(crate) fn end(mut self) {
        let _ = self.writer.send(&ToAgent::Quit);
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// Ends it at once, and whatever it left behind. Gives how it had ended, for people.
    pub(crate) fn kill(mut self) -> String {
        self.writer.close();
        let own = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        // A process that waits for a disk that does not answer cannot even be killed: we do not wait for the disk with it.
        let since = Instant::now();
        let ended = loop {
            let ended = self.child.try_wait();
            if !matches!(ended, Ok(None)) || since.elapsed() > LAST_BREATH {
                break ended.ok().flatten();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        // Client programs run in process groups of their own; orphans come to us, their subreaper.
        plimsoll_agent::end_children();
        own.or(ended)
            .map_or_else(|| "it cannot be killed".to_owned(), |status| status.to_string())
    }
}

/// Makes this process the one that orphans below it are handed to.
pub(crate) fn adopt_orphans() {
    // SAFETY: this option takes plain numbers and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}
