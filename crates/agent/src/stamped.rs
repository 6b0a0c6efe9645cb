//! A UDP socket that returns the arrival time of each datagram, with the kernel's timestamp.
//!
//! The kernel stamps a datagram when it arrives (`SO_TIMESTAMPNS`), long before the waiting thread
//! runs again. Its stamp is of `CLOCK_REALTIME`; the stamps of a probe are of
//! `CLOCK_MONOTONIC_RAW`. Both clocks are read directly after the receive. The wall clock is only
//! used for the time that the datagram has waited. The result may be too late, which makes a bound
//! wider. It is never too early by more than [`GRAIN_NS`], which would make a bound invalid:
//!
//! - The rate of the wall clock may be adjusted by slightly more than 10 % (`adjtimex(2)`, `tick`
//!   and `freq`). So only seven eighths of the waiting time are subtracted.
//! - The wall clock may be stepped while the datagram waits. A step changes its difference from
//!   `CLOCK_MONOTONIC`; an adjusted rate does not. If the difference has changed since the previous
//!   receive, the kernel's stamp is not used.
//! - The scheduler may interrupt the readings. Then they are repeated, or the kernel's stamp is not
//!   used.
//!
//! Rejected alternative: timestamps of the network card. They are more accurate, but need its
//! driver, a daemon that adjusts its clock, and root.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use nix::cmsg_space;
use nix::libc::in6_pktinfo;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn6,
    SockaddrStorage, bind, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use plimsoll_clock::Clock;

/// Maximum time by which a stamp of [`StampedSocket`] is too early, ns. Four successive readings of
/// clocks must not take longer. Through the vDSO they take a twentieth of this.
pub const GRAIN_NS: i64 = 2_000;
/// Maximum number of attempts to read the clocks without an interruption.
const MAX_READINGS: usize = 3;
/// If a datagram seems to have waited longer than this, ns, its stamp is of another clock and is
/// not used.
const MAX_WAITED_NS: i64 = 1_000_000_000;

/// A UDP socket on every address of this host, IPv6 and IPv4.
pub struct StampedSocket {
    socket: Arc<UdpSocket>,
    clock: Arc<dyn Clock>,
    /// Buffer for the control messages of a datagram.
    control: Vec<u8>,
    last: ClockReading,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Number of bytes that it fills in the buffer.
    pub bytes: usize,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Arrival time, ns of `CLOCK_MONOTONIC_RAW`.
    pub at_ns: i64,
    /// Whether the arrival time is from the kernel's stamp; otherwise it is the time after the
    /// receive.
    pub by_kernel: bool,
    /// The local address to which it was sent.
    to: Option<in6_pktinfo>,
}

