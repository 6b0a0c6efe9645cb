//! Limits on concurrent handshakes, and counts of the connections that were refused.
//!
//! This module has a lock, but no sockets and no clock.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_model::grouped;
use serde::Serialize;

use crate::transport::Transport;

/// Limits on the resources that clients can use of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum duration of a handshake, from the first byte to the welcome byte.
    pub handshake: Duration,
    /// Maximum number of concurrent handshakes of all sources. Each may use a descriptor and about
    /// 64 KiB.
    pub unfinished: usize,
    /// Maximum number of concurrent handshakes of one source: an IPv4 address, or an IPv6 network
    /// of 64 bits, which is usually assigned to one host. It must be below `unfinished`; otherwise
    /// one source can exclude all others.
    pub unfinished_per_source: usize,
    /// Maximum number of bytes in flight of one QUIC agent, in each direction. The listener buffers
    /// them until they are read. 1 MiB at 315 ms allows 3.3 MB/s. (For TCP the kernel's limits
    /// apply.)
    pub window: u32,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Too many concurrent handshakes.
    Full,
    /// Too many concurrent handshakes of this source.
    FullSource,
    /// The handshake took too long.
    Slow,
    /// The bytes are not valid TLS.
    Garbage,
    /// The client does not support TLS 1.3.
    OldTls,
    /// The client names another application protocol (ALPN): it is another version of the engine or
    /// another program.
    Version,
    /// The client presented no certificate.
    NoKey,
    /// The client presented another certificate, or does not have its key.
    WrongKey,
    /// The client closed the connection during the handshake, or refused this controller.
    Left,
}

/// Counts of a listener since it was bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Links with an authenticated peer.
    pub accepted: u64,
    /// Refused connections by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Number of times that no connection could be accepted because the process or the host had no
    /// free descriptor or memory.
    pub starved: u64,
}

/// Refusals of one source for one reason since the previous call of `Listener::refusals`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Address of the client.
    pub source: IpAddr,
    /// Transport of the connection.
    pub via: Transport,
    /// Why the connection was refused.
    pub reason: Reason,
    /// Number of refusals.
    pub times: u64,
}

/// Maximum number of refusals (source, transport and reason) that are kept between two calls of
/// `take_refusals`. Others are only counted.
const MAX_REFUSALS: usize = 16;

#[derive(Debug)]
pub(crate) struct Gate {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    unfinished: usize,
    by_source: HashMap<IpAddr, usize>,
    counters: Counters,
    refusals: Vec<Refusal>,
}

/// Permission for a handshake; it is returned when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    gate: Arc<Gate>,
    source: IpAddr,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            unfinished: 1024,
            unfinished_per_source: 256,
            window: 1 << 20,
        }
    }
}

impl Gate {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            state: Mutex::default(),
        })
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Permits a handshake, or counts a refusal and returns its reason.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr, via: Transport) -> Result<Ticket, Reason> {
        let source = source(address);
        let mut state = self.lock();
        let of_source = state.by_source.get(&source).copied().unwrap_or(0);
        let reason = if of_source >= self.bounds.unfinished_per_source {
            Reason::FullSource
        } else if state.unfinished >= self.bounds.unfinished {
            Reason::Full
        } else {
            state.unfinished += 1;
            state.by_source.insert(source, of_source + 1);
            return Ok(Ticket {
                gate: Arc::clone(self),
                source,
            });
        };
        state.refuse(address, via, reason);
        Err(reason)
    }

    pub(crate) fn count_accepted(&self) {
        self.lock().counters.accepted += 1;
    }

    pub(crate) fn count_starved(&self) {
        self.lock().counters.starved += 1;
    }

    pub(crate) fn count_refused(&self, address: IpAddr, via: Transport, reason: Reason) {
        self.lock().refuse(address, via, reason);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.lock().counters.clone()
    }

    /// The refusals since the last call, at most [`MAX_REFUSALS`].
    pub(crate) fn take_refusals(&self) -> Vec<Refusal> {
        std::mem::take(&mut self.lock().refusals)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse(&mut self, address: IpAddr, via: Transport, reason: Reason) {
        *self.counters.refused.entry(reason).or_default() += 1;
        let source = address.to_canonical();
        let is_same =
            |refusal: &&mut Refusal| (refusal.source, refusal.via, refusal.reason) == (source, via, reason);
        if let Some(refusal) = self.refusals.iter_mut().find(is_same) {
            refusal.times += 1;
        } else if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push(Refusal {
                source,
                via,
                reason,
                times: 1,
            });
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.unfinished -= 1;
        if let Some(count) = state.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                state.by_source.remove(&self.source);
            }
        }
    }
}

