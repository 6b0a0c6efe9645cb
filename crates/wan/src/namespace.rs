//! Making the middle and the hosts: namespaces that are held by descriptors and processes alone. No
//! name is left in the file system, so that nothing can outlive its last holder.

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

use crate::netlink::Netlink;
use crate::spec::{Config, Host};
use crate::{WanError, failed, refused};

/// Name of a host's interface.
const INTERFACE: &str = "eth0";
/// Per-host settings. Windows reach 315 ms at 500 Mbit/s (20 MB) with room; what one connection
/// learned of a way must not change the next one's start, or the order of runs would be a hidden
/// factor; low ports without root, for sshd.
const SETTINGS: [(&str, &str); 4] = [
    ("ipv4/tcp_rmem", "4096 131072 268435456"),
    ("ipv4/tcp_wmem", "4096 131072 268435456"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_unprivileged_port_start", "0"),
];

/// Device and inode number of a namespace: the same for all processes in it.
pub type Identity = (u64, u64);

/// One emulated host.
pub struct Space {
    /// Its network.
    pub net: OwnedFd,
    /// Its hostname, where we may give one.
    pub uts: Option<OwnedFd>,
    /// Of `net`.
    pub identity: Identity,
    netlink: Netlink,
    interface: u32,
}

impl Space {
    /// Most packets that the host hands over as one large frame, which offload has not cut yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_segments(&self, segments: u32) -> Result<(), WanError> {
        self.netlink
            .set_gso_segments(self.interface, segments)
            .map_err(refused("segmentation offload cannot be set"))
    }
}

/// All namespaces of a testbed.
pub struct Spaces {
    /// The user namespace that owns them; None where we are root and need none.
    pub user: Option<OwnedFd>,
    /// In the order of the hosts asked for.
    pub hosts: Vec<Space>,
    /// Index of the middle's interface to each host.
    pub ports: Vec<u32>,
    /// Congestion control of the hosts' connections.
    pub congestion: String,
    /// What could not be set, and costs accuracy or comfort only.
    pub notes: Vec<String>,
}

impl Spaces {
    /// The hosts' networks.
    pub fn identities(&self) -> HashSet<Identity> {
        self.hosts.iter().map(|host| host.identity).collect()
    }
}

/// Moves this process into the middle and makes every host with a line to it. The process must have
/// one thread.
///
/// # Errors
/// The kernel refuses namespaces, or a congestion control that the file asks for.
pub fn build(config: &Config) -> Result<Spaces, WanError> {
    let user = enter_middle()?;
    let mut notes = Vec::new();
    // No neighbour discovery on the lines: a testbed speaks IPv4.
    let _ = write_setting("ipv6/conf/default/disable_ipv6", "1");
    let middle = current("net")?;
    let middle_link = Netlink::open().map_err(refused("no netlink socket"))?;
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    let mut congestion = String::new();
    for (number, host) in config.hosts.iter().enumerate() {
        let (net, uts, netlink) = new_host(host)?;
        let port = format!("m{number}");
        setns(middle.as_fd(), CloneFlags::CLONE_NEWNET).map_err(refused("cannot return to the middle"))?;
        middle_link
            .add_veth(&port, INTERFACE, net.as_raw_fd(), hardware(host.address))
            .map_err(refused("no pair of interfaces (veth)"))?;
        let index = if_nametoindex(port.as_str()).map_err(refused("an interface is not there"))?;
        middle_link
            .set_up(index, true)
            .map_err(refused("an interface cannot be set up"))?;
        ports.push(index);
        setns(net.as_fd(), CloneFlags::CLONE_NEWNET).map_err(refused("cannot enter a host"))?;
        let interface = dress(host, config, &netlink, &mut notes)?;
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
        hosts,
        ports,
        congestion,
        notes,
    })
}

/// A hardware address of our own making (locally administered) that carries the IPv4 address.
pub fn hardware(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x00, a, b, c, d]
}

/// Device and inode of a namespace's descriptor.
fn identity(namespace: &OwnedFd) -> Result<Identity, WanError> {
    let about = namespace
        .try_clone()
        .and_then(|fd| File::from(fd).metadata())
        .map_err(failed("a namespace cannot be looked at"))?;
    Ok((about.dev(), about.ino()))
}

/// A network namespace for the middle; where we may not make one, within a user namespace of our
/// own.
fn enter_middle() -> Result<Option<OwnedFd>, WanError> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => return Ok(None),
        Err(Errno::EPERM) => {}
        Err(why) => return Err(refused("no network namespace")(why)),
    }
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(refused("no user namespace"))?;
    // Everybody keeps his own number: an sshd that took itself for root would try what only root
    // can.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    current("user").map(Some)
}

/// A new network with its hostname. Leaves this process inside the network.
fn new_host(host: &Host) -> Result<(OwnedFd, Option<OwnedFd>, Netlink), WanError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(refused("no network namespace"))?;
    let uts = unshare(CloneFlags::CLONE_NEWUTS)
        .and_then(|()| sethostname(&host.name))
        .ok()
        .and_then(|()| current("uts").ok());
    let netlink = Netlink::open().map_err(refused("no netlink socket"))?;
    Ok((current("net")?, uts, netlink))
}

/// Addresses and settings of the host whose network this process is in. Gives the index of its
/// interface.
fn dress(host: &Host, config: &Config, netlink: &Netlink, notes: &mut Vec<String>) -> Result<u32, WanError> {
    let found = |name: &str| if_nametoindex(name).map_err(refused("an interface is not there"));
    let _ = write_setting("ipv6/conf/all/disable_ipv6", "1");
    netlink
        .set_up(found("lo")?, false)
        .map_err(refused("loopback cannot be set up"))?;
    let interface = found(INTERFACE)?;
    netlink
        .add_address(interface, host.address, config.prefix)
        .map_err(refused(format!("{} cannot have {}", host.name, host.address)))?;
    netlink
        .set_up(interface, true)
        .map_err(refused("an interface cannot be set up"))?;
    for (setting, value) in SETTINGS {
        if let Err(why) = write_setting(setting, value) {
            notes.push(format!("net/{setting} could not be set to {value}: {why}"));
        }
    }
    // Groups that may ping without the right to raw sockets: of all only this one exists in a user
    // namespace of ours.
    let group = getgid();
    let _ = write_setting("ipv4/ping_group_range", &format!("{group} {group}"));
    if let Some(congestion) = &config.congestion {
        write_setting("ipv4/tcp_congestion_control", congestion).map_err(failed(format!(
            "the congestion control {congestion} cannot be set in a testbed here (this machine has {}; without root \
             only those of net.ipv4.tcp_allowed_congestion_control are permitted)",
            read_setting("ipv4/tcp_available_congestion_control"),
        )))?;
    }
    Ok(interface)
}

/// The namespace of this kind that this process is in.
fn current(kind: &str) -> Result<OwnedFd, WanError> {
    File::open(format!("/proc/thread-self/ns/{kind}"))
        .map(OwnedFd::from)
        .map_err(failed("a namespace cannot be opened"))
}

fn write(path: &str, text: &str) -> Result<(), WanError> {
    fs::write(path, text).map_err(failed(path))
}

/// `/proc/sys/net` shows the network of whoever looks.
fn write_setting(name: &str, value: &str) -> io::Result<()> {
    fs::write(Path::new("/proc/sys/net").join(name), value)
}

fn read_setting(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys/net").join(name))
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
