//! `plimsoll-engine guard -- COMMAND`: runs a command and ends it, with all its descendants, when
//! our stdin closes.
//!
//! The lab starts every service below a guard. A lab that is killed closes the pipe, so nothing it
//! started outlives it, which no handler inside the lab could promise. Rejected: `PR_SET_PDEATHSIG`
//! alone, which reaches the first child only and is cleared by set-uid programs.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

static END_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Runs `command` (program first); with `input`, our first line of stdin becomes the child's whole
/// stdin.
///
/// `grace` lies between the polite signal and the other one; the lab's own patience is longer.
///
/// The exit status is the child's, 128 + signal if it was killed. We are expected to lead a process
/// group of our own.
pub fn run(command: &[OsString], input: bool, grace: Duration) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("guard: no command given")?;
    catch_termination();
    let first_line = if input { read_line()? } else { String::new() };
    let mut child = spawn(program, arguments, input)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ended already is reported by its exit status, not by this write.
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
    // SAFETY: prctl and nothing else between fork and exec; it is async-signal-safe and touches no
    // memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))
}

fn read_line() -> Result<String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .context("guard: no input line came")?;
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

/// A handler, not `SIG_IGN`: ignoring is inherited over exec and would make the child deaf too.
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
    // SAFETY: pid 0 is our own process group; our handler makes the polite signals harmless to us.
    unsafe { libc::kill(0, signal) };
}

/// Kills what the child left behind, wherever it moved to: descendants are re-parented to us.
fn kill_descendants() {
    for _ in 0..100 {
        let children = children_of(std::process::id());
        if children.is_empty() {
            return;
        }
        for pid in children {
            // SAFETY: `pid` is a child of ours that we have not reaped, so the number cannot have
            // been reused.
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
