//! The four requests to rtnetlink (RFC 3549, `man 7 rtnetlink`) that a testbed needs. Rejected:
//! the program `ip`. In a user namespace the capabilities of this process end at exec, and `ip` may
//! not be installed.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

type Result<T> = std::result::Result<T, Errno>;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const HEADER: usize = 16;

/// An rtnetlink socket. It acts on the network namespace in which it was opened, also after the
/// process has entered another one.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a socket to the current network namespace.
    pub fn open() -> Result<Self> {
        let socket = socket::socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        Ok(Netlink { socket })
    }

    /// Creates a pair of interfaces: `name` in the namespace of this socket, and `peer` in
    /// `namespace`, with the given hardware address.
    pub fn add_veth(&self, name: &str, peer: &str, namespace: RawFd, hardware: [u8; 6]) -> Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
        message.interface(0, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        message.nest(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nest(libc::IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |attributes| {
                    attributes.interface(0, 0, 0);
                    attributes.text(libc::IFLA_IFNAME, peer);
                    attributes.attribute(libc::IFLA_NET_NS_FD, &namespace.to_ne_bytes());
                    attributes.attribute(libc::IFLA_ADDRESS, &hardware);
                });
            });
        });
        self.ask(message)
    }

    /// Sets an interface up. `no_arp`: the interface sends every frame to its peer without ARP
    /// requests.
    pub fn set_up(&self, index: u32, no_arp: bool) -> Result<()> {
        let flags = libc::IFF_UP | if no_arp { libc::IFF_NOARP } else { 0 };
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(index, flags as u32, flags as u32);
        self.ask(message)
    }

    /// Assigns an address with a prefix of `prefix` bits to an interface.
    pub fn add_address(&self, index: u32, address: Ipv4Addr, prefix: u8) -> Result<()> {
        let mut message = Message::new(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
        message.bytes(&[libc::AF_INET as u8, prefix, 0, 0]);
        message.bytes(&index.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(message)
    }

    /// Sets the maximum number of packets that leave an interface as one large frame. 1: each
    /// packet is a frame of its own.
    pub fn set_gso_segments(&self, index: u32, segments: u32) -> Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.interface(index, 0, 0);
        message.attribute(IFLA_GSO_MAX_SEGS, &segments.to_ne_bytes());
        self.ask(message)
    }

    /// Sends a request and reads the response. The kernel responds during the call to send.
    fn ask(&self, message: Message) -> Result<()> {
        socket::send(self.socket.as_raw_fd(), &message.finished(), MsgFlags::empty())?;
        let mut answer = [0_u8; 4096];
        let length = socket::recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        if length < HEADER + 4 || kind != NLMSG_ERROR {
            return Err(Errno::EPROTO);
        }
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            error => Err(Errno::from_raw(-error)),
        }
    }
}

/// A request under construction. Every attribute is aligned to 4 bytes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut message = Message(vec![0; HEADER]);
        message.0[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.0[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        message
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a `struct ifinfomsg`. Index 0: the interface is identified by its name.
    fn interface(&mut self, index: u32, flags: u32, change: u32) {
        self.bytes(&[0; 4]);
        for field in [index, flags, change] {
            self.bytes(&field.to_ne_bytes());
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |inner| inner.bytes(value));
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.nest(kind, |inner| {
            inner.bytes(text.as_bytes());
            inner.bytes(&[0]);
        });
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.bytes(&[0; 2]);
        self.bytes(&kind.to_ne_bytes());
        fill(self);
        // An attribute of these requests has a few hundred bytes at most.
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finished(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}
