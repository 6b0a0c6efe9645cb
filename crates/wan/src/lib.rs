//! The testbed: emulated hosts and links on one Linux machine, as root or as anybody.
//!
//! Each host is a network namespace with one interface. The other ends of these interfaces lie in a
//! namespace of their own, the middle, where one process switches frames from host to host by
//! destination address and holds each back as the links on its way say: rate, delay, jitter, loss,
//! a bounded queue. Kernels without netem are common, and netem needs root; packet sockets in a
//! user namespace need neither.
//!
//! Pure: [`spec`] (what is asked for), [`link`] (one direction of one link), [`frame`] (what must
//! be known of a frame), [`switch`] (all links and routes). With I/O: [`namespace`] and `netlink`
//! (making hosts), `packets` (frames in and out), `middle` (the loop), [`control`] (the socket by
//! which it is asked), [`owner`] (whose end is the end of all), `sweep` (that end). IPv4 only.

pub mod control;
pub mod frame;
pub mod link;
mod middle;
pub mod namespace;
mod netlink;
pub mod owner;
mod packets;
pub mod spec;
mod sweep;
pub mod switch;

use std::io;
use std::net::Ipv4Addr;

/// Why a testbed could not be made, asked or entered.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// What the lab asks for is not consistent; the lab checks files, so this is a slip of the lab.
    #[error("the testbed's configuration is wrong: {0}")]
    Config(String),
    /// The kernel refuses what a testbed is made of.
    #[error("{what}: {why}{advice}", advice = advice(*why))]
    Refused {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        why: nix::errno::Errno,
    },
    /// A daemon of a host did not start.
    #[error("{what} on host {host} {how}")]
    Daemon {
        /// Program.
        what: String,
        /// Host.
        host: String,
        /// How it failed, with the end of its log.
        how: String,
    },
    /// No such host.
    #[error("there is no host {0} in this testbed")]
    NoHost(String),
    /// Nobody answers at the control socket.
    #[error("the testbed in {directory} does not answer ({why}): it is not up, or was killed")]
    Silent {
        /// Directory of the testbed.
        directory: String,
        /// What happened.
        why: io::Error,
    },
    /// The other side of the control socket says no, or nonsense.
    #[error("{0}")]
    Answer(String),
    /// Something else of the operating system.
    #[error("{what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// What happened.
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
        nix::errno::Errno::EMFILE => ". A testbed needs about five open files a host: raise `ulimit -n`",
        _ => "",
    }
}

/// What was tried, with the kernel's answer.
pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(nix::errno::Errno) -> WanError {
    let what = what.into();
    move |why| WanError::Refused { what, why }
}

/// What was tried, with what the operating system said.
pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> WanError {
    let what = what.into();
    move |why| WanError::Io { what, why }
}

/// Number of an address, as it stands in frames.
pub(crate) fn key(address: Ipv4Addr) -> u32 {
    u32::from(address)
}
