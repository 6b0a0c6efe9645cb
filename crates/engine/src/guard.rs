//! `plimsoll-engine guard -- COMMAND`: runs a command and ends it, with all its descendants, when
//! stdin is closed.
//!
//! Lines on stdin act on the command during a run: `kill` (SIGKILL to the whole tree; the guard
//! stays), `start` (the same command again), `pause` and `continue` (SIGSTOP and SIGCONT to the
//! whole tree). The guard remains the root of the process tree, so a monitor that watches the tree
//! by this root also watches the new processes.
//!
//! With limits, the command and its descendants are members of a control group of their own. The
//! guard is not: the kernel must not choose it when memory is short, and it removes the group at
//! its end. It writes a line to stderr when the kernel has killed a member.
//!
//! The lab sends `leave` before it closes stdin. If stdin is closed without it, the lab was killed,
//! and the guard removes the directory of the service: nobody else would.
//!
//! The lab starts each service below a guard. When the lab is killed, the pipe is closed, so none
//! of its services outlives it. A handler inside the lab could not ensure this. Rejected
//! alternative: `PR_SET_PDEATHSIG` alone. It reaches only the first child, and set-uid programs
//! clear it.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plimsoll_limits::{Group, Limits};

/// How often the guard looks for the end of the service. With 2 ms each guard used 0.8 % of a core.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// As above, once the service was asked to end.
const END_INTERVAL: Duration = Duration::from_millis(2);
/// How often the guard reads whether the kernel has killed a member of the group.
const OOM_INTERVAL: Duration = Duration::from_millis(200);
/// Begins the line that reports this. The lab searches the log for it (`deploy/process.py`).
const OOM_WORDS: &str = "plimsoll: out of memory:";
/// Maximum length of a line on stdin.
const MAX_LINE: u64 = 256;

static END_REQUESTED: AtomicBool = AtomicBool::new(false);
/// Stdin was closed without `leave`.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// A line on stdin.
#[derive(Clone, Copy, PartialEq)]
enum Action {
    Kill,
    Start,
    Pause,
    Continue,
}

impl Action {
    fn parse(line: &str) -> Option<Self> {
        match line.trim_end() {
            "kill" => Some(Self::Kill),
            "start" => Some(Self::Start),
            "pause" => Some(Self::Pause),
            "continue" => Some(Self::Continue),
            _ => None,
        }
    }
}

/// A command to run below the guard. `input`: the first line of stdin becomes the child's whole
/// stdin. `grace`: the time between SIGTERM and SIGKILL; the lab waits longer than that. `cpus`:
/// the cores of the guard and of the command (empty: not bound). `directory`: where it runs.
/// `remove`: the directory to remove if the lab was killed.
pub struct Order<'a> {
    pub command: &'a [OsString],
    pub input: bool,
    pub grace: Duration,
    pub cpus: &'a [usize],
    pub directory: Option<&'a Path>,
    pub remove: Option<&'a Path>,
    pub limits: Limits,
}

/// The command, and the process that runs it: none after `kill`.
struct Guarded<'a> {
    program: &'a OsStr,
    arguments: &'a [OsString],
    /// The child's whole stdin, if it has one.
    first_line: Option<String>,
    child: Option<Child>,
    limited: Option<Limited>,
}

/// The group of a limited command. `reported`: how many of its processes were reported as killed
/// for lack of memory.
struct Limited {
    group: Group,
    bytes: u64,
    reported: u64,
    next: Instant,
}

impl Limited {
    fn new(limits: &Limits) -> Result<Option<Self>> {
        if limits.is_empty() {
            return Ok(None);
        }
        plimsoll_limits::sweep();
        let group = Group::create(limits).context("guard: limits cannot be set")?;
        Ok(Some(Self {
            group,
            bytes: limits.memory.unwrap_or(0),
            reported: 0,
            next: Instant::now(),
        }))
    }

    /// Reports processes that the kernel has killed since the last call.
    fn report(&mut self) {
        let kills = self.group.oom_kills();
        if kills > self.reported {
            let (new, bytes) = (kills - self.reported, self.bytes);
            let noun = if new == 1 { "process" } else { "processes" };
            // An error of this write is ignored: the log may be full.
            let _ = writeln!(
                io::stderr(),
                "{OOM_WORDS} the kernel killed {new} {noun} at the memory limit of {bytes} bytes"
            );
            self.reported = kills;
        }
    }

