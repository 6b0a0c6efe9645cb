//! The time service: tells agents our time by datagrams, and whoever has not the session's key
//! nothing at all.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_agent::StampedSocket;
use plimsoll_clock::packet::{PACKET_BYTES, ProbeKey, Request};
use plimsoll_clock::{Clock, SystemClock};
use plimsoll_link::identity::{IdentityError, Secret};
use plimsoll_link::{TimeService, UdpTime};

/// How often the thread looks whether it is still needed.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Why there is no time service. Probes ride the link then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TimeError {
    #[error(transparent)]
    Key(#[from] IdentityError),
    #[error("no UDP port for the time service: {0}")]
    Port(#[from] io::Error),
}

/// Answers probes until it is dropped.
pub(crate) struct TimeServer {
    key: [u8; 32],
    port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TimeServer {
    /// On the last free one of `ports` (a door takes the first), at all addresses of this host,
    /// with a new key.
    ///
    /// # Errors
    /// [`TimeError`].
    pub(crate) fn open(ports: RangeInclusive<u16>) -> Result<Self, TimeError> {
        let mut key = [0; 32];
        key.copy_from_slice(Secret::random(32)?.reveal());
        let clock = Arc::new(SystemClock);
        let mut bound = Err(io::ErrorKind::AddrInUse.into());
        for port in ports.rev() {
            bound = StampedSocket::bind(port, clock.clone());
            if bound.is_ok() {
                break;
            }
        }
        let stamped = bound?;
        stamped.set_read_timeout(CHECK_INTERVAL)?;
        let port = stamped.socket().local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let over = ended.clone();
        let thread = std::thread::Builder::new()
            .name("time".into())
            .spawn(move || serve(stamped, &ProbeKey::new(&key), &*clock, &over))?;
        Ok(Self {
            key,
            port,
            ended,
            thread: Some(thread),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The key, for a token.
    pub(crate) fn key(&self) -> Secret {
        Secret::new(self.key.to_vec())
    }

    /// What agent number `agent` of the session is told; `address`: where agents are told to dial
    /// us.
    pub(crate) fn of(&self, agent: u32, address: Option<IpAddr>) -> TimeService {
        TimeService {
            same: false,
            udp: Some(UdpTime {
                agent,
                port: self.port,
                addresses: address.into_iter().collect(),
                key: self.key,
            }),
        }
    }
}

impl Drop for TimeServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is no request of one who knows the key is thrown away as cheaply as can be: it costs one
/// system call, no allocation, and no word anywhere, or a flood would fill the disk instead.
fn serve(mut stamped: StampedSocket, key: &ProbeKey, clock: &dyn Clock, ended: &AtomicBool) {
    // One byte more than a packet has, so that a longer one is not taken for one.
    let mut bytes = [0; PACKET_BYTES + 1];
    while !ended.load(Ordering::Relaxed) {
        match stamped.receive(&mut bytes) {
            Ok(datagram) => {
                if let Some(request) = Request::decode(&bytes[..datagram.bytes], key) {
                    let answer = request.answer(datagram.at_ns, clock.raw_ns()).encode(key);
                    // What cannot be sent now is worth nothing later; the agent asks again.
                    let _ = stamped.answer(&answer, &datagram);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The network may be down for a while.
            Err(_) => std::thread::sleep(CHECK_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use plimsoll_clock::packet::Answer;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn client(server: &TimeServer) -> (UdpSocket, ProbeKey) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", server.port())).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        (socket, ProbeKey::new(&server.key))
    }

    fn request(sequence: u32, clock: &dyn Clock) -> Request {
        Request {
            agent: 9,
            sequence,
            sent: clock.raw_ns(),
        }
    }

    #[test]
    fn whoever_has_the_key_is_told_the_time() {
        let server = TimeServer::open(0..=0).unwrap();
        let (socket, key) = client(&server);
        let clock = SystemClock;
        for sequence in 0..50 {
            let asked = request(sequence, &clock);
            socket.send(&asked.encode(&key)).unwrap();
            let mut bytes = [0; 100];
            let length = socket.recv(&mut bytes).unwrap();
            let received = clock.raw_ns();
            let answer = Answer::decode(&bytes[..length], &key).unwrap();
            assert_eq!(
                (answer.agent, answer.sequence, answer.sent),
                (9, sequence, asked.sent)
            );
            // One clock at both ends, so the stamps must be in order.
            let order = [
                asked.sent - plimsoll_agent::GRAIN_NS,
                answer.heard,
                answer.answered,
                received,
            ];
            assert!(order.is_sorted(), "{order:?}");
        }
    }

    #[test]
    fn a_stranger_gets_nothing_and_a_flood_of_rubbish_leaves_room_for_agents() {
        let server = TimeServer::open(0..=0).unwrap();
        let (socket, key) = client(&server);
        let (stranger, _) = client(&server);
        let wrong = request(0, &SystemClock).encode(&ProbeKey::new(&[0; 32]));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let long = [&wrong[..], &[0]].concat();
                while !over.load(Ordering::Relaxed) {
                    for rubbish in [&wrong[..], &long, &[0xff; 1400], &[]] {
                        let _ = stranger.send(rubbish);
                    }
                }
            });
            // What finds no room in the socket's buffer is lost: an agent asks again.
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let (since, mut answered, mut sequence) = (std::time::Instant::now(), 0, 0);
            while answered < 20 && since.elapsed() < TIMEOUT {
                sequence += 1;
                socket
                    .send(&request(sequence, &SystemClock).encode(&key))
                    .unwrap();
                let mut bytes = [0; 100];
                if let Ok(length) = socket.recv(&mut bytes) {
                    assert!(Answer::decode(&bytes[..length], &key).is_some());
                    answered += 1;
                }
            }
            over.store(true, Ordering::Relaxed);
            assert_eq!(answered, 20);
        });
        // All that the stranger has sent is dealt with when a later question is answered.
        let mut bytes = [0; 100];
        while socket.recv(&mut bytes).is_err() {
            socket.send(&request(0, &SystemClock).encode(&key)).unwrap();
        }
        stranger.set_nonblocking(true).unwrap();
        assert_eq!(
            stranger.recv(&mut bytes).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn it_takes_the_last_free_port_of_the_range_and_gives_it_back() {
        // Two free ports side by side, below those that the system hands out.
        let first = 10_000 + (std::process::id() % 10_000) as u16;
        let free = |port: u16| UdpSocket::bind(("::", port)).is_ok();
        let port = (first..u16::MAX)
            .find(|&port| free(port) && free(port + 1))
            .unwrap();
        let next = port + 1;
        let one = TimeServer::open(port..=next).unwrap();
        let two = TimeServer::open(port..=next).unwrap();
        assert_eq!((one.port(), two.port()), (next, port));
        assert_ne!(one.key, two.key);
        assert!(matches!(TimeServer::open(port..=next), Err(TimeError::Port(_))));
        drop(one);
        assert_eq!(TimeServer::open(port..=next).unwrap().port(), next);
    }

    #[test]
    fn the_key_is_not_printed() {
        let server = TimeServer::open(0..=0).unwrap();
        let told = server.of(1, None);
        let key = format!("{:?}", server.key);
        assert!(!format!("{told:?} {:?}", server.key()).contains(&key));
    }
}
