//! The owner: the process whose end is the end of everything.
//!
//! `up` makes two processes. The owner makes the namespaces and the daemons, and then only waits;
//! its child, the middle, carries the frames and answers at the control socket. Each watches the
//! other: if the owner is killed the middle ends all, if the middle is killed the owner does.
//! Daemons die with the owner by the kernel's hand. What no process of ours can prevent is both
//! being killed in the same instant.

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

use crate::control::{Gate, SOCKET, Status};
use crate::middle::Middle;
use crate::namespace::{Space, Spaces, build};
use crate::packets::Port;
use crate::spec::{Config, Daemon, VERSION};
use crate::sweep::end_all;
use crate::{WanError, failed, refused};

/// Between the polite signal and the other one, for whatever runs inside.
const GRACE: Duration = Duration::from_secs(3);
/// A daemon that does not listen after this long has failed.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// What the starter is told of a testbed that stands; anything else is an error.
const UP: &[u8] = b"up";
/// Ends what the starter is told.
const STOP: u8 = 0;
/// Of a daemon's log, for a message.
const QUOTED: usize = 2_000;

/// Brings a testbed up in the background and waits until it stands. Call it while this process has
/// one thread.
///
/// # Errors
/// Why it does not stand; then nothing is left of it but the directory with its logs, which is the
/// caller's to remove.
pub fn up(config: Config) -> Result<(), WanError> {
    config.check()?;
    let (from_owner, to_us) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(refused("no pipe"))?;
    // SAFETY: this process has one thread, so that the child finds no lock held by a thread that it
    // does not have.
    match unsafe { fork() }.map_err(refused("no process"))? {
        ForkResult::Child => {
            drop(from_owner);
            let code = i32::from(own(config, File::from(to_us)).is_err());
            std::process::exit(code)
        }
        ForkResult::Parent { .. } => {
            drop(to_us);
            hear(File::from(from_owner))
        }
    }
}

/// What the owner says: up to its full stop, not to the end of the file, for the middle inherits
/// the other end too.
fn hear(owner: File) -> Result<(), WanError> {
    let mut word = Vec::new();
    BufReader::new(owner)
        .read_until(STOP, &mut word)
        .map_err(failed("the testbed says nothing"))?;
    if word.pop() != Some(STOP) {
        let killed = "the testbed was killed before it stood".to_owned();
        return Err(WanError::Answer(killed));
    }
    if word == UP {
        return Ok(());
    }
    Err(WanError::Answer(String::from_utf8_lossy(&word).into_owned()))
}

/// The life of the owner. `word` is what the starter reads.
fn own(config: Config, mut word: File) -> Result<(), WanError> {
    let directory = config.directory.clone();
    match stand(config) {
        Err(why) => {
            let _ = word.write_all(&[why.to_string().as_bytes(), &[STOP]].concat());
            Err(why)
        }
        Ok(mut standing) => {
            // If the starter is gone nobody wants the testbed.
            let wanted = word.write_all(&[UP, &[STOP]].concat());
            drop(word);
            if wanted.is_ok() {
                standing.wait();
            }
            standing.end();
            remove(&directory);
            Ok(())
        }
    }
}

/// Everything that has to be ended.
struct Standing {
    /// The hosts' networks. They are held open until the end, as the middle may be killed: the
    /// kernel gives the number of a network that nobody holds to the next one, perhaps that of
    /// another testbed, whose processes would be ended.
    spaces: Spaces,
    middle: Pid,
    signals: SigSet,
}

/// Makes everything; what was made before something failed is ended again.
fn stand(config: Config) -> Result<Standing, WanError> {
    let signals = detach(&config.directory)?;
    let spaces = build(&config)?;
    let config = Arc::new(config);
    let listener = UnixListener::bind(config.directory.join(SOCKET)).map_err(failed("no control socket"))?;
    let (alive, life) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(refused("no pipe"))?;
    let owner = getpid();
    // SAFETY: this process has one thread.
    let middle = match unsafe { fork() }.map_err(refused("no process"))? {
        ForkResult::Child => {
            drop(life);
            let Err(why) = middle(&config, spaces, &listener, &alive, owner, &signals);
            let _ = writeln!(io::stderr(), "middle: {why}");
            std::process::exit(1)
        }
        ForkResult::Parent { child } => child,
    };
    // Held open until the end of this process, which the middle sees by its closing.
    std::mem::forget(life);
    let standing = Standing {
        spaces,
        middle,
        signals,
    };
    let daemons = config
        .daemon
        .as_ref()
        .map_or(Ok(()), |daemon| start_all(daemon, &config, &standing.spaces));
    match daemons {
        Ok(()) => Ok(standing),
        Err(why) => {
            standing.end();
            Err(why)
        }
    }
}

impl Standing {
    /// Until somebody asks for the end, or the middle is gone.
    fn wait(&mut self) {
        loop {
            match self.signals.wait() {
                Ok(Signal::SIGCHLD) if self.bury() => {
                    let _ = writeln!(
                        io::stderr(),
                        "the process of the links has ended: the testbed ends"
                    );
                    return;
                }
                Ok(Signal::SIGCHLD) | Err(_) => {}
                Ok(_) => return,
            }
        }
    }