/// The source of an address: the IPv4 address, or the IPv6 network of 64 bits.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::Full => "too many concurrent handshakes",
            Self::FullSource => "too many concurrent handshakes from this address",
            Self::Slow => "the handshake took too long",
            Self::Garbage => "the data is not the link protocol",
            Self::OldTls => "it does not support TLS 1.3",
            Self::Version => "it uses another version of the link, or another protocol",
            Self::NoKey => "it presented no certificate",
            Self::WrongKey => "its key is not the key of this experiment's agents",
            Self::Left => "it closed the connection during the handshake, or did not accept this controller",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a connection from {} ({}) was refused", self.source, self.via)?;
        if self.times > 1 {
            write!(f, " {} times", grouped(self.times))?;
        }
        write!(f, ": {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(unfinished: usize, unfinished_per_source: usize) -> Arc<Gate> {
        Gate::new(Bounds {
            unfinished,
            unfinished_per_source,
            ..Bounds::default()
        })
    }

    #[test]
    fn one_source_cannot_use_all_handshakes() {
        let gate = gate(3, 2);
        let enter = |address: &str| gate.enter(address.parse().unwrap(), Transport::Tcp);
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("10.0.0.1").unwrap();
        assert_eq!(enter("::ffff:10.0.0.1").unwrap_err(), Reason::FullSource);
        let _third = enter("10.0.0.2").unwrap();
        assert_eq!(enter("10.0.0.3").unwrap_err(), Reason::Full);
        drop(first);
        assert!(enter("10.0.0.1").is_ok());
        assert_eq!(
            gate.counters().refused,
            BTreeMap::from([(Reason::Full, 1), (Reason::FullSource, 1)])
        );
    }

    #[test]
    fn a_host_with_many_addresses_is_one_source() {
        let gate = gate(9, 1);
        let _first = gate
            .enter("2001:db8::1".parse().unwrap(), Transport::Quic)
            .unwrap();
        assert!(
            gate.enter("2001:db8::2:3:4:5".parse().unwrap(), Transport::Quic)
                .is_err()
        );
        assert!(
            gate.enter("2001:db8:0:1::1".parse().unwrap(), Transport::Quic)
                .is_ok()
        );
    }

    #[test]
    fn a_handshake_that_ended_leaves_no_state() {
        let gate = gate(9, 9);
        for host in 0..=255 {
            drop(
                gate.enter(IpAddr::from([10, 0, 0, host]), Transport::Tcp)
                    .unwrap(),
            );
        }
        let state = gate.lock();
        assert_eq!((state.unfinished, state.by_source.len()), (0, 0));
    }

    #[test]
    fn refusals_are_limited_and_the_counters_are_complete() {
        let gate = gate(9, 9);
        for host in 0..100 {
            for _ in 0..3 {
                gate.count_refused(IpAddr::from([10, 0, 0, host]), Transport::Tcp, Reason::Garbage);
            }
        }
        let refusals = gate.take_refusals();
        assert_eq!(refusals.len(), MAX_REFUSALS);
        assert!(refusals.iter().all(|refusal| refusal.times == 3));
        assert_eq!(
            refusals[0].to_string(),
            "a connection from 10.0.0.0 (tcp) was refused 3 times: the data is not the link protocol"
        );
        assert_eq!(gate.counters().refused[&Reason::Garbage], 300);
        assert_eq!(gate.take_refusals(), []);
    }
}
