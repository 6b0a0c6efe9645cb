//! The sessions of a tester, in the run document.

use serde::{Deserialize, Serialize};

use crate::run::Dist;

/// Name of the threads that carry out work of sessions. Their use of a core is the emulated job's,
/// not load of the load generator. At most 15 bytes: the kernel stores no more.
pub const SESSION_THREAD: &str = "plimsoll-job";

/// A session of a tester: an emulated application job, which starts, computes, and sends requests
/// at random times of its computing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// Program with which a session starts, and its arguments. Empty: none.
    pub start: Vec<String>,
    /// Computing time of a session, without its requests.
    pub compute: Dist,
    /// Whether computing uses this time on a core. Otherwise the tester sleeps.
    pub busy: bool,
    /// Minimum number of requests of a session, in addition to those of [`Operation::first`].
    pub min_queries: u32,
    /// Maximum number of these requests. All numbers from the minimum on have equal probability.
    pub max_queries: u32,
}

impl SessionSpec {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.min_queries > self.max_queries {
            return Err("expected min_queries of at most max_queries");
        }
        Ok(())
    }
}
