//! A minimal load generator: it keeps N connections busy from one epoll loop and counts responses.
//! It has no schedule, no records and no parser: each read counts as one response.
//! `epoll-loop HOST:PORT CONNECTIONS SECONDS` prints the rate in responses per second.
#![allow(clippy::print_stdout)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_bench_lean::Epoll;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(address), Some(connections), Some(seconds)) = (words.next(), words.next(), words.next()) else {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "usage: epoll-loop HOST:PORT CONNECTIONS SECONDS",
        ));
    };
    let connections: usize = connections.parse().map_err(io::Error::other)?;
    let length = Duration::from_secs_f64(seconds.parse().map_err(io::Error::other)?);
    let mut epoll = Epoll::new()?;
    let mut peers = Vec::with_capacity(connections);
    for token in 0..connections {
        let peer = TcpStream::connect(&address)?;
        peer.set_nodelay(true)?;
        peer.set_nonblocking(true)?;
        epoll.add(&peer, token as u64)?;
        peers.push(peer);
    }
    let mut buffer = vec![0_u8; 16 * 1024];
    let begin = Instant::now();
    for peer in &mut peers {
        peer.write_all(REQUEST)?;
    }
    let mut done = 0_u64;
    let mut ready = Vec::new();
    while begin.elapsed() < length {
        ready.clear();
        ready.extend(epoll.wait(100)?);
        for &token in &ready {
            let peer = &mut peers[token as usize];
            match peer.read(&mut buffer) {
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "the server closed a connection",
                    ));
                }
                Ok(_) => {
                    done += 1;
                    peer.write_all(REQUEST)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    println!("{:.0}", done as f64 / begin.elapsed().as_secs_f64());
    Ok(())
}
