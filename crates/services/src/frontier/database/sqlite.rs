//! A bounded pool of read-only `SQLite` connections. Each is owned by a thread, because `SQLite`
//! blocks and the runtime must not.

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

/// Number of steps of `SQLite`'s virtual machine between two checks of the deadline and the client:
/// well below 1 ms.
const STEPS: i32 = 10_000;
/// Page cache of a connection, in KiB.
const CACHE_KIB: u32 = 8 * 1024;
/// Maximum number of pieces of text in the channel from a connection to its client. With the piece
/// that is being written, they have about 300 kB.
const PIECES: usize = 3;
/// Maximum number of prepared statements of a connection. A workload that repeats a few hundred
/// queries finds most of them prepared.
const CACHED_STATEMENTS: usize = 256;

enum Task {
    Query(Query, async_mpsc::Sender<Part>),
    Value(String, oneshot::Sender<(Result<Option<String>, Failure>, Lease)>),
}

struct Job {
    task: Task,
    number: u64,
    timeout: Duration,
    /// Returns the worker to the pool when it is dropped. It contains the only sender, so the
    /// threads end when the pool is dropped.
    lease: Lease,
}

/// State that the progress handler of a connection checks.
#[derive(Default)]
struct Control {
    /// Number of the running job.
    running: AtomicU64,
    /// Number of the last job that was cancelled.
    cancelled: AtomicU64,
    /// Time at which the running job is stopped.
    deadline: Mutex<Option<Instant>>,
}

impl Control {
    fn must_stop(&self) -> bool {
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
    /// Last in, first out, because the connection that was used last has the warmest caches.
    free: Mutex<Vec<Worker>>,
    permits: Arc<Semaphore>,
    size: usize,
    jobs: AtomicU64,
    query_timeout: Duration,
}

impl Pool {
    /// Opens all connections, so that a database that cannot be read is an error at the start.
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
        // The pool is empty only if a thread has panicked. The request then fails with a message.
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

/// A connection that is used by one payload. It returns to the pool when it is dropped.
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
        self.permit.take(); // after the push, or another request would find the pool empty
    }
}

impl Lease {
    /// Sends a job to the thread of the connection. The job contains the lease.
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
        // Fails only if the thread has panicked. The job is then dropped, which closes the channel
        // of its result.
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

/// Cancels its job when it is dropped.
struct Cancel {
    control: Arc<Control>,
    number: u64,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.control.cancelled.store(self.number, Ordering::Relaxed);
    }
}

/// A running query.
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

/// Main function of a connection's thread. It ends when the pool is dropped.
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
                let begin = Instant::now();
                let mut waiting = Duration::ZERO; // for the task that writes to the client
                let outcome = rows::pack(connection, &query, &mut packer, |piece| {
                    let full = Instant::now();
                    let is_open = parts.blocking_send(Part::Piece(piece)).is_ok();
                    waiting += full.elapsed();
                    is_open
                });
                let time = Some(begin.elapsed().saturating_sub(waiting + packer.compression()));
                // The connection returns to the pool before the end is reported, so that a client
                // finds one for its next request.
                drop(job.lease);
                match outcome {
                    Err(rows::Stop::Gone) => {}
                    Err(rows::Stop::Failure(failure)) => {
                        let end = End::new(packer, Err(stopped(failure)), query.ttl, time);
                        let _ = parts.blocking_send(Part::End(end));
                    }
                    Ok(()) => {
                        let _ = parts.blocking_send(Part::End(End::new(packer, Ok(()), query.ttl, time)));
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
    // Reads the schema, so that a file that is not a database is an error at the start.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    connection.progress_handler(STEPS, Some(move || control.must_stop()))?;
    Ok(connection)
}
