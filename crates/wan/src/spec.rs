//! The configuration that the lab sends: hosts, links per direction, and the path between each two
//! sites. The lab has read and checked the user's file; this module checks ranges and references.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::WanError;

/// Version of the configuration and of the responses of the control socket.
pub const VERSION: u32 = 1;
/// Maximum number of hosts of a testbed. Each needs a namespace, a packet socket and an sshd.
pub const MAX_HOSTS: usize = 500;
/// Maximum one-way delay in ns. A greater value is probably a mistake.
pub const MAX_DELAY_NS: i64 = 60_000_000_000;

/// Configuration of a testbed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of the configuration: [`VERSION`].
    pub testbed: u32,
    /// Name of the testbed, unique among the testbeds of this user.
    pub name: String,
    /// Directory for the control socket, logs and keys. The lab creates it; the testbed removes it
    /// at its end.
    pub directory: PathBuf,
    /// Seed of losses and jitter. Each link draws from its own random stream.
    pub seed: u64,
    /// Congestion control of all hosts. None: the default of this machine.
    pub congestion: Option<String>,
    /// Length in bits of the network prefix that all hosts share, 8 to 30.
    pub prefix: u8,
    /// Names of the sites.
    pub sites: Vec<String>,
    /// All hosts, including that of the lab; 1 to [`MAX_HOSTS`].
    pub hosts: Vec<Host>,
    /// Links, one entry per direction. A link from a site to itself is the LAN of the site.
    pub links: Vec<DirectedLink>,
    /// The path between two sites, for each pair and direction without a link of its own.
    pub routes: Vec<Route>,
    /// Program that runs on each host while the testbed is up: an sshd.
    pub daemon: Option<Daemon>,
}

/// One emulated host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name of the host and its hostname.
    pub name: String,
    /// Index of its site in [`Config::sites`].
    pub site: usize,
    /// IPv4 address of its interface.
    pub address: Ipv4Addr,
}

/// One direction of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectedLink {
    /// Index in [`Config::sites`] of the sending site.
    pub from: usize,
    /// Index in [`Config::sites`] of the receiving site.
    pub to: usize,
    /// Delay, rate, loss and queue.
    pub shape: Shape,
}

/// Properties of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Mean one-way delay in ns: 0 to [`MAX_DELAY_NS`], at least half the jitter.
    pub delay_ns: i64,
    /// Width in ns of the uniform distribution around the mean, 0 to twice the delay.
    pub jitter_ns: i64,
    /// Rate in bit/s (1,000 to 10¹²) of Ethernet frames without preamble and checksum. None: no
    /// limit.
    pub rate_bit_s: Option<u64>,
    /// Probability from 0 to 1 that a frame is lost.
    pub loss: f64,
    /// Maximum number of bytes that wait for the transmitter, 2,000 to 2³². Without a rate: maximum
    /// number of bytes in transit.
    pub queue_bytes: u64,
    /// True: the link is cut. Every new frame is dropped; frames in transit arrive.
    pub down: bool,
}

/// Maximum transmission time of one large frame, ns. It is far below the smallest difference of
/// round trips that matters.
const TRAIN_NS: u128 = 100_000;
/// Bytes of a full packet with its Ethernet header.
const MAX_PACKET: u128 = 1514;
/// Limit of the kernel (`GSO_MAX_SEGS`).
const MAX_SEGMENTS: u32 = 65_535;

impl Shape {
    /// Maximum number of packets that a host may pass as one large frame, which segmentation
    /// offload cuts later. 1 if the link has loss, because each packet is lost individually; with a
    /// rate, the packets that pass within [`TRAIN_NS`]. A single packet costs the middle and both
    /// hosts as much as a large frame: two cores do not forward 500 Mbit/s of single packets.
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

    /// Rejects values outside the documented ranges.
    ///
    /// # Errors
    /// [`WanError::Config`].
    pub fn check(&self) -> Result<(), WanError> {
        let delays =
            (0..=MAX_DELAY_NS).contains(&self.delay_ns) && (0..=2 * self.delay_ns).contains(&self.jitter_ns);
        if !delays {
            return wrong(format!(
                "expected a delay from 0 to {} s and a jitter from 0 to twice the delay, got delay {} ns, jitter {} ns",
                MAX_DELAY_NS / 1_000_000_000,
                self.delay_ns,
                self.jitter_ns
            ));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return wrong(format!("expected a loss from 0 to 1, got {}", self.loss));
        }
        if let Some(rate) = self.rate_bit_s
            && !(1_000..=1_000_000_000_000).contains(&rate)
        {
            return wrong(format!(
                "expected a rate from 1,000 to 1,000,000,000,000 bit/s, got {rate} bit/s"
            ));
        }
        if !(2_000..=1 << 32).contains(&self.queue_bytes) {
            return wrong(format!(
                "expected a queue from 2,000 to 4,294,967,296 bytes, got {} bytes",
                self.queue_bytes
            ));
        }
        Ok(())
    }
}

/// A path over more than one link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Indices in [`Config::sites`] from the first site to the last, at least 3.
    pub sites: Vec<usize>,
}

/// A program that is started on every host. `{address}` and `{name}` in its arguments are replaced
/// by the address and the name of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Program and arguments. The program must stay in the foreground.
    pub command: Vec<String>,
    /// TCP port on which it listens when it is ready.
    pub port: u16,
}

impl Config {
    /// Rejects a configuration that is inconsistent or out of range.
    ///
    /// # Errors
    /// [`WanError::Config`].
    pub fn check(&self) -> Result<(), WanError> {
        if self.testbed != VERSION {
            return wrong(format!(
                "this engine reads version {VERSION}, got version {}",
                self.testbed
            ));
        }
        if self.hosts.is_empty() || self.hosts.len() > MAX_HOSTS {
            return wrong(format!(
                "expected 1 to {MAX_HOSTS} hosts, got {}",
                self.hosts.len()
            ));
        }
        if !(8..=30).contains(&self.prefix) {
            return wrong(format!(
                "expected a prefix from 8 to 30 bits, got {}",
                self.prefix
            ));
        }
        let sites = self.sites.len();
        let is_site = |site: usize| site < sites;
        if !self.hosts.iter().all(|host| is_site(host.site))
            || !self
                .links
                .iter()
                .all(|link| is_site(link.from) && is_site(link.to))
            || !self
                .routes
                .iter()
                .all(|route| route.sites.len() > 2 && route.sites.iter().all(|site| is_site(*site)))
        {
            return wrong(format!(
                "a host, link or route names a site outside the {sites} sites, or a route has fewer than 3 sites"
            ));
        }
        self.links.iter().try_for_each(|link| link.shape.check())
    }
}

fn wrong(what: String) -> Result<(), WanError> {
    Err(WanError::Config(what))
}
