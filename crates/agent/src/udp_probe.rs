//! Probes over UDP: the addresses to use, the probes without an answer, and whether UDP works.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use plimsoll_clock::Probe;
use plimsoll_clock::packet::{Answer, ProbeKey, Request};
use plimsoll_clock::schedule::BURST;
use plimsoll_link::UdpTime;

use crate::stamped::for_socket;

/// Maximum number of probes that wait for an answer; older ones are discarded.
const MAX_PENDING: usize = 64;
/// With this number of probes without an answer, probes are also sent over the link.
const MAX_UNANSWERED: u64 = 3;
/// If there is no answer for this time after the first of them, UDP counts as blocked, ns.
const UDP_TIMEOUT_NS: i64 = 3_000_000_000;
/// Interval at which UDP is tried again while it is blocked, ns, and the number of probes of such a
/// trial: a single one may be lost.
const RETRY_INTERVAL_NS: i64 = 30_000_000_000;
const RETRY_PROBES: u64 = 3;

/// The paths over which the next probe is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbePaths {
    pub(crate) udp: bool,
    pub(crate) link: bool,
}

impl ProbePaths {
    /// Without a time service over UDP.
    pub(crate) const LINK: Self = Self {
        udp: false,
        link: true,
    };
}

/// Whether UDP works, judged by the answers.
///
/// While this is unknown, probes are sent over both paths. If UDP is blocked, a burst loses no
/// probe by this; if UDP works, the link is not used after the first round trip.
#[derive(Debug, Clone, Copy)]
struct UdpState {
    /// Answers arrive over UDP.
    open: bool,
    /// Number of probes since the last answer, and the time of the first of them, ns.
    unanswered: u64,
    since: i64,
    /// Remaining number of probes of a trial.
    trial: u64,
    /// Time at which the next trial begins, ns.
    again: i64,
}

impl UdpState {
    fn new(now: i64) -> Self {
        Self {
            open: false,
            unanswered: 0,
            since: now,
            trial: BURST,
            again: now.saturating_add(RETRY_INTERVAL_NS),
        }
    }

    fn next(&mut self, now: i64) -> ProbePaths {
        if self.open && self.unanswered >= MAX_UNANSWERED && now.saturating_sub(self.since) >= UDP_TIMEOUT_NS
        {
            self.open = false;
            self.again = now.saturating_add(RETRY_INTERVAL_NS);
        }
        if !self.open && self.trial == 0 && now >= self.again {
            self.trial = RETRY_PROBES;
            self.again = now.saturating_add(RETRY_INTERVAL_NS);
        }
        let paths = ProbePaths {
            udp: self.open || self.trial > 0,
            link: !self.open || self.unanswered >= MAX_UNANSWERED,
        };
        if paths.udp {
            if self.unanswered == 0 {
                self.since = now;
            }
            self.unanswered += 1;
            self.trial = self.trial.saturating_sub(1);
        }
        paths
    }

    fn record_answer(&mut self) {
        (self.open, self.unanswered, self.trial) = (true, 0, 0);
    }
}

/// A probe without an answer.
#[derive(Debug, Clone, Copy)]
struct PendingProbe {
    sequence: u32,
    /// Time at which it was sent (T1), ns.
    sent: i64,
    address: SocketAddr,
}

/// The client of the time service.
#[derive(Debug)]
pub(crate) struct UdpProbes {
    socket: Arc<UdpSocket>,
    service: UdpTime,
    key: ProbeKey,
    /// Possible addresses of the service. While one answers, only that one is used.
    addresses: Vec<SocketAddr>,
    answering: Option<SocketAddr>,
    pending: VecDeque<PendingProbe>,
    sequence: u32,
    state: UdpState,
}

impl UdpProbes {
    /// A client of `service`, which has sent nothing yet. `link_address` is the address of the
    /// controller on the agent's link, `now` the present time, ns.
    pub(crate) fn new(
        socket: Arc<UdpSocket>,
        service: &UdpTime,
        link_address: Option<IpAddr>,
        now: i64,
    ) -> Self {
        let mut probes = Self {
            key: ProbeKey::new(&service.key),
            service: service.clone(),
            socket,
            addresses: Vec::new(),
            answering: None,
            pending: VecDeque::with_capacity(MAX_PENDING),
            sequence: 0,
            state: UdpState::new(now),
        };
        probes.set_link_address(link_address, now);
        probes
    }

