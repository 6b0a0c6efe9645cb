//! A bounded pool of connections to `PostgreSQL` or `MariaDB`. The tasks that write to the clients
//! read from them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Refusal, Server};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::link::{Link, Trouble};
use super::{Dialect, Failure};

/// Maximum time for connecting, logging in and the first settings.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after a failed attempt during which further requests fail with the same message, without
/// another attempt.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for the server to cancel a query.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for all queries to end at the end of the service.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Difference between the limit of the server for a query and that of the gateway, in seconds.
const SERVER_MARGIN_S: f64 = 5.0;

/// The pool.
pub(crate) struct Pool {
    address: Address,
    /// Last in, first out, because the connection that was used last has the warmest caches.
    idle: Mutex<Vec<Link>>,
    permits: Arc<Semaphore>,
    size: usize,
    pub(super) query_timeout: Duration,
    /// Time of the next attempt to connect, and the failure of the last one.
    trouble: Mutex<Option<(Instant, Failure)>>,
}

impl Pool {
    /// Creates a pool without connections: the server may be started after the gateway.
    pub(super) fn new(address: Address, connections: usize, query_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            address,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(connections)),
            size: connections,
            query_timeout,
            trouble: Mutex::new(None),
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self.address.server {
            Server::Postgres => Dialect::Postgres,
            Server::Mysql => Dialect::Mysql,
        }
    }

    pub(super) fn in_use(&self) -> usize {
        self.size - self.permits.available_permits()
    }

    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Lease, Failure> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Failure::refused("the gateway is shutting down"))?;
        let mut lease = Lease {
            link: None,
            pool: self.clone(),
            permit: Some(permit),
        };
        while let Some(link) = self.pop() {
            if link.is_fresh() {
                lease.link = Some(link);
                return Ok(lease);
            }
        }
        lease.link = Some(self.connect().await?);
        Ok(lease)
    }

    fn pop(&self) -> Option<Link> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Result<Link, Failure> {
        let trouble = || self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, failure)) = &*trouble()
            && Instant::now() < *until
        {
            return Err(failure.clone());
        }
        let why = match timeout(CONNECT_TIMEOUT, self.open()).await {
            Ok(Ok(link)) => {
                *trouble() = None;
                return Ok(link);
            }
            Ok(Err(trouble)) => trouble.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        };
        let (host, port) = (&self.address.host, self.address.port);
        let failure = Failure::database(format!("cannot connect to the database at {host}:{port}: {why}"));
        *trouble() = Some((Instant::now() + RETRY_INTERVAL, failure.clone()));
        Err(failure)
    }

    /// Opens a connection that can only read. Its server also limits the time of a query, in case
    /// the gateway cannot cancel it.
    async fn open(&self) -> Result<Link, Trouble> {
        let mut link = Link::open(&self.address).await?;
        let limit = self.query_timeout.as_secs_f64() + SERVER_MARGIN_S;
        let (required, optional): (&[&str], _) = match self.address.server {
            Server::Postgres => (
                &["SET default_transaction_read_only = on; SET standard_conforming_strings = on"],
                [
                    format!("SET statement_timeout = {}", (limit * 1000.0).min(2e9) as u64),
                    // Only on Linux, from version 14 on.
                    "SET client_connection_check_interval = 2000".to_owned(),
                ],
            ),
            Server::Mysql => (
                &[
                    "SET SESSION TRANSACTION READ ONLY",
                    "SET SESSION sql_mode = TRIM(BOTH ',' FROM REPLACE(REPLACE(@@SESSION.sql_mode, \
                     'NO_BACKSLASH_ESCAPES', ''), ',,', ','))",
                ],
                [
                    // The first is for MariaDB (s), the second for MySQL (ms).
                    format!("SET SESSION max_statement_time = {limit}"),
                    format!(
                        "SET SESSION max_execution_time = {}",
                        (limit * 1000.0).min(2e9) as u64
                    ),
                ],
            ),
        };
        for sql in required {
            link.value(sql).await?;
        }
        for sql in &optional {
            match link.value(sql).await {
                Ok(_) | Err(Trouble::Refused(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        Ok(link)
    }

    /// Waits a short time for running queries to end, and ends the idle sessions.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        let _ = timeout(CLOSE_TIMEOUT, self.permits.acquire_many(all)).await;
        while let Some(link) = self.pop() {
            link.quit();
        }
    }
}

/// A connection that is used by one payload.
///
/// When it is dropped, the connection returns to the pool if it is ready for the next query.
/// Otherwise its query is cancelled and the connection is closed, because the end of a query cannot
/// be detected without reading its result. Its permit is released only then.
pub(crate) struct Lease {
    pub(super) link: Option<Link>,
    pub(super) pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.release();
    }
}

impl Lease {
    pub(super) fn release(&mut self) {
        // Released only when the connection is in the pool or closed.
        let permit = self.permit.take();
        let Some(mut link) = self.link.take() else { return };
        if link.is_ready() {
            link.used = true;
            self.pool
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(link);
            return;
        }
        let (Some(handle), Ok(runtime)) = (link.handle(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let pool = self.pool.clone();
        runtime.spawn(async move {
            let _ = timeout(CANCEL_TIMEOUT, handle.cancel(&pool.address)).await;
            drop((link, permit));
        });
    }

    /// Sends a query, and waits for the first event. An idle connection may have ended without
    /// notice; the query is then sent again over a new one.
    pub(super) async fn query(&mut self, sql: &str) -> Result<Event, Failure> {
        if let Some(link) = &mut self.link {
            link.query(sql);
            match link.event().await {
                Ok(Event::Failed(refusal)) if link.used && ends_connection(&refusal) => {}
                Ok(event) => return Ok(event),
                Err(Trouble::Dead(_)) if link.used => {}
                Err(trouble) => return Err(self.broken(&trouble)),
            }
        }
        self.link = None;
        let link = self.link.insert(self.pool.connect().await?);
        link.query(sql);
        match link.event().await {
            Ok(event) => Ok(event),
            Err(trouble) => Err(self.broken(&trouble)),
        }
    }

    pub(super) fn arrived(&mut self) -> Result<Option<Event>, Failure> {
        match self.link.as_mut().map_or(Ok(None), Link::arrived) {
            Ok(event) => Ok(event),
            Err(trouble) => Err(self.broken(&trouble)),
        }
    }

    pub(super) async fn event(&mut self) -> Result<Event, Failure> {
        let Some(link) = &mut self.link else {
            return Err(Failure::database("there is no connection to the database"));
        };
        match link.event().await {
            Ok(event) => Ok(event),
            Err(trouble) => Err(self.broken(&trouble)),
        }
    }

    /// The failure of a connection. A connection that has ended is dropped, because it has no query
    /// to cancel.
    fn broken(&mut self, trouble: &Trouble) -> Failure {
        if matches!(trouble, Trouble::Dead(_)) {
            self.link = None;
        }
        Failure::database(trouble)
    }

    pub(super) async fn value(mut self, sql: &str) -> Result<(Option<String>, Self), Failure> {
        let limit = Instant::now() + self.pool.query_timeout;
        let value = timeout_at(limit, self.first_value(sql)).await;
        let value = value.unwrap_or_else(|_| Err(Failure::stopped(self.pool.query_timeout)))?;
        Ok((value, self))
    }

    async fn first_value(&mut self, sql: &str) -> Result<Option<String>, Failure> {
        let mut event = self.query(sql).await?;
        let mut value = None;
        let mut failed = None;
        loop {
            match event {
                Event::Row if value.is_none() => {
                    let first = self.link.as_ref().and_then(|link| link.row().next().flatten());
                    value = Some(first.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                }
                Event::Failed(refusal) => failed = Some(Failure::database(refusal.message)),
                Event::Ready => return failed.map_or(Ok(value.flatten()), Err),
                _ => {}
            }
            event = self.event().await?;
        }
    }
}

/// Whether an error precedes the end of the connection, which `PostgreSQL` then closes.
fn ends_connection(refusal: &Refusal) -> bool {
    refusal.code.starts_with("57P") || refusal.code.starts_with("08")
}
