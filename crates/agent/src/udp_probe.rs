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
const ASKED: usize = 64;
/// With so many questions open the answers are doubted, and the link is asked as well.
const DOUBT: u64 = 3;
/// So long after the first of them without any answer, UDP counts as shut, ns.
const SILENCE_NS: i64 = 3_000_000_000;
/// How often UDP is tried again where it is shut, ns, and with how many questions: one alone may be
/// lost.
const AGAIN_NS: i64 = 30_000_000_000;
const AGAIN: u64 = 3;

/// Which ways the next question takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) udp: bool,
    pub(crate) link: bool,
}

impl Ways {
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
struct Trust {
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

impl Trust {
    fn new(now: i64) -> Self {
        Self {
            open: false,
            unanswered: 0,
            since: now,
            trial: BURST,
            again: now.saturating_add(AGAIN_NS),
        }
    }

    fn next(&mut self, now: i64) -> Ways {
        if self.open && self.unanswered >= DOUBT && now.saturating_sub(self.since) >= SILENCE_NS {
            self.open = false;
            self.again = now.saturating_add(AGAIN_NS);
        }
        if !self.open && self.trial == 0 && now >= self.again {
            self.trial = AGAIN;
            self.again = now.saturating_add(AGAIN_NS);
        }
        let ways = Ways {
            udp: self.open || self.trial > 0,
            link: !self.open || self.unanswered >= DOUBT,
        };
        if ways.udp {
            if self.unanswered == 0 {
                self.since = now;
            }
            self.unanswered += 1;
            self.trial = self.trial.saturating_sub(1);
        }
        ways
    }

    fn answered(&mut self) {
        (self.open, self.unanswered, self.trial) = (true, 0, 0);
    }
}

/// A question without an answer so far.
#[derive(Debug, Clone, Copy)]
struct PendingProbe {
    sequence: u32,
    /// T1.
    sent: i64,
    whom: SocketAddr,
}

/// The agent's side of the time service.
#[derive(Debug)]
pub(crate) struct UdpProbes {
    socket: Arc<UdpSocket>,
    service: UdpTime,
    key: ProbeKey,
    /// Where the service may be; the one that answered last is alone asked while it does.
    places: Vec<SocketAddr>,
    found: Option<SocketAddr>,
    asked: VecDeque<PendingProbe>,
    sequence: u32,
    trust: Trust,
}

impl UdpProbes {
    /// Nothing is sent yet. `reached` is the address by which our link comes from the controller,
    /// or goes there.
    pub(crate) fn new(socket: Arc<UdpSocket>, service: &UdpTime, reached: Option<IpAddr>, now: i64) -> Self {
        let mut probes = Self {
            key: ProbeKey::new(&service.key),
            service: service.clone(),
            socket,
            places: Vec::new(),
            found: None,
            asked: VecDeque::with_capacity(ASKED),
            sequence: 0,
            trust: Trust::new(now),
        };
        probes.reach(reached, now);
        probes
    }

    /// The link comes by `reached` now: where that is a new way, UDP is tried anew.
    pub(crate) fn reach(&mut self, reached: Option<IpAddr>, now: i64) {
        let mut places = Vec::new();
        for address in reached.into_iter().chain(self.service.addresses.iter().copied()) {
            let place = for_socket(&self.socket, address, self.service.port);
            places.extend(place.filter(|place| !places.contains(place)));
        }
        if places != self.places {
            (self.places, self.found, self.trust) = (places, None, Trust::new(now));
        }
    }

    /// Whether the answers come by UDP.
    pub(crate) fn is_open(&self) -> bool {
        self.trust.open
    }

    /// Asks, if that is to be tried; says which ways this question takes. `stamp` gives the time,
    /// ns.
    pub(crate) fn ask(&mut self, stamp: impl Fn() -> i64) -> Ways {
        if self.places.is_empty() {
            return Ways::LINK;
        }
        let ways = self.trust.next(stamp());
        if ways.udp {
            match self.found.filter(|_| self.trust.open) {
                Some(found) => self.ask_at(found, &stamp),
                None => (0..self.places.len()).for_each(|at| self.ask_at(self.places[at], &stamp)),
            }
        }
        ways
    }

