//! Creates the namespaces of the middle and of the hosts. Only descriptors and processes hold them.
//! They have no names in the file system, so none outlives its last holder.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid, sethostname};

use crate::names;
use crate::netlink::Netlink;
use crate::spec::{Config, Host};
use crate::{WanError, failed, refused};

/// Name of a host's interface.
const INTERFACE: &str = "eth0";
/// Settings of each host below `/proc/sys/net`. TCP windows are sufficient for 315 ms at 500 Mbit/s
/// (20 MB). Connections do not reuse path metrics of earlier connections: otherwise the order of
/// the runs would be a hidden factor. sshd binds port 22 without root.
const SETTINGS: [(&str, &str); 4] = [
    ("ipv4/tcp_rmem", "4096 131072 268435456"),
    ("ipv4/tcp_wmem", "4096 131072 268435456"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_unprivileged_port_start", "0"),
];

/// Device and inode number of a namespace: the same for all processes in it.
pub type Identity = (u64, u64);

/// Namespaces of one emulated host.
pub struct Space {
    /// The network namespace.
    pub net: OwnedFd,
    /// The UTS namespace with the hostname. None if the kernel does not permit one.
    pub uts: Option<OwnedFd>,
    /// Device and inode number of `net`.
    pub identity: Identity,
    netlink: Netlink,
    interface: u32,
}

impl Space {
    /// Sets the maximum number of packets that the host sends as one large frame, which
    /// segmentation offload has not cut.
    ///
    /// # Errors
    /// [`WanError::Refused`] if the kernel rejects the request.
    pub fn set_segments(&self, segments: u32) -> Result<(), WanError> {
        self.netlink
            .set_gso_segments(self.interface, segments)
            .map_err(refused("cannot set the segmentation offload of an interface"))
    }
}

/// All namespaces of a testbed.
pub struct Spaces {
    /// The user namespace that owns them. None as root, which needs none.
    pub user: Option<OwnedFd>,
    /// The mount namespace whose `/etc/hosts` has the names of the hosts. None if the kernel does
    /// not permit one.
    pub mounts: Option<OwnedFd>,
    /// Namespaces of the hosts, in the order of [`Config::hosts`].
    pub hosts: Vec<Space>,
    /// For each host, the index of the middle's interface to it.
    pub ports: Vec<u32>,
    /// Congestion control of the hosts' connections.
    pub congestion: String,
    /// Settings that could not be made. They affect accuracy or convenience only.
    pub notes: Vec<String>,
}

impl Spaces {
    /// Identities of the hosts' network namespaces.
    pub fn identities(&self) -> HashSet<Identity> {
        self.hosts.iter().map(|host| host.identity).collect()
    }
}

/// Moves this process into the middle, and creates each host and its interface to the middle. The
/// process must have one thread.
///
/// # Errors
/// The kernel permits no namespaces, or does not have the congestion control of the configuration.
pub fn build(config: &Config) -> Result<Spaces, WanError> {
    let user = enter_middle()?;
    let mut notes = Vec::new();
    let mounts = names::publish(config)
        .map_err(|why| notes.push(format!("the hosts do not know the names of each other: {why}")))
        .ok();
    // Without IPv6 there is no neighbour discovery: a testbed supports IPv4 only.
    let _ = write_setting("ipv6/conf/default/disable_ipv6", "1");
    let middle = current("net")?;
    let middle_link = Netlink::open().map_err(refused("cannot open a netlink socket"))?;
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    let mut congestion = String::new();
    for (number, host) in config.hosts.iter().enumerate() {
        let (net, uts, netlink) = new_host(host)?;
        let port = format!("m{number}");
        setns(middle.as_fd(), CloneFlags::CLONE_NEWNET).map_err(refused("cannot return to the middle"))?;
        middle_link
            .add_veth(&port, INTERFACE, net.as_raw_fd(), hardware(host.address))
            .map_err(refused(format!(
                "cannot create the pair of interfaces (veth) of host {}",
                host.name
            )))?;
        let index =
            if_nametoindex(port.as_str()).map_err(refused(format!("cannot find the interface {port}")))?;
        middle_link
            .set_up(index, true)
            .map_err(refused(format!("cannot set up the interface {port}")))?;
        ports.push(index);
        setns(net.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(refused(format!("cannot enter the network of host {}", host.name)))?;
        let interface = configure_host(host, config, &netlink, &mut notes)?;
        congestion = read_setting("ipv4/tcp_congestion_control");
        let identity = identity(&net)?;
        hosts.push(Space {
            net,
            uts,
            identity,
            netlink,
            interface,
        });
    }
    setns(middle.as_fd(), CloneFlags::CLONE_NEWNET).map_err(refused("cannot return to the middle"))?;
    notes.dedup();
    Ok(Spaces {
        user,
        mounts,
        hosts,
        ports,
        congestion,
        notes,
    })
}

/// A locally administered hardware address that contains the IPv4 address.
pub fn hardware(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x00, a, b, c, d]
}

/// Device and inode of a namespace's descriptor.
fn identity(namespace: &OwnedFd) -> Result<Identity, WanError> {
    let metadata = namespace
        .try_clone()
        .and_then(|fd| File::from(fd).metadata())
        .map_err(failed("cannot read the identity of a namespace"))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Creates and enters the network namespace of the middle. Without the right to do so, it creates a
/// user namespace first, and returns it.
fn enter_middle() -> Result<Option<OwnedFd>, WanError> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => return Ok(None),
        Err(Errno::EPERM) => {}
        Err(why) => return Err(refused("cannot create a network namespace")(why)),
    }
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(refused("cannot create a user namespace"))?;
    // User and group keep their numbers. An sshd with user number 0 would try what only root can
    // do.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    current("user").map(Some)
}

