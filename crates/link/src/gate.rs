//! Who may take part in how many handshakes at once, and the books on those who were refused.
//!
//! Pure but for its lock: no sockets, no clock.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::transport::Transport;

/// What strangers, and agents, can make a listener hold.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Longest handshake, from the first byte to the welcome.
    pub handshake: Duration,
    /// Handshakes at the same time, of all sources. Each may hold a descriptor and some 64 KiB.
    pub unfinished: usize,
    /// Handshakes at the same time of one source: an IPv4 address, or an IPv6 network of 64 bits,
    /// which is what one host is given. Must be below `unfinished`, or one source keeps all others
    /// out.
    pub unfinished_per_source: usize,
    /// Bytes that one QUIC agent may have on the way in each direction, which the listener holds
    /// while nobody reads them: 1 MiB at 315 ms are 3.3 MB/s. (TCP has the kernel's limits.)
    pub window: u32,
}

/// Why somebody was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Too many handshakes at once.
    Full,
    /// Too many handshakes of this source at once.
    FullSource,
    /// The handshake took too long.
    Slow,
    /// What came is no TLS, or no correct one.
    Garbage,
    /// No TLS 1.3.
    OldTls,
    /// Another way of securing links: another version of the engine, or another program.
    Version,
    /// No certificate was shown.
    NoKey,
    /// Another certificate, or without the key to it.
    WrongKey,
    /// The other side went away before it had proved anything, or refused this controller.
    Left,
}

/// What a listener has counted since it was bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Links whose peer was known.
    pub accepted: u64,
    /// Those that were refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Times that no connection could be taken because the process or the host had no descriptor or
    /// memory left.
    pub starved: u64,
}

/// Refusals of one source for one reason, since they were last asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Where the stranger was.
    pub source: IpAddr,
    /// What was tried.
    pub via: Transport,
    /// Why it was refused.
    pub reason: Reason,
    /// How often.
    pub times: u64,
}

/// Sources and reasons that are told apart between two looks; all the others are in the counters
/// only.
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

/// The right to a handshake; given back when dropped.
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

    /// Lets a handshake begin, or says why not; the refusal is counted.
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

    /// Those since the last call, at most [`MAX_REFUSALS`] sources and reasons.
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

/// Whom an address belongs to.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::Full => "too many handshakes at once",
            Self::FullSource => "too many handshakes from there at once",
            Self::Slow => "the handshake took too long",
            Self::Garbage => "what came is not the link's protocol",
            Self::OldTls => "it does not speak TLS 1.3",
            Self::Version => "it speaks another version of the link, or another protocol",
            Self::NoKey => "it showed no key",
            Self::WrongKey => "its key is not that of this experiment's agents",
            Self::Left => "it went away during the handshake, or did not accept this controller",
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
        write!(f, "a stranger from {} ({}) was refused", self.source, self.via)?;
        if self.times > 1 {
            write!(f, " {} times", self.times)?;
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
    fn one_source_cannot_take_every_place() {
        let gate = gate(3, 2);
        let enter = |address: &str| gate.enter(address.parse().unwrap(), Transport::Tcp);
        let one = enter("10.0.0.1").unwrap();
        let _two = enter("10.0.0.1").unwrap();
        assert_eq!(enter("::ffff:10.0.0.1").unwrap_err(), Reason::FullSource);
        let _three = enter("10.0.0.2").unwrap();
        assert_eq!(enter("10.0.0.3").unwrap_err(), Reason::Full);
        drop(one);
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
    fn nothing_is_kept_of_those_who_have_left() {
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
    fn refusals_are_told_once_a_source_and_counted_always() {
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
            "a stranger from 10.0.0.0 (tcp) was refused 3 times: what came is not the link's protocol"
        );
        assert_eq!(gate.counters().refused[&Reason::Garbage], 300);
        assert_eq!(gate.take_refusals(), []);
    }
}