    fn report_if_due(&mut self) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + OOM_INTERVAL;
            self.report();
        }
    }
}

impl Guarded<'_> {
    fn start(&mut self) -> Result<()> {
        let group = self.limited.as_ref().map(|limited| &limited.group);
        let mut child = spawn(self.program, self.arguments, self.first_line.is_some(), group)?;
        if let (Some(mut stdin), Some(line)) = (child.stdin.take(), &self.first_line) {
            // If the child has ended, its exit status is returned; an error of this write is
            // ignored.
            let _ = stdin.write_all(line.as_bytes());
        }
        self.child = Some(child);
        Ok(())
    }

    fn kill(&mut self) {
        self.child = None; // `kill_descendants` reaps it
        kill_descendants();
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Kill => self.kill(),
            Action::Start => {
                self.kill();
                self.start()?;
            }
            Action::Pause => signal_descendants(libc::SIGSTOP),
            Action::Continue => signal_descendants(libc::SIGCONT),
        }
        Ok(())
    }

    /// The status of the child, if it has ended by itself.
    fn status(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }
}

/// Runs the command (program first). Each line of stdin after the input is an action.
///
/// The exit status is the child's, or 128 + signal if it was killed, except by `kill`. This process
/// must be the leader of a process group.
pub fn run(order: &Order) -> Result<ExitCode> {
    let (program, arguments) = order.command.split_first().context("guard: no command given")?;
    catch_termination();
    bind_to(order.cpus)?;
    if let Some(directory) = order.directory {
        std::env::set_current_dir(directory)
            .with_context(|| format!("guard: cannot enter {}", directory.display()))?;
    }
    let mut guarded = Guarded {
        program,
        arguments,
        first_line: if order.input { Some(read_line()?) } else { None },
        child: None,
        limited: Limited::new(&order.limits)?,
    };
    guarded.start()?;
    let (sender, actions) = channel();
    std::thread::spawn(move || read_actions(&sender));
    let status = follow(&mut guarded, &actions, order.grace)?;
    kill_descendants();
    if let Some(mut limited) = guarded.limited.take() {
        limited.report();
    }
    if let Some(directory) = order.remove
        && ABANDONED.load(Ordering::Relaxed)
    {
        remove(directory);
    }
    let code = status.map_or(0, |status| {
        status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
            .unwrap_or(1)
    });
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Removes a directory, and the one above it if it is empty then. Errors are ignored: there is
/// nobody to report them to.
fn remove(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    if let Some(parent) = directory.parent() {
        let _ = std::fs::remove_dir(parent);
    }
}

/// Carries out the actions until the child has ended by itself, or until the end is requested.
/// Returns the status of the child, or None if it was killed before.
fn follow(guarded: &mut Guarded, actions: &Receiver<Action>, grace: Duration) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = guarded.status()? {
            return Ok(Some(status));
        }
        if let Some(limited) = &mut guarded.limited {
            limited.report_if_due();
        }
        if END_REQUESTED.load(Ordering::Relaxed) {
            return guarded.child.as_mut().map(|child| end(child, grace)).transpose();
        }
        reap_orphans(guarded.child.as_ref());
        match actions.recv_timeout(POLL_INTERVAL) {
            Ok(action) => guarded.act(action)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Binds this process, and the children that it starts afterwards, to cores.
fn bind_to(cpus: &[usize]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: the set is plain data, for which zero is a valid value. `CPU_SET` ignores cores that
    // are not in the set's range.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cpus.iter().filter(|&&core| core < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()).with_context(|| format!("guard: cpus {cpus:?} cannot be used"))
}

fn spawn(program: &OsStr, arguments: &[OsString], input: bool, group: Option<&Group>) -> Result<Child> {
    let entrances = group
        .map(Group::entrances)
        .transpose()
        .context("guard: cannot enter the control group")?
        .unwrap_or_default();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(if input { Stdio::piped() } else { Stdio::null() });
    // SAFETY: only prctl and write are called between fork and exec. Both are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            plimsoll_limits::enter(&entrances)
        });
    }
    command
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

fn read_line() -> Result<String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .context("guard: cannot read the input line")?;
    Ok(line)
}

