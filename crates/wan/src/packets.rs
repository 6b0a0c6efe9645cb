//! Reads and sends the frames of one interface of the middle, many frames per read.
//!
//! Rejected: a ring shared with the kernel (`PACKET_RX_RING`). Each of its slots would need 64 KiB,
//! and copying a frame out of the socket costs less than TCP processing at the receiver.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType};

use crate::WanError;
use crate::frame::{Frame, OFFLOAD};
use crate::{failed, refused};

/// Maximum number of frames per read.
const BATCH: usize = 32;
/// An offload header, an Ethernet header, and the largest frame of segmentation offload.
const MAX_PACKET_BYTES: usize = OFFLOAD + 14 + 65_536 + 256;
/// Requested receive buffer, bytes. Without root, the kernel grants at most `net.core.rmem_max`.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

/// Words of a control message with a time stamp: its length, level and type, seconds, nanoseconds.
const STAMP: usize = 4;

/// A packet socket on one interface of the middle.
pub struct Port {
    socket: OwnedFd,
    missed: u64,
    unsent: u64,
}

/// Buffers for one read. All ports use the same buffers.
pub struct Batch(Vec<Box<[u8]>>);

impl Batch {
    pub fn new() -> Self {
        Batch(
            (0..BATCH)
                .map(|_| vec![0; MAX_PACKET_BYTES].into_boxed_slice())
                .collect(),
        )
    }
}

impl Port {
    /// Opens a socket that receives only the IPv4 frames of the interface with this index.
    pub fn open(interface: u32) -> Result<Self, WanError> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .map_err(refused("cannot open a packet socket"))?;
        let port = Port {
            socket,
            missed: 0,
            unsent: 0,
        };
        port.prepare(interface)
            .map_err(failed("cannot configure a packet socket"))?;
        Ok(port)
    }

    fn prepare(&self, interface: u32) -> io::Result<()> {
        self.option(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        // Since Linux 4.20. Older kernels also deliver the frames that this process sends, and the
        // protocol of bind does not exclude them: such a kernel is rejected.
        self.option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        self.option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        if self
            .option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)
            .is_err()
        {
            self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        }
        // SAFETY: sockaddr_ll is plain data, for which zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        address.sll_ifindex = i32::try_from(interface).unwrap_or(-1);
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid and its length is its own.
        check(unsafe { libc::bind(self.fd(), (&raw const address).cast(), length) })
    }

    /// The socket, readable when frames have arrived.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Reads up to one batch. Passes each frame to `take` with the time in `CLOCK_REALTIME` ns at
    /// which its host sent it, or 0 if the kernel did not report it. Returns false if no frame is
    /// left in the socket.
    pub fn receive(&mut self, batch: &mut Batch, mut take: impl FnMut(i64, Frame)) -> bool {
        let mut stamps = [[0_u64; STAMP]; BATCH];
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: batch.0[index].as_mut_ptr().cast(),
            iov_len: MAX_PACKET_BYTES,
        });
        // SAFETY: mmsghdr is plain data, for which zero is a valid value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((message, vector), stamp) in messages.iter_mut().zip(&mut vectors).zip(&mut stamps) {
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = stamp.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(stamp) as _;
        }
        let (fd, flags, no_timeout) = (self.fd(), libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: each message points to one vector and one control buffer, each vector to a buffer
        // of its length; all outlive the call.
        let count =
            unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), BATCH as u32, flags as _, no_timeout) };
        let count = usize::try_from(count).unwrap_or(0);
        for (index, message) in messages.iter().enumerate().take(count) {
            let length = message.msg_len as usize;
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || length < OFFLOAD {
                self.missed += 1;
            } else {
                take(stamp_ns(&stamps[index]), batch.0[index][..length].into());
            }
        }
        count == BATCH
    }

    /// Sends a frame. If the kernel rejects it, it is dropped and counted: a wire does not wait
    /// either.
    pub fn send(&mut self, frame: &[u8]) {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: pointer and length are those of the frame.
        let sent = unsafe { libc::send(self.fd(), frame.as_ptr().cast(), frame.len(), flags) };
        self.unsent += u64::from(sent < 0);
    }

    /// Numbers of frames since the start that were dropped because the receive buffer was full, and
    /// that the kernel did not send.
    pub fn dropped(&mut self) -> (u64, u64) {
        let mut counts = [0_u32; 2];
        let mut length = size_of_val(&counts) as libc::socklen_t;
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: tpacket_stats consists of two u32, and `counts` has their size. The kernel resets
        // both counters by this call.
        unsafe {
            libc::getsockopt(
                self.fd(),
                level,
                name,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        self.missed += u64::from(counts[1]);
        (self.missed, self.unsent)
    }

    fn option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the value is an int and its length is its own.
        check(unsafe { libc::setsockopt(self.fd(), level, name, (&raw const value).cast(), length) })
    }
}

/// The time in ns in a control message of `SO_TIMESTAMPNS`, 0 for another message.
fn stamp_ns(message: &[u64; STAMP]) -> i64 {
    let [_, kind, seconds, nanoseconds] = message;
    let kind = kind.to_ne_bytes();
    let level_and_type = [libc::SOL_SOCKET.to_ne_bytes(), libc::SO_TIMESTAMPNS.to_ne_bytes()];
    if kind != level_and_type.concat()[..] {
        return 0;
    }
    seconds.cast_signed() * 1_000_000_000 + nanoseconds.cast_signed()
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
