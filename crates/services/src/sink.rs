//! `sink`: the remote end of a measurement of a network path.
//!
//! The first byte of a connection selects the direction: [`SENDS`] asks for bytes until the
//! client closes; every other byte is followed by bytes that are read and discarded. A connection
//! ends after [`MAX_TIME`], because anyone who reaches the port could ask for bytes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_wire::sink::SENDS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ServiceError;
use crate::listen::serve_connections;

/// Maximum duration of a connection.
pub const MAX_TIME: Duration = Duration::from_secs(10);
const BLOCK: usize = 64 * 1024;

/// Serves until `shutdown` completes.
pub async fn serve(listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), ServiceError> {
    let mut state = 1_u64;
    // Pseudo-random bytes: a tunnel that compresses would make others look fast.
    let block: Arc<[u8]> = (0..BLOCK)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    serve_connections(listener, shutdown, move |stream| {
        let block = block.clone();
        async move {
            let _ = tokio::time::timeout(MAX_TIME, exchange(stream, &block)).await;
        }
    })
    .await
}

async fn exchange(mut stream: TcpStream, block: &[u8]) {
    match stream.read_u8().await {
        Ok(SENDS) => while stream.write_all(block).await.is_ok() {},
        Ok(_) => {
            let mut buffer = vec![0; BLOCK];
            while matches!(stream.read(&mut buffer).await, Ok(read) if read > 0) {}
        }
        Err(_) => {}
    }
}