/// Sends the actions on stdin, and requests the end when stdin is closed. Other lines are ignored.
fn read_actions(actions: &Sender<Action>) {
    let mut line = Vec::new();
    let mut stdin = io::stdin().lock();
    let mut leaves = false;
    loop {
        line.clear();
        match stdin.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
        let text = String::from_utf8_lossy(&line);
        leaves |= text.trim_end() == "leave";
        if let Some(action) = Action::parse(&text) {
            let _ = actions.send(action);
        }
    }
    ABANDONED.store(!leaves, Ordering::Relaxed);
    END_REQUESTED.store(true, Ordering::Relaxed);
}

extern "C" fn note_termination(_signal: libc::c_int) {
    END_REQUESTED.store(true, Ordering::Relaxed);
}

/// Installs handlers for SIGTERM and SIGINT. `SIG_IGN` is not used, because the child would inherit
/// it over exec.
fn catch_termination() {
    let handler = note_termination as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler only stores to an atomic; prctl changes a flag of this process.
    unsafe {
        libc::signal(libc::SIGTERM, handler);
        libc::signal(libc::SIGINT, handler);
        // Orphans of the service become our children, so that `kill_descendants` finds them.
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
}

fn end(child: &mut Child, grace: Duration) -> Result<ExitStatus> {
    signal_descendants(libc::SIGCONT); // a stopped process would not handle SIGTERM
    signal_group(libc::SIGTERM);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(END_INTERVAL);
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// Reaps the descendants that have ended and whose parents had ended before: a server that starts
/// daemons, such as the job managers of a batch system, would otherwise leave a zombie for each of
/// them until the end of the guard, and programs that look for their pids would find them. The
/// status of `child` remains for `Child::try_wait`.
fn reap_orphans(child: Option<&Child>) {
    while let Some(pid) = ended_child() {
        if child.is_some_and(|child| i64::from(child.id()) == i64::from(pid)) {
            return;
        }
        // SAFETY: `pid` is a child of this process that has ended and was not reaped. A null status
        // is allowed.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// A child of this process that has ended, without reaping it.
fn ended_child() -> Option<libc::pid_t> {
    // SAFETY: the structure is plain data, for which zero is a valid value. waitid writes to it.
    let pid = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &raw mut info, options) != 0 {
            return None;
        }
        info.si_pid()
    };
    (pid > 0).then_some(pid)
}

fn signal_group(signal: libc::c_int) {
    // SAFETY: pid 0 is the group of this process, whose handlers ignore SIGTERM and SIGINT.
    unsafe { libc::kill(0, signal) };
}

/// Kills the remaining descendants, of any process group. All of them get the signal before the
/// first is reaped: a server whose main process is killed first would react to that. Processes that
/// were started in between are children of this process then.
fn kill_descendants() {
    for _ in 0..100 {
        signal_descendants(libc::SIGKILL);
        let children = children_of(std::process::id());
        if children.is_empty() {
            return;
        }
        for pid in children {
            // SAFETY: `pid` is a child of this process that was not reaped, so the number was not
            // reused.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// Sends a signal to each descendant, parents first: a parent that is stopped or killed starts no
/// further process. Processes that appear in the meantime are found in a second pass.
fn signal_descendants(signal: libc::c_int) {
    let mut signalled = HashSet::new();
    for _ in 0..2 {
        let mut queue = VecDeque::from(children_of(std::process::id()));
        while let Some(pid) = queue.pop_front() {
            if signalled.insert(pid) {
                // SAFETY: only this process reaps its children, and it does not do so here. A
                // grandchild may end at any time; the kernel does not reuse its number at once.
                unsafe { libc::kill(pid, signal) };
            }
            queue.extend(u32::try_from(pid).into_iter().flat_map(children_of));
        }
    }
}

/// The states of the descendants of a process, as in /proc/PID/stat (R, S, T, Z, ...).
pub(crate) fn descendant_states(pid: u32) -> Vec<char> {
    let mut states = Vec::new();
    let mut queue = VecDeque::from(children_of(pid));
    while let Some(child) = queue.pop_front() {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        states.extend(
            stat.rsplit(')')
                .next()
                .and_then(|rest| rest.trim_start().chars().next()),
        );
        queue.extend(u32::try_from(child).into_iter().flat_map(children_of));
    }
    states
}

fn children_of(pid: u32) -> Vec<libc::pid_t> {
    let mut children = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return children;
    };
    for thread in threads.flatten() {
        if let Ok(text) = std::fs::read_to_string(thread.path().join("children")) {
            children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<libc::pid_t>().ok()),
            );
        }
    }
    children
}
