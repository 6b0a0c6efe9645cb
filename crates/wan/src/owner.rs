//! The owner: the process that starts a testbed. If it ends, the testbed ends.
//!
//! `up` starts two processes. The owner creates the namespaces and the daemons, and then waits. Its
//! child, the middle, forwards the frames and serves the control socket. Each process watches the
//! other: if one is killed, the other ends the testbed. If the owner dies, the kernel kills the
//! daemons (`PR_SET_PDEATHSIG`). If both are killed at the same instant, other processes inside
//! survive.

use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid, pipe2, setsid};

use crate::control::{ControlServer, SOCKET, Status};
use crate::middle::Middle;
use crate::namespace::{Space, Spaces, build};
use crate::packets::Port;
use crate::spec::{Config, Daemon, VERSION};
use crate::sweep::end_all;
use crate::{WanError, failed, refused};

/// Time between SIGTERM and SIGKILL for the processes of the hosts.
const GRACE: Duration = Duration::from_secs(3);
/// A daemon that does not listen after this time has failed.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// Report of the owner to its starter if the testbed is up. Any other report is an error message.
const UP: &[u8] = b"up";
/// Last byte of the report.
const END_OF_REPORT: u8 = 0;
/// Maximum number of characters of a daemon's log in a message.
const MAX_LOG_CHARS: usize = 2_000;

/// Brings a testbed up in the background and waits until it is up. The process must have one
/// thread.
///
/// # Errors
/// The reason why the testbed is not up. Only the directory with its logs then remains; the caller
/// removes it.
pub fn up(config: Config) -> Result<(), WanError> {
    config.check()?;
    let (from_owner, to_starter) =
        pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(refused("cannot create a pipe"))?;
    // SAFETY: this process has one thread, so no other thread holds a lock that the child needs.
    match unsafe { fork() }.map_err(refused("cannot create a process"))? {
        ForkResult::Child => {
            drop(from_owner);
            let code = i32::from(run_owner(config, File::from(to_starter)).is_err());
            std::process::exit(code)
        }
        ForkResult::Parent { .. } => {
            drop(to_starter);
            read_report(File::from(from_owner))
        }
    }
}

/// Reads the report of the owner up to [`END_OF_REPORT`]. It does not read up to the end of the
/// file, because the middle inherits the write end of the pipe.
fn read_report(owner: File) -> Result<(), WanError> {
    let mut report = Vec::new();
    BufReader::new(owner)
        .read_until(END_OF_REPORT, &mut report)
        .map_err(failed("cannot read the report of the testbed's owner"))?;
    if report.pop() != Some(END_OF_REPORT) {
        return Err(WanError::Answer(
            "the owner of the testbed was killed before the testbed was up".to_owned(),
        ));
    }
    if report == UP {
        return Ok(());
    }
    Err(WanError::Answer(String::from_utf8_lossy(&report).into_owned()))
}

/// Main function of the owner. It writes its report to `starter`.
fn run_owner(config: Config, mut starter: File) -> Result<(), WanError> {
    let directory = config.directory.clone();
    match start_testbed(config) {
        Err(why) => {
            let _ = starter.write_all(&[why.to_string().as_bytes(), &[END_OF_REPORT]].concat());
            Err(why)
        }
        Ok(mut testbed) => {
            // If the starter has ended, no process needs the testbed: it ends.
            let reported = starter.write_all(&[UP, &[END_OF_REPORT]].concat());
            drop(starter);
            if reported.is_ok() {
                testbed.wait();
            }
            testbed.end();
            remove(&directory);
            Ok(())
        }
    }
}

/// The owner's view of a testbed that is up.
struct RunningTestbed {
    /// Namespaces of the hosts. The owner holds them open until the end, because the middle may be
    /// killed. The kernel assigns the inode number of a namespace that no process holds to the next
    /// namespace. That may be a host of another testbed, whose processes would then be ended.
    spaces: Spaces,
    middle: Pid,
    signals: SigSet,
}

