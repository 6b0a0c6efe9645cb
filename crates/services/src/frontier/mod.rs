//! `frontier`: the gateway of the `FroNtier` protocol to an `SQLite` file, `PostgreSQL` or
//! `MariaDB`. Its protocol is compatible with servlet 3.42.
//!
//! A request is a cacheable GET whose URL contains SQL. The response is streamed from the database
//! through zlib, MD5 and base64 to the client, in pieces of about 64 kB. The memory in use is
//! bounded for results of any size. The limits are those of the servlet: `connections` to the
//! database (requests wait for one in order of arrival, and the client receives keepalives), and
//! `threads`, above which requests are refused with 503.
//!
//! Differences from the servlet:
//!
//! - Text is sent as stored. The servlet truncates characters that Latin-1 does not contain.
//! - A query is stopped after `query_timeout_s`, or when its client has closed the connection. The
//!   servlet lets it run.
//! - `SQLite` has no type names except those in the declarations of columns. They are sent in lower
//!   case.
//! - A query with several statements is refused, as is a statement that does not read.
//! - `BLOBzip0` is refused.
//! - The last change of several tables is the latest time, not the greatest text (see
//!   `database/dialect.rs`).
//! - Hours of the day are in UTC.

mod answer;
mod command;
mod config;
mod database;
mod files;
mod invalidation;
mod keepalive;
mod last_modified;
mod respond;
mod signature;
mod tally;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpListener;

pub use config::{Ages, FrontierConfig};
pub use invalidation::{CacheConfig, Detection, InvalidationConfig, InvalidationStats, On, Scope, Triggers};
pub use tally::FrontierStats;

use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;
use database::{Database, Dialect};
use files::Files;
use invalidation::Invalidation;
use last_modified::LastModifiedCache;
use signature::Signer;
use tally::{Tally, get};

struct Gateway {
    config: FrontierConfig,
    database: Database,
    files: Files,
    last_modified: Arc<LastModifiedCache>,
    signer: Option<Signer>,
    /// None: caches are not notified of changes.
    invalidation: Option<Invalidation>,
    counters: Counters,
    tally: Tally,
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    config: FrontierConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let address = listener.local_addr().map_err(ServiceError::io(
        "cannot read the address of the listening socket",
    ))?;
    let mut gateway = Gateway::new(config)?;
    gateway.start_invalidation(address).await?;
    let gateway = Arc::new(gateway);
    let shared = gateway.clone();
    let served = serve_connections(listener, shutdown, move |stream| {
        shared.counters.connection();
        let gateway = shared.clone();
        async move { gateway.connection(HttpConnection::new(stream, 64 * 1024)).await }
    })
    .await;
    gateway.database.close().await;
    served
}

impl Gateway {
    fn new(config: FrontierConfig) -> Result<Self, ServiceError> {
        let database = Database::open(&config)?;
        config.check(database.dialect())?;
        let has_change_times = database.dialect() == Dialect::Mysql;
        let last_modified = LastModifiedCache::new(config.validate_last_modified_s);
        if last_modified.is_enabled() && config.last_modified_table.is_none() && !has_change_times {
            return Err(ServiceError::Config {
                key: "last_modified_table",
                why: "required with validate_last_modified_s, because this database does not store when its tables \
                      changed"
                    .into(),
            });
        }
        Ok(Self {
            database,
            files: Files::new(config.files.clone(), config.file_connections),
            last_modified: Arc::new(last_modified),
            invalidation: None,
            signer: Signer::load(config.key_file.as_ref(), config.cert_file.as_ref())?,
            counters: Counters::default(),
            tally: Tally::default(),
            config,
        })
    }

    /// Starts the notification of caches, if it is configured.
    async fn start_invalidation(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        if let Some(config) = &self.config.invalidation {
            let database = self.config.database.to_string_lossy();
            let dialect = self.database.dialect();
            let last_modified = self.last_modified.clone();
            let invalidation =
                Invalidation::start(config, &database, dialect, last_modified, address).await?;
            self.invalidation = Some(invalidation);
        }
        Ok(())
    }

    async fn connection(&self, mut connection: HttpConnection) {
        let mut head = Head::default();
        let mut body = Vec::new();
        loop {
            match connection.next(&mut head, &mut body).await {
                Next::Request => {}
                Next::Refused => return self.counters.refused(),
                Next::Closed => return,
            }
            if let Some(question) = Question::of_target(head.target()) {
                let text = question.answer(&self.counters, || self.stats());
                let response = Response::text(200);
                if !connection.respond(&head, &response, text.as_bytes()).await {
                    return;
                }
            } else {
                self.counters.received(1);
                if !self.answer(&mut connection, &head).await {
                    return;
                }
            }
        }
    }

    fn stats(&self) -> FrontierStats {
        let tally = &self.tally;
        FrontierStats {
            counts: self.counters.counts(),
            queries: get(&tally.queries),
            rows: get(&tally.rows),
            payload_bytes: get(&tally.payload_bytes),
            database_errors: get(&tally.database_errors),
            keepalives: get(&tally.keepalives),
            not_modified: get(&tally.not_modified),
            in_progress: tally.in_progress.load(Ordering::Relaxed),
            connections_in_use: self.database.in_use(),
            connections_waiting: tally.waiting.load(Ordering::Relaxed),
            invalidation: self.invalidation.as_ref().map(Invalidation::stats),
            connections_limit: self.config.connections,
            threads_limit: self.config.threads,
            times: tally.times(),
        }
    }
}
