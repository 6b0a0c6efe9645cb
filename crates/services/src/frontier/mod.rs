//! `frontier`: the gateway of the `FroNtier` protocol over an `SQLite` file, `PostgreSQL` or
//! `MariaDB`, compatible on the wire with servlet 3.42.
//!
//! A request is a cacheable GET whose URL holds SQL; the answer streams from the database through
//! zlib, MD5 and base64 to the client in pieces of about 64 kB, with bounded memory whatever the
//! size of the result. The servlet's limits are here too: `connections` to the database, queued for
//! first come first served with keepalives while waiting, and `threads`, above which requests are
//! refused with 503.
//!
//! Where it differs from the servlet: text is sent as stored (the servlet mangles what Latin-1
//! cannot say); a query is stopped after `query_timeout_s` or when its client has gone (the servlet
//! lets it run); `SQLite` has no names of types but the declared ones of columns, which are sent in
//! lower case; several statements in one query are refused, and so is anything that is no question;
//! `BLOBzip0` is refused; the latest change of several tables is the latest time, and not the
//! greatest text (see `database/dialect.rs`); hours of the day are those of UTC.

mod answer;
mod command;
mod config;
mod database;
mod files;
mod invalidation;
mod keepalive;
mod modified;
mod respond;
mod signature;
mod tally;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpListener;

pub use config::{Ages, FrontierConfig};
pub use invalidation::{CacheConfig, InvalidationConfig, InvalidationStats, On, Triggers};
pub use tally::FrontierStats;

use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;
use database::{Database, Dialect};
use files::Files;
use invalidation::Invalidation;
use modified::Modified;
use signature::Signer;
use tally::{Tally, get};

struct Gateway {
    config: FrontierConfig,
    database: Database,
    files: Files,
    modified: Arc<Modified>,
    signer: Option<Signer>,
    /// Where caches are to be told.
    invalidation: Option<Invalidation>,
    counters: Counters,
    tally: Tally,
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    config: FrontierConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let address = listener
        .local_addr()
        .map_err(ServiceError::io("the socket has no address"))?;
    let mut gateway = Gateway::new(config)?;
    gateway.invalidate(address).await?;
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
        let knows_by_itself = database.dialect() == Dialect::Mysql;
        let modified = Modified::new(config.validate_last_modified_s);
        if modified.wanted() && config.last_modified_table.is_none() && !knows_by_itself {
            return Err(ServiceError::Config {
                key: "last_modified_table",
                why: "needed with validate_last_modified_s: this database does not know when tables changed"
                    .into(),
            });
        }
        Ok(Self {
            database,
            files: Files::new(config.files.clone(), config.file_connections),
            modified: Arc::new(modified),
            invalidation: None,
            signer: Signer::load(config.key_file.as_ref(), config.cert_file.as_ref())?,
            counters: Counters::default(),
            tally: Tally::default(),
            config,
        })
    }

    /// Begins to tell caches, where that is asked for.
    async fn invalidate(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        if let Some(config) = &self.config.invalidation {
            let database = self.config.database.to_string_lossy();
            let dialect = self.database.dialect();
            let modified = self.modified.clone();
            let begun = Invalidation::start(config, &database, dialect, modified, address).await?;
            self.invalidation = Some(begun);
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
        }
    }
}
