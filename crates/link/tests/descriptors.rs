//! A listener continues after a time without free descriptors. The test starts a separate process,
//! because all tests of a process share the limit.

use std::fs::File;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use plimsoll_link::dial::Dialer;
use plimsoll_link::identity::Keys;
use plimsoll_link::listen::{Bounds, Listener};
use plimsoll_link::token::Token;
use plimsoll_link::transport::Transport;
use tokio::time::{sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_listener_continues_after_a_time_without_descriptors() {
    let done = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" --exact --ignored starved"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

#[tokio::test]
#[ignore = "needs the limit that the test above sets"]
async fn starved() {
    let keys = Keys::generate().unwrap();
    let both = [Transport::Tcp, Transport::Quic];
    let address = "127.0.0.1".parse().unwrap();
    let mut listener = Listener::bind(&keys, address, 0..=0, &both, Bounds::default()).unwrap();
    let dialer = |via| {
        let addresses = vec![listener.address().to_string()];
        let token = Token::new("study", "1", &keys, addresses, vec![via], 0).unwrap();
        Dialer::new(&token, "1").unwrap()
    };
    let (tcp, quic) = (dialer(Transport::Tcp), dialer(Transport::Quic));
    // The socket of the QUIC dialer is created now, while there are free descriptors.
    let (first, second) = tokio::join!(listener.accept(), quic.dial(TIMEOUT));
    drop((first, second.unwrap()));

    let mut hoard = Vec::new();
    let error = loop {
        match File::open("/dev/null") {
            Ok(file) => hoard.push(file),
            Err(error) => break error,
        }
        assert!(hoard.len() < 64, "the limit was not set");
    };
    assert_ne!(error.kind(), ErrorKind::NotFound);
    hoard.pop(); // a descriptor for the agent's socket; the listener has none
    let dial = tokio::spawn(async move { tcp.dial(TIMEOUT).await });
    let hungry = async {
        while listener.counters().starved == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, hungry)
        .await
        .expect("a connection found a descriptor");
    let (near, far) = tokio::join!(listener.accept(), quic.dial(TIMEOUT));
    assert_eq!((near.via, far.unwrap().via), (Transport::Quic, Transport::Quic));

    drop(hoard);
    let near = timeout(TIMEOUT, listener.accept()).await.unwrap();
    assert_eq!(near.via, Transport::Tcp);
    dial.await.unwrap().unwrap();
}
