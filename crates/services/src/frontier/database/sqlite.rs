//! A bounded pool of read-only `SQLite` connections, each owned by a thread: `SQLite` blocks, the
//! runtime must not.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc as async_mpsc, oneshot};

use super::{End, Failure, MAX_ROW, Packer, Part, Query};
use crate::ServiceError;

mod rows;

/// Virtual machine steps between two looks at the clock and at the client: well below a
/// millisecond.
const STEPS: i32 = 10_000;
/// Page cache of a connection, KiB.
const CACHE_KIB: u32 = 8 * 1024;
/// Pieces of text under way from a connection to its client: with the writer's one, about 300 kB.
const PIECES: usize = 3;
/// Statements that a connection keeps prepared. Workloads of distinct queries turn the cache over;
/// those that repeat a few hundred do not.
const CACHED_STATEMENTS: usize = 256;

enum Task {
    Query(Query, async_mpsc::Sender<Part>),
    Value(String, oneshot::Sender<(Result<Option<String>, Failure>, Lease)>),
}

struct Job {
    task: Task,
    number: u64,
    timeout: Duration,
    /// The worker's way back into the pool. It holds the only sender: a pool that is dropped ends
    /// its threads.
    lease: Lease,
}

/// What the progress handler of a connection looks at.
#[derive(Default)]
struct Control {
    /// The job that runs.
    running: AtomicU64,
    /// The last job whose client left.
    cancelled: AtomicU64,
    /// When the running job has to end.
    deadline: Mutex<Option<Instant>>,
}

impl Control {
    fn stop(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) == self.running.load(Ordering::Relaxed)
            || self
                .deadline
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some_and(|end| Instant::now() >= end)
    }

    fn begin(&self, job: u64, deadline: Instant) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline);
        self.running.store(job, Ordering::Relaxed);
    }
}

struct Worker {
    jobs: mpsc::Sender<Job>,
    control: Arc<Control>,
}

/// The pool.
pub(crate) struct Pool {
    /// Last in, first out: the connection used last has the warmest caches.
    free: Mutex<Vec<Worker>>,
    permits: Arc<Semaphore>,
    size: usize,
    jobs: AtomicU64,
    query_timeout: Duration,
}

impl Pool {
    /// Opens all connections, so that a database that cannot be read is noticed at once.
    pub(super) fn open(
        database: &Path,
        connections: usize,
        query_timeout: Duration,
    ) -> Result<Arc<Self>, ServiceError> {
        let mut free = Vec::with_capacity(connections);
        for number in 0..connections {
            let control = Arc::new(Control::default());
            let connection = open(database, control.clone()).map_err(|source| ServiceError::Database {
                what: format!("cannot read the database {}", database.display()),
                source,
            })?;
            let (jobs, inbox) = mpsc::channel();
            let shared = control.clone();
            thread::Builder::new()
                .name(format!("sqlite-{number}"))
                .spawn(move || work(&connection, &inbox, &shared))
                .map_err(ServiceError::io(
                    "cannot start a thread for a database connection",
                ))?;
            free.push(Worker { jobs, control });
        }
        Ok(Arc::new(Self {
            free: Mutex::new(free),
            permits: Arc::new(Semaphore::new(connections)),
            size: connections,
            jobs: AtomicU64::new(1),
            query_timeout,
        }))
    }

    pub(super) fn in_use(&self) -> usize {
        self.size - self.permits.available_permits()
    }

    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Lease, Failure> {
        let gone = || Failure::refused("No database connection available");
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| gone())?;
        // Empty only if a thread died, which nothing here makes it do; then the request fails, and
        // says so.
        let worker = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Lease {
            worker: Some(worker.ok_or_else(gone)?),
            pool: Arc::downgrade(self),
            permit: Some(permit),
            jobs: self.jobs.fetch_add(2, Ordering::Relaxed),
            timeout: self.query_timeout,
        })
    }
}

