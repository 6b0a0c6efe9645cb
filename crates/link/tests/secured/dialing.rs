//! How an agent finds its controller, and the errors if it does not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use plimsoll_link::dial::{DialError, Dialer, Fault};
use plimsoll_link::identity::Keys;
use plimsoll_link::listen::{BindError, Bounds, Listener};
use plimsoll_link::token::Token;
use plimsoll_link::transport::Transport::{self, Quic, Tcp};
use tokio::time::{sleep, timeout};

use crate::{BOTH, ENGINE, LOOPBACK, TIMEOUT, dialer, link, open, talk, token};

const SHORT: Duration = Duration::from_millis(600);

/// The fault and the error text of a dialer that fails.
async fn failure(dialer: &Dialer, max_wait: Duration) -> (Fault, String) {
    let error = timeout(TIMEOUT, dialer.dial(max_wait))
        .await
        .unwrap()
        .unwrap_err();
    let text = error.to_string();
    match error {
        DialError::NoLink { fault, .. } => (fault, text),
        other => panic!("{other}"),
    }
}

/// An address on which no process listens.
fn vacant() -> SocketAddr {
    TcpListener::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn an_empty_port_is_closed_over_tcp_and_silent_over_quic() {
    let keys = Keys::generate().unwrap();
    for (via, expected) in [(Tcp, Fault::Closed), (Quic, Fault::NoAnswer)] {
        let (fault, text) = failure(&dialer(&keys, vacant(), via), SHORT).await;
        assert_eq!(fault, expected, "{text}");
        assert!(text.contains("study") && text.contains(via.name()), "{text}");
    }
}

#[tokio::test]
async fn a_port_that_never_answers_is_given_up_at_the_time_limit() {
    let keys = Keys::generate().unwrap();
    let (tcp, udp) = (
        TcpListener::bind((LOOPBACK, 0)).unwrap(),
        UdpSocket::bind((LOOPBACK, 0)).unwrap(),
    );
    for (via, address) in [(Tcp, tcp.local_addr()), (Quic, udp.local_addr())] {
        let begin = Instant::now();
        let (fault, text) = failure(&dialer(&keys, address.unwrap(), via), SHORT).await;
        assert_eq!(fault, Fault::NoAnswer, "{text}");
        assert!(begin.elapsed() >= SHORT / 2, "{text}");
    }
}

#[tokio::test]
async fn an_unknown_name_has_no_answer() {
    let keys = Keys::generate().unwrap();
    let addresses = vec!["no-such-host.invalid:4000".into()];
    let token = Token::new("study", ENGINE, &keys, addresses, vec![Tcp], 0).unwrap();
    let (fault, text) = failure(&Dialer::new(&token, ENGINE).unwrap(), SHORT).await;
    assert_eq!(fault, Fault::NoAnswer, "{text}");
    assert!(text.contains("no-such-host"), "{text}");
}

#[tokio::test]
async fn another_controller_is_a_stranger_and_is_tried_once() {
    let (listener, _its_keys) = open(Bounds::default());
    let keys = Keys::generate().unwrap();
    for via in BOTH {
        let (fault, text) = failure(&dialer(&keys, listener.address(), via), TIMEOUT).await;
        assert_eq!(fault, Fault::Stranger, "{text}");
        assert!(
            text.contains("this is not the controller of experiment study"),
            "{text}"
        );
    }
    assert_eq!(listener.counters().accepted, 0);
}

#[tokio::test]
async fn another_program_is_a_stranger_or_busy() {
    let keys = Keys::generate().unwrap();
    let answers: [(&[u8], Fault); 2] = [
        (
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
            Fault::Stranger,
        ),
        (b"", Fault::Busy),
    ];
    for (answer, expected) in answers {
        let listener = tokio::net::TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut hello = [0; 4096];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
            }
        });
        let (fault, text) = failure(&dialer(&keys, address, Tcp), SHORT).await;
        assert_eq!(fault, expected, "{text}");
        server.abort();
    }
}

#[tokio::test]
async fn an_engine_of_another_version_does_not_dial() {
    let keys = Keys::generate().unwrap();
    let error = Dialer::new(&token(&keys, &[vacant()], &BOTH), "9.8.7").unwrap_err();
    assert!(matches!(error, DialError::Engine { .. }));
    let text = error.to_string();
    assert!(text.contains(ENGINE) && text.contains("9.8.7"), "{text}");
}

