//! A server that is as fast as possible, so that a measurement against it shows the limit of the
//! client. `lean-server [PORT]` prints its address, and ends when its stdin is closed.
#![allow(clippy::print_stdout)]

use std::io;
use std::net::TcpListener;

fn main() -> io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("{}", listener.local_addr()?);
    plimsoll_bench_lean::server::serve(&listener, || {})
}
