//! Cancels queries of `PostgreSQL` servers after a timeout. A server that executes a query does not
//! check its connection, and would continue after the client has closed it: load that is not part
//! of the plan.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plimsoll_wire::sql::CancelKey;

/// Maximum number of requests in the queue. If the queue is full, a request is not sent.
const QUEUE_CAPACITY: usize = 4096;
/// Timeout for connecting and for sending one request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A request that has waited longer than this is not sent, because its query has ended or should
/// not be disturbed any more.
const MAX_AGE: Duration = Duration::from_secs(5);

struct PendingCancel {
    address: SocketAddr,
    key: CancelKey,
    since: Instant,
}

/// Sends cancel requests from a separate thread, because connecting can block, and testers must not
/// block. The thread starts with the first request and ends with the driver.
#[derive(Default)]
pub(super) struct Canceller {
    sender: OnceLock<Option<SyncSender<PendingCancel>>>,
}

impl Canceller {
    /// Queues a request. Does not wait, and does not report whether it succeeds.
    pub(super) fn cancel(&self, address: SocketAddr, key: CancelKey) {
        let sender = self.sender.get_or_init(|| {
            let (sender, requests) = sync_channel(QUEUE_CAPACITY);
            let thread = std::thread::Builder::new().name("sql-cancel".to_owned());
            thread
                .spawn(move || send_requests(&requests))
                .ok()
                .map(|_| sender)
        });
        if let Some(sender) = sender {
            let since = Instant::now();
            let _ = sender.try_send(PendingCancel { address, key, since });
        }
    }
}

fn send_requests(requests: &Receiver<PendingCancel>) {
    for PendingCancel { address, key, since } in requests {
        if since.elapsed() < MAX_AGE
            && let Ok(mut stream) = TcpStream::connect_timeout(&address, TIMEOUT)
            && stream.set_write_timeout(Some(TIMEOUT)).is_ok()
        {
            let _ = stream.write_all(&key.request());
        }
    }
}
