//! Client programs of blocking testers. Each is started at low cost in its own process group,
//! watched without a thread, and reaped with its resource usage.
//!
//! The standard library starts them with `posix_spawn`, because no option is used that needs
//! `fork`. They are reaped with `wait4`, which returns the resource usage, and so never by the
//! standard library.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::tester::limit::{Due, Limit};

/// Maximum number of bytes of each output that are kept: the last ones.
const MAX_KEPT: usize = 64 * 1024;
/// Time between SIGTERM and SIGKILL to a process group.
const END_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval at which a program is checked if the kernel has no pidfd (before 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The last bytes of an output, and the number of all bytes.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
    /// Number of bytes read so far.
    pub total: u64,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * MAX_KEPT {
            self.bytes.drain(..self.bytes.len() - MAX_KEPT);
        }
    }

    /// The last bytes, at most 64 KiB.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(MAX_KEPT)..]
    }

    /// Removes and returns the first complete line; none if there is none.
    pub fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'\n', &self.bytes)?;
        Some(self.bytes.drain(..=end).collect())
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub struct ProgramExit {
    status: i32,
    /// CPU time (user and system) of the program and of the children for which it waited, s.
    pub cpu_s: f64,
    /// Peak resident memory of the largest of these processes, bytes.
    pub max_rss: u64,
}

impl ProgramExit {
    /// Whether the program ended with exit code 0.
    pub fn is_success(&self) -> bool {
        libc::WIFEXITED(self.status) && libc::WEXITSTATUS(self.status) == 0
    }

    /// How the program ended, such as `exit 3` or `signal 11`.
    pub fn word(&self) -> String {
        if libc::WIFEXITED(self.status) {
            format!("exit {}", libc::WEXITSTATUS(self.status))
        } else {
            format!("signal {}", libc::WTERMSIG(self.status))
        }
    }
}

/// Result of [`Program::watch`].
#[derive(Debug)]
pub enum ProgramStatus {
    /// The program is running; bytes may have been read or written.
    Moved,
    /// The program has ended and is not reaped yet.
    Ended,
    /// The transaction must end, for this reason.
    Due(Due),
}

/// A running program. Dropping it ends its whole process group.
pub struct Program {
    pid: i32,
    pidfd: Option<OwnedFd>,
    stdin: Option<std::fs::File>,
    stdout: Option<std::fs::File>,
    stderr: Option<std::fs::File>,
    to_write: Vec<u8>,
    written: usize,
    /// Whether stdin is closed when all bytes are written.
    close_stdin: bool,
    /// Standard output.
    pub out: Tail,
    /// Standard error.
    pub err: Tail,
    reaped: bool,
}

fn non_blocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open; no memory is passed.
    let rc = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn pipe_end(fd: Option<impl Into<OwnedFd>>) -> io::Result<Option<std::fs::File>> {
    let Some(fd) = fd.map(Into::into) else {
        return Ok(None);
    };
    non_blocking(&fd)?;
    Ok(Some(fd.into()))
}

fn open_pidfd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is passed. The process is a child that is not reaped, so that its number
    // cannot belong to another process.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: a descriptor that the call has just returned and that has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