    fn ask_at(&mut self, whom: SocketAddr, stamp: impl Fn() -> i64) {
        self.sequence = self.sequence.wrapping_add(1);
        let request = Request {
            agent: self.service.agent,
            sequence: self.sequence,
            sent: stamp(),
        };
        // What cannot be sent is not answered.
        let _ = self.socket.send_to(&request.encode(&self.key), whom);
        if self.asked.len() == ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back(PendingProbe {
            sequence: request.sequence,
            sent: request.sent,
            whom,
        });
    }

    /// The probe that a datagram completes, which came at `received`; none where nobody waits for
    /// it. An answer counts once.
    pub(crate) fn take(&mut self, datagram: &[u8], received: i64) -> Option<Probe> {
        let answer = Answer::decode(datagram, &self.key)?;
        let waits = |asked: &PendingProbe| (asked.sequence, asked.sent) == (answer.sequence, answer.sent);
        let at = self.asked.iter().position(waits)?;
        if answer.agent != self.service.agent {
            return None;
        }
        self.found = self.asked.remove(at).map(|asked| asked.whom);
        self.trust.answered();
        Some(answer.probe(received))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_clock::Via;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const BOTH: Ways = Ways {
        udp: true,
        link: true,
    };
    const UDP: Ways = Ways {
        udp: true,
        link: false,
    };

    #[test]
    fn both_ways_are_asked_until_one_answers() {
        let mut trust = Trust::new(0);
        assert_eq!((0..3).map(|now| trust.next(now)).collect::<Vec<_>>(), [BOTH; 3]);
        trust.answered();
        assert_eq!(trust.next(4), UDP);
    }

    #[test]
    fn where_nobody_answers_the_link_alone_is_asked_and_udp_again_each_half_minute() {
        let mut trust = Trust::new(0);
        for _ in 0..BURST {
            assert_eq!(trust.next(0), BOTH);
        }
        let mut tried = Vec::new();
        for second in 1..100 {
            let ways = trust.next(second * SECOND);
            assert!(ways.link, "{second}");
            if ways.udp {
                tried.push(second);
            }
        }
        assert_eq!(tried, [30, 31, 32, 60, 61, 62, 90, 91, 92]);
        trust.answered();
        assert_eq!(trust.next(100 * SECOND), UDP);
    }

    #[test]
    fn answers_that_stay_away_bring_the_link_in_at_once_and_end_udp_after_three_seconds() {
        let mut trust = Trust::new(0);
        trust.answered();
        let ways: Vec<Ways> = (0..5).map(|tick| trust.next(tick * SECOND / 10)).collect();
        assert_eq!(ways, [UDP, UDP, UDP, BOTH, BOTH]);
        assert_eq!(trust.next(3 * SECOND - 1), BOTH);
        assert_eq!(trust.next(3 * SECOND), Ways::LINK);
        assert_eq!(trust.next(32 * SECOND), Ways::LINK);
        assert_eq!(trust.next(33 * SECOND), BOTH, "tried again");
    }

    #[test]
    fn one_lost_answer_or_an_agent_that_slept_end_nothing() {
        let mut trust = Trust::new(0);
        trust.answered();
        for second in (0..100).step_by(2) {
            assert_eq!(trust.next(second * SECOND), UDP);
            assert_eq!(trust.next((second + 1) * SECOND), UDP);
            trust.answered();
        }
        assert_eq!(trust.next(100 * SECOND), UDP);
        assert_eq!(trust.next(4_000 * SECOND), UDP, "it has not asked meanwhile");
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
        probes.trust.answered();
        probes.reach(Some(one), 0);
        assert!(probes.is_open() && probes.places.len() == 1);
        probes.reach(Some(two), 0);
        assert!(!probes.is_open());
        let ips: Vec<IpAddr> = probes.places.iter().map(SocketAddr::ip).collect();
        assert_eq!(ips, [two, one], "the link's own way first");
    }

    #[test]
    fn without_an_address_the_link_is_asked() {
        assert_eq!(probes(&[], 9).ask(|| 0), Ways::LINK);
        // This socket speaks IPv4 only.
        assert_eq!(probes(&["::1".parse().unwrap()], 9).ask(|| 0), Ways::LINK);
    }
}
