//! A minimal HTTP/1.1 server: one thread, one epoll loop, one fixed small response.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Epoll, heads};

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: lean\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";
const LISTENER: u64 = u64::MAX;

/// Serves `listener` until stdin is closed. Calls `on_request` once for every request that it has
/// read.
pub fn serve(listener: &TcpListener, mut on_request: impl FnMut()) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let ended = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        watched.store(true, Ordering::Relaxed);
    });
    let mut epoll = Epoll::new()?;
    epoll.add(listener, LISTENER)?;
    let mut peers = Peers::default();
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut ready = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        ready.clear();
        ready.extend(epoll.wait(100)?);
        for &token in &ready {
            if token == LISTENER {
                peers.accept(listener, &epoll)?;
            } else {
                peers.respond(token as usize, &mut buffer, &mut on_request);
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Peers {
    streams: Vec<Option<TcpStream>>,
    free: Vec<usize>,
}

impl Peers {
    fn accept(&mut self, listener: &TcpListener, epoll: &Epoll) -> io::Result<()> {
        while let Ok((peer, _)) = listener.accept() {
            peer.set_nonblocking(true)?;
            peer.set_nodelay(true)?;
            let token = self.free.pop().unwrap_or_else(|| {
                self.streams.push(None);
                self.streams.len() - 1
            });
            epoll.add(&peer, token as u64)?;
            self.streams[token] = Some(peer);
        }
        Ok(())
    }

    fn respond(&mut self, token: usize, buffer: &mut [u8], on_request: &mut impl FnMut()) {
        if let Some(peer) = self.streams[token].as_mut()
            && !respond_to_all(peer, buffer, on_request)
        {
            self.streams[token] = None;
            self.free.push(token);
        }
    }
}

/// Responds to all requests that have arrived. Returns false if the peer has closed the connection.
/// The requests of these benchmarks are small, so each arrives as a whole.
fn respond_to_all(peer: &mut TcpStream, buffer: &mut [u8], on_request: &mut impl FnMut()) -> bool {
    loop {
        match peer.read(buffer) {
            Ok(0) => return false,
            Ok(count) => {
                for _ in 0..heads(&buffer[..count]) {
                    on_request();
                    if peer.write_all(RESPONSE).is_err() {
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
