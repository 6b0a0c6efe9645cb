//! Probes as datagrams: whom to ask, what waits for an answer, and whether anybody answers at all.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use plimsoll_clock::Probe;
use plimsoll_clock::packet::{Answer, ProbeKey, Request};
use plimsoll_clock::schedule::BURST;
use plimsoll_link::UdpTime;

use crate::stamped::for_socket;

/// Questions that may wait for an answer; older ones are forgotten.
const MAX_PENDING: usize = 64;
/// With so many questions open the answers are doubted, and the link is asked as well.
const MAX_UNANSWERED: u64 = 3;
/// So long after the first of them without any answer, UDP counts as shut, ns.
const UDP_TIMEOUT_NS: i64 = 3_000_000_000;
/// How often UDP is tried again where it is shut, ns, and with how many questions: one alone may be
/// lost.
const RETRY_INTERVAL_NS: i64 = 30_000_000_000;
const RETRY_PROBES: u64 = 3;

/// Which ways the next question takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbePaths {
    pub(crate) udp: bool,
    pub(crate) link: bool,
}

impl ProbePaths {
    /// Where there is no time service to be asked.
    pub(crate) const LINK: Self = Self {
        udp: false,
        link: true,
    };
}

/// Whether UDP is open, as far as the answers tell. While that is in doubt, both ways are asked:
/// where it is shut no probe of a burst is missed by it, and where it is open the link is left
/// alone after the first round trip.
#[derive(Debug, Clone, Copy)]
struct UdpState {
    /// The last word was an answer.
    open: bool,
    /// Questions since the last answer, and when the first of them was asked.
    unanswered: u64,
    since: i64,
    /// Questions that are left of a trial.
    trial: u64,
    /// When the next trial begins.
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

/// A question without an answer so far.
#[derive(Debug, Clone, Copy)]
struct PendingProbe {
    sequence: u32,
    /// T1.
    sent: i64,
    address: SocketAddr,
}

/// The agent's side of the time service.
#[derive(Debug)]
pub(crate) struct UdpProbes {
    socket: Arc<UdpSocket>,
    service: UdpTime,
    key: ProbeKey,
    /// Where the service may be; the one that answered last is alone asked while it does.
    addresses: Vec<SocketAddr>,
    answering: Option<SocketAddr>,
    pending: VecDeque<PendingProbe>,
    sequence: u32,
    state: UdpState,
}

impl UdpProbes {
    /// Nothing is sent yet. `reached` is the address by which our link comes from the controller,
    /// or goes there.
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

    /// The link comes by `reached` now: where that is a new way, UDP is tried anew.
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

    /// Whether the answers come by UDP.
    pub(crate) fn is_open(&self) -> bool {
        self.state.open
    }

    /// Asks, if that is to be tried; says which ways this question takes. `stamp` gives the time,
    /// ns.
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
        // What cannot be sent is not answered.
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

    /// The probe that a datagram completes, which came at `received`; none where nobody waits for
    /// it. An answer counts once.
    pub(crate) fn take(&mut self, datagram: &[u8], received: i64) -> Option<Probe> {
        let answer = Answer::decode(datagram, &self.key)?;
        let waits =
            |pending: &PendingProbe| (pending.sequence, pending.sent) == (answer.sequence, answer.sent);
        let at = self.pending.iter().position(waits)?;
        if answer.agent != self.service.agent {
            return None;
        }
        self.answering = self.pending.remove(at).map(|pending| pending.address);
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
    fn both_ways_are_asked_until_one_answers() {
        let mut state = UdpState::new(0);
        assert_eq!((0..3).map(|now| state.next(now)).collect::<Vec<_>>(), [BOTH; 3]);
        state.record_answer();
        assert_eq!(state.next(4), UDP);
    }

    #[test]
    fn where_nobody_answers_the_link_alone_is_asked_and_udp_again_each_half_minute() {
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
    fn answers_that_stay_away_bring_the_link_in_at_once_and_end_udp_after_three_seconds() {
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
    fn one_lost_answer_or_an_agent_that_slept_end_nothing() {
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
    fn only_what_was_asked_is_answered_and_once() {
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
            "the same once more"
        );
    }

    #[test]
    fn a_new_way_of_the_link_is_tried_anew_and_the_same_one_is_not() {
        let [one, two] = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let mut probes = probes(&[one], 9);
        probes.state.record_answer();
        probes.set_link_address(Some(one), 0);
        assert!(probes.is_open() && probes.addresses.len() == 1);
        probes.set_link_address(Some(two), 0);
        assert!(!probes.is_open());
        let ips: Vec<IpAddr> = probes.addresses.iter().map(SocketAddr::ip).collect();
        assert_eq!(ips, [two, one], "the link's own way first");
    }

    #[test]
    fn without_an_address_the_link_is_asked() {
        assert_eq!(probes(&[], 9).ask(|| 0), ProbePaths::LINK);
        // This socket speaks IPv4 only.
        assert_eq!(probes(&["::1".parse().unwrap()], 9).ask(|| 0), ProbePaths::LINK);
    }
}
