//! The control socket of a testbed. A client sends one JSON line and receives one. The socket is in
//! a directory that only the user of the testbed can enter.
//!
//! | request | response |
//! |---|---|
//! | `{"ask": "status"}` | [`Status`] |
//! | `{"ask": "enter", "host": "lyon-1"}` | `{"user": bool, "uts": bool, "mounts": bool}`, and the namespaces as descriptors |
//! | `{"ask": "link", "changes": [DirectedLink, ...]}` | `{}` |
//! | `{"ask": "down"}` | `{}`; the testbed ends after this response |
//!
//! The response to a request that fails is `{"error": "..."}`. Rejected: process ids, with which
//! the client would open the namespaces below `/proc`. Between response and use, an id can be
//! assigned to another process; a descriptor cannot.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::eventfd::EventFd;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::link::Counters;
use crate::middle::Command;
use crate::names;
use crate::namespace::Space;
use crate::spec::{Config, DirectedLink, Shape};
use crate::{WanError, failed, refused};

/// Name of the socket in the testbed's directory.
pub const SOCKET: &str = "control";
/// Maximum length of a request, in bytes.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// The connection of a client that does not send or read for this time is closed.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for a response of the loop, and of the testbed to a client.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Status,
    Enter { host: String },
    Link { changes: Vec<DirectedLink> },
    Down,
}

/// Response to `enter`: which descriptors follow the network namespace. The order is network,
/// mounts, UTS, user.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    user: bool,
    uts: bool,
    mounts: bool,
}

/// Status of a testbed. All counts start at 0 when the testbed starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document: [`VERSION`](crate::spec::VERSION).
    pub testbed: u32,
    /// Name of the testbed.
    pub name: String,
    /// PID of the owner. If this process ends, the testbed ends.
    pub owner: i32,
    /// PID of the middle, the process that forwards the frames.
    pub middle: i32,
    /// Whether the testbed is in a user namespace.
    pub rootless: bool,
    /// Congestion control of the hosts.
    pub congestion: String,
    /// Whether the middle has priority over other processes.
    pub preferred: bool,
    /// Settings that could not be made. They affect accuracy or convenience only.
    pub notes: Vec<String>,
    /// Every direction of every link.
    pub links: Vec<LinkStatus>,
    /// Frames that were dropped because the receive buffer of the middle was full. No link counts
    /// them.
    pub missed: u64,
    /// Frames that the kernel did not accept from the middle, dropped.
    pub unsent: u64,
    /// Frames without a destination, dropped.
    pub stray: u64,
    /// Frames that were sent to hosts.
    pub released: u64,
    /// Frames of `released` that were sent more than 1 ms after their due time. The machine did not
    /// have enough free cores.
    pub late: u64,
    /// Greatest lateness of a frame, in us.
    pub latest_us: i64,
    /// CPU time of the middle, ns.
    pub cpu_ns: i64,
}

/// Status of one direction of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Name of the sending site.
    pub from: String,
    /// Name of the receiving site.
    pub to: String,
    /// Current properties.
    pub shape: Shape,
    /// Counts since the start of the testbed.
    #[serde(flatten)]
    pub counters: Counters,
    /// Bytes in transit.
    pub held_bytes: u64,
}

/// Serves the control socket, on a thread of its own.
pub struct ControlServer {
    /// Configuration of the testbed.
    pub config: Arc<Config>,
    /// Namespaces of the hosts, in the order of [`Config::hosts`].
    pub spaces: Arc<Vec<Space>>,
    /// User namespace that owns them. None as root.
    pub user: Option<OwnedFd>,
    /// The mount namespace with the names of the hosts.
    pub mounts: Option<OwnedFd>,
    /// Requests to the loop.
    pub commands: Sender<Command>,
    /// Wakes the loop.
    pub wake: Arc<EventFd>,
    /// Process to which `down` sends SIGTERM.
    pub owner: Pid,
}

