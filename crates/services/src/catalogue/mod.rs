//! `catalogue`: a file catalogue with the functions that LFC and `FiReMan` share, over `SQLite`,
//! `PostgreSQL` or `MariaDB`, with the tables of the data set
//! [`catalogue`](crate::data::catalogue).
//!
//! The protocol is that of [`plimsoll_wire::catalogue`], or SOAP
//! ([`plimsoll_wire::catalogue::soap`]), plain or within TLS with client certificates or grid
//! proxies ([`plimsoll_grid_proxy`]). One implementation (`store`) carries out the operations of
//! both. As in LFC, a fixed number of threads serves the connections, one each, and each has its
//! own session with the database; further connections wait until one of these ends. A session thus
//! holds a thread while its client does nothing, as does a kept connection of HTTP.
//!
//! Rejected: a task for each connection and a pool of database sessions. It would be faster with
//! many idle clients, and would not show the limit that the published catalogues had.
//!
//! `GET /plimsoll/stats` on the same port returns the counters, without a thread
//! ([`crate::counters`]); with SOAP, `GET /catalogue?wsdl` returns the description of the service.
//!
//! With [`Logic::Database`], functions of `PostgreSQL` carry out the bulk operations, which the
//! service creates when it starts.
//!
//! Not implemented: comments.

mod config;
mod connection;
mod database;
mod store;
mod stream;
mod tally;

use std::future::Future;
use std::net::TcpStream as StdStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use config::{CatalogueConfig, Logic, Protocol};
pub use tally::CatalogueStats;

use self::connection::Worker;
use self::store::Tables;
use self::stream::CloseOnDrop;
use self::tally::Tally;
use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;
use crate::tls;

/// Maximum time from the connection to its first byte.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);

/// State that all threads share.
struct ServiceState {
    database: PathBuf,
    protocol: Protocol,
    tls: Option<Arc<ServerConfig>>,
    threads: usize,
    idle_timeout: Duration,
    tables: Tables,
    counters: Counters,
    tally: Tally,
}

/// A connection for a thread. Its task learns that it has ended when this is dropped.
struct Job {
    stream: Arc<StdStream>,
    _ended: oneshot::Sender<()>,
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    config: CatalogueConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    config.check()?;
    if config.logic == Logic::Database {
        let database = config.database.clone();
        let created = tokio::task::spawn_blocking(move || store::create_functions(&database));
        created
            .await
            .map_err(|error| ServiceError::io("cannot create the functions")(error.into()))??;
    }
    let shared = Arc::new(ServiceState {
        tls: tls::server(&config.tls())?,
        database: config.database,
        protocol: config.protocol,
        threads: config.threads,
        idle_timeout: Duration::from_secs_f64(config.idle_timeout_s),
        tables: Tables::new(config.logic),
        counters: Counters::default(),
        tally: Tally::default(),
    });
    // Bounded by the number of connections.
    let (jobs, inbox) = mpsc::channel();
    let inbox = Arc::new(Mutex::new(inbox));
    for number in 1..=shared.threads {
        let (shared, inbox) = (Arc::clone(&shared), Arc::clone(&inbox));
        std::thread::Builder::new()
            .name(format!("catalogue-{number}"))
            .spawn(move || work(&shared, &inbox))
            .map_err(ServiceError::io("cannot start a thread"))?;
    }
    // The threads end when the sender is dropped, and the connections have ended.
    serve_connections(listener, shutdown, move |stream| {
        connection(stream, Arc::clone(&shared), jobs.clone())
    })
    .await
}

/// Main function of a thread.
fn work(shared: &ServiceState, inbox: &Mutex<mpsc::Receiver<Job>>) {
    let mut worker = Worker::new(shared);
    loop {
        let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        shared.tally.waiting.fetch_sub(1, Ordering::Relaxed);
        shared.tally.busy.fetch_add(1, Ordering::Relaxed);
        worker.serve(Arc::clone(&job.stream));
        shared.tally.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes a connection to a thread, and waits for its end.
async fn connection(stream: TcpStream, shared: Arc<ServiceState>, jobs: mpsc::Sender<Job>) {
    let mut first = [0];
    match timeout(FIRST_BYTE_TIMEOUT, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first == *b"G" => return statistics(HttpConnection::new(stream, 0), &shared).await,
        Ok(Ok(1)) => {}
        _ => return,
    }
    shared.counters.connection();
    let Ok(stream) = stream.into_std() else { return };
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let stream = Arc::new(stream);
    let _close = CloseOnDrop(Arc::clone(&stream));
    let (ended, end) = oneshot::channel();
    shared.tally.waiting.fetch_add(1, Ordering::Relaxed);
    let job = Job {
        stream,
        _ended: ended,
    };
    if jobs.send(job).is_ok() {
        // The sender is dropped with the job.
        let _ = end.await;
    }
}

/// Answers requests for counters.
async fn statistics(mut connection: HttpConnection, shared: &ServiceState) {
    let mut head = Head::default();
    let mut body = Vec::new();
    while connection.next(&mut head, &mut body).await == Next::Request {
        let counters = &shared.counters;
        let (status, text) = match Question::of_target(head.target()) {
            Some(question) => {
                let stats = || {
                    let (counts, store) = (counters.counts(), &shared.tables.tally);
                    shared.tally.stats(counts, store, shared.threads)
                };
                (200, question.answer(counters, stats))
            }
            None if shared.protocol == Protocol::Soap => {
                let (response, text) = connection::description(&head, "http");
                // A client that sends messages on this connection would have no thread.
                connection.respond(&head, &response, text.as_bytes()).await;
                return;
            }
            None => (
                404,
                "this is a catalogue: HTTP is only for its counters\n".to_owned(),
            ),
        };
        if !connection
            .respond(&head, &Response::text(status), text.as_bytes())
            .await
        {
            return;
        }
    }
}
