//! SIGINT, SIGTERM and SIGHUP as messages on a channel.
//!
//! The handler writes to a pipe. Rejected alternative: blocked signals and sigwait. A blocked
//! signal would stay blocked in the client programs that testers start.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};

static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn handler(signal: libc::c_int) {
    let byte = [signal as u8];
    // SAFETY: write is allowed in a handler, and the descriptor is never closed. If the pipe is
    // full, the byte may be lost, because the unread signals have the same effect.
    unsafe { libc::write(PIPE.load(Ordering::Relaxed), byte.as_ptr().cast(), 1) };
}

/// Starts the handlers. The channel receives the number of each signal that asks this process to
/// end.
///
/// # Errors
/// The system refuses a pipe, a handler or a thread.
pub(crate) fn listen() -> io::Result<Receiver<i32>> {
    let mut ends = [0; 2];
    // SAFETY: the array has two elements, for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors were just opened and have no other owner.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: this sets flags of an open descriptor. Only the writing end must not block.
    unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, 0) };
    PIPE.store(write.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = handler as extern "C" fn(libc::c_int);
        // SAFETY: the handler only calls functions that are allowed in handlers.
        if unsafe { libc::signal(signal, handler as libc::sighandler_t) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("signal-pipe".into())
        .spawn(move || {
            let mut pipe = File::from(read);
            let mut byte = [0_u8];
            while pipe.read_exact(&mut byte).is_ok() && sender.send(i32::from(byte[0])).is_ok() {}
        })?;
    Ok(receiver)
}
