//! Why the settings of `frontier` cannot be used.

use plimsoll_wire::frontier::request::MAX_PAYLOADS;

use super::settings::MAX_ID;
use crate::setup_error::EndpointError;

/// Why the settings or a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrontierError {
    /// The identification of the client is empty.
    #[error("id: expected a text, got an empty one: gateways refuse requests without X-Frontier-Id")]
    NoId,
    /// The identification of the client cannot be sent. Contains it.
    #[error("id: expected at most {MAX_ID} ASCII characters without line ends, got {0:?}")]
    Id(String),
    /// A timeout is 0.
    #[error("connect_timeout, read_timeout: expected more than 0s, got 0s")]
    NoTimeout,
    /// The share of requests that miss every cache is out of its range. Contains the share.
    #[error("uncached: expected a share of 0 to 1, got {0}")]
    Uncached(f64),
    /// There are no validation queries.
    #[error("chatter: expected at least one query, got none")]
    NoChatter,
    /// Load is balanced by the client, but there is no failover of the client.
    #[error(
        "load_balance: needs failover: client; without it, the target determines how endpoints and \
         proxies are chosen"
    )]
    BalanceWithoutFailover,
    /// A request contains too many queries.
    #[error(
        "queries of operation {operation}: expected at most {MAX_PAYLOADS}, the payloads of one request, got \
         {count}"
    )]
    TooManyQueries {
        /// Index of the operation, from 0.
        operation: usize,
        /// Number of queries.
        count: usize,
    },
    /// The versions of a batch of queries are requested.
    #[error("version of operation {operation}: expected one query, got a batch of {count}: set batch: 1")]
    VersionOfBatch {
        /// Index of the operation, from 0.
        operation: usize,
        /// Number of queries.
        count: usize,
    },
    /// The versions of a request that writes are requested.
    #[error(
        "version of operation {operation}: expected column, got written: a gateway cannot write; use the \
         driver sql for writing"
    )]
    Written {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// The level of compression does not exist.
    #[error("zip of operation {operation}: expected 0 to 9, got {level}")]
    Zip {
        /// Index of the operation, from 0.
        operation: usize,
        /// The level.
        level: u8,
    },
    /// An endpoint cannot be used without a proxy, which is part of the failover.
    #[error("{0}; or set failover_to_server: false")]
    Direct(#[source] EndpointError),
}
