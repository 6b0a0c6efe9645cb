//! The socket by which a testbed is asked: one JSON line there, one back. It stands in a directory
//! that only its user can enter.
//!
//! | request | answer |
//! |---|---|
//! | `{"ask": "status"}` | [`Status`] |
//! | `{"ask": "enter", "host": "lyon-1"}` | `{"user": bool, "uts": bool}`, and the namespaces as descriptors |
//! | `{"ask": "link", "changes": [Directed, ...]}` | `{}` |
//! | `{"ask": "down"}` | `{}`; the end of the owner is the end of the testbed |
//!
//! or `{"error": "..."}`. Descriptors, rather than process ids to look up below /proc: they cannot
//! come to mean another process's namespaces between the answer and the entry.

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
use crate::namespace::Space;
use crate::spec::{Config, Directed, Shape};
use crate::{WanError, failed, refused};

/// Name of the socket in the testbed's directory.
pub const SOCKET: &str = "control";
/// Longest request or answer without a status.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// A client that says nothing for so long is dropped.
const TIMEOUT: Duration = Duration::from_secs(2);
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Status,
    Enter { host: String },
    Link { changes: Vec<Directed> },
    Down,
}

/// What `enter` sends beside the descriptors: which of them there are. The network is always the
/// first.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    user: bool,
    uts: bool,
}

/// How a testbed stands. Counts are since it is up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document.
    pub testbed: u32,
    /// Its name.
    pub name: String,
    /// Process whose end is the end of all.
    pub owner: i32,
    /// Process that carries the frames.
    pub middle: i32,
    /// Whether it lives in a user namespace.
    pub rootless: bool,
    /// Congestion control of the hosts.
    pub congestion: String,
    /// Whether the loop runs before others where cores are busy.
    pub preferred: bool,
    /// What could not be set, and costs accuracy or comfort only.
    pub notes: Vec<String>,
    /// Every direction of every link.
    pub links: Vec<LinkStatus>,
    /// Frames that came while the loop had no room: dropped, and no link counted them.
    pub missed: u64,
    /// Frames that the kernel did not take from the loop.
    pub unsent: u64,
    /// Frames for nobody.
    pub stray: u64,
    /// Frames handed to hosts.
    pub released: u64,
    /// Of these, more than 1 ms after their time: cores that were busy otherwise.
    pub late: u64,
    /// The latest of all, us after its time.
    pub latest_us: i64,
}

/// One direction of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Site.
    pub from: String,
    /// Site.
    pub to: String,
    /// What it does now.
    pub shape: Shape,
    /// What it did so far.
    #[serde(flatten)]
    pub counters: Counters,
    /// Bytes on their way.
    pub held_bytes: u64,
}

/// Answers at the socket, on a thread of its own.
pub struct Gate {
    /// Hosts by name.
    pub config: Arc<Config>,
    /// In the same order.
    pub spaces: Arc<Vec<Space>>,
    /// What owns them.
    pub user: Option<OwnedFd>,
    /// To the loop.
    pub commands: Sender<Command>,
    /// Wakes the loop.
    pub bell: Arc<EventFd>,
    /// Told to end by `down`.
    pub owner: Pid,
}

