//! A command whose standard input and output are a link: `ssh HOST ...`, mostly.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Starts a command with one socket as its standard input and output.
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
    // No PDEATHSIG here: it would come at the end of the runtime's thread that starts it. Our end
    // closes its input instead.
    let child = command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program} cannot be started: {error}")))?;
    Ok((child, tokio::net::UnixStream::from_std(near)?))
}

/// A command that ends with its owner, even if that is dropped.
pub(crate) struct LinkCommand {
    child: Child,
    pid: Arc<Mutex<u32>>,
    /// The end of what it says on its standard error.
    said: Arc<Mutex<String>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl LinkCommand {
    pub(crate) fn new(mut child: Child, pid: &Arc<Mutex<u32>>) -> Self {
        *pid.lock().unwrap_or_else(PoisonError::into_inner) = child.id();
        let said = Arc::new(Mutex::new(String::new()));
        let listener = child.stderr.take().and_then(|stderr| {
            let said = said.clone();
            std::thread::Builder::new()
                .name("said".into())
                .spawn(move || listen(stderr, &said))
                .ok()
        });
        Self {
            child,
            pid: pid.clone(),
            said,
            listener,
        }
    }

    /// Ends it; gives its last words, or how it had ended by itself.
    pub(crate) fn end(&mut self) -> String {
        // One that ends by itself says why; it has a moment for that.
        let since = Instant::now();
        let mut status = None;
        while since.elapsed() < Duration::from_millis(300) && status.is_none() {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.stop();
        if status.is_some()
            && let Some(listener) = self.listener.take()
        {
            let since = Instant::now();
            while !listener.is_finished() && since.elapsed() < Duration::from_millis(300) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.trim().replace('\n', "; ");
        match status {
            Some(status) if said.is_empty() => format!("its command has ended ({status})"),
            _ => said,
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

/// Keeps the last of what comes.
fn listen(mut stderr: ChildStderr, said: &Mutex<String>) {
    const KEPT: usize = 1000;
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut bytes) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let surplus = said.len().saturating_sub(KEPT);
        let cut = (surplus..said.len())
            .find(|&at| said.is_char_boundary(at))
            .unwrap_or(0);
        said.drain(..cut);
    }
}
