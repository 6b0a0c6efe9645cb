//! `grid` and `broker`: a simulated grid, and decision points that choose the sites of its jobs
//! under usage policies, as in GRUBER and DI-GRUBER.
//!
//! `grid` is one process: 300 sites that queue and run jobs (nothing is executed). It receives each
//! decision and assesses it against the state of all sites, which no decision point has.
//!
//! `broker` is a decision point, and any number of them can serve one grid. A point has a view of
//! the sites from its own decisions and those that the other points send periodically (`point.rs`).
//! It chooses a site for a job (`select.rs`) under the policies (`policy.rs`), submits the job to
//! the grid, and answers with the site and with the quality of the decision.
//!
//! A point answers in two protocols on one port ([`plimsoll_wire::broker`]): HTTP with JSON, and a
//! binary protocol, whose first byte is no HTTP. One implementation decides for both. All other
//! requests are HTTP with JSON: those to the grid, the exchange between points, and those for
//! counters. They are few or have no client that is measured.
//!
//! With `security: tls`, jobs need TLS with a client certificate or a grid proxy, in both
//! protocols. The first byte of a connection shows whether it is TLS. The other requests stay
//! without TLS: they are those of Plimsoll itself.
//!
//! | service | request | response |
//! |---|---|---|
//! | `broker` | `POST /decide` `{"vo": 3, "group": 7, "cpus": 1, "runtime_ms": 60000}` | `{"job": 12, "site": 7, "accuracy": 0.93, "misplaced": false}`. 503: no site has capacity, or the grid refuses the job, with `error` and `status` |
//! | `broker` | `POST /exchange` | the decisions of this point; not in `received` and `answered` |
//! | `grid` | `POST /jobs` `{"site": 7, "job": {"vo": 3, ...}}`; `"site": null` is a refusal | `{"job": 12, "accuracy": 0.93, "misplaced": false, "possible": true, "queue_full": false}`. 503: no place, with `error` |
//! | `grid` | `GET /jobs/12` | `{"job": 12, "state": "running", "site": 7}` |
//!
//! The response to `/decide` has the quality also in the fields `Plimsoll-Accuracy` (0 to 1),
//! `Plimsoll-Misplaced` and `Plimsoll-Queue-Full` (0 or 1), which the driver `http` can record as
//! metrics. If the queue of the site is full, the status of both services is 503, and the decision
//! has a quality, too.
//!
//! The point submits the job itself, within the request. Rejected: a client that submits it. Each
//! decision would then need two transactions, and its quality would belong to neither.

mod client;
mod config;
mod grid;
mod grid_service;
mod point;
mod point_binary;
mod point_http;
mod point_service;
mod policy;
mod select;
#[cfg(test)]
mod simulation;
mod usage;

pub use config::{BrokerConfig, GridConfig};
pub use grid_service::serve_grid;
pub use point_service::serve_point;
pub use select::Selector;

use std::time::Instant;

use plimsoll_wire::broker::MEDIA_TYPE;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::{Head, HttpConnection, Response};

/// Maximum number of decision points of one grid.
const MAX_POINTS: usize = 64;
/// Maximum number of decisions in one message of an exchange.
const MAX_BATCH: usize = 5_000;
/// Maximum length of a request body, bytes: more than a batch.
const MAX_BODY: usize = 1024 * 1024;

/// Time since `origin`, ns.
fn elapsed_ns(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Sends a response with a JSON body. `fields`: further header fields, each with `\r\n` at its end.
/// Returns false if the connection must be closed.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut HttpConnection<S>,
    head: &Head,
    status: u16,
    fields: String,
    body: &impl Serialize,
) -> bool {
    // The bodies are structs of numbers and texts, so the conversion to JSON cannot fail.
    let mut body = serde_json::to_vec(body).unwrap_or_default();
    body.push(b'\n');
    respond_json(connection, head, status, fields, &body).await
}

/// [`respond`] with a body that is JSON.
async fn respond_json<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut HttpConnection<S>,
    head: &Head,
    status: u16,
    fields: String,
    body: &[u8],
) -> bool {
    let response = Response {
        status,
        content_type: MEDIA_TYPE,
        fields,
        close: false,
    };
    connection.respond(head, &response, body).await
}

/// The body of a response that states an error.
#[derive(Serialize)]
struct ErrorBody {
    error: String,
}

impl ErrorBody {
    fn new(error: impl std::fmt::Display) -> Self {
        Self {
            error: error.to_string(),
        }
    }
}
