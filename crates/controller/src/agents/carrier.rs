//! A command whose standard input and output are a link, for instance `ssh HOST ...`.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Starts a command with a socket as its standard input and output.
pub(crate) fn start(argv: &[String]) -> io::Result<(Child, tokio::net::UnixStream)> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(OwnedFd::from(far.try_clone()?))
        .stdout(OwnedFd::from(far))
        .stderr(Stdio::piped())
        .process_group(0);
    // No PDEATHSIG: it would be sent when the thread of the runtime ends that starts the command.
    // The end of this process closes the command's input instead.
    let child = command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
    Ok((child, tokio::net::UnixStream::from_std(near)?))
}

/// A running command, which is ended when this is dropped.
pub(crate) struct LinkCommand {
    child: Child,
    pid: Arc<Mutex<u32>>,
    /// The last part of its standard error.
    stderr: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl LinkCommand {
    pub(crate) fn new(mut child: Child, pid: &Arc<Mutex<u32>>) -> Self {
        *pid.lock().unwrap_or_else(PoisonError::into_inner) = child.id();
        let text = Arc::new(Mutex::new(String::new()));
        let reader = child.stderr.take().and_then(|stderr| {
            let text = text.clone();
            std::thread::Builder::new()
                .name("stderr".into())
                .spawn(move || keep_end(stderr, &text))
                .ok()
        });
        Self {
            child,
            pid: pid.clone(),
            stderr: text,
            reader,
        }
    }

    /// Ends the command. Returns the end of its standard error, or its exit status if that is empty
    /// and the command had ended by itself.
    pub(crate) fn end(&mut self) -> String {
        // A command that ends by itself may print the cause; it has some time for that.
        let since = Instant::now();
        let mut status = None;
        while since.elapsed() < Duration::from_millis(300) && status.is_none() {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.stop();
        if status.is_some()
            && let Some(reader) = self.reader.take()
        {
            let since = Instant::now();
            while !reader.is_finished() && since.elapsed() < Duration::from_millis(300) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let text = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.trim().replace('\n', "; ");
        match status {
            Some(status) if text.is_empty() => format!("its command has ended ({status})"),
            _ => text,
        }
    }

    fn stop(&mut self) {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for LinkCommand {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads standard error to its end and keeps the last part of it in `text`.
fn keep_end(mut stderr: ChildStderr, text: &Mutex<String>) {
    const MAX_KEPT_BYTES: usize = 1000;
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut bytes) {
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let surplus = text.len().saturating_sub(MAX_KEPT_BYTES);
        let cut = (surplus..text.len())
            .find(|&index| text.is_char_boundary(index))
            .unwrap_or(0);
        text.drain(..cut);
    }
}