impl Program {
    /// Starts a program with all three standard streams connected.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let pid = child.id() as i32;
        let mut program = Self {
            pid,
            pidfd: open_pidfd(pid),
            stdin: None,
            stdout: None,
            stderr: None,
            to_write: Vec::new(),
            written: 0,
            close_stdin: false,
            out: Tail::default(),
            err: Tail::default(),
            reaped: false,
        };
        program.stdin = pipe_end(child.stdin.take())?;
        program.stdout = pipe_end(child.stdout.take())?;
        program.stderr = pipe_end(child.stderr.take())?;
        Ok(program)
    }

    /// Queues bytes for standard input, and closes it after them if `last` is set.
    pub fn write(&mut self, bytes: &[u8], last: bool) {
        self.to_write.drain(..std::mem::take(&mut self.written));
        self.to_write.extend_from_slice(bytes);
        self.close_stdin = last;
        self.write_pending();
    }

    /// Writes as many queued bytes as the pipe accepts.
    fn write_pending(&mut self) {
        while let Some(stdin) = &mut self.stdin {
            if self.written == self.to_write.len() {
                if self.close_stdin {
                    self.stdin = None;
                }
                return;
            }
            match stdin.write(&self.to_write[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A program need not read its standard input.
                Err(_) => self.stdin = None,
            }
        }
    }

    /// Reads the output that is available.
    pub fn read_available(&mut self) {
        read_into(&mut self.stdout, &mut self.out);
        read_into(&mut self.stderr, &mut self.err);
    }

    /// Waits until the program writes, reads or ends, or the transaction must end.
    pub fn watch(&mut self, limit: &Limit<'_>) -> ProgramStatus {
        if let Some(due) = limit.due() {
            return ProgramStatus::Due(due);
        }
        let ended = self.wait(Duration::from_nanos(limit.left_ns()), Some(limit.cancel_fd()));
        if let Some(Due::Cancelled) = limit.due() {
            return ProgramStatus::Due(Due::Cancelled);
        }
        if ended {
            ProgramStatus::Ended
        } else {
            ProgramStatus::Moved
        }
    }

    /// Waits for an event, for at most `timeout`, and moves bytes. Returns whether the program has
    /// ended.
    fn wait(&mut self, timeout: Duration, cancel: Option<RawFd>) -> bool {
        let fd = |file: &Option<std::fs::File>| file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let entry = |fd: RawFd, events: i16| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let writing = self.written < self.to_write.len();
        let mut entries = [
            entry(self.pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd), libc::POLLIN),
            entry(fd(&self.stdout), libc::POLLIN),
            entry(fd(&self.stderr), libc::POLLIN),
            entry(if writing { fd(&self.stdin) } else { -1 }, libc::POLLOUT),
            entry(cancel.unwrap_or(-1), libc::POLLIN),
        ];
        let timeout = if self.pidfd.is_some() {
            timeout
        } else {
            timeout.min(POLL_INTERVAL)
        };
        #[allow(
            clippy::useless_conversion,
            reason = "the fields are 32 bits wide on some targets"
        )]
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX) as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        };
        // SAFETY: `entries` is a writable array of the length given, `timeout` is valid for the
        // call.
        unsafe {
            libc::ppoll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        self.write_pending();
        self.read_available();
        if self.pidfd.is_some() {
            entries[0].revents != 0
        } else {
            self.has_ended()
        }
    }

    /// Whether the program has ended. Does not reap it.
    fn has_ended(&self) -> bool {
        // SAFETY: plain bits, for which zero is valid; the call fills it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid and writable for the call.
        let rc = unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &raw mut info, options) };
        // SAFETY: the kernel has filled `info` for a child that ended, or left its process id 0.
        rc != 0 || unsafe { info.si_pid() } != 0
    }

    /// Reaps a program that has ended.
    pub fn reap(&mut self) -> ProgramExit {
        let mut status = 0;
        // SAFETY: plain numbers, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both are valid and writable for the call.
        while unsafe { libc::wait4(self.pid, &raw mut status, 0, &raw mut usage) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        self.reaped = true;
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        ProgramExit {
            status,
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            max_rss: usage.ru_maxrss.max(0) as u64 * 1024,
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no memory is passed. The leader is not reaped, so that the number cannot belong
        // to another process group.
        unsafe { libc::kill(-self.pid, signal) };
    }

    /// Waits until the program has ended, for at most [`END_TIMEOUT`]. Returns whether it has
    /// ended.
    fn wait_for_end(&mut self) -> bool {
        let from = std::time::Instant::now();
        while from.elapsed() < END_TIMEOUT {
            if self.wait(END_TIMEOUT.saturating_sub(from.elapsed()), None) {
                return true;
            }
        }
        self.has_ended()
    }

    /// Ends the whole process group: SIGTERM, then SIGKILL after at most [`END_TIMEOUT`].
    pub fn end(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(libc::SIGTERM);
        self.wait_for_end();
        self.signal(libc::SIGKILL);
        if self.wait_for_end() {
            self.reap();
        }
    }

    /// Closes standard input, so that a program that reads it can end by itself, and then ends the
    /// whole process group.
    pub fn close(&mut self) {
        self.stdin = None;
        self.to_write.clear();
        self.written = 0;
        if !self.reaped {
            self.wait_for_end();
        }
        self.end();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_into(file: &mut Option<std::fs::File>, tail: &mut Tail) {
    let mut buffer = [0; 16 * 1024];
    while let Some(open) = file {
        match open.read(&mut buffer) {
            Ok(0) => *file = None,
            Ok(count) => tail.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *file = None,
        }
    }
}
