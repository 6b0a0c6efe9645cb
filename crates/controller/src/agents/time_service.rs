//! The time service: answers probes with the controller's time. It sends nothing to a client
//! without the key of the session.

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

/// Interval at which the thread checks whether the service has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Why there is no time service. Probes are then sent over the link.
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
    /// Starts the service with a new key on the last free port of `ports`, at all addresses of this
    /// host. (A door uses the first free port.)
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

    /// Description of the service for agent number `agent` of the session. `address` is the address
    /// that agents dial.
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

/// Answers requests. A datagram without a valid code costs one system call and no allocation. It is
/// not logged, because a flood would fill the disk.
fn serve(mut stamped: StampedSocket, key: &ProbeKey, clock: &dyn Clock, ended: &AtomicBool) {
    // One byte more than a packet, so that a longer datagram is not accepted.
    let mut bytes = [0; PACKET_BYTES + 1];
    while !ended.load(Ordering::Relaxed) {
        match stamped.receive(&mut bytes) {
            Ok(datagram) => {
                if let Some(request) = Request::decode(&bytes[..datagram.bytes], key) {
                    let answer = request.answer(datagram.at_ns, clock.raw_ns()).encode(key);
                    // An answer that cannot be sent now is useless later; the agent sends another
                    // probe.
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
    fn a_client_with_the_key_gets_the_time() {
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
            // Both ends have the same clock, so the stamps are in order.
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
    fn clients_without_the_key_get_nothing_and_a_flood_does_not_stop_answers() {
        let server = TimeServer::open(0..=0).unwrap();
        let (socket, key) = client(&server);
        let (stranger, _) = client(&server);
        let wrong = request(0, &SystemClock).encode(&ProbeKey::new(&[0; 32]));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let long = [&wrong[..], &[0]].concat();
                while !over.load(Ordering::Relaxed) {
                    for datagram in [&wrong[..], &long, &[0xff; 1400], &[]] {
                        let _ = stranger.send(datagram);
                    }
                }
            });
            // A datagram is lost if the buffer of the socket is full; it is sent again.
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
        // When a later request is answered, all datagrams of the stranger were handled.
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
    fn the_last_free_port_of_the_range_is_used_and_released() {
        // Two adjacent free ports below the range of ephemeral ports.
        let first = 10_000 + (std::process::id() % 10_000) as u16;
        let free = |port: u16| UdpSocket::bind(("::", port)).is_ok();
        let port = (first..u16::MAX)
            .find(|&port| free(port) && free(port + 1))
            .unwrap();
        let next = port + 1;
        let first_server = TimeServer::open(port..=next).unwrap();
        let second_server = TimeServer::open(port..=next).unwrap();
        assert_eq!((first_server.port(), second_server.port()), (next, port));
        assert_ne!(first_server.key, second_server.key);
        assert!(matches!(TimeServer::open(port..=next), Err(TimeError::Port(_))));
        drop(first_server);
        assert_eq!(TimeServer::open(port..=next).unwrap().port(), next);
    }

    #[test]
    fn the_key_is_not_printed() {
        let server = TimeServer::open(0..=0).unwrap();
        let service = server.of(1, None);
        let key = format!("{:?}", server.key);
        assert!(!format!("{service:?} {:?}", server.key()).contains(&key));
    }
}
