//! Accepting connections: one loop for every service.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::ServiceError;

/// Connections served at a time. Further ones wait in the kernel's queue: a load test that opens
/// more sees connects slow down, and the service never runs out of descriptors or memory because of
/// them.
const MAX_CONNECTIONS: usize = 20_000;
/// Connections that the kernel may hold for us, within `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// Binds a listening socket with a backlog that a load test does not overflow. Port 0 picks a free
/// one.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ServiceError> {
    let bound = || -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(ServiceError::io(format!("cannot listen on {address}")))
}

/// Gives each connection to `handle`, until `shutdown`; then ends them all.
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
                    // An answer leaves at once. Refused only for a socket that is dead already.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(handle(stream));
                }
                Err(error) if passing(&error) => {}
                // Out of descriptors or memory: those in use come back, the waiting connection
                // stays queued.
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

/// Errors of the one connection that was about to be accepted, not of the listener.
fn passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    ) || matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EPERM)
    )
}
