//! What the lab asks for: hosts, links by direction, and the way between each two sites. The lab
//! has read and checked the file of a person; here only consistency is checked.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::WanError;

/// Version of this document and of the control socket's answers.
pub const VERSION: u32 = 1;
/// Most hosts of a testbed: each costs a namespace, a packet socket and an sshd.
pub const MAX_HOSTS: usize = 500;
/// Longest one-way delay: beyond it, it is a slip.
pub const MAX_DELAY_NS: i64 = 60_000_000_000;

/// A whole testbed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// [`VERSION`].
    pub testbed: u32,
    /// Names it among others of this user.
    pub name: String,
    /// Made for it by the lab, ours from then on, and removed with it: control socket, logs, keys.
    pub directory: PathBuf,
    /// Seed of losses and jitter; each link draws from a stream of its own.
    pub seed: u64,
    /// Congestion control of all hosts; None: what this machine has.
    pub congestion: Option<String>,
    /// Bits of the network that all hosts share, 8 to 30.
    pub prefix: u8,
    /// Names of sites.
    pub sites: Vec<String>,
    /// All hosts, the lab's own among them.
    pub hosts: Vec<Host>,
    /// Links by direction. From a site to itself: the LAN inside it.
    pub links: Vec<Directed>,
    /// The way between two sites, for each pair and direction that is not reached by a single link.
    pub routes: Vec<Route>,
    /// What runs in each host from start to end, an sshd.
    pub daemon: Option<Daemon>,
}

/// One host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Also its hostname.
    pub name: String,
    /// Index into the sites.
    pub site: usize,
    /// Address of its interface.
    pub address: Ipv4Addr,
}

/// One direction of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directed {
    /// Index into the sites.
    pub from: usize,
    /// Index into the sites.
    pub to: usize,
    /// What it does to frames.
    pub shape: Shape,
}

/// What one direction of a link does to frames.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Mean one-way delay in ns, at least half the jitter.
    pub delay_ns: i64,
    /// Width in ns of the uniform law around the mean.
    pub jitter_ns: i64,
    /// Bits a second, counted on Ethernet frames without preamble and check sum; None: no bound.
    pub rate_bit_s: Option<u64>,
    /// Probability from 0 to 1 that a frame is lost.
    pub loss: f64,
    /// Bytes that may wait for the transmitter; without a rate, bytes that may be on the way.
    pub queue_bytes: u64,
    /// Cut: whatever is offered is dropped. What is on its way arrives.
    pub down: bool,
}

/// Longest that one large frame may keep a transmitter from others, ns: well below what is told
/// apart of a round trip.
const TRAIN_NS: u128 = 100_000;
/// Bytes of a full packet with its Ethernet header.
const MAX_PACKET: u128 = 1514;
/// What the kernel's own limit is.
const MAX_SEGMENTS: u32 = 65_535;

impl Shape {
    /// How many packets a host may hand over as one large frame that offload cuts later: one where
    /// a loss is drawn for each; with a rate, those that pass within [`TRAIN_NS`]. Each costs the
    /// middle and both hosts as much as a large one, and two cores do not carry 500 Mbit/s of
    /// single ones.
    pub fn segments(&self) -> u32 {
        if self.loss > 0.0 {
            return 1;
        }
        self.rate_bit_s.map_or(MAX_SEGMENTS, |rate| {
            let passing = u128::from(rate) * TRAIN_NS / (8 * 1_000_000_000 * MAX_PACKET);
            u32::try_from(passing)
                .unwrap_or(MAX_SEGMENTS)
                .clamp(1, MAX_SEGMENTS)
        })
    }

    /// Refuses values outside the documented ranges.
    ///
    /// # Errors
    /// [`WanError::Config`].
    pub fn check(&self) -> Result<(), WanError> {
        let delays =
            (0..=MAX_DELAY_NS).contains(&self.delay_ns) && (0..=2 * self.delay_ns).contains(&self.jitter_ns);
        if !delays {
            return wrong(format!(
                "delay {} ns with jitter {} ns",
                self.delay_ns, self.jitter_ns
            ));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return wrong(format!("a loss of {}", self.loss));
        }
        if self
            .rate_bit_s
            .is_some_and(|rate| !(1_000..=1_000_000_000_000).contains(&rate))
        {
            return wrong(format!("a rate of {:?} bit/s", self.rate_bit_s));
        }
        if !(2_000..=1 << 32).contains(&self.queue_bytes) {
            return wrong(format!("a queue of {} bytes", self.queue_bytes));
        }
        Ok(())
    }
}

/// A way over more than one link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Sites from the first to the last.
    pub sites: Vec<usize>,
}

/// A program for every host. `{address}` and `{name}` in its arguments are the host's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Program and arguments; it must stay in the foreground.
    pub command: Vec<String>,
    /// Port on which it listens once it is ready.
    pub port: u16,
}

impl Config {
    /// Refuses what does not fit together.
    ///
    /// # Errors
    /// [`WanError::Config`].
    pub fn check(&self) -> Result<(), WanError> {
        if self.testbed != VERSION {
            return wrong(format!("version {} (this engine knows {VERSION})", self.testbed));
        }
        if self.hosts.is_empty() || self.hosts.len() > MAX_HOSTS {
            return wrong(format!(
                "{} hosts, from 1 to {MAX_HOSTS} are possible",
                self.hosts.len()
            ));
        }
        if !(8..=30).contains(&self.prefix) {
            return wrong(format!("a prefix of {} bits", self.prefix));
        }
        let sites = self.sites.len();
        let known = |site: usize| site < sites;
        if !self.hosts.iter().all(|host| known(host.site))
            || !self.links.iter().all(|link| known(link.from) && known(link.to))
            || !self
                .routes
                .iter()
                .all(|route| route.sites.len() > 2 && route.sites.iter().all(|site| known(*site)))
        {
            return wrong("a site that is not there".to_owned());
        }
        self.links.iter().try_for_each(|link| link.shape.check())
    }
}

fn wrong(what: String) -> Result<(), WanError> {
    Err(WanError::Config(what))
}
