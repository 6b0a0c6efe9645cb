//! Probes over a UDP socket. Both ends use the same clock, so the true offset is 0.

use std::net::UdpSocket;
use std::time::Duration;

use plimsoll_clock::packet::{Answer, PACKET_BYTES, ProbeKey, Request};
use plimsoll_clock::{Assumptions, Clock, Live, SystemClock, estimate};

const PROBES: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(20);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket
        .set_read_timeout(Some(TIMEOUT))
        .expect("a time-out above 0");
    socket
}

/// Answers valid requests until `PROBES` were answered.
fn serve(socket: &UdpSocket, key: &ProbeKey) {
    let mut bytes = [0; 2048];
    let mut answered = 0;
    while answered < PROBES {
        let (length, from) = socket.recv_from(&mut bytes).expect("probes come");
        let heard = SystemClock.raw_ns();
        if let Some(request) = Request::decode(&bytes[..length], key) {
            let answer = request.answer(heard, SystemClock.raw_ns()).encode(key);
            socket.send_to(&answer, from).expect("loopback");
            answered += 1;
        }
    }
}

#[test]
fn the_offset_over_loopback_is_zero_within_the_bound() {
    let (here, there) = (socket(), socket());
    let key = ProbeKey::new(&[7; 32]);
    here.connect(there.local_addr().expect("bound"))
        .expect("loopback");
    let service = std::thread::spawn({
        let key = key.clone();
        move || serve(&there, &key)
    });
    let mut live = Live::new(Assumptions::default());
    let mut probes = Vec::new();
    for sequence in 0..PROBES {
        // Requests of a stranger and noise get no answer: the next datagram is the answer to this
        // request.
        let stranger = ProbeKey::new(&[8; 32]);
        let request = Request {
            agent: 1,
            sequence,
            sent: SystemClock.raw_ns(),
        };
        here.send(&request.encode(&stranger)).expect("loopback");
        here.send(&[0xff; 1_400]).expect("loopback");
        here.send(&request.encode(&key)).expect("loopback");
        let mut bytes = [0; PACKET_BYTES];
        let length = here.recv(&mut bytes).expect("an answer");
        let received = SystemClock.raw_ns();
        let answer = Answer::decode(&bytes[..length], &key).expect("the service knows the key");
        assert_eq!(
            (answer.agent, answer.sequence, answer.sent),
            (1, sequence, request.sent)
        );
        live.push(&answer.probe(received));
        probes.push(answer.probe(received));
    }
    service.join().expect("it ends by itself");
    let result = estimate(&probes, &Assumptions::default()).expect("probes");
    assert_eq!(result.rejected, 0);
    for probe in &probes {
        for t in [probe.sent, probe.received] {
            let mapped = result.map.at(t);
            assert!(
                (mapped.controller_ns - t).abs() <= mapped.bound_ns,
                "{mapped:?} at {t}"
            );
        }
    }
    let now = SystemClock.raw_ns();
    let mapped = live.at(now).expect("probes were pushed");
    assert!(
        (mapped.controller_ns - now).abs() <= mapped.bound_ns,
        "{mapped:?} at {now}"
    );
}
