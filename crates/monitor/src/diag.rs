//! The kernel's list of TCP sockets in the network namespace of the monitor: `sock_diag(7)`.
//! Rejected: `/proc/net/tcp`, which takes ten times as long and does not contain dropped requests.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, sockopt};
use nix::sys::time::TimeVal;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// Size of `inet_diag_msg`, which the attributes follow.
const ENTRY: usize = 72;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Index of the dropped requests in the values of this attribute.
const SK_MEMINFO_DROPS: usize = 8;
/// A reply of the kernel has at most 32 KiB.
const BUFFER: usize = 64 << 10;

/// Numbers of the states of a TCP socket in the kernel (`tcp_states.h`), by name. The last one is
/// that of the connections whose handshake is incomplete.
pub(crate) const STATES: [(u8, &str); 10] = [
    (1, "established"),
    (2, "syn_sent"),
    (3, "syn_received"),
    (4, "fin_wait_1"),
    (5, "fin_wait_2"),
    (7, "close"),
    (8, "close_wait"),
    (9, "last_ack"),
    (11, "closing"),
    (12, "syn_received"),
];
pub(crate) const TIME_WAIT: u8 = 6;
pub(crate) const LISTEN: u8 = 10;

/// One socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) state: u8,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// An IPv4 address is the first of the four words, in network byte order.
    pub(crate) local: [u32; 4],
    pub(crate) remote: [u32; 4],
    /// Of a listening socket: connections in its accept queue.
    pub(crate) queue: u32,
    /// Of a listening socket: maximum length of this queue.
    pub(crate) backlog: u32,
    pub(crate) inode: u32,
    /// Of a listening socket: requests for a connection that were dropped. 0 if not requested.
    pub(crate) drops: u32,
}

/// A connection to the kernel.
#[derive(Debug)]
pub(crate) struct SocketDiag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SocketDiag {
    pub(crate) fn open() -> Result<Self, Errno> {
        let socket = socket::socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        // The kernel replies at once. A lost reply must not stop the monitor.
        socket::setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 200_000))?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    /// Calls `found` with each socket of IPv4 and IPv6 in one of `states` (the sum of the bits with
    /// the numbers of the states).
    pub(crate) fn dump(&mut self, states: u32, mut found: impl FnMut(Socket)) -> Result<(), Errno> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = request(family as u8, states);
            socket::send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
            loop {
                let length = socket::recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
                match read_messages(&self.buffer[..length], &mut found) {
                    Reply::More => {}
                    Reply::Done => break,
                    Reply::Refused => return Err(Errno::EOPNOTSUPP),
                }
            }
        }
        Ok(())
    }
}

/// A request: the header of netlink, then `inet_diag_req_v2` without an address.
fn request(family: u8, states: u32) -> [u8; HEADER + 56] {
    let mut bytes = [0; HEADER + 56];
    bytes[..4].copy_from_slice(&((HEADER + 56) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    let is_listening = states == 1 << LISTEN;
    let attributes = if is_listening {
        1 << (INET_DIAG_SKMEMINFO - 1)
    } else {
        0
    };
    bytes[HEADER..HEADER + 3].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, attributes]);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    More,
    Done,
    Refused,
}

/// Reads the messages of one reply. A message with a wrong length ends the dump.
fn read_messages(mut bytes: &[u8], found: &mut impl FnMut(Socket)) -> Reply {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let Some(body) = bytes.get(HEADER..length as usize) else {
            return Reply::Refused;
        };
        match kind {
            NLMSG_DONE => return Reply::Done,
            NLMSG_ERROR => return Reply::Refused,
            SOCK_DIAG_BY_FAMILY => {
                if let Some(socket) = read_socket(body) {
                    found(socket);
                }
            }
            _ => {}
        }
        bytes = bytes.get(aligned(length as usize)..).unwrap_or_default();
    }
    Reply::More
}

/// Reads an `inet_diag_msg` and its attributes.
fn read_socket(body: &[u8]) -> Option<Socket> {
    // Addresses and ports are in network byte order, the other numbers in that of the host.
    let port = |offset: usize| u16_at(body, offset).map(u16::from_be);
    let address = |offset: usize| {
        let mut words = [0; 4];
        for (index, word) in words.iter_mut().enumerate() {
            *word = u32_at(body, offset + 4 * index)?;
        }
        Some(words)
    };
    Some(Socket {
        state: *body.get(1)?,
        local_port: port(4)?,
        remote_port: port(6)?,
        local: address(8)?,
        remote: address(24)?,
        queue: u32_at(body, 56)?,
        backlog: u32_at(body, 60)?,
        inode: u32_at(body, 68)?,
        drops: body.get(ENTRY..).and_then(dropped_requests).unwrap_or(0),
    })
}

fn dropped_requests(mut attributes: &[u8]) -> Option<u32> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let content = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == INET_DIAG_SKMEMINFO {
            return u32_at(content, 4 * SK_MEMINFO_DROPS);
        }
        attributes = attributes.get(aligned(length)..)?;
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_lists_a_listening_socket_its_queue_and_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients = [(); 3].map(|()| TcpStream::connect(("127.0.0.1", port)).unwrap());
        let mut diag = SocketDiag::open().unwrap();
        let mut listening = Vec::new();
        diag.dump(1 << LISTEN, |socket| listening.push(socket)).unwrap();
        let own = listening.iter().find(|socket| socket.local_port == port).unwrap();
        assert_eq!((own.queue, own.state, own.drops), (3, LISTEN, 0));
        assert!(own.backlog > 0 && own.inode > 0);
        let mut remote = 0;
        diag.dump(1 << 1, |socket| {
            remote += u32::from(socket.remote_port == port && socket.state == 1);
        })
        .unwrap();
        assert_eq!(remote, 3);
        drop(clients);
    }

    #[test]
    fn a_damaged_reply_is_refused_and_does_not_panic() {
        let mut message = vec![0; HEADER + ENTRY];
        message[..4].copy_from_slice(&((HEADER + ENTRY) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message[HEADER + 4..HEADER + 6].copy_from_slice(&80_u16.to_be_bytes());
        let mut ports = Vec::new();
        let mut read =
            |bytes: &[u8]| read_messages(bytes, &mut |socket: Socket| ports.push(socket.local_port));
        assert_eq!(read(&message), Reply::More);
        for length in 1..message.len() {
            let expected = if length < 6 { Reply::More } else { Reply::Refused };
            assert_eq!(read(&message[..length]), expected, "{length}");
        }
        for length in [0_u32, 3, 15] {
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(read(&message), Reply::Refused, "{length}");
        }
        assert_eq!(ports, [80]);
    }
}
