//! Tells `PostgreSQL` servers that nobody waits for a query any more. A server that works on a
//! query does not look at its connection, and would go on with what a time-out has given up: load
//! that no one has planned.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plimsoll_wire::sql::CancelKey;

/// Most requests that wait; those that find no room are not sent.
const ROOM: usize = 4096;
/// Longest time for one connection.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A request that has waited for so long is not sent: its query is long over, or has become the
/// target's own affair.
const STALE: Duration = Duration::from_secs(5);

struct PendingCancel {
    address: SocketAddr,
    key: CancelKey,
    since: Instant,
}

/// Sends requests to cancel from a thread of its own, which starts with the first one and ends with
/// the driver. Connecting may block; testers must not.
#[derive(Default)]
pub(super) struct Canceller {
    sender: OnceLock<Option<SyncSender<PendingCancel>>>,
}

impl Canceller {
    /// Asks for it. Never waits; nobody learns how it went.
    pub(super) fn cancel(&self, address: SocketAddr, key: CancelKey) {
        let sender = self.sender.get_or_init(|| {
            let (sender, wanted) = sync_channel(ROOM);
            let thread = std::thread::Builder::new().name("sql-cancel".to_owned());
            thread.spawn(move || work(&wanted)).ok().map(|_| sender)
        });
        if let Some(sender) = sender {
            let since = Instant::now();
            let _ = sender.try_send(PendingCancel { address, key, since });
        }
    }
}

fn work(wanted: &Receiver<PendingCancel>) {
    for PendingCancel { address, key, since } in wanted {
        if since.elapsed() < STALE
            && let Ok(mut stream) = TcpStream::connect_timeout(&address, TIMEOUT)
            && stream.set_write_timeout(Some(TIMEOUT)).is_ok()
        {
            let _ = stream.write_all(&key.request());
        }
    }
}
