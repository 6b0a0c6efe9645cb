//! The service `sink`.

use std::io::{Read, Write};
use std::net::Shutdown;

use plimsoll_services::sink;
use plimsoll_wire::sink::{SENDS, TAKES};

use crate::support::{Running, start};

fn service() -> Running {
    start(0, |listener, shutdown| {
        sink::serve(listener, shutdown.into_future())
    })
}

#[test]
fn it_sends_until_the_client_closes() {
    let service = service();
    let mut client = service.connect();
    client.stream.write_all(&[SENDS]).unwrap();
    let mut bytes = vec![0; 1_000_000];
    client.stream.read_exact(&mut bytes).unwrap();
    assert!(
        bytes.windows(2).any(|pair| pair[0] != pair[1]),
        "it can be compressed"
    );
}

#[test]
fn it_reads_everything_and_sends_nothing() {
    let service = service();
    let mut client = service.connect();
    client.stream.write_all(&[TAKES]).unwrap();
    client.stream.write_all(&vec![1; 5_000_000]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}