    /// Buries the dead, which may be orphans from inside. True if the middle was among them.
    fn bury(&self) -> bool {
        let mut gone = false;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                    gone |= pid == self.middle;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return gone,
                Ok(_) => {}
            }
        }
    }

    /// Ends all: first what is inside, while the links still carry its farewells, then the middle,
    /// then whoever left the hosts' networks.
    fn end(&self) {
        let left = end_all(&self.spaces.identities(), GRACE, || {
            self.bury();
        });
        for pid in left {
            let _ = writeln!(
                io::stderr(),
                "process {pid} hangs in the kernel and could not be ended"
            );
        }
        let _ = kill(self.middle, Signal::SIGKILL);
        for pid in children() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let patience = Instant::now() + GRACE;
        while !children().is_empty() && Instant::now() < patience {
            self.bury();
            std::thread::sleep(POLL);
        }
    }
}

/// A session of our own, no terminal, no directory in use, signals to be waited for.
fn detach(directory: &Path) -> Result<SigSet, WanError> {
    setsid().map_err(refused("no session"))?;
    std::env::set_current_dir("/").map_err(failed("no root directory"))?;
    let nothing = File::open("/dev/null").map_err(failed("/dev/null"))?;
    let log = log_file(directory, "owner")?;
    let done = dup2_stdin(&nothing)
        .and_then(|()| dup2_stdout(&log))
        .and_then(|()| dup2_stderr(&log));
    done.map_err(refused("descriptors cannot be moved"))?;
    // Orphans from inside become our children.
    prctl::set_child_subreaper(true).map_err(refused("orphans cannot be taken in"))?;
    raise_file_limit();
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD] {
        signals.add(signal);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None).map_err(refused("signals cannot be held"))?;
    Ok(signals)
}

fn log_file(directory: &Path, name: &str) -> Result<File, WanError> {
    let path = directory.join("log").join(name);
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed(path.display().to_string()))
}

/// As many open files as we may have: the soft limit is often 1,024, and a host takes five.
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

/// The life of the middle, which ends everything should the owner be gone.
fn middle(
    config: &Arc<Config>,
    spaces: Spaces,
    listener: &UnixListener,
    alive: &OwnedFd,
    owner: Pid,
    signals: &SigSet,
) -> Result<Infallible, WanError> {
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(signals), None)
        .map_err(refused("signals cannot be let through"))?;
    setsid().map_err(refused("no session"))?;
    let inside = spaces.identities();
    let status = Status {
        testbed: VERSION,
        name: config.name.clone(),
        owner: owner.as_raw(),
        middle: getpid().as_raw(),
        rootless: spaces.user.is_some(),
        congestion: spaces.congestion,
        preferred: prefer(),
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
    let bell = Arc::new(EventFd::from_value_and_flags(0, flags).map_err(refused("no eventfd"))?);
    let gate = Gate {
        config: Arc::clone(config),
        spaces: Arc::clone(&hosts),
        user: spaces.user,
        commands: to_loop,
        bell: Arc::clone(&bell),
        owner,
    };
    let middle = Middle::new(
        Arc::clone(config),
        hosts,
        ports,
        (commands, bell),
        alive.as_fd(),
        status,
    )?;
    let listener = listener
        .try_clone()
        .map_err(failed("the control socket cannot be shared"))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || gate.serve(&listener))
        .map_err(failed("no thread"))?;
    middle.run()?;
    let _ = writeln!(io::stderr(), "the owner has ended: the testbed ends");
    end_all(&inside, GRACE, || {});
    remove(&config.directory);
    std::process::exit(1)
}

/// Before others where cores are busy: what the middle does late, all links do late. Only root may.
/// Not by niceness alone, which compares within a session only where sessions are scheduled as
/// groups.
fn prefer() -> bool {
    let how = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: plain calls about this process with a valid parameter.
    unsafe {
        libc::sched_setscheduler(0, policy, &raw const how) == 0
            || libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0
    }
}

/// A daemon in every host, all of them listening.
fn start_all(daemon: &Daemon, config: &Config, spaces: &Spaces) -> Result<(), WanError> {
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
    let patience = Instant::now() + DAEMON_TIMEOUT;
    for (name, mut child) in started {
        while !listens(child.id(), daemon.port) {
            let ended = child.try_wait().map_err(failed("a daemon cannot be looked at"))?;
            if ended.is_some() || Instant::now() > patience {
                let how = ended.map_or("is not ready in time".to_owned(), |status| {
                    format!("ended ({status})")
                });
                let log = fs::read_to_string(config.directory.join("log").join(name)).unwrap_or_default();
                let start = log.char_indices().rev().nth(QUOTED).map_or(0, |(at, _)| at);
                return Err(failed_daemon(
                    daemon,
                    name,
                    format!("{how}: {}", log[start..].trim()),
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
    // SAFETY: setns, setsid and prctl between fork and exec: plain system calls that touch no
    // memory of ours.
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

/// Whether somebody listens on a port in the network of a process: rejected was a connection, which
/// a server logs.
fn listens(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let end = format!(":{port:04X}");
    fs::read_to_string(format!("/proc/{pid}/net/tcp")).is_ok_and(|table| {
        table.lines().skip(1).any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let local = words.next().is_some_and(|address| address.ends_with(&end));
            local && words.nth(1) == Some(LISTEN)
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

/// The directory was made for this testbed.
fn remove(directory: &Path) {
    if let Err(why) = fs::remove_dir_all(directory) {
        let _ = writeln!(io::stderr(), "{} cannot be removed: {why}", directory.display());
    }
}
