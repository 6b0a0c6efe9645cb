//! The loop that accepts connections, common to all services.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::ServiceError;

/// Maximum number of connections that are served at the same time. Further connections wait in the
/// kernel's queue: if a load test opens more, connecting takes longer, and the service does not run
/// out of descriptors or memory.
const MAX_CONNECTIONS: usize = 20_000;
/// Maximum number of connections in the kernel's queue, limited by `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// Binds a listening socket, with a queue that a load test does not overflow. Port 0 selects a free
/// port.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ServiceError> {
    let listen = || -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(ServiceError::io(format!("cannot listen on {address}")))
}

/// Passes each connection to `handle` until `shutdown` completes; then ends all connections.
pub(crate) async fn serve_connections<H, F>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    handle: H,
) -> Result<(), ServiceError>
where
    H: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // A response is sent without delay. The call fails only for a closed socket.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(handle(stream));
                }
                Err(error) if is_of_connection(&error) => {}
                // No descriptor or memory is free. The connection stays in the queue until others
                // have ended.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => return Err(ServiceError::io("cannot accept connections")(error)),
            }
        }
    }
    connections.shutdown().await;
    Ok(())
}

/// Whether an error concerns only the connection that was to be accepted, not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    ) || matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EPERM)
    )
}