/// Starts all parts of a testbed. If one fails, those that were started before are ended.
fn start_testbed(config: Config) -> Result<RunningTestbed, WanError> {
    let signals = detach(&config.directory)?;
    let spaces = build(&config)?;
    let config = Arc::new(config);
    let listener = UnixListener::bind(config.directory.join(SOCKET))
        .map_err(failed("cannot create the control socket"))?;
    let (owner_alive, held_by_owner) =
        pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(refused("cannot create a pipe"))?;
    let owner = getpid();
    // SAFETY: this process has one thread.
    let middle = match unsafe { fork() }.map_err(refused("cannot create a process"))? {
        ForkResult::Child => {
            drop(held_by_owner);
            let Err(why) = run_middle(&config, spaces, &listener, &owner_alive, owner, &signals);
            let _ = writeln!(io::stderr(), "middle: {why}");
            std::process::exit(1)
        }
        ForkResult::Parent { child } => child,
    };
    // Stays open until this process ends. The middle detects the end by the closed pipe.
    std::mem::forget(held_by_owner);
    let testbed = RunningTestbed {
        spaces,
        middle,
        signals,
    };
    let daemons = config
        .daemon
        .as_ref()
        .map_or(Ok(()), |daemon| start_daemons(daemon, &config, &testbed.spaces));
    match daemons {
        Ok(()) => Ok(testbed),
        Err(why) => {
            testbed.end();
            Err(why)
        }
    }
}

impl RunningTestbed {
    /// Waits for a signal to end, or for the end of the middle.
    fn wait(&mut self) {
        loop {
            match self.signals.wait() {
                Ok(Signal::SIGCHLD) if self.reap() => {
                    let _ = writeln!(io::stderr(), "the middle has ended: the testbed ends");
                    return;
                }
                Ok(Signal::SIGCHLD) | Err(_) => {}
                Ok(_) => return,
            }
        }
    }

    /// Reaps all children that have ended, including adopted processes of the hosts. Returns
    /// whether the middle was one of them.
    fn reap(&self) -> bool {
        let mut middle_ended = false;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                    middle_ended |= pid == self.middle;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return middle_ended,
                Ok(_) => {}
            }
        }
    }

    /// Ends all processes: first those of the hosts, while the links still transfer their last
    /// frames, then the middle, then adopted processes that have left the hosts' networks.
    fn end(&self) {
        let running = end_all(&self.spaces.identities(), GRACE, || {
            self.reap();
        });
        for pid in running {
            let _ = writeln!(
                io::stderr(),
                "process {pid} still runs after SIGKILL: it hangs in the kernel"
            );
        }
        let _ = kill(self.middle, Signal::SIGKILL);
        for pid in children() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let deadline = Instant::now() + GRACE;
        while !children().is_empty() && Instant::now() < deadline {
            self.reap();
            std::thread::sleep(POLL);
        }
    }
}

/// Detaches this process: own session, no terminal, root as working directory, output to the log.
/// Returns the signals that it has blocked, for [`RunningTestbed::wait`].
fn detach(directory: &Path) -> Result<SigSet, WanError> {
    setsid().map_err(refused("cannot create a session"))?;
    std::env::set_current_dir("/").map_err(failed("cannot change to the root directory"))?;
    let null = File::open("/dev/null").map_err(failed("cannot open /dev/null"))?;
    let log = log_file(directory, "owner")?;
    let redirected = dup2_stdin(&null)
        .and_then(|()| dup2_stdout(&log))
        .and_then(|()| dup2_stderr(&log));
    redirected.map_err(refused("cannot redirect stdin, stdout and stderr"))?;
    // Orphans of the hosts become children of this process.
    prctl::set_child_subreaper(true).map_err(refused("cannot become the parent of orphans"))?;
    raise_file_limit();
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD] {
        signals.add(signal);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None).map_err(refused("cannot block signals"))?;
    Ok(signals)
}

fn log_file(directory: &Path, name: &str) -> Result<File, WanError> {
    let path = directory.join("log").join(name);
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed(format!("cannot open {}", path.display())))
}

/// Raises the limit of open files to its maximum. The soft limit is often 1,024, and a host needs
/// five.
fn raise_file_limit() {
    // SAFETY: rlimit is plain data; both calls take a valid pointer to it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Main function of the middle. If the owner has ended, it ends the testbed.
fn run_middle(
    config: &Arc<Config>,
    spaces: Spaces,
    listener: &UnixListener,
    owner_alive: &OwnedFd,
    owner: Pid,
    signals: &SigSet,
) -> Result<Infallible, WanError> {
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(signals), None).map_err(refused("cannot unblock signals"))?;
    setsid().map_err(refused("cannot create a session"))?;
    let networks = spaces.identities();
    let status = Status {
        testbed: VERSION,
        name: config.name.clone(),
        owner: owner.as_raw(),
        middle: getpid().as_raw(),
        rootless: spaces.user.is_some(),
        congestion: spaces.congestion,
        preferred: raise_priority(),
        notes: spaces.notes,
        ..Status::default()
    };
    let ports = spaces
        .ports
        .iter()
        .map(|port| Port::open(*port))
        .collect::<Result<_, _>>()?;
    let hosts = Arc::new(spaces.hosts);
    let (to_loop, commands) = mpsc::channel();
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake =
        Arc::new(EventFd::from_value_and_flags(0, flags).map_err(refused("cannot create an eventfd"))?);
    let server = ControlServer {
        config: Arc::clone(config),
        spaces: Arc::clone(&hosts),
        user: spaces.user,
        mounts: spaces.mounts,
        commands: to_loop,
        wake: Arc::clone(&wake),
        owner,
    };
    let middle = Middle::new(
        Arc::clone(config),
        hosts,
        ports,
        (commands, wake),
        owner_alive.as_fd(),
        status,
    )?;
    let listener = listener
        .try_clone()
        .map_err(failed("cannot share the control socket with a thread"))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || server.serve(&listener))
        .map_err(failed("cannot start a thread"))?;
    middle.run()?;
    let _ = writeln!(io::stderr(), "the owner has ended: the testbed ends");
    end_all(&networks, GRACE, || {});
    remove(&config.directory);
    std::process::exit(1)
}

