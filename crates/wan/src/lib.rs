//! The testbed: emulated hosts and links on one Linux machine, as root or as an ordinary user.
//!
//! Each host is a network namespace with one interface. The peers of these interfaces are in one
//! additional namespace, the middle. One process there forwards frames from host to host by
//! destination address. It delays, queues and drops each frame as the links on its path require:
//! rate, delay, jitter, loss, bounded queue. Rejected: netem, which many kernels lack and which
//! needs root. Packet sockets in a user namespace need neither.
//!
//! Pure: [`spec`] (the configuration), [`link`] (one direction of one link), [`frame`] (fields of a
//! frame), [`switch`] (all links and paths). With I/O: [`namespace`] and `netlink` (creation of the
//! hosts), `packets` (reading and sending frames), `middle` (the forwarding loop), [`control`] (the
//! control socket), [`owner`] (the process that starts and ends a testbed), `sweep` (ending the
//! processes of the hosts). IPv4 only.

pub mod control;
pub mod frame;
pub mod link;
mod middle;
mod names;
pub mod namespace;
mod netlink;
pub mod owner;
mod packets;
pub mod spec;
mod sweep;
pub mod switch;

use std::io;
use std::net::Ipv4Addr;

/// Why a testbed could not be started, queried, changed or entered.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The configuration is inconsistent or out of range. The lab checks the user's file, so this
    /// is a fault of the lab.
    #[error("configuration of the testbed: {0}")]
    Config(String),
    /// A system call for a namespace, an interface, a socket or a process failed.
    #[error("{what}: {why}{advice}", advice = advice(*why))]
    Refused {
        /// The action that failed.
        what: String,
        /// The error of the system call.
        why: nix::errno::Errno,
    },
    /// A daemon of a host did not start.
    #[error("{what} on host {host} {how}")]
    Daemon {
        /// Program of the daemon.
        what: String,
        /// Name of the host.
        host: String,
        /// How it failed, with the end of its log.
        how: String,
    },
    /// The testbed has no host of this name.
    #[error("the testbed has no host \"{0}\"")]
    NoHost(String),
    /// No process answers at the control socket.
    #[error("the testbed in {directory} does not answer ({why}): it is not up, or it was killed")]
    Silent {
        /// Directory of the testbed.
        directory: String,
        /// Error of the socket.
        why: io::Error,
    },
    /// The other side of the control socket reported an error, or its message is malformed.
    #[error("{0}")]
    Answer(String),
    /// A file, a thread or a socket failed.
    #[error("{what}: {why}")]
    Io {
        /// The action that failed, or the path.
        what: String,
        /// The error of the operating system.
        why: io::Error,
    },
}

fn advice(why: nix::errno::Errno) -> &'static str {
    match why {
        nix::errno::Errno::EPERM | nix::errno::Errno::EACCES => {
            ". Without root a testbed needs user namespaces: see kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces"
        }
        nix::errno::Errno::ENOSPC => ". Limits: user.max_net_namespaces, user.max_user_namespaces",
        nix::errno::Errno::EMFILE => {
            ". A testbed needs about five open files per host: raise the limit with `ulimit -n`"
        }
        _ => "",
    }
}

/// Maps an error of a system call to [`WanError::Refused`]; `what` is the action that failed.
pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(nix::errno::Errno) -> WanError {
    let what = what.into();
    move |why| WanError::Refused { what, why }
}

/// Maps an I/O error to [`WanError::Io`]; `what` is the action that failed.
pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> WanError {
    let what = what.into();
    move |why| WanError::Io { what, why }
}

/// An address as a number in host byte order, as [`frame::destination`] returns it.
pub(crate) fn key(address: Ipv4Addr) -> u32 {
    u32::from(address)
}
