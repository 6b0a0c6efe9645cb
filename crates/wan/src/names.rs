//! Names of the hosts: a mount namespace of the testbed, whose `/etc/hosts` contains them.
//!
//! No name server answers on an emulated host, and some servers end if their own address has no
//! name. `globus-gridftp-server` is one of them.

use std::env;
use std::fmt::Write;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::namespace::current;
use crate::spec::{Config, Host};
use crate::{WanError, failed, refused};

const FILE: &str = "/etc/hosts";

/// Moves this process into a mount namespace whose `/etc/hosts` has the machine's names and those
/// of the hosts, and returns the namespace. Its other mounts follow those of the machine. The
/// process must have one thread.
///
/// # Errors
/// The file cannot be written, or the kernel does not permit the namespace or the mount.
pub fn publish(config: &Config) -> Result<OwnedFd, WanError> {
    let file = config.directory.join("hosts");
    let machine = fs::read_to_string(FILE).map_err(failed(format!("cannot read {FILE}")))?;
    fs::write(&file, with_names(&machine, &config.hosts))
        .map_err(failed("cannot write the names of hosts"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused("cannot create a mount namespace"))?;
    let none = None::<&str>;
    // Slave: what the machine mounts and unmounts later is also mounted and unmounted here.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)
        .and_then(|()| mount(Some(&file), FILE, none, MsFlags::MS_BIND, none))
        .map_err(refused(format!("cannot mount the names of hosts at {FILE}")))?;
    current("mnt")
}

/// Moves this process into a mount namespace. Its working directory stays. The process must have
/// one thread.
///
/// # Errors
/// The kernel rejects it, or the working directory does not exist there.
pub fn join(namespace: &OwnedFd) -> Result<(), WanError> {
    let here = env::current_dir().map_err(failed("cannot read the working directory"))?;
    setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS).map_err(refused("cannot enter the mount namespace"))?;
    // The kernel has moved this process to the root directory.
    env::set_current_dir(&here).map_err(failed(format!("cannot return to {}", here.display())))
}

/// The text of a hosts file, with a line for each host.
fn with_names(machine: &str, hosts: &[Host]) -> String {
    let mut text = machine.trim_end().to_owned();
    for host in hosts {
        let _ = write!(text, "\n{} {}", host.address, host.name);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_host_has_a_line_after_those_of_the_machine() {
        let host = |name: &str, last| Host {
            name: name.to_owned(),
            site: 0,
            address: Ipv4Addr::new(10, 77, 0, last),
        };
        assert_eq!(
            with_names("127.0.0.1 localhost", &[host("lab", 1), host("far-1", 2)]),
            "127.0.0.1 localhost\n10.77.0.1 lab\n10.77.0.2 far-1\n"
        );
        assert_eq!(with_names("", &[host("lab", 1)]), "\n10.77.0.1 lab\n");
    }
}