/// A connection that belongs to one payload. Goes back into the pool when dropped.
pub(crate) struct Lease {
    worker: Option<Worker>,
    pool: Weak<Pool>,
    permit: Option<OwnedSemaphorePermit>,
    /// Number of the next job.
    jobs: u64,
    timeout: Duration,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(pool), Some(worker)) = (self.pool.upgrade(), self.worker.take()) {
            pool.free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(worker);
        }
        self.permit.take(); // only now, or another would find the pool empty
    }
}

impl Lease {
    /// Hands the connection's thread a job, with the lease in it.
    fn send(mut self, task: Task) -> Option<Cancel> {
        let number = self.jobs;
        self.jobs += 1;
        let worker = self.worker.as_ref()?;
        let (jobs, control) = (worker.jobs.clone(), worker.control.clone());
        let job = Job {
            task,
            number,
            timeout: self.timeout,
            lease: self,
        };
        // Fails only if the thread died: then the job is dropped, and who waits for its result sees
        // that.
        let _ = jobs.send(job);
        Some(Cancel { control, number })
    }

    pub(super) async fn value(self, sql: String) -> Result<(Option<String>, Self), Failure> {
        let (reply, answer) = oneshot::channel();
        let _cancel = self.send(Task::Value(sql, reply));
        let (value, lease) = answer
            .await
            .map_err(|_| Failure::database("the database connection was lost"))?;
        Ok((value?, lease))
    }

    pub(super) fn start(self, query: Query) -> Running {
        let (parts, received) = async_mpsc::channel(PIECES);
        Running {
            _cancel: self.send(Task::Query(query, parts)),
            parts: received,
        }
    }
}

/// Ends its job when dropped.
struct Cancel {
    control: Arc<Control>,
    number: u64,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.control.cancelled.store(self.number, Ordering::Relaxed);
    }
}

/// A query that runs.
pub(crate) struct Running {
    parts: async_mpsc::Receiver<Part>,
    _cancel: Option<Cancel>,
}

impl Running {
    pub(super) async fn next(&mut self) -> Part {
        match self.parts.recv().await {
            Some(part) => part,
            None => Part::End(End::lost("the database connection was lost")),
        }
    }
}

/// The life of a connection's thread: until the pool is gone.
fn work(connection: &Connection, inbox: &mpsc::Receiver<Job>, control: &Control) {
    while let Ok(job) = inbox.recv() {
        let deadline = Instant::now() + job.timeout;
        control.begin(job.number, deadline);
        let stopped = |failure: Failure| {
            if Instant::now() >= deadline {
                Failure::stopped(job.timeout)
            } else {
                failure
            }
        };
        match job.task {
            Task::Value(sql, reply) => {
                let value = rows::value(connection, &sql).map_err(stopped);
                let _ = reply.send((value, job.lease));
            }
            Task::Query(query, parts) => {
                let mut packer = Packer::new(query.encoding, query.signed.as_deref());
                let outcome = rows::pack(connection, &query, &mut packer, |piece| {
                    parts.blocking_send(Part::Piece(piece)).is_ok()
                });
                // Back in the pool before the end is told: a client that asks again at once finds a
                // connection.
                drop(job.lease);
                match outcome {
                    Err(rows::Stop::Gone) => {}
                    Err(rows::Stop::Failure(failure)) => {
                        let end = End::new(packer, Err(stopped(failure)), query.ttl);
                        let _ = parts.blocking_send(Part::End(end));
                    }
                    Ok(()) => {
                        let _ = parts.blocking_send(Part::End(End::new(packer, Ok(()), query.ttl)));
                    }
                }
            }
        }
    }
}

fn open(database: &Path, control: Arc<Control>) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        database,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{CACHE_KIB}"
    ))?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW as i32)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    // Reading the schema here makes a file that is no database an error of the start.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    connection.progress_handler(STEPS, Some(move || control.stop()))?;
    Ok(connection)
}
