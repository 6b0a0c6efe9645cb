//! A lean HTTP/1.1 server: one thread, one epoll loop, one fixed small answer. As fast as a server can well be, so that
//! what is measured against it is the client. `lean-server PORT`; ends when its stdin closes.
#![allow(clippy::print_stdout)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use plimsoll_bench_lean::{Epoll, heads};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: lean\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";
const LISTENER: u64 = u64::MAX;

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let mut epoll = Epoll::new()?;
    epoll.add(&listener, LISTENER)?;
    let mut peers: Vec<Option<TcpStream>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut ready = Vec::new();
    loop {
        ready.clear();
        ready.extend(epoll.wait(-1)?);
        for &token in &ready {
            if token == LISTENER {
                accept(&listener, &epoll, &mut peers, &mut free)?;
            } else if let Some(peer) = peers[token as usize].as_mut()
                && !serve(peer, &mut buffer)
            {
                peers[token as usize] = None;
                free.push(token as usize);
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &Epoll,
    peers: &mut Vec<Option<TcpStream>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    while let Ok((peer, _)) = listener.accept() {
        peer.set_nonblocking(true)?;
        peer.set_nodelay(true)?;
        let token = free.pop().unwrap_or_else(|| {
            peers.push(None);
            peers.len() - 1
        });
        epoll.add(&peer, token as u64)?;
        peers[token] = Some(peer);
    }
    Ok(())
}

/// Answers what has come; false when the peer is gone. Requests of these benchmarks arrive whole.
fn serve(peer: &mut TcpStream, buffer: &mut [u8]) -> bool {
    loop {
        match peer.read(buffer) {
            Ok(0) => return false,
            Ok(count) => {
                for _ in 0..heads(&buffer[..count]) {
                    if peer.write_all(ANSWER).is_err() {
                        return false;
                    }
                }
                if count < buffer.len() {
                    return true;
                }
            }
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
