//! Programs that run to their end, and processes below guards.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Out;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time beyond its grace period that a guard may take to end.
const MARGIN: Duration = Duration::from_secs(1);
/// The maximum number of bytes of the output of a program.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// Runs a program to its end; answers with its exit status and its output (stdout and stderr).
#[derive(Deserialize)]
pub(super) struct Output {
    command: Vec<String>,
    timeout_ms: u64,
}

impl Output {
    pub(super) fn run(&self) -> Result<Value> {
        let (program, arguments) = self.command.split_first().context("no program")?;
        let (mut reader, writer) = std::io::pipe()?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let pid = child.id();
        // Another thread reads the output, since a child of the program may keep the pipe open.
        let (sender, text) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = (&mut reader).take(MAX_OUTPUT).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
        let deadline = Instant::now() + Duration::from_millis(self.timeout_ms);
        let status = wait_until(&mut child, deadline)?;
        if status.is_none() {
            kill_group(pid);
            child.wait()?;
        }
        let bytes = text.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        Ok(json!({
            "code": status.map(code_of),
            "text": String::from_utf8_lossy(&bytes),
        }))
    }
}

/// Starts a program below a guard. `log`: where stderr is appended, and stdout too without
/// `stdout`. `input`: a line for the program's stdin.
#[derive(Deserialize)]
pub(super) struct Start {
    command: Vec<String>,
    directory: PathBuf,
    #[serde(default)]
    environment: HashMap<String, String>,
    log: PathBuf,
    stdout: Option<PathBuf>,
    #[serde(default)]
    cpus: Vec<u32>,
    /// Limits, as the guard parses them.
    limits: Option<Value>,
    grace_ms: u64,
    input: Option<String>,
}

/// Sends a signal to the program below a guard.
#[derive(Deserialize)]
pub(super) struct Signal {
    process: u32,
    signal: i32,
}

/// Writes an action to the stdin of a guard (`guard.rs`): kill, start, pause or continue.
#[derive(Deserialize)]
pub(super) struct Act {
    process: u32,
    action: String,
}

/// Requests the states of the processes below a guard.
#[derive(Deserialize)]
pub(super) struct Tree {
    process: u32,
}

impl Tree {
    pub(super) fn run(&self) -> Value {
        let states: Vec<String> = crate::guard::descendant_states(self.process)
            .into_iter()
            .map(String::from)
            .collect();
        json!({ "states": states })
    }
}

/// Ends a process with its descendants.
#[derive(Deserialize)]
pub(super) struct Stop {
    process: u32,
}

/// A guard. `stdin` is None after the request to end.
struct Guard {
    child: Child,
    stdin: Option<ChildStdin>,
    grace: Duration,
    code: Option<i32>,
}

/// The guards, by their process ids. The lab receives an event when one of them ends.
#[derive(Clone)]
pub(super) struct Processes {
    guards: Arc<Mutex<HashMap<u32, Guard>>>,
    label: Arc<PathBuf>,
    out: Out,
}

impl Processes {
    /// `label`: the directory of the experiment's services.
    pub(super) fn new(label: PathBuf, out: Out) -> Self {
        let processes = Self {
            guards: Arc::default(),
            label: Arc::new(label),
            out,
        };
        let watched = processes.clone();
        std::thread::spawn(move || {
            loop {
                watched.report_ended();
                std::thread::sleep(POLL_INTERVAL);
            }
        });
        processes
    }

    pub(super) fn start(&self, start: &Start) -> Result<Value> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&start.log)?;
        let stdout = match &start.stdout {
            Some(path) => fs::OpenOptions::new().create(true).append(true).open(path)?,
            None => log.try_clone()?,
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("guard")
            .arg("--grace-ms")
            .arg(start.grace_ms.to_string());
        // The label is on the command line so that `hosts clean` finds the guard by it.
        command.arg("--label").arg(&*self.label);
        command.arg("--directory").arg(&start.directory);
        if !start.cpus.is_empty() {
            let cores: Vec<String> = start.cpus.iter().map(u32::to_string).collect();
            command.arg("--cpus").arg(cores.join(","));
        }
        if let Some(limits) = &start.limits {
            command.arg("--limits").arg(limits.to_string());
        }
        if start.input.is_some() {
            command.arg("--input");
        }
        let mut child = command
            .arg("--")
            .args(&start.command)
            .envs(&start.environment)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let mut stdin = child.stdin.take();
        if let (Some(line), Some(pipe)) = (&start.input, stdin.as_mut()) {
            use std::io::Write as _;
            // If the guard has ended, its end is reported; an error of this write is ignored.
            let _ = pipe.write_all(format!("{line}\n").as_bytes());
        }
        let pid = child.id();
        let guard = Guard {
            child,
            stdin,
            grace: Duration::from_millis(start.grace_ms),
            code: None,
        };
        self.lock().insert(pid, guard);
        Ok(json!({ "pid": pid }))
    }

    pub(super) fn signal(&self, signal: &Signal) -> Result<Value> {
        if self
            .lock()
            .get(&signal.process)
            .is_none_or(|guard| guard.code.is_some())
        {
            bail!("process {} has ended", signal.process);
        }
        let children = format!("/proc/{0}/task/{0}/children", signal.process);
        let text = fs::read_to_string(children)?;
        let child: libc::pid_t = text
            .split_ascii_whitespace()
            .next()
            .context("the guard has no child")?
            .parse()?;
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(child, signal.signal) };
        Ok(json!({}))
    }

    pub(super) fn act(&self, act: &Act) -> Result<Value> {
        use std::io::Write as _;
        let mut guards = self.lock();
        let stdin = guards
            .get_mut(&act.process)
            .and_then(|guard| guard.stdin.as_mut())
            .with_context(|| format!("process {} has ended", act.process))?;
        stdin.write_all(format!("{}\n", act.action).as_bytes())?;
        Ok(json!({}))
    }

    pub(super) fn stop(&self, stop: &Stop) -> Result<Value> {
        let grace = {
            let mut guards = self.lock();
            let guard = guards
                .get_mut(&stop.process)
                .context("there is no such process")?;
            guard.stdin = None;
            guard.grace
        };
        let deadline = Instant::now() + grace + MARGIN;
        loop {
            if let Some(code) = self.lock().get(&stop.process).map(|guard| guard.code) {
                if let Some(code) = code {
                    return Ok(json!({ "code": code }));
                }
            } else {
                bail!("there is no such process");
            }
            if Instant::now() > deadline {
                kill_group(stop.process);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends all processes, and waits for their ends.
    pub(super) fn end_all(&self) {
        let running: Vec<u32> = self.lock().keys().copied().collect();
        for guard in self.lock().values_mut() {
            guard.stdin = None;
        }
        for process in running {
            let _ = self.stop(&Stop { process });
        }
    }

    fn report_ended(&self) {
        let mut ended = Vec::new();
        for (pid, guard) in self.lock().iter_mut() {
            if guard.code.is_none()
                && let Ok(Some(status)) = guard.child.try_wait()
            {
                let code = code_of(status);
                guard.code = Some(code);
                ended.push((*pid, code));
            }
        }
        for (pid, code) in ended {
            self.out.say(&json!({"ended": pid, "code": code}));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Guard>> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exit status; the negative number of the signal that killed the process.
fn code_of(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| -signal))
        .unwrap_or(1)
}

fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn kill_group(leader: u32) {
    // SAFETY: kill has no memory effects. The group has the number of its leader, which is a child
    // that was not waited for.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}
