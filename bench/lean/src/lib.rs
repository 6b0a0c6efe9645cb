//! A minimal safe interface to epoll for three small programs: two servers and a load generator.
//! They are not part of Plimsoll. `bench/http.py` compares Plimsoll with them.

pub mod server;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Maximum number of events per wait.
pub const EVENTS: usize = 512;

/// An epoll instance that returns at most [`EVENTS`] events per wait.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Creates an instance. Fails if no descriptor is free.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers, and its result is checked.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` was just created and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
        })
    }

    /// Reports under the number `token` when `source` becomes readable (edge-triggered).
    pub fn add(&self, source: &impl AsRawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET) as u32,
            u64: token,
        };
        // SAFETY: `event` outlives the call, and both descriptors are open.
        let result = unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                source.as_raw_fd(),
                &raw mut event,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Waits for at most `timeout_ms` (-1: no limit). Returns the tokens of the sources that are
    /// readable; none after a timeout or a signal.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<impl Iterator<Item = u64> + '_> {
        // SAFETY: `events` has EVENTS entries, and nothing else uses it during the call.
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

/// Number of ends of HTTP heads (an empty line) in `bytes`.
pub fn heads(bytes: &[u8]) -> usize {
    bytes.windows(4).filter(|window| window == b"\r\n\r\n").count()
}
