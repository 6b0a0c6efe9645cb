//! The configurations of the grid and of a decision point, and the sites that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::policy::Policies;
use super::select::Selector;
use crate::ServiceError;
use crate::tls::{SecurityMode, TlsKeys};

/// The simulated grid. Decision points get the same configuration, from which they know the sites
/// and their policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GridConfig {
    /// Number of sites, 1 to 10,000.
    pub sites: u32,
    /// Number of virtual organisations, 1 to 1,000.
    pub organisations: u16,
    /// Number of groups of each organisation, 1 to 100. Sites x organisations x groups is at most
    /// 10 million.
    pub groups: u16,
    /// Least and greatest number of CPUs of a site, 1 to 1,000,000. The logarithm is uniform.
    pub cpus: [u32; 2],
    /// Usage policies: `SITE ENTITY SHARE`. Without rules they are random.
    pub policies: Vec<String>,
    /// Seed of the sizes and of random policies.
    pub seed: u64,
    /// Time from the submission of a job to its arrival in the queue of its site, ms, at most an
    /// hour.
    pub submission_ms: u64,
    /// Maximum number of jobs in the queue of a site, 0 to 10,000. Further jobs are refused.
    pub queue: usize,
    /// Maximum number of jobs that have not ended, 1 to 10 million. Further jobs are refused.
    pub jobs: usize,
}

impl Default for GridConfig {
    fn default() -> Self {
        Self {
            sites: 300,
            organisations: 60,
            groups: 10,
            cpus: [10, 1000],
            policies: Vec::new(),
            seed: 1,
            submission_ms: 0,
            queue: 256,
            jobs: 1_000_000,
        }
    }
}

/// A decision point.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerConfig {
    /// The grid, with the configuration of its service.
    pub grid: GridConfig,
    /// HOST:PORT of the grid's service. Required.
    pub grid_address: String,
    /// HOST:PORT of the decision points that started before this one, at most 63. This point
    /// exchanges decisions with each of them, in both directions.
    pub peers: Vec<String>,
    /// Time between two exchanges, ms, 1 ms to a day. None: no exchange.
    pub exchange_ms: Option<u64>,
    /// How a site is chosen.
    pub selector: Selector,
    /// Maximum time for which a job waits at the decision point for a site with capacity, ms, at
    /// most an hour.
    pub hold_ms: u64,
    /// Time that each decision occupies the decision point, ms, at most a minute: the cost of a
    /// container such as those of the published brokers. 0: only the decision itself.
    pub decision_ms: u64,
    /// Seed of random choices.
    pub seed: u64,
    /// How the clients of jobs are identified.
    pub security: SecurityMode,
    /// Path of the certificate of the point with its chain, in PEM.
    pub cert_file: Option<PathBuf>,
    /// Path of its key, in PEM.
    pub key_file: Option<PathBuf>,
    /// Path of the certificates of the authorities that sign those of clients, in PEM.
    pub ca_file: Option<PathBuf>,
}

/// What is known of the sites: their CPUs and policies.
#[derive(Debug)]
pub(super) struct Sites {
    pub(super) cpus: Vec<u32>,
    pub(super) policies: Policies,
    pub(super) organisations: u16,
    pub(super) groups: u16,
}

fn check<T: PartialOrd + std::fmt::Display + Copy>(
    key: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ServiceError> {
    if value < least || value > most {
        let why = format!("expected {least} to {most}, got {value}");
        return Err(ServiceError::Config { key, why });
    }
    Ok(())
}

impl GridConfig {
    /// Checks the configuration and computes the sites. The same configuration results in the same
    /// sites.
    pub(super) fn sites(&self) -> Result<Sites, ServiceError> {
        check("sites", self.sites, 1, 10_000)?;
        check("organisations", self.organisations, 1, 1_000)?;
        check("groups", self.groups, 1, 100)?;
        let shares = u64::from(self.sites) * u64::from(self.organisations) * u64::from(self.groups);
        check("sites x organisations x groups", shares, 1, 10_000_000)?;
        let [least, most] = self.cpus;
        check("cpus", least, 1, 1_000_000)?;
        check("cpus", most, least, 1_000_000)?;
        check("submission_ms", self.submission_ms, 0, 3_600_000)?;
        check("queue", self.queue, 0, 10_000)?;
        check("jobs", self.jobs, 1, 10_000_000)?;
        let mut rng = Pcg64::seed_from_u64(self.seed);
        let (low, high) = (f64::from(least).ln(), f64::from(most).ln());
        let cpus: Vec<u32> = (0..self.sites)
            .map(|_| (low + (high - low) * rng.random::<f64>()).exp().round() as u32)
            .collect();
        let policies = if self.policies.is_empty() {
            Policies::generated(&mut rng, &cpus, self.organisations, self.groups)
        } else {
            Policies::of_rules(&self.policies, &cpus, self.organisations, self.groups).map_err(|error| {
                ServiceError::Config {
                    key: "policies",
                    why: error.to_string(),
                }
            })?
        };
        Ok(Sites {
            cpus,
            policies,
            organisations: self.organisations,
            groups: self.groups,
        })
    }

    pub(super) fn submission_ns(&self) -> u64 {
        self.submission_ms * 1_000_000
    }
}

impl BrokerConfig {
    /// Checks what the sites do not depend on.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        if self.grid_address.is_empty() {
            return Err(ServiceError::Config {
                key: "grid_address",
                why: "required: HOST:PORT of the service `grid`".into(),
            });
        }
        check("peers", self.peers.len(), 0, super::MAX_POINTS - 1)?;
        check("exchange_ms", self.exchange_ms.unwrap_or(1), 1, 86_400_000)?;
        check("hold_ms", self.hold_ms, 0, 3_600_000)?;
        check("decision_ms", self.decision_ms, 0, 60_000)?;
        self.tls().check()
    }

    pub(super) fn tls(&self) -> TlsKeys<'_> {
        TlsKeys {
            mode: self.security,
            cert: self.cert_file.as_deref(),
            key: self.key_file.as_deref(),
            ca: self.ca_file.as_deref(),
        }
    }

    pub(super) fn decision(&self) -> Duration {
        Duration::from_millis(self.decision_ms)
    }

    pub(super) fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms)
    }
}