/// Creates the network namespace of a host and, if permitted, a UTS namespace with its hostname.
/// Afterwards this process is in the network namespace.
fn new_host(host: &Host) -> Result<(OwnedFd, Option<OwnedFd>, Netlink), WanError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(refused(format!(
        "cannot create the network namespace of host {}",
        host.name
    )))?;
    let uts = unshare(CloneFlags::CLONE_NEWUTS)
        .and_then(|()| sethostname(&host.name))
        .ok()
        .and_then(|()| current("uts").ok());
    let netlink = Netlink::open().map_err(refused("cannot open a netlink socket"))?;
    Ok((current("net")?, uts, netlink))
}

/// Sets addresses and settings of the host in whose network namespace this process is. Returns the
/// index of the host's interface.
fn configure_host(
    host: &Host,
    config: &Config,
    netlink: &Netlink,
    notes: &mut Vec<String>,
) -> Result<u32, WanError> {
    let name = &host.name;
    let index = |interface: &str| {
        if_nametoindex(interface).map_err(refused(format!(
            "cannot find the interface {interface} of host {name}"
        )))
    };
    let _ = write_setting("ipv6/conf/all/disable_ipv6", "1");
    netlink
        .set_up(index("lo")?, false)
        .map_err(refused(format!("cannot set up the interface lo of host {name}")))?;
    let interface = index(INTERFACE)?;
    netlink
        .add_address(interface, host.address, config.prefix)
        .map_err(refused(format!(
            "cannot assign the address {} to host {name}",
            host.address
        )))?;
    netlink.set_up(interface, true).map_err(refused(format!(
        "cannot set up the interface {INTERFACE} of host {name}"
    )))?;
    for (setting, value) in SETTINGS {
        if let Err(why) = write_setting(setting, value) {
            notes.push(format!("cannot set /proc/sys/net/{setting} to {value}: {why}"));
        }
    }
    // The groups that may ping without the right to raw sockets. This group is the only one that
    // exists in the user namespace.
    let group = getgid();
    let _ = write_setting("ipv4/ping_group_range", &format!("{group} {group}"));
    if let Some(congestion) = &config.congestion {
        write_setting("ipv4/tcp_congestion_control", congestion).map_err(failed(format!(
            "cannot set the congestion control \"{congestion}\" (this machine has {}; without root, only those of \
             net.ipv4.tcp_allowed_congestion_control are permitted)",
            read_setting("ipv4/tcp_available_congestion_control"),
        )))?;
    }
    Ok(interface)
}

/// Opens the namespace of this kind (`net`, `uts`, `user`, `mnt`) that this thread is in.
pub(crate) fn current(kind: &str) -> Result<OwnedFd, WanError> {
    File::open(format!("/proc/thread-self/ns/{kind}"))
        .map(OwnedFd::from)
        .map_err(failed(format!("cannot open a namespace ({kind})")))
}

fn write(path: &str, text: &str) -> Result<(), WanError> {
    fs::write(path, text).map_err(failed(format!("cannot write {path}")))
}

/// Writes a setting of the network namespace that this thread is in: that is the one that
/// `/proc/sys/net` shows.
fn write_setting(name: &str, value: &str) -> io::Result<()> {
    fs::write(Path::new("/proc/sys/net").join(name), value)
}

fn read_setting(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys/net").join(name))
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
