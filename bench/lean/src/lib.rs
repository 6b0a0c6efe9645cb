//! What the two small programs share: a thin, safe skin over epoll. Neither program is part of the
//! product; they are the yardsticks that `bench/http.py` holds it against.

pub mod server;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Events taken from one wait.
pub const EVENTS: usize = 512;

/// An epoll instance with room for [`EVENTS`] events a wait.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked, and owned from here on.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` was just created and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
        })
    }

    /// Reports `source` as readable, edge by edge, under the number `token`.
    pub fn add(&self, source: &impl AsRawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET) as u32,
            u64: token,
        };
        // SAFETY: `event` lives over the call; both descriptors are open.
        let done = unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                source.as_raw_fd(),
                &raw mut event,
            )
        };
        if done < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Waits at most `timeout_ms` (-1: for ever) and gives the tokens of what is readable.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<impl Iterator<Item = u64> + '_> {
        // SAFETY: `events` has room for EVENTS entries and is not touched meanwhile.
        let count = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as i32,
                timeout_ms,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(self.events[..count.max(0) as usize].iter().map(|event| event.u64))
    }
}

/// Number of times the end of an HTTP head stands in `bytes`.
pub fn heads(bytes: &[u8]) -> usize {
    bytes.windows(4).filter(|window| window == b"\r\n\r\n").count()
}