#[tokio::test]
async fn tcp_is_used_if_udp_is_blocked() {
    let keys = Keys::generate().unwrap();
    let mut listener = Listener::bind(&keys, LOOPBACK, 0..=0, &[Tcp], Bounds::default()).unwrap();
    let token = token(&keys, &[listener.address()], &[Quic, Tcp]);
    let dialer = Dialer::new(&token, ENGINE).unwrap();
    let (near, far) = tokio::join!(listener.accept(), dialer.dial(Duration::from_secs(8)));
    let (mut near, mut far) = (near, far.unwrap());
    assert_eq!(far.via, Tcp);
    talk(&mut near, &mut far).await;
}

#[tokio::test]
async fn dead_addresses_and_strangers_are_skipped() {
    let (stranger, _) = open(Bounds::default());
    let (mut listener, keys) = open(Bounds::default());
    let addresses = [vacant(), stranger.address(), listener.address()];
    let dialer = Dialer::new(&token(&keys, &addresses, &[Tcp]), ENGINE).unwrap();
    let (mut near, mut far) = link(&mut listener, &dialer).await;
    assert_eq!(far.peer, listener.address());
    talk(&mut near, &mut far).await;
}

#[tokio::test]
async fn a_controller_that_starts_late_is_found() {
    for via in BOTH {
        let keys = Keys::generate().unwrap();
        // Another listener reserves the port first. While it is closed, TCP fails at once, and QUIC
        // does not answer.
        let reserved = Listener::bind(
            &Keys::generate().unwrap(),
            LOOPBACK,
            0..=0,
            &BOTH,
            Bounds::default(),
        )
        .unwrap();
        let address = reserved.address();
        reserved.close(TIMEOUT).await;
        let dialer = dialer(&keys, address, via);
        let dial = tokio::spawn(async move { dialer.dial(TIMEOUT).await });
        sleep(Duration::from_millis(300)).await;
        let port = address.port();
        let mut listener = bind_soon(&keys, port).await;
        let mut near = timeout(TIMEOUT, listener.accept()).await.unwrap();
        let mut far = dial.await.unwrap().unwrap();
        talk(&mut near, &mut far).await;
    }
}

/// Binds `port`. The sockets of a dropped listener are closed a moment later, when its tasks end.
async fn bind_soon(keys: &Keys, port: u16) -> Listener {
    for _ in 0..200 {
        match Listener::bind(keys, LOOPBACK, port..=port, &BOTH, Bounds::default()) {
            Ok(listener) => return listener,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("port {port} is still in use");
}

#[tokio::test]
async fn host_names_and_ipv6_addresses_lead_to_the_controller() {
    let keys = Keys::generate().unwrap();
    let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for (address, host) in [(LOOPBACK, "localhost"), (six, "[::1]")] {
        if let Err(error) = UdpSocket::bind((address, 0)) {
            assert!(std::env::var_os("CI").is_none(), "{address}: {error}");
            eprintln!("SKIPPED {address}: {error}");
            continue;
        }
        let mut listener = Listener::bind(&keys, address, 0..=0, &BOTH, Bounds::default()).unwrap();
        for via in BOTH {
            let addresses = vec![format!("{host}:{}", listener.address().port())];
            let token = Token::new("study", ENGINE, &keys, addresses, vec![via], 0).unwrap();
            let dialer = Dialer::new(&token, ENGINE).unwrap();
            let (mut near, mut far) = link(&mut listener, &dialer).await;
            talk(&mut near, &mut far).await;
        }
    }
}

#[tokio::test]
async fn a_port_must_be_free_for_both_transports() {
    let keys = Keys::generate().unwrap();
    let bind = |ports, transports: &[Transport]| {
        Listener::bind(&keys, LOOPBACK, ports, transports, Bounds::default())
    };
    let taken = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    assert!(bind(port..=port, &[Tcp]).is_ok());
    let error = bind(port..=port, &BOTH).unwrap_err();
    assert!(matches!(error, BindError::Ports { .. }));
    let text = error.to_string();
    assert!(
        text.contains(&port.to_string()) && text.contains("tcp and quic"),
        "{text}"
    );
    if let Some(last) = port.checked_add(20) {
        let listener = bind(port..=last, &BOTH).unwrap();
        assert!((port + 1..=last).contains(&listener.address().port()));
    }
    assert!(matches!(bind(0..=0, &[]), Err(BindError::Nothing)));
}