    /// Sets the address of the controller on the agent's link. If the list of addresses changes,
    /// UDP is tried again.
    pub(crate) fn set_link_address(&mut self, link_address: Option<IpAddr>, now: i64) {
        let mut addresses = Vec::new();
        for address in link_address
            .into_iter()
            .chain(self.service.addresses.iter().copied())
        {
            let address = for_socket(&self.socket, address, self.service.port);
            addresses.extend(address.filter(|address| !addresses.contains(address)));
        }
        if addresses != self.addresses {
            (self.addresses, self.answering, self.state) = (addresses, None, UdpState::new(now));
        }
    }

    /// Whether answers arrive over UDP.
    pub(crate) fn is_open(&self) -> bool {
        self.state.open
    }

    /// Sends a probe over UDP if that is to be tried. Returns the paths of this probe: the caller
    /// sends it over the link. `stamp` returns the time, ns.
    pub(crate) fn ask(&mut self, stamp: impl Fn() -> i64) -> ProbePaths {
        if self.addresses.is_empty() {
            return ProbePaths::LINK;
        }
        let paths = self.state.next(stamp());
        if paths.udp {
            match self.answering.filter(|_| self.state.open) {
                Some(answering) => self.send_to(answering, &stamp),
                None => (0..self.addresses.len()).for_each(|at| self.send_to(self.addresses[at], &stamp)),
            }
        }
        paths
    }

    fn send_to(&mut self, address: SocketAddr, stamp: impl Fn() -> i64) {
        self.sequence = self.sequence.wrapping_add(1);
        let request = Request {
            agent: self.service.agent,
            sequence: self.sequence,
            sent: stamp(),
        };
        // A probe that cannot be sent counts as one without an answer.
        let _ = self.socket.send_to(&request.encode(&self.key), address);
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(PendingProbe {
            sequence: request.sequence,
            sent: request.sent,
            address,
        });
    }