impl StampedSocket {
    /// Binds `port` of all addresses; 0: the kernel selects a port.
    ///
    /// # Errors
    /// The port is in use, or the system refuses a socket.
    pub fn bind(port: u16, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let socket = match bind_both_families(port) {
            // A host without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?
            }
            other => other?,
        };
        // If the kernel refuses, the time after the receive is used.
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
        Ok(Self {
            last: ClockReading::take(&*clock),
            control: cmsg_space!(TimeSpec, in6_pktinfo),
            socket: Arc::new(socket),
            clock,
        })
    }

    /// The socket, for sending.
    pub fn socket(&self) -> &Arc<UdpSocket> {
        &self.socket
    }

    /// Sets the maximum time that [`StampedSocket::receive`] waits.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(limit))
    }

    /// Receives the next datagram. If it is longer than `bytes`, the excess is discarded.
    ///
    /// # Errors
    /// `WouldBlock` if none arrived in time, or the error of the system call.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Datagram> {
        let mut parts = [IoSliceMut::new(bytes)];
        let received = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut self.control),
            MsgFlags::empty(),
        )?;
        let (had_ns, bytes) = (self.clock.raw_ns(), received.bytes);
        let from = received
            .address
            .as_ref()
            .and_then(address)
            .ok_or(io::ErrorKind::InvalidData)?;
        let (mut stamp, mut to) = (None, None);
        for message in received.cmsgs()? {
            match message {
                ControlMessageOwned::ScmTimestampns(at) => {
                    stamp = i64::try_from(Duration::from(at).as_nanos()).ok();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => to = Some(info),
                _ => {}
            }
        }
        let arrival = stamp
            .and_then(|stamp| self.arrival_ns(stamp))
            .filter(|&arrival| arrival < had_ns);
        Ok(Datagram {
            bytes,
            from,
            at_ns: arrival.unwrap_or(had_ns),
            by_kernel: arrival.is_some(),
            to,
        })
    }

    fn arrival_ns(&mut self, stamp: i64) -> Option<i64> {
        let mut readings = (0..MAX_READINGS).map(|_| ClockReading::take(&*self.clock));
        let now = readings.find(|reading| reading.width() <= GRAIN_NS)?;
        let last = std::mem::replace(&mut self.last, now);
        arrival_ns(stamp, &last, &now)
    }

    /// Sends `bytes` to the sender of `datagram`, from the local address to which it was sent. The
    /// sender or a firewall may discard an answer from another address.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn answer(&self, bytes: &[u8], datagram: &Datagram) -> io::Result<()> {
        // The routing selects the interface, except for link-local addresses, which are only valid
        // with their interface.
        let asked = datagram.to.map(|to| {
            let local = Ipv6Addr::from(to.ipi6_addr.s6_addr).is_unicast_link_local();
            let ipi6_ifindex = if local { to.ipi6_ifindex } else { 0 };
            in6_pktinfo { ipi6_ifindex, ..to }
        });
        let control: &[ControlMessage] = match &asked {
            Some(asked) => &[ControlMessage::Ipv6PacketInfo(asked)],
            None => &[],
        };
        let to = SockaddrStorage::from(datagram.from);
        let (fd, parts) = (self.socket.as_raw_fd(), [IoSlice::new(bytes)]);
        sendmsg(fd, &parts, control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

/// `address` in the address family of `socket`; `None` if the socket cannot reach it.
pub(crate) fn for_socket(socket: &UdpSocket, address: IpAddr, port: u16) -> Option<SocketAddr> {
    let address = address.to_canonical();
    match (socket.local_addr().ok()?.ip(), address) {
        (IpAddr::V6(_), IpAddr::V4(four)) => Some((four.to_ipv6_mapped(), port).into()),
        (IpAddr::V4(_), IpAddr::V6(_)) => None,
        _ => Some((address, port).into()),
    }
}

fn bind_both_families(port: u16) -> io::Result<UdpSocket> {
    let socket = socket(
        AddressFamily::Inet6,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0);
    bind(socket.as_raw_fd(), &SockaddrIn6::from(any))?;
    Ok(socket.into())
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    let six = from.as_sockaddr_in6().map(|six| SocketAddrV6::from(*six).into());
    six.or_else(|| from.as_sockaddr_in().map(|four| SocketAddr::V4((*four).into())))
}

/// Readings of the three clocks in succession, ns. `before` and `after` are of the raw clock.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    before: i64,
    monotonic: i64,
    realtime: i64,
    after: i64,
}

impl ClockReading {
    fn take(clock: &dyn Clock) -> Self {
        Self {
            before: clock.raw_ns(),
            monotonic: clock.monotonic_ns(),
            realtime: clock.realtime_ns(),
            after: clock.raw_ns(),
        }
    }

    fn width(&self) -> i64 {
        self.after - self.before
    }

    /// Whether the wall clock was stepped since `former`. A step smaller than the width of the
    /// readings is not detected.
    fn is_stepped(&self, former: &Self) -> bool {
        let distance = |reading: &Self| reading.realtime - reading.monotonic;
        distance(self).abs_diff(distance(former)) > self.width().max(former.width()).unsigned_abs()
    }
}

/// Arrival time, ns of the raw clock, of a datagram with the kernel's stamp `stamp` (wall clock).
/// `None` if the stamp cannot be used.
fn arrival_ns(stamp: i64, former: &ClockReading, now: &ClockReading) -> Option<i64> {
    let waited = now.realtime.checked_sub(stamp)?;
    if !(0..=MAX_WAITED_NS).contains(&waited) || now.is_stepped(former) {
        return None;
    }
    Some(now.after - (waited - waited / 8))
}

#[cfg(test)]
mod tests {
    use plimsoll_clock::SystemClock;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn reading(raw: i64, wall: i64, width: i64) -> ClockReading {
        ClockReading {
            before: raw,
            monotonic: raw + 7,
            realtime: wall,
            after: raw + width,
        }
    }

