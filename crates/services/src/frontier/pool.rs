//! A bounded pool of read-only connections, each owned by a thread: `SQLite` blocks, the runtime must not.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_wire::frontier::payload::Encoder;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc as async_mpsc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::query::{self, CACHED_STATEMENTS, End, Query, Sink};
use crate::ServiceError;

/// Longest value, row or intermediate text that `SQLite` may build, bytes: what one query can make a connection hold.
const MAX_VALUE: i32 = 16 * 1024 * 1024;
/// Virtual machine steps between two looks at the clock and at the client: well below a millisecond.
const STEPS: i32 = 10_000;
/// Page cache of a connection, KiB.
const CACHE_KIB: u32 = 8 * 1024;
/// Pieces of text under way from a connection to its client: with the writer's one, about 300 kB.
const PIECES: usize = 3;

/// What comes back from a connection.
#[derive(Debug)]
pub(super) enum Part {
    Piece(Vec<u8>),
    End(End),
}

struct Job {
    query: Query,
    number: u64,
    parts: async_mpsc::Sender<Part>,
    /// The way back into the pool. No other sender lives while the job runs: a pool that is dropped ends its threads.
    home: mpsc::Sender<Job>,
    permit: OwnedSemaphorePermit,
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
}

struct Worker {
    jobs: mpsc::Sender<Job>,
    control: Arc<Control>,
}

/// The pool.
pub(super) struct Pool {
    /// Last in, first out: the connection used last has the warmest caches.
    free: Mutex<Vec<Worker>>,
    permits: Arc<Semaphore>,
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
        let pool = Arc::new(Self {
            free: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(connections)),
            jobs: AtomicU64::new(1),
            query_timeout,
        });
        for number in 0..connections {
            let control = Arc::new(Control::default());
            let connection = open(database, control.clone()).map_err(|source| ServiceError::Database {
                what: format!("cannot read the database {}", database.display()),
                source,
            })?;
            let (jobs, inbox) = mpsc::channel();
            let (home, shared) = (Arc::downgrade(&pool), control.clone());
            thread::Builder::new()
                .name(format!("sqlite-{number}"))
                .spawn(move || work(&connection, &inbox, &shared, &home))
                .map_err(ServiceError::io(
                    "cannot start a thread for a database connection",
                ))?;
            pool.give_back(Worker { jobs, control });
        }
        Ok(pool)
    }

    /// Waits for a connection, first come, first served.
    pub(super) async fn acquire(self: &Arc<Self>) -> Option<Acquired> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        // Empty only if a thread died, which nothing here makes it do; then the request fails, and says so.
        let worker = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Acquired {
            permit,
            worker,
            number: self.jobs.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn give_back(&self, worker: Worker) {
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker);
    }
}

/// A connection that is ready to run one query. Must be used.
pub(super) struct Acquired {
    permit: OwnedSemaphorePermit,
    worker: Worker,
    number: u64,
}

impl Acquired {
    /// Starts the query. The parts must be read to the end, or dropped, which ends the query.
    pub(super) fn start(self, query: Query) -> Running {
        let (parts, received) = async_mpsc::channel(PIECES);
        let Worker { jobs, control } = self.worker;
        let job = Job {
            query,
            number: self.number,
            parts,
            home: jobs.clone(),
            permit: self.permit,
        };
        // Fails only if the thread died: then `parts` is dropped and the reader sees an early end.
        let _ = jobs.send(job);
        Running {
            parts: received,
            control,
            number: self.number,
        }
    }
}

/// A query that runs.
pub(super) struct Running {
    parts: async_mpsc::Receiver<Part>,
    control: Arc<Control>,
    number: u64,
}

impl Running {
    /// The next part; `None` early only when the connection's thread died.
    pub(super) async fn next(&mut self) -> Option<Part> {
        self.parts.recv().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.cancelled.store(self.number, Ordering::Relaxed);
    }
}

impl Sink for async_mpsc::Sender<Part> {
    fn piece(&mut self, text: Vec<u8>) -> bool {
        self.blocking_send(Part::Piece(text)).is_ok()
    }
}

/// The life of a connection's thread: until the pool is gone.
fn work(connection: &Connection, inbox: &mpsc::Receiver<Job>, control: &Arc<Control>, pool: &Weak<Pool>) {
    let mut rows = Encoder::default();
    while let Ok(Job {
        query,
        number,
        mut parts,
        home,
        permit,
    }) = inbox.recv()
    {
        let Some(pool) = pool.upgrade() else { return };
        let deadline = Instant::now() + pool.query_timeout;
        *control.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline);
        control.running.store(number, Ordering::Relaxed);
        let mut end = query::run(connection, &query, &mut rows, &mut parts);
        if let Some(End { quality, .. }) = &mut end
            && quality.error.is_some()
            && Instant::now() >= deadline
        {
            let seconds = pool.query_timeout.as_secs_f64();
            quality.error = Some(format!(
                "SQLException: the query was stopped after {seconds} s (query_timeout_s)"
            ));
        }
        if rows.buffer.capacity() > 1 << 20 {
            rows = Encoder::default(); // one row of megabytes must not stay for ever
        }
        // Back in the pool before the end is told: a client that asks again at once finds a connection.
        pool.give_back(Worker {
            jobs: home,
            control: control.clone(),
        });
        drop(permit);
        if let Some(end) = end {
            let _ = parts.blocking_send(Part::End(end));
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
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
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
