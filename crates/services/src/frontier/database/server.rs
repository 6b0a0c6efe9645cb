//! A bounded pool of connections to `PostgreSQL` or `MariaDB`, read by the tasks that write to the
//! clients.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Refusal, Server};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::link::{Link, Trouble};
use super::{Dialect, Failure};

/// For connecting, logging in and the first settings.
const CONNECT: Duration = Duration::from_secs(5);
/// After a failed attempt: how long others are told the same without another attempt.
const AGAIN: Duration = Duration::from_millis(500);
/// For the server to end a query that nobody wants any more.
const CANCEL: Duration = Duration::from_secs(5);
/// At the end of the service, for all of them.
const CLOSE: Duration = Duration::from_secs(3);
/// By how much the server's own limit for a query is longer than ours.
const SPARE_S: f64 = 5.0;

/// The pool.
pub(crate) struct Pool {
    address: Address,
    /// Last in, first out: the connection used last has the warmest caches.
    idle: Mutex<Vec<Link>>,
    permits: Arc<Semaphore>,
    size: usize,
    pub(super) query_timeout: Duration,
    /// Until when nobody tries to connect, and why.
    trouble: Mutex<Option<(Instant, Failure)>>,
}

impl Pool {
    /// Connects to nothing yet: a server may come later than its gateway.
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
        let permit = permit.map_err(|_| Failure::refused("the gateway ends"))?;
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
        let why = match timeout(CONNECT, self.open()).await {
            Ok(Ok(link)) => {
                *trouble() = None;
                return Ok(link);
            }
            Ok(Err(trouble)) => trouble.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT.as_secs()),
        };
        let (host, port) = (&self.address.host, self.address.port);
        let failure = Failure::database(format!("cannot connect to the database at {host}:{port}: {why}"));
        *trouble() = Some((Instant::now() + AGAIN, failure.clone()));
        Err(failure)
    }

    /// A connection that can only read, and whose server ends by itself what we could not end.
    async fn open(&self) -> Result<Link, Trouble> {
        let mut link = Link::open(&self.address).await?;
        let limit = self.query_timeout.as_secs_f64() + SPARE_S;
        let (needed, wanted): (&[&str], _) = match self.address.server {
            Server::Postgres => (
                &["SET default_transaction_read_only = on; SET standard_conforming_strings = on"],
                [
                    format!("SET statement_timeout = {}", (limit * 1000.0).min(2e9) as u64),
                    // Only on Linux, and from version 14.
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
                    // MariaDB in seconds, MySQL in milliseconds.
                    format!("SET SESSION max_statement_time = {limit}"),
                    format!(
                        "SET SESSION max_execution_time = {}",
                        (limit * 1000.0).min(2e9) as u64
                    ),
                ],
            ),
        };
        for sql in needed {
            link.value(sql).await?;
        }
        for sql in &wanted {
            match link.value(sql).await {
                Ok(_) | Err(Trouble::Refused(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        Ok(link)
    }

    /// Waits a while for queries to be ended, and says good-bye to the idle connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        let _ = timeout(CLOSE, self.permits.acquire_many(all)).await;
        while let Some(link) = self.pop() {
            link.quit();
        }
    }
}

/// A connection that belongs to one payload.
///
/// Dropped, it goes back into the pool if it takes the next query. If not, what still runs on it is
/// ended, and the connection with it: whether the server has stopped cannot be seen on a connection
/// whose answer nobody reads. Its place in the pool is free only then.
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
        // Free only when the connection is back, or no more.
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
            let _ = timeout(CANCEL, handle.cancel(&pool.address)).await;
            drop((link, permit));
        });
    }

    /// Asks, and waits for what comes first. A connection that was idle may have died unseen: then
    /// once more, on a new one.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Event, Failure> {
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
            return Err(Failure::database("there is no connection"));
        };
        match link.event().await {
            Ok(event) => Ok(event),
            Err(trouble) => Err(self.broken(&trouble)),
        }
    }

    /// Lets go of a connection that has ended: there is nothing to end any more.
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
        let mut event = self.ask(sql).await?;
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

/// `PostgreSQL` says so before it closes.
fn ends_connection(refusal: &Refusal) -> bool {
    refusal.code.starts_with("57P") || refusal.code.starts_with("08")
}
