//! SIGINT, SIGTERM and SIGHUP as messages on a channel.
//!
//! A handler that writes to a pipe, rather than blocked signals and sigwait: a blocked signal would
//! stay blocked in the client programs that testers start.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};

static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn handler(signal: libc::c_int) {
    let byte = [signal as u8];
    // SAFETY: write is allowed in a handler; the descriptor is never closed; what does not fit into
    // a full pipe may be lost, because signals that were not read yet say the same.
    unsafe { libc::write(PIPE.load(Ordering::Relaxed), byte.as_ptr().cast(), 1) };
}

/// The number of each signal that asks this process to end.
///
/// # Errors
/// No pipe or thread is to be had.
pub(crate) fn listen() -> io::Result<Receiver<i32>> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just opened and belong to nobody.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: plain flags on an open descriptor: only the writing end must not block.
    unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, 0) };
    PIPE.store(write.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = handler as extern "C" fn(libc::c_int);
        // SAFETY: the handler does only what handlers may do.
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
