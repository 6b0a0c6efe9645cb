//! `attach`: the process that an ssh connection starts on a tester's host.
//!
//! The agent is a separate process that listens on a socket in its directory. The process behind
//! ssh only copies bytes between that socket and its standard input and output. So the agent
//! outlives the connection, and the next connection finds it. Rejected alternative: to run the
//! agent directly behind ssh. It would end with the connection, and its load with it.

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

/// Names of files in an agent's directory. The socket is bound and connected by its bare name,
/// because the path of a socket may have only 108 bytes.
const SOCKET: &str = "agent.sock";
const LOCK: &str = "lock";
const LOG: &str = "agent.log";
/// Contains the source address of the last ssh connection that attached.
const ORIGIN: &str = "from";
/// Maximum time from the start of an agent until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the buffer for copying, bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Why an agent cannot be attached to, or cannot use its directory.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// An operation on the directory, or on a file in it, failed.
    #[error("{what} {path}: {error}")]
    Directory {
        /// The operation, for instance "creating".
        what: &'static str,
        /// The file or directory.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The agent was started and does not listen. Contains its exit status and its log, if it
    /// ended.
    #[error("the agent did not listen within {} s{}", LISTEN_TIMEOUT.as_secs(), .0)]
    Mute(String),
    /// Another agent has locked the directory.
    #[error("another agent uses this directory: choose another one, or end that agent")]
    Taken,
}

fn directory_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AttachError {
    let path = path.display().to_string();
    move |error| AttachError::Directory { what, path, error }
}

/// Creates `directory` with mode 700 and makes it the current directory.
fn create_and_enter(directory: &Path) -> Result<(), AttachError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| fs::set_permissions(directory, fs::Permissions::from_mode(0o700)))
        .map_err(directory_error("creating", directory))?;
    std::env::set_current_dir(directory).map_err(directory_error("entering", directory))
}

/// Copies bytes between the agent of `directory` and standard input and output until one of them
/// ends. If there is no agent, it is started as `program agent --directory DIRECTORY`.
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
    copy_both_ways(&stream).map_err(directory_error("copying bytes of", Path::new(SOCKET)))
}

/// Records the source address of this ssh connection for the agent, or that it is unknown. The
/// environment of the agent describes the connection that started it; this one may have another
/// source. If the file cannot be written, probes are sent over the link.
fn record_origin() {
    let from = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let _ = fs::write(ORIGIN, from.split_ascii_whitespace().next().unwrap_or_default());
}

/// The source address of the connection that attached last; `None` if it is unknown.
pub(crate) fn read_origin() -> Option<IpAddr> {
    fs::read_to_string(ORIGIN).ok()?.parse().ok()
}

fn start(program: &Path) -> Result<UnixStream, AttachError> {
    let log = fs::File::create(LOG).map_err(directory_error("creating", Path::new(LOG)))?;
    // The full path: the cleanup of a host identifies the agent by its command line.
    let here = std::env::current_dir().map_err(directory_error("finding", Path::new(".")))?;
    let mut command = Command::new(program);
    command
        .args(["agent", "--directory"])
        .arg(&here)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: setsid is safe between fork and exec. The agent has its own session, so that the end
    // of the ssh session does not end it.
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
            // Two processes that attach at the same time start two agents; one gets the lock.
            if let Ok(stream) = UnixStream::connect(SOCKET) {
                return Ok(stream);
            }
            let log = fs::read_to_string(LOG).unwrap_or_default();
            return Err(AttachError::Mute(format!(": {status} {}", log.trim())));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    Err(AttachError::Mute(String::new()))
}

/// Writes the preamble: the login shell may have printed text before.
fn begin_link() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(PREAMBLE)?;
    stdout.flush()
}

fn copy_both_ways(stream: &UnixStream) -> io::Result<()> {
    let (mut from, mut to) = (stream.try_clone()?, stream.try_clone()?);
    thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to);
        // The controller closed its end. The shutdown ends the link of the agent, and then this
        // process.
        let _ = to.shutdown(Shutdown::Both);
    });
    let _ = copy(&mut from, &mut io::stdout().lock());
    Ok(())
}

/// As `io::copy`, but flushes after each read: a heartbeat must not wait until a buffer is full.
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

/// The directory of a running agent, with its socket. A lock prevents a second agent in the same
/// directory.
#[derive(Debug)]
pub struct AgentDirectory {
    _lock: fs::File,
}

impl AgentDirectory {
    /// Creates and locks `directory`, makes it the current directory, and listens on its socket.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn claim(directory: &Path) -> Result<(Self, UnixListener), AttachError> {
        create_and_enter(directory)?;
        let lock = fs::File::create(LOCK).map_err(directory_error("creating", Path::new(LOCK)))?;
        // SAFETY: flock on an open descriptor. The kernel releases the lock when the process ends.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
            return Err(AttachError::Taken);
        }
        let _ = fs::remove_file(SOCKET);
        let listener =
            UnixListener::bind(SOCKET).map_err(directory_error("listening on", Path::new(SOCKET)))?;
        Ok((Self { _lock: lock }, listener))
    }

    /// Removes the socket, so that the agent cannot be found. With `all` the other files of the
    /// agent and the directory, if it is empty, are removed as well.
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
