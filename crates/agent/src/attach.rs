//! `attach`: the end of an ssh connection on a tester's host.
//!
//! The agent is a process of its own, which listens on a socket in its directory; what ssh runs
//! only carries bytes between that socket and its standard input and output. So an agent outlives
//! the connection, and the next one finds it again. Rejected: the agent itself behind ssh, which
//! ends with the connection and takes the load with it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use plimsoll_link::PREAMBLE;

/// Names in an agent's directory. The socket is bound and reached by its bare name, because the
/// path of a socket may have 108 bytes only.
const SOCKET: &str = "agent.sock";
const LOCK: &str = "lock";
const LOG: &str = "agent.log";
/// Holds the address from which the last connection came that attached.
const ORIGIN: &str = "from";
/// How long an agent may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes carried at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Why there is no agent to attach to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The directory cannot be made or used.
    #[error("{what} {path}: {error}")]
    Directory {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: String,
        /// Why not.
        error: io::Error,
    },
    /// The agent was started and does not listen.
    #[error("the agent did not begin to listen within {} s{}", LISTEN_TIMEOUT.as_secs(), .0)]
    Mute(String),
    /// Another agent has this directory.
    #[error("another agent has this directory")]
    Taken,
}

fn directory_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AttachError {
    let path = path.display().to_string();
    move |error| AttachError::Directory { what, path, error }
}

/// Makes `directory` (for its user only) and goes there.
fn create_and_enter(directory: &Path) -> Result<(), AttachError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| fs::set_permissions(directory, fs::Permissions::from_mode(0o700)))
        .map_err(directory_error("creating", directory))?;
    std::env::set_current_dir(directory).map_err(directory_error("entering", directory))
}

/// Carries bytes between the agent of `directory` and our standard input and output until one of
/// them ends. Starts the agent, as `program agent --directory DIRECTORY`, where there is none.
///
/// # Errors
/// [`AttachError`].
pub fn attach(directory: &Path, program: &Path) -> Result<(), AttachError> {
    create_and_enter(directory)?;
    record_origin();
    let stream = match UnixStream::connect(SOCKET) {
        Ok(stream) => stream,
        Err(_) => start(program)?,
    };
    begin_link().map_err(directory_error("beginning the link of", Path::new(SOCKET)))?;
    copy_both_ways(&stream).map_err(directory_error("carrying bytes of", Path::new(SOCKET)))
}

/// Writes down for the agent from where our ssh connection comes, or that it is none: its own
/// environment is that of the connection that started it, and this one may come another way. Where
/// it cannot be written, probes ride the link.
fn record_origin() {
    let from = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let _ = fs::write(ORIGIN, from.split_ascii_whitespace().next().unwrap_or_default());
}

/// The address from which the connection comes that attached last.
pub(crate) fn read_origin() -> Option<IpAddr> {
    fs::read_to_string(ORIGIN).ok()?.parse().ok()
}

fn start(program: &Path) -> Result<UnixStream, AttachError> {
    let log = fs::File::create(LOG).map_err(directory_error("creating", Path::new(LOG)))?;
    // Whoever cleans up a host knows by it whose agent this is.
    let here = std::env::current_dir().map_err(directory_error("finding", Path::new(".")))?;
    let mut command = Command::new(program);
    command
        .args(["agent", "--directory"])
        .arg(&here)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: setsid is safe between fork and exec. A session of its own, so that the end of ssh's
    // does not end it.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(directory_error("starting", program))?;
    let since = Instant::now();
    while since.elapsed() < LISTEN_TIMEOUT {
        if let Ok(stream) = UnixStream::connect(SOCKET) {
            return Ok(stream);
        }
        if let Ok(Some(status)) = child.try_wait() {
            // Two that attach at once start two agents: one has the lock.
            if let Ok(stream) = UnixStream::connect(SOCKET) {
                return Ok(stream);
            }
            let said = fs::read_to_string(LOG).unwrap_or_default();
            return Err(AttachError::Mute(format!(": {status} {}", said.trim())));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    Err(AttachError::Mute(String::new()))
}

/// The login shell may have printed text before us.
fn begin_link() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(PREAMBLE)?;
    stdout.flush()
}

fn copy_both_ways(stream: &UnixStream) -> io::Result<()> {
    let (mut from, mut to) = (stream.try_clone()?, stream.try_clone()?);
    thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to);
        // The controller's end is closed: the agent must see the end of its link, and we end with
        // it.
        let _ = to.shutdown(Shutdown::Both);
    });
    let _ = copy(&mut from, &mut io::stdout().lock());
    Ok(())
}

/// As `io::copy`, but every byte is passed on at once: a beat must not wait for a buffer to fill.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&bytes[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// An agent's hold of its directory: the socket it listens on, and the lock that keeps a second one
/// away.
#[derive(Debug)]
pub struct AgentDirectory {
    _lock: fs::File,
}

impl AgentDirectory {
    /// Goes to `directory`, locks it, and listens.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn claim(directory: &Path) -> Result<(Self, UnixListener), AttachError> {
        create_and_enter(directory)?;
        let lock = fs::File::create(LOCK).map_err(directory_error("creating", Path::new(LOCK)))?;
        // SAFETY: flock on an open descriptor; it goes with the process however that ends.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
            return Err(AttachError::Taken);
        }
        let _ = fs::remove_file(SOCKET);
        let listener =
            UnixListener::bind(SOCKET).map_err(directory_error("listening on", Path::new(SOCKET)))?;
        Ok((Self { _lock: lock }, listener))
    }

    /// Leaves: nobody finds this agent any more. With `all` nothing of it stays, not even the
    /// directory.
    pub fn release(self, all: bool) {
        let _ = fs::remove_file(SOCKET);
        let _ = fs::remove_file(ORIGIN);
        if all {
            let _ = fs::remove_file(LOG);
            let _ = fs::remove_file(LOCK);
            if let Ok(directory) = std::env::current_dir() {
                let _ = fs::remove_dir(directory);
            }
        }
    }
}