    /// The probe that a datagram of time `received` completes; `None` if it is not the answer to a
    /// pending probe. An answer is accepted once.
    pub(crate) fn take(&mut self, datagram: &[u8], received: i64) -> Option<Probe> {
        let answer = Answer::decode(datagram, &self.key)?;
        let waits =
            |pending: &PendingProbe| (pending.sequence, pending.sent) == (answer.sequence, answer.sent);
        let index = self.pending.iter().position(waits)?;
        if answer.agent != self.service.agent {
            return None;
        }
        self.answering = self.pending.remove(index).map(|pending| pending.address);
        self.state.record_answer();
        Some(answer.probe(received))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_clock::Via;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const BOTH: ProbePaths = ProbePaths {
        udp: true,
        link: true,
    };
    const UDP: ProbePaths = ProbePaths {
        udp: true,
        link: false,
    };

    #[test]
    fn both_paths_are_used_until_udp_answers() {
        let mut state = UdpState::new(0);
        assert_eq!((0..3).map(|now| state.next(now)).collect::<Vec<_>>(), [BOTH; 3]);
        state.record_answer();
        assert_eq!(state.next(4), UDP);
    }

    #[test]
    fn without_answers_udp_is_tried_again_every_30_seconds() {
        let mut state = UdpState::new(0);
        for _ in 0..BURST {
            assert_eq!(state.next(0), BOTH);
        }
        let mut tried = Vec::new();
        for second in 1..100 {
            let paths = state.next(second * SECOND);
            assert!(paths.link, "{second}");
            if paths.udp {
                tried.push(second);
            }
        }
        assert_eq!(tried, [30, 31, 32, 60, 61, 62, 90, 91, 92]);
        state.record_answer();
        assert_eq!(state.next(100 * SECOND), UDP);
    }

    #[test]
    fn without_answers_the_link_is_used_at_once_and_udp_is_blocked_after_3_seconds() {
        let mut state = UdpState::new(0);
        state.record_answer();
        let paths: Vec<ProbePaths> = (0..5).map(|tick| state.next(tick * SECOND / 10)).collect();
        assert_eq!(paths, [UDP, UDP, UDP, BOTH, BOTH]);
        assert_eq!(state.next(3 * SECOND - 1), BOTH);
        assert_eq!(state.next(3 * SECOND), ProbePaths::LINK);
        assert_eq!(state.next(32 * SECOND), ProbePaths::LINK);
        assert_eq!(state.next(33 * SECOND), BOTH, "tried again");
    }

    #[test]
    fn a_lost_answer_or_a_long_pause_does_not_block_udp() {
        let mut state = UdpState::new(0);
        state.record_answer();
        for second in (0..100).step_by(2) {
            assert_eq!(state.next(second * SECOND), UDP);
            assert_eq!(state.next((second + 1) * SECOND), UDP);
            state.record_answer();
        }
        assert_eq!(state.next(100 * SECOND), UDP);
        assert_eq!(state.next(4_000 * SECOND), UDP, "no probe was sent in between");
    }

    fn probes(addresses: &[IpAddr], port: u16) -> UdpProbes {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let service = UdpTime {
            agent: 7,
            port,
            addresses: addresses.to_vec(),
            key: [3; 32],
        };
        UdpProbes::new(socket, &service, None, 0)
    }

    #[test]
    fn only_the_answer_to_a_pending_probe_is_accepted_and_once() {
        let service = UdpSocket::bind("127.0.0.1:0").unwrap();
        service.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let port = service.local_addr().unwrap().port();
        let mut probes = probes(&["127.0.0.1".parse().unwrap()], port);
        let key = ProbeKey::new(&[3; 32]);
        assert_eq!(probes.ask(|| 1_000), BOTH);
        let mut bytes = [0; 64];
        let length = service.recv(&mut bytes).unwrap();
        let request = Request::decode(&bytes[..length], &key).unwrap();
        assert_eq!((request.agent, request.sent), (7, 1_000));
        let right = request.answer(5_000, 5_001);
        for wrong in [
            Answer { agent: 8, ..right },
            Answer { sent: 999, ..right },
            Answer {
                sequence: right.sequence + 1,
                ..right
            },
        ] {
            assert_eq!(probes.take(&wrong.encode(&key), 2_000), None, "{wrong:?}");
        }
        let other = ProbeKey::new(&[4; 32]);
        assert_eq!(probes.take(&right.encode(&other), 2_000), None);
        assert_eq!(
            probes.take(&request.encode(&key), 2_000),
            None,
            "its own question"
        );
        assert_eq!(probes.take(&[0xff; 2000], 2_000), None);
        assert!(!probes.is_open());
        let probe = probes.take(&right.encode(&key), 2_000).unwrap();
        let stamps = (probe.sent, probe.heard, probe.answered, probe.received, probe.via);
        assert_eq!(stamps, (1_000, 5_000, 5_001, 2_000, Via::Udp));
        assert!(probes.is_open());
        assert_eq!(
            probes.take(&right.encode(&key), 2_100),
            None,
            "the same answer again"
        );
    }

    #[test]
    fn a_new_link_address_is_tried_again_and_the_same_one_is_not() {
        let [first, second] = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let mut probes = probes(&[first], 9);
        probes.state.record_answer();
        probes.set_link_address(Some(first), 0);
        assert!(probes.is_open() && probes.addresses.len() == 1);
        probes.set_link_address(Some(second), 0);
        assert!(!probes.is_open());
        let ips: Vec<IpAddr> = probes.addresses.iter().map(SocketAddr::ip).collect();
        assert_eq!(ips, [second, first], "the address of the link is first");
    }

    #[test]
    fn without_an_address_the_link_is_used() {
        assert_eq!(probes(&[], 9).ask(|| 0), ProbePaths::LINK);
        // This socket supports only IPv4.
        assert_eq!(probes(&["::1".parse().unwrap()], 9).ask(|| 0), ProbePaths::LINK);
    }
}
