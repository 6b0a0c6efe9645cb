//! Detects changes of the database, in one task with its own connections, which may write.
//!
//! A session ends at the first failure. From then on changes may be lost, so caches must not store
//! responses. When the next session listens, all keys are purged once.

mod mariadb;
mod postgres;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Server};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::database::{Link, Trouble};
use super::catalogue::Listing;
use super::catalogue_cache::StaleKeys;
use super::dependents::Change;
use super::keys::Name;
use super::{SharedState, log};

/// Minimum and maximum time before the next session. It doubles with each failure.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Maximum time for the response to a statement of the watcher.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for connecting and logging in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to the watcher. The reply states whether it was executed.
pub(super) enum WatchRequest {
    /// Read the catalogue of the database.
    Look(oneshot::Sender<bool>),
    /// Watch these units.
    Watch(Vec<Name>, oneshot::Sender<bool>),
}

impl WatchRequest {
    fn refuse(self) {
        let (Self::Look(reply) | Self::Watch(_, reply)) = self;
        let _ = reply.send(false);
    }
}

/// Why changes cannot be detected with the configuration of the server, and what to change.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsuitableError {
    /// The server has no binary log.
    #[error(
        "the server does not write a binary log: start it with --log-bin --binlog-format=ROW --server-id=1"
    )]
    NoLog,
    /// The binary log does not contain rows.
    #[error(
        "the server's binary log contains statements, which do not name every table that they change: start the \
         server with --binlog-format=ROW"
    )]
    Statements,
    /// The user of the gateway may not read the end of the log. Contains the message of the server.
    #[error(
        "the server does not report the end of its binary log: {0}: grant BINLOG MONITOR or REPLICATION CLIENT to the \
         user of the gateway"
    )]
    EndRefused(String),
    /// The user of the gateway may not read the log. Contains the message of the server.
    #[error(
        "the server does not send its binary log: {0}: grant REPLICATION SLAVE to the user of the gateway"
    )]
    LogRefused(String),
    /// The write-ahead log does not contain what logical decoding needs. Contains `wal_level`.
    #[error(
        "the server's wal_level is {0}: set wal_level = logical and max_slot_wal_keep_size = 1GB, and restart the server"
    )]
    WalLevel(String),
    /// The user of the gateway may not read the write-ahead log. Contains the message of the
    /// server.
    #[error(
        "the server does not send its write-ahead log: {0}: execute ALTER ROLE ... REPLICATION for the user of the \
             gateway"
    )]
    ReplicationRefused(String),
    /// The output plugin is not installed. Contains the message of the server.
    #[error(
        "the server cannot load test_decoding: {0}: install the contrib modules of the server (postgresql-contrib)"
    )]
    NoPlugin(String),
}

/// Reason why a session has ended.
enum SessionEnd {
    /// A failure. The next session may succeed.
    Trouble(String),
    /// The configuration of the server is unsuitable.
    Unsuitable(UnsuitableError),
    /// The gateway is shutting down.
    Over,
}

impl From<Trouble> for SessionEnd {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble.to_string())
    }
}

impl From<UnsuitableError> for SessionEnd {
    fn from(error: UnsuitableError) -> Self {
        Self::Unsuitable(error)
    }
}

/// Receives the result of the first session: an error if the server is unsuitable.
type FirstResult = Option<oneshot::Sender<Result<(), UnsuitableError>>>;

/// Watches the database until the service ends.
pub(super) async fn watch(
    shared: Arc<SharedState>,
    database: String,
    mut requests: mpsc::Receiver<WatchRequest>,
    first: oneshot::Sender<Result<(), UnsuitableError>>,
) {
    let Ok(address) = Address::from_url(&database) else {
        return; // the pool has rejected the URL already
    };
    let mut first = Some(first);
    let mut pause = RETRY_INTERVAL.0;
    let mut logged = String::new();
    loop {
        let ended = match address.server {
            Server::Postgres => postgres::session(&shared, &address, &mut requests, &mut first).await,
            Server::Mysql => mariadb::session(&shared, &address, &mut requests, &mut first).await,
        };
        if shared.is_up() {
            shared.set_down();
            logged.clear();
            pause = RETRY_INTERVAL.0;
        }
        let why = match ended {
            SessionEnd::Over => return,
            SessionEnd::Trouble(why) => {
                report_first(&mut first, Ok(()));
                why
            }
            SessionEnd::Unsuitable(error) => {
                let why = error.to_string();
                report_first(&mut first, Err(error));
                why
            }
        };
        if logged != why {
            log(&format!(
                "caches must not store responses, because changes cannot be detected: {why}"
            ));
            logged = why;
        }
        if !wait(&mut requests, pause).await {
            return;
        }
        pause = (2 * pause).min(RETRY_INTERVAL.1);
    }
}

fn report_first(first: &mut FirstResult, result: Result<(), UnsuitableError>) {
    if let Some(first) = first.take() {
        let _ = first.send(result);
    }
}

/// Waits for `pause` and refuses all requests. Returns false if there can be no further requests.
async fn wait(requests: &mut mpsc::Receiver<WatchRequest>, pause: Duration) -> bool {
    let refuse = async {
        while let Some(request) = requests.recv().await {
            request.refuse();
        }
    };
    timeout(pause, refuse).await.is_err()
}

/// Replaces the catalogue, and purges the keys that this requires.
fn renew(shared: &SharedState, listing: &Listing) {
    let stale = shared.catalogue_cache().renew(listing);
    match stale {
        StaleKeys::All => shared.all_changed(),
        StaleKeys::Units(units) if units.is_empty() => {}
        StaleKeys::Units(units) => shared.units_changed(units.iter().map(|unit| (unit, &Change::Table))),
    }
}

/// A connection for the statements of the watcher.
struct QueryConnection {
    link: Link,
    /// Notifications that were received with the rows of results.
    notified: HashSet<String>,
}

type Row = Vec<Option<String>>;

impl QueryConnection {
    async fn open(address: &Address) -> Result<Self, SessionEnd> {
        match timeout(CONNECT_TIMEOUT, Link::open(address)).await {
            Ok(link) => Ok(Self {
                link: link?,
                notified: HashSet::new(),
            }),
            Err(_) => Err(SessionEnd::Trouble(format!(
                "no answer within {} s",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Ends a session whose work has ended with this result.
    fn end(self, result: Result<(), Trouble>) -> SessionEnd {
        match result {
            Ok(()) => {
                self.link.quit();
                SessionEnd::Over
            }
            Err(trouble) => trouble.into(),
        }
    }

    /// Executes a statement. Returns all rows of its result.
    async fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Trouble> {
        match timeout(QUERY_TIMEOUT, self.query(sql)).await {
            Ok(rows) => rows,
            Err(_) => Err(Trouble::Dead(format!(
                "no answer within {} s",
                QUERY_TIMEOUT.as_secs()
            ))),
        }
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Trouble> {
        self.link.query(sql);
        let mut rows = Vec::new();
        let mut refused = None;
        loop {
            match self.link.event().await? {
                Event::Row => {
                    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
                    rows.push(self.link.row().map(text).collect());
                }
                Event::Notified { payload, .. } => drop(self.notified.insert(payload)),
                Event::Failed(refusal) => refused = Some(refusal),
                Event::Ready => return refused.map_or(Ok(rows), |refusal| Err(Trouble::Refused(refusal))),
                _ => {}
            }
        }
    }
}

/// The value of the column with this index. NULL is an empty text.
fn value(row: &Row, index: usize) -> String {
    row.get(index).cloned().flatten().unwrap_or_default()
}