impl Gate {
    /// Serves one client after the other, for ever.
    pub fn serve(&self, listener: &UnixListener) {
        for client in listener.incoming() {
            // Without descriptors to be had there is nothing to do but to wait for better times.
            let Ok(client) = client else {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            // A client that goes away in the middle of a sentence is its own loss.
            let _ = self.answer(&client);
        }
    }

    fn answer(&self, client: &UnixStream) -> io::Result<()> {
        client.set_read_timeout(Some(TIMEOUT))?;
        client.set_write_timeout(Some(TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(client.take(MAX_MESSAGE_BYTES)).read_line(&mut line)?;
        let said = serde_json::from_str(&line)
            .map_err(|why| WanError::Answer(format!("this request is not understood: {why}")))
            .and_then(|request| self.act(request));
        let (text, descriptors) = match said {
            Ok(answer) => answer,
            Err(why) => (
                serde_json::json!({ "error": why.to_string() }).to_string(),
                Vec::new(),
            ),
        };
        send_with(client, &(text + "\n"), &descriptors)
    }

    fn act(&self, request: Request) -> Result<(String, Vec<RawFd>), WanError> {
        let nothing = || ("{}".to_owned(), Vec::new());
        match request {
            Request::Status => {
                let status = self.ask_loop(Command::Status)?;
                let text = serde_json::to_string(&status).map_err(|why| WanError::Answer(why.to_string()))?;
                Ok((text, Vec::new()))
            }
            Request::Link { changes } => {
                self.ask_loop(|to| Command::Change(changes, to))??;
                Ok(nothing())
            }
            Request::Enter { host } => self.way_in(host),
            Request::Down => {
                kill(self.owner, Signal::SIGTERM).map_err(refused("the owner cannot be told"))?;
                Ok(nothing())
            }
        }
    }

    fn way_in(&self, host: String) -> Result<(String, Vec<RawFd>), WanError> {
        let number = self.config.hosts.iter().position(|one| one.name == host);
        let space = &self.spaces[number.ok_or(WanError::NoHost(host))?];
        let mut descriptors = vec![space.net.as_raw_fd()];
        descriptors.extend(space.uts.as_ref().map(AsRawFd::as_raw_fd));
        descriptors.extend(self.user.as_ref().map(AsRawFd::as_raw_fd));
        let entry = Entry {
            user: self.user.is_some(),
            uts: space.uts.is_some(),
        };
        let text = serde_json::to_string(&entry).map_err(|why| WanError::Answer(why.to_string()))?;
        Ok((text, descriptors))
    }

    fn ask_loop<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, WanError> {
        let (to, from) = mpsc::channel();
        let gone = || WanError::Answer("the middle does not answer".to_owned());
        self.commands.send(command(to)).map_err(|_| gone())?;
        self.bell
            .write(1)
            .map_err(refused("the middle cannot be woken"))?;
        from.recv_timeout(STATUS_TIMEOUT).map_err(|_| gone())
    }
}

/// Becomes `command` on a host of the testbed in `directory`: same user, working directory,
/// environment and descriptors, in the host's network and with its hostname. The process must have
/// one thread.
///
/// # Errors
/// Returns only if it fails.
pub fn enter(directory: &Path, host: &str, command: &[OsString]) -> WanError {
    match way_in(directory, host).and_then(|()| become_program(command)) {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

fn become_program(command: &[OsString]) -> Result<std::convert::Infallible, WanError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(WanError::Answer("no command is given".to_owned()));
    };
    let why = Program::new(program).args(arguments).exec();
    Err(failed(format!("{} cannot be started", program.display()))(why))
}

fn way_in(directory: &Path, host: &str) -> Result<(), WanError> {
    let client = connect(directory)?;
    let request = Request::Enter {
        host: host.to_owned(),
    };
    let line = serde_json::to_string(&request).map_err(|why| WanError::Answer(why.to_string()))? + "\n";
    (&client).write_all(line.as_bytes()).map_err(silent(directory))?;
    let (text, mut descriptors) = receive_with(&client).map_err(silent(directory))?;
    let entry: Entry = serde_json::from_str(&text).map_err(|_| WanError::Answer(error_in(&text)))?;
    if descriptors.len() != 1 + usize::from(entry.user) + usize::from(entry.uts) {
        return Err(WanError::Answer("the testbed sent no way in".to_owned()));
    }
    let join = |fd: &OwnedFd, kind, what: &str| {
        setns(fd.as_fd(), kind).map_err(refused(format!("cannot enter the {what} of {host}")))
    };
    // The user namespace comes first, for it gives the right to enter the others.
    if let Some(user) = entry.user.then(|| descriptors.pop()).flatten() {
        join(&user, CloneFlags::CLONE_NEWUSER, "user namespace")?;
    }
    if let Some(uts) = entry.uts.then(|| descriptors.pop()).flatten() {
        join(&uts, CloneFlags::CLONE_NEWUTS, "hostname")?;
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
        .unwrap_or_else(|| "the testbed's answer is not understood".to_owned())
}

fn send_with(client: &UnixStream, text: &str, descriptors: &[RawFd]) -> io::Result<()> {
    if descriptors.is_empty() {
        let mut client = client;
        return client.write_all(text.as_bytes());
    }
    // A short line: it goes as a whole.
    let rights = [ControlMessage::ScmRights(descriptors)];
    let bytes = [IoSlice::new(text.as_bytes())];
    sendmsg::<()>(client.as_raw_fd(), &bytes, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

fn receive_with(client: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut buffer = [0_u8; 4096];
    let mut space = nix::cmsg_space!([RawFd; 3]);
    let mut bytes = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(client.as_raw_fd(), &mut bytes, Some(&mut space), flags)?;
    let length = message.bytes;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has just opened these for us, and nobody else knows of them.
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
