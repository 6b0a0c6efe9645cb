//! `plimsoll-engine guard -- COMMAND`: runs a command and ends it, with all its descendants, when
//! stdin is closed.
//!
//! The lab starts each service below a guard. When the lab is killed, the pipe is closed, so none
//! of its services outlives it. A handler inside the lab could not ensure this. Rejected
//! alternative: `PR_SET_PDEATHSIG` alone. It reaches only the first child, and set-uid programs
//! clear it.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

static END_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Runs `command` (program first). With `input`, the first line of stdin becomes the child's whole
/// stdin.
///
/// `grace` is the time between SIGTERM and SIGKILL. The lab waits longer than that.
///
/// The exit status is the child's, or 128 + signal if it was killed. This process must be the
/// leader of a process group.
pub fn run(command: &[OsString], input: bool, grace: Duration) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("guard: no command given")?;
    catch_termination();
    let first_line = if input { read_line()? } else { String::new() };
    let mut child = spawn(program, arguments, input)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the child has ended, its exit status is returned; an error of this write is ignored.
        let _ = stdin.write_all(first_line.as_bytes());
    }
    std::thread::spawn(wait_for_end_of_stdin);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if END_REQUESTED.load(Ordering::Relaxed) {
            break end(&mut child, grace)?;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    kill_descendants();
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn spawn(program: &OsStr, arguments: &[OsString], input: bool) -> Result<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(if input { Stdio::piped() } else { Stdio::null() });
    // SAFETY: only prctl is called between fork and exec. It is async-signal-safe and has no memory
    // effects.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
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

fn wait_for_end_of_stdin() {
    let mut ignored = [0_u8; 256];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut ignored) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
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

fn end(child: &mut Child, grace: Duration) -> Result<std::process::ExitStatus> {
    signal_group(libc::SIGTERM);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    Ok(child.wait()?)
}

fn signal_group(signal: libc::c_int) {
    // SAFETY: pid 0 is the group of this process, whose handlers ignore SIGTERM and SIGINT.
    unsafe { libc::kill(0, signal) };
}

/// Kills the remaining descendants, of any process group: they are children of this process now.
fn kill_descendants() {
    for _ in 0..100 {
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