impl ControlServer {
    /// Serves one client after the other, without a time limit.
    pub fn serve(&self, listener: &UnixListener) {
        for client in listener.incoming() {
            // accept fails if no descriptor is free: try again later.
            let Ok(client) = client else {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            // An error concerns only this client, which has closed its connection or is too slow.
            let _ = self.respond(&client);
        }
    }

    fn respond(&self, client: &UnixStream) -> io::Result<()> {
        client.set_read_timeout(Some(TIMEOUT))?;
        client.set_write_timeout(Some(TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(client.take(MAX_MESSAGE_BYTES)).read_line(&mut line)?;
        let response = serde_json::from_str(&line)
            .map_err(|why| WanError::Answer(format!("the request to the testbed is malformed: {why}")))
            .and_then(|request| self.execute(request));
        let (text, descriptors) = match response {
            Ok(response) => response,
            Err(why) => (
                serde_json::json!({ "error": why.to_string() }).to_string(),
                Vec::new(),
            ),
        };
        send_with(client, &(text + "\n"), &descriptors)
    }

    fn execute(&self, request: Request) -> Result<(String, Vec<RawFd>), WanError> {
        let empty = || ("{}".to_owned(), Vec::new());
        match request {
            Request::Status => {
                let status = self.ask_loop(Command::Status)?;
                let text = serde_json::to_string(&status).map_err(|why| WanError::Answer(why.to_string()))?;
                Ok((text, Vec::new()))
            }
            Request::Link { changes } => {
                self.ask_loop(|to| Command::Change(changes, to))??;
                Ok(empty())
            }
            Request::Enter { host } => self.entry(host),
            Request::Down => {
                kill(self.owner, Signal::SIGTERM).map_err(refused(format!(
                    "cannot signal the owner of the testbed, process {}",
                    self.owner
                )))?;
                Ok(empty())
            }
        }
    }

    /// Response to `enter`: the namespaces of a host.
    fn entry(&self, name: String) -> Result<(String, Vec<RawFd>), WanError> {
        let index = self.config.hosts.iter().position(|host| host.name == name);
        let space = &self.spaces[index.ok_or(WanError::NoHost(name))?];
        let mut descriptors = vec![space.net.as_raw_fd()];
        descriptors.extend(self.mounts.as_ref().map(AsRawFd::as_raw_fd));
        descriptors.extend(space.uts.as_ref().map(AsRawFd::as_raw_fd));
        descriptors.extend(self.user.as_ref().map(AsRawFd::as_raw_fd));
        let entry = Entry {
            user: self.user.is_some(),
            uts: space.uts.is_some(),
            mounts: self.mounts.is_some(),
        };
        let text = serde_json::to_string(&entry).map_err(|why| WanError::Answer(why.to_string()))?;
        Ok((text, descriptors))
    }

    fn ask_loop<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, WanError> {
        let (to, from) = mpsc::channel();
        let no_answer = || {
            WanError::Answer(format!(
                "the middle of the testbed did not answer within {} s",
                STATUS_TIMEOUT.as_secs()
            ))
        };
        self.commands.send(command(to)).map_err(|_| no_answer())?;
        self.wake
            .write(1)
            .map_err(refused("cannot wake the middle of the testbed"))?;
        from.recv_timeout(STATUS_TIMEOUT).map_err(|_| no_answer())
    }
}

/// Replaces this process by `command` on a host of the testbed in `directory`. User, working
/// directory, environment and descriptors do not change; network and hostname are those of the
/// host. The process must have one thread.
///
/// # Errors
/// Returns only if it fails.
pub fn enter(directory: &Path, host: &str, command: &[OsString]) -> WanError {
    match enter_host(directory, host).and_then(|()| execute_program(command)) {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

fn execute_program(command: &[OsString]) -> Result<std::convert::Infallible, WanError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(WanError::Answer(
            "no command to start on the host: specify a program".to_owned(),
        ));
    };
    let why = Program::new(program).args(arguments).exec();
    Err(failed(format!("cannot start {}", program.display()))(why))
}

/// Moves this process into the namespaces of a host.
fn enter_host(directory: &Path, host: &str) -> Result<(), WanError> {
    let client = connect(directory)?;
    let request = Request::Enter {
        host: host.to_owned(),
    };
    let line = serde_json::to_string(&request).map_err(|why| WanError::Answer(why.to_string()))? + "\n";
    (&client).write_all(line.as_bytes()).map_err(silent(directory))?;
    let (text, mut descriptors) = receive_with(&client).map_err(silent(directory))?;
    let entry: Entry = serde_json::from_str(&text).map_err(|_| WanError::Answer(error_in(&text)))?;
    let expected = 1 + [entry.mounts, entry.uts, entry.user]
        .map(usize::from)
        .iter()
        .sum::<usize>();
    if descriptors.len() != expected {
        return Err(WanError::Answer(format!(
            "the testbed in {} did not send the namespaces of host {host}",
            directory.display()
        )));
    }
    let join = |fd: &OwnedFd, kind, what: &str| {
        setns(fd.as_fd(), kind).map_err(refused(format!("cannot enter the {what} of {host}")))
    };
    // The user namespace is first, because it grants the right to enter the others.
    if let Some(user) = entry.user.then(|| descriptors.pop()).flatten() {
        join(&user, CloneFlags::CLONE_NEWUSER, "user namespace")?;
    }
    if let Some(uts) = entry.uts.then(|| descriptors.pop()).flatten() {
        join(&uts, CloneFlags::CLONE_NEWUTS, "hostname")?;
    }
    if let Some(mounts) = entry.mounts.then(|| descriptors.pop()).flatten() {
        names::join(&mounts)?;
    }
    join(&descriptors[0], CloneFlags::CLONE_NEWNET, "network")
}

fn connect(directory: &Path) -> Result<UnixStream, WanError> {
    let client = UnixStream::connect(directory.join(SOCKET)).map_err(silent(directory))?;
    client
        .set_read_timeout(Some(STATUS_TIMEOUT))
        .map_err(silent(directory))?;
    Ok(client)
}

fn silent(directory: &Path) -> impl Fn(io::Error) -> WanError {
    move |why| WanError::Silent {
        directory: directory.display().to_string(),
        why,
    }
}

fn error_in(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|value| value.get("error")?.as_str().map(str::to_owned))
        .unwrap_or_else(|| format!("the response of the testbed is malformed: {text:?}"))
}

fn send_with(client: &UnixStream, text: &str, descriptors: &[RawFd]) -> io::Result<()> {
    if descriptors.is_empty() {
        let mut client = client;
        return client.write_all(text.as_bytes());
    }
    // The line is short, so the kernel accepts it as a whole.
    let rights = [ControlMessage::ScmRights(descriptors)];
    let bytes = [IoSlice::new(text.as_bytes())];
    sendmsg::<()>(client.as_raw_fd(), &bytes, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

fn receive_with(client: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut buffer = [0_u8; 4096];
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut bytes = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(client.as_raw_fd(), &mut bytes, Some(&mut space), flags)?;
    let length = message.bytes;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has just opened these descriptors for this process, and nothing
            // else owns them.
            descriptors.extend(
                numbers
                    .into_iter()
                    .map(|number| unsafe { OwnedFd::from_raw_fd(number) }),
            );
        }
    }
    Ok((
        String::from_utf8_lossy(&buffer[..length]).into_owned(),
        descriptors,
    ))
}