    #[test]
    fn the_arrival_time_subtracts_the_waiting_time_of_the_wall_clock() {
        let wall = 1_800_000_000 * SECOND;
        let (former, now) = (reading(0, wall, 100), reading(SECOND, wall + SECOND, 100));
        let arrival = |stamp| arrival_ns(stamp, &former, &now);
        assert_eq!(arrival(wall + SECOND - 8_000), Some(SECOND + 100 - 7_000));
        assert_eq!(arrival(wall + SECOND), Some(SECOND + 100));
        assert_eq!(arrival(wall + SECOND + 1), None, "a stamp in the future");
        assert_eq!(arrival(SECOND - 8_000), None, "a stamp of another clock");
        assert_eq!(arrival(i64::MIN), None);
        let stepped = reading(SECOND, wall + SECOND + 5_000, 100);
        assert_eq!(
            arrival_ns(wall + SECOND - 8_000, &former, &stepped),
            None,
            "the wall clock was stepped by 5 us while it waited"
        );
    }

    /// A stamp is never too early, for any adjusted rate of the wall clock and any step that the
    /// readings cannot detect.
    #[test]
    fn no_stamp_is_earlier_than_the_truth() {
        for percent in [-10, 0, 10] {
            for step in [-100, 0, 100] {
                for waited in [0, 50, 1_000, 80_000, 5_000_000, 800_000_000] {
                    let wall = |raw: i64| 1_800_000_000 * SECOND + raw + raw * percent / 100;
                    let monotonic = |raw: i64| raw + raw * percent / 100;
                    let at = |raw: i64, step: i64| ClockReading {
                        before: raw - 50,
                        monotonic: monotonic(raw),
                        realtime: wall(raw) + step,
                        after: raw + 50,
                    };
                    let truth = 3 * SECOND;
                    let arrival = arrival_ns(wall(truth), &at(0, 0), &at(truth + waited, step));
                    let Some(arrival) = arrival else {
                        assert!(waited + step < 50, "{percent} {step} {waited}");
                        continue;
                    };
                    let late = arrival - truth;
                    assert!(late >= -100, "{percent} {step} {waited}: {late}");
                    assert!(late <= waited / 4 + 200, "{percent} {step} {waited}: {late}");
                }
            }
        }
    }

    fn pair() -> (StampedSocket, UdpSocket, SocketAddr) {
        let stamped = StampedSocket::bind(0, Arc::new(SystemClock)).unwrap();
        stamped.set_read_timeout(Duration::from_secs(60)).unwrap();
        let to = (Ipv4Addr::LOCALHOST, stamped.socket().local_addr().unwrap().port()).into();
        (stamped, UdpSocket::bind("127.0.0.1:0").unwrap(), to)
    }

    #[test]
    fn the_stamp_of_a_waiting_datagram_is_its_arrival_time() {
        let (mut stamped, sender, to) = pair();
        let clock = SystemClock;
        let mut by_kernel = false;
        for _ in 0..50 {
            let sent = clock.raw_ns();
            sender.send_to(b"word", to).unwrap();
            stamped.socket().peek(&mut [0; 8]).unwrap();
            let there = clock.raw_ns();
            std::thread::sleep(Duration::from_millis(20));
            let mut bytes = [0; 8];
            let datagram = stamped.receive(&mut bytes).unwrap();
            let had = clock.raw_ns();
            assert_eq!(
                (&bytes[..datagram.bytes], datagram.from.port()),
                (&b"word"[..], sender.local_addr().unwrap().port())
            );
            assert!((sent - GRAIN_NS..=had).contains(&datagram.at_ns), "{datagram:?}");
            if datagram.by_kernel {
                by_kernel = true;
                let latest = there + (had - sent) / 8 + GRAIN_NS;
                assert!(datagram.at_ns <= latest, "{datagram:?} after {latest}");
            }
        }
        assert!(by_kernel, "no stamp of the kernel was used");
    }

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        let (mut stamped, ..) = pair();
        let port = stamped.socket().local_addr().unwrap().port();
        let six = stamped.socket().local_addr().unwrap().is_ipv6();
        // All addresses of 127/8 are local, and by default the kernel answers from the first one.
        let hosts = ["127.0.0.1", "127.0.0.7", "::1"];
        for host in hosts.iter().filter(|host| six || !host.contains(':')) {
            let asks = UdpSocket::bind((*host, 0)).unwrap();
            asks.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // A connected socket receives only from that address.
            asks.connect((*host, port)).unwrap();
            asks.send(b"question").unwrap();
            let datagram = stamped.receive(&mut [0; 64]).unwrap();
            stamped.answer(b"answer", &datagram).unwrap();
            let mut bytes = [0; 64];
            let length = asks.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"answer", "{host}");
        }
    }

    #[test]
    fn a_port_in_use_is_an_error() {
        let (stamped, ..) = pair();
        let port = stamped.socket().local_addr().unwrap().port();
        let Err(error) = StampedSocket::bind(port, Arc::new(SystemClock)) else {
            panic!("bound twice");
        };
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
