//! A UDP relay for one client, which delays, loses and cuts.

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
    /// What the client is told instead of the server's.
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
    /// Datagrams of the client that may still pass; with none left the way back is cut too.
    left: AtomicU64,
}

impl Relay {
    /// To `server`, each way taking `delay` and losing a datagram with probability `loss`, seeded.
    pub async fn start(server: SocketAddr, delay: Duration, loss: f64) -> Self {
        let way = Arc::new(Way {
            front: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            back: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            server,
            client: Mutex::new(None),
            delay,
            loss,
            left: AtomicU64::new(ENDLESS),
        });
        Self {
            address: way.front.local_addr().unwrap(),
            tasks: [true, false]
                .map(|there| tokio::spawn(Arc::clone(&way).carry(there)).abort_handle())
                .to_vec(),
            way,
        }
    }

    /// Cuts the way in both directions, or mends it.
    pub fn cut(&self, cut: bool) {
        self.cut_after(if cut { 0 } else { ENDLESS });
    }

    /// Cuts it after so many more datagrams of the client.
    pub fn cut_after(&self, datagrams: u64) {
        self.way.left.store(datagrams, Ordering::Relaxed);
    }
}

impl Way {
    async fn carry(self: Arc<Self>, there: bool) {
        let mut random = rand_pcg::Pcg64::seed_from_u64(u64::from(there));
        let mut datagram = vec![0; 65_536];
        let from = if there { &self.front } else { &self.back };
        loop {
            // An error is a datagram of before that found nobody.
            let Ok((length, peer)) = from.recv_from(&mut datagram).await else {
                continue;
            };
            let passes = if there {
                *self.client.lock().unwrap() = Some(peer);
                let less = |left: u64| left.checked_sub(1);
                self.left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                    .is_ok()
            } else {
                self.left.load(Ordering::Relaxed) > 0
            };
            if passes && !random.random_bool(self.loss) {
                tokio::spawn(Arc::clone(&self).deliver(there, datagram[..length].to_vec()));
            }
        }
    }

    async fn deliver(self: Arc<Self>, there: bool, datagram: Vec<u8>) {
        sleep(self.delay).await;
        let client = *self.client.lock().unwrap();
        let _ = match (there, client) {
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