/// Raises the priority of this process above others, because a late middle makes all links late.
/// Only root may. Rejected: niceness alone, which compares processes only within their session if
/// the kernel schedules sessions as groups.
fn raise_priority() -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: both calls concern this process, and `parameter` is valid.
    unsafe {
        libc::sched_setscheduler(0, policy, &raw const parameter) == 0
            || libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0
    }
}

/// Starts the daemon on every host and waits until all of them listen.
fn start_daemons(daemon: &Daemon, config: &Config, spaces: &Spaces) -> Result<(), WanError> {
    let mut started = Vec::new();
    for (host, space) in config.hosts.iter().zip(&spaces.hosts) {
        let fill = |word: &String| {
            word.replace("{address}", &host.address.to_string())
                .replace("{name}", &host.name)
        };
        let words: Vec<String> = daemon.command.iter().map(fill).collect();
        let child = start(&words, space, &log_file(&config.directory, &host.name)?)
            .map_err(|why| failed_daemon(daemon, &host.name, format!("cannot be started: {why}")))?;
        started.push((&host.name, child));
    }
    let deadline = Instant::now() + DAEMON_TIMEOUT;
    for (name, mut child) in started {
        while !is_listening(child.id(), daemon.port) {
            let ended = child
                .try_wait()
                .map_err(failed(format!("cannot wait for the daemon of host {name}")))?;
            if ended.is_some() || Instant::now() > deadline {
                let how = ended.map_or_else(
                    || {
                        let seconds = DAEMON_TIMEOUT.as_secs();
                        format!("does not listen on port {} after {seconds} s", daemon.port)
                    },
                    |status| format!("ended ({status})"),
                );
                let log = fs::read_to_string(config.directory.join("log").join(name)).unwrap_or_default();
                let start = log
                    .char_indices()
                    .rev()
                    .nth(MAX_LOG_CHARS)
                    .map_or(0, |(index, _)| index);
                return Err(failed_daemon(
                    daemon,
                    name,
                    format!("{how}; the end of its log: {}", log[start..].trim()),
                ));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

fn failed_daemon(daemon: &Daemon, host: &str, how: String) -> WanError {
    let what = daemon.command.first().cloned().unwrap_or_default();
    WanError::Daemon {
        what,
        host: host.to_owned(),
        how,
    }
}

fn start(words: &[String], space: &Space, log: &File) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let net = space.net.try_clone()?;
    let uts = space.uts.as_ref().map(OwnedFd::try_clone).transpose()?;
    let mut command = Program::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    // SAFETY: between fork and exec the closure makes only the system calls setns, setsid and
    // prctl. It allocates no memory and takes no lock.
    unsafe {
        command.pre_exec(move || {
            setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
            if let Some(uts) = &uts {
                setns(uts.as_fd(), CloneFlags::CLONE_NEWUTS)?;
            }
            setsid()?;
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            Ok(())
        });
    }
    command.spawn()
}

/// Whether a process listens on a TCP port in the network of process `pid`. Rejected: a connection,
/// which the server would log.
fn is_listening(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    fs::read_to_string(format!("/proc/{pid}/net/tcp")).is_ok_and(|table| {
        table.lines().skip(1).any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let is_port = words.next().is_some_and(|address| address.ends_with(&suffix));
            is_port && words.nth(1) == Some(LISTEN)
        })
    })
}

fn children() -> Vec<Pid> {
    fs::read_to_string(format!("/proc/self/task/{}/children", getpid()))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

/// Removes the directory of the testbed. The lab created it for this testbed only.
fn remove(directory: &Path) {
    if let Err(why) = fs::remove_dir_all(directory) {
        let _ = writeln!(io::stderr(), "cannot remove {}: {why}", directory.display());
    }
}
