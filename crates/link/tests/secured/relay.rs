//! A UDP relay for one client that delays and drops datagrams and interrupts the traffic.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tokio::time::sleep;

const ENDLESS: u64 = u64::MAX / 2;

pub struct Relay {
    /// The address that the client uses instead of the server's.
    pub address: SocketAddr,
    way: Arc<Way>,
    tasks: Vec<AbortHandle>,
}

struct Way {
    /// Towards the client.
    front: UdpSocket,
    /// Towards the server.
    back: UdpSocket,
    server: SocketAddr,
    client: Mutex<Option<SocketAddr>>,
    delay: Duration,
    loss: f64,
    /// Number of datagrams of the client that are still relayed. At 0 nothing is relayed in either
    /// direction.
    remaining: AtomicU64,
}

impl Relay {
    /// A relay to `server`. Each direction delays datagrams by `delay` and drops one with
    /// probability `loss` (the generator has a fixed seed).
    pub async fn start(server: SocketAddr, delay: Duration, loss: f64) -> Self {
        let way = Arc::new(Way {
            front: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            back: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            server,
            client: Mutex::new(None),
            delay,
            loss,
            remaining: AtomicU64::new(ENDLESS),
        });
        Self {
            address: way.front.local_addr().unwrap(),
            tasks: [true, false]
                .map(|to_server| tokio::spawn(Arc::clone(&way).relay(to_server)).abort_handle())
                .to_vec(),
            way,
        }
    }

    /// Interrupts both directions, or restores them.
    pub fn cut(&self, cut: bool) {
        self.cut_after(if cut { 0 } else { ENDLESS });
    }

    /// Interrupts both directions after this number of further datagrams of the client.
    pub fn cut_after(&self, datagrams: u64) {
        self.way.remaining.store(datagrams, Ordering::Relaxed);
    }
}

impl Way {
    async fn relay(self: Arc<Self>, to_server: bool) {
        let mut random = rand_pcg::Pcg64::seed_from_u64(u64::from(to_server));
        let mut datagram = vec![0; 65_536];
        let from = if to_server { &self.front } else { &self.back };
        loop {
            // An error reports that an earlier datagram reached no process.
            let Ok((length, peer)) = from.recv_from(&mut datagram).await else {
                continue;
            };
            let passes = if to_server {
                *self.client.lock().unwrap() = Some(peer);
                let decrement = |remaining: u64| remaining.checked_sub(1);
                self.remaining
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement)
                    .is_ok()
            } else {
                self.remaining.load(Ordering::Relaxed) > 0
            };
            if passes && !random.random_bool(self.loss) {
                tokio::spawn(Arc::clone(&self).deliver(to_server, datagram[..length].to_vec()));
            }
        }
    }

    async fn deliver(self: Arc<Self>, to_server: bool, datagram: Vec<u8>) {
        sleep(self.delay).await;
        let client = *self.client.lock().unwrap();
        let _ = match (to_server, client) {
            (false, Some(client)) => self.front.send_to(&datagram, client).await,
            _ => self.back.send_to(&datagram, self.server).await,
        };
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
