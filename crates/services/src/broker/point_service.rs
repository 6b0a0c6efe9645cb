//! The service `broker`: a decision point behind two protocols (`point_http.rs`,
//! `point_binary.rs`), and its exchange with other points.

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_wire::broker::{FIRST_BYTE, JobRequest, Quality, Reply, Status};
use rand::RngExt;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::client::{CallError, Client};
use super::config::BrokerConfig;
use super::elapsed_ns;
use super::grid_service::{Placement, Submission};
use super::point::{ExchangeError, ExchangeRequest, ExchangeResponse, PeerState, Point};
use crate::ServiceError;
use crate::counters::{Counters, Counts};
use crate::http::IDLE_TIMEOUT;
use crate::listen::serve_connections;
use crate::tls::{self, Handshakes};

/// Text of the refusal of a job without TLS.
pub(super) const NO_TLS: &str = "this decision point accepts jobs only within TLS";
/// Interval at which a job that is held looks for a site again.
const HOLD_INTERVAL: Duration = Duration::from_millis(20);
/// First byte of a TLS connection: the type of a record of a handshake (RFC 8446, section 5.1).
const TLS_RECORD: u8 = 0x16;
/// Maximum time of a TLS handshake, and for a client to accept the end of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of requests of one exchange, so that a peer with many decisions does not occupy
/// the point. The others follow after the interval.
const MAX_ROUNDS: usize = 20;

/// Counters of a decision point, in addition to those of every service.
#[derive(Default)]
struct Tally {
    decisions: AtomicU64,
    refused: AtomicU64,
    queue_full: AtomicU64,
    submitted: AtomicU64,
    grid_failures: AtomicU64,
    exchanges: AtomicU64,
    exchange_failures: AtomicU64,
    exchange_bytes: AtomicU64,
    decisions_sent: AtomicU64,
    decisions_received: AtomicU64,
    held: AtomicUsize,
}

#[derive(Serialize)]
pub(super) struct PointStats {
    #[serde(flatten)]
    counts: Counts,
    /// Jobs that were submitted to the chosen site.
    decisions: u64,
    /// Jobs for which no site had capacity in the view.
    jobs_refused: u64,
    /// Jobs whose chosen site had a full queue.
    queue_full: u64,
    /// Requests to the grid that were answered.
    submitted: u64,
    /// Requests to the grid without an answer.
    grid_failures: u64,
    /// Requests of exchanges that this point sent and that were answered.
    exchanges: u64,
    exchange_failures: u64,
    /// Bodies of exchanges in both directions, of both sides.
    exchange_bytes: u64,
    decisions_sent: u64,
    decisions_received: u64,
    /// Own decisions that were removed too early, because there were too many.
    decisions_lost: u64,
    /// TLS handshakes that were completed.
    handshakes: u64,
    /// TLS handshakes that failed.
    failed_handshakes: u64,
    /// Jobs in the view that have not ended.
    jobs_known: usize,
    /// Jobs that wait at this point for a site with capacity.
    jobs_held: usize,
}

/// A decision point with what its connections share.
pub(super) struct PointService {
    point: Mutex<Point>,
    config: BrokerConfig,
    origin: Instant,
    pub(super) counters: Counters,
    tally: Tally,
    /// None: clients state nothing about themselves.
    tls: Option<TlsAcceptor>,
    handshakes: Handshakes,
    /// Held during `decision_ms` of each decision.
    container: tokio::sync::Mutex<()>,
}

/// Serves until `shutdown` completes.
pub async fn serve_point(
    listener: TcpListener,
    config: BrokerConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    config.check()?;
    let id = rand::rng().random_range(1..=u64::MAX);
    let service = Arc::new(PointService {
        point: Mutex::new(Point::new(&config, id)?),
        origin: Instant::now(),
        counters: Counters::default(),
        tally: Tally::default(),
        tls: tls::server(&config.tls())?.map(TlsAcceptor::from),
        handshakes: Handshakes::default(),
        container: tokio::sync::Mutex::new(()),
        config,
    });
    // The tasks end when this is dropped.
    let mut tasks = JoinSet::new();
    if let Some(exchange_ms) = service.config.exchange_ms {
        for peer in service.config.peers.clone() {
            let service = service.clone();
            let every = Duration::from_millis(exchange_ms);
            tasks.spawn(async move { service.exchange_with(peer, every).await });
        }
    }
    serve_connections(listener, shutdown, move |stream| {
        service.counters.connection();
        let service = service.clone();
        async move { service.connection(stream).await }
    })
    .await
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl PointService {
    fn point(&self) -> MutexGuard<'_, Point> {
        self.point.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection in the protocol of its first byte.
    async fn connection(&self, stream: TcpStream) {
        let mut first = [0];
        let Ok(Ok(1)) = timeout(IDLE_TIMEOUT, stream.peek(&mut first)).await else {
            return;
        };
        match (first[0], &self.tls) {
            (TLS_RECORD, Some(acceptor)) => Box::pin(self.secure_connection(acceptor, stream)).await,
            (FIRST_BYTE, None) => self.serve_binary(stream).await,
            (FIRST_BYTE, Some(_)) => self.refuse_binary(stream).await,
            (_, tls) => self.serve_http(stream, tls.is_none()).await,
        }
    }

    /// [`Self::connection`] within TLS.
    async fn secure_connection(&self, acceptor: &TlsAcceptor, stream: TcpStream) {
        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let stream = match accepted.unwrap_or_else(|late| Err(late.into())) {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(line) = self.handshakes.fail(&error) {
                    eprintln!("{line}");
                }
                return;
            }
        };
        self.handshakes.complete();
        let mut stream = BufReader::new(stream);
        let first = timeout(IDLE_TIMEOUT, stream.fill_buf()).await;
        match first.map(|read| read.map(|bytes| bytes.first().copied())) {
            Ok(Ok(Some(FIRST_BYTE))) => self.serve_binary(&mut stream).await,
            Ok(Ok(Some(_))) => self.serve_http(&mut stream, true).await,
            _ => {}
        }
        let _ = timeout(HANDSHAKE_TIMEOUT, stream.shutdown()).await;
    }

    /// A client of the grid for one connection, whose requests follow each other.
    pub(super) fn grid_client(&self) -> Client {
        Client::new(self.config.grid_address.clone())
    }

    /// Decides on a job, and submits it to the grid.
    pub(super) async fn decide(&self, grid: &mut Client, job: &JobRequest) -> Reply {
        if let Err(error) = self.point().sites().check(job) {
            return Reply::refused(Status::InvalidJob, error);
        }
        if !self.config.decision().is_zero() {
            let _turn = self.container.lock().await;
            sleep(self.config.decision()).await;
        }
        let site = self.choose(job).await;
        match self.submit(grid, site, *job).await {
            Ok((placement, quality)) => self.reply(site, placement, quality),
            Err(why) => Reply::refused(Status::GridFailure, why),
        }
    }

    fn reply(&self, site: Option<u32>, placement: Placement, quality: Quality) -> Reply {
        let refused = |status, text| Reply::Refused {
            status,
            quality: Some(quality),
            text,
        };
        if let Some(error) = placement.error {
            add(&self.tally.queue_full, usize::from(placement.queue_full));
            let status = if placement.queue_full {
                Status::QueueFull
            } else {
                Status::GridFull
            };
            return refused(status, format!("the grid refused the job: {error}"));
        }
        let (Some(site), Some(job)) = (site, placement.job) else {
            add(&self.tally.refused, 1);
            let text = "no site has capacity for this job under its policies";
            return refused(Status::NoCapacity, text.to_owned());
        };
        add(&self.tally.decisions, 1);
        Reply::Placed { job, site, quality }
    }

    /// A site for the job. Waits for one at most for the configured time.
    async fn choose(&self, job: &JobRequest) -> Option<u32> {
        let deadline = Instant::now() + self.config.hold();
        let mut holding = None;
        loop {
            let site = {
                let mut point = self.point();
                // Read while the lock is held, because the time of the view must not decrease.
                point.decide(elapsed_ns(self.origin), job)
            };
            if site.is_some() || Instant::now() >= deadline {
                return site;
            }
            holding.get_or_insert_with(|| HeldJob::new(&self.tally.held));
            sleep(HOLD_INTERVAL.min(deadline - Instant::now())).await;
        }
    }

    /// Submits the job, or its refusal, to the grid. An answer with an assessment is a placement,
    /// also if the grid has no place for the job. The error is a text for the client.
    async fn submit(
        &self,
        grid: &mut Client,
        site: Option<u32>,
        job: JobRequest,
    ) -> Result<(Placement, Quality), String> {
        let body = serde_json::to_vec(&Submission { site, job }).unwrap_or_default();
        let answer = grid.post("/jobs", &body).await;
        let (status, body) = answer.map_err(|error| {
            add(&self.tally.grid_failures, 1);
            format!("the grid does not answer: {error}")
        })?;
        add(&self.tally.submitted, 1);
        let placement = serde_json::from_slice(&body).ok();
        let placement = placement.filter(|_: &Placement| status == 200 || status == 503);
        let assessed = placement.and_then(|placement| {
            let quality = Quality::new(placement.accuracy, placement.misplaced)?;
            Some((placement, quality))
        });
        assessed.ok_or_else(|| {
            let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
            format!("the grid refused the job: {}", text.trim_end())
        })
    }

    /// The response to another point, as JSON.
    pub(super) fn answer_exchange(
        &self,
        request: &ExchangeRequest,
        request_bytes: usize,
    ) -> Result<Vec<u8>, ExchangeError> {
        let response = {
            let mut point = self.point();
            point.answer(elapsed_ns(self.origin), request)
        }?;
        let text = serde_json::to_vec(&response).unwrap_or_default();
        self.count(
            &response.decisions,
            &request.decisions,
            request_bytes + text.len(),
        );
        Ok(text)
    }

    fn count<T>(&self, sent: &[T], received: &[T], bytes: usize) {
        add(&self.tally.decisions_sent, sent.len());
        add(&self.tally.decisions_received, received.len());
        add(&self.tally.exchange_bytes, bytes);
    }

    /// Exchanges decisions with a peer, until the service ends. A failure is counted, and the next
    /// exchange sends what it lacks.
    async fn exchange_with(&self, peer: String, every: Duration) {
        let mut client = Client::new(peer);
        let mut state = PeerState::default();
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for _ in 0..MAX_ROUNDS {
                match self.exchange(&mut client, &mut state).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) => {
                        self.tally.exchange_failures.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
    }

    async fn exchange(&self, client: &mut Client, state: &mut PeerState) -> Result<bool, CallError> {
        let request = {
            let point = self.point();
            point.request(elapsed_ns(self.origin), state)
        };
        let body = serde_json::to_vec(&request).unwrap_or_default();
        let (status, text) = client.post("/exchange", &body).await?;
        let response: Option<ExchangeResponse> = serde_json::from_slice(&text).ok();
        let Some(response) = response.filter(|_| status == 200) else {
            return Err(CallError::Malformed(format!("status {status}")));
        };
        self.count(&request.decisions, &response.decisions, body.len() + text.len());
        self.tally.exchanges.fetch_add(1, Ordering::Relaxed);
        let mut point = self.point();
        let now = elapsed_ns(self.origin);
        Ok(point.accept(now, &request, &response, state))
    }

    pub(super) fn stats(&self) -> PointStats {
        let (jobs_known, decisions_lost) = {
            let point = self.point();
            (point.known_jobs(), point.lost())
        };
        let tally = &self.tally;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PointStats {
            counts: self.counters.counts(),
            decisions: get(&tally.decisions),
            jobs_refused: get(&tally.refused),
            queue_full: get(&tally.queue_full),
            submitted: get(&tally.submitted),
            grid_failures: get(&tally.grid_failures),
            exchanges: get(&tally.exchanges),
            exchange_failures: get(&tally.exchange_failures),
            exchange_bytes: get(&tally.exchange_bytes),
            decisions_sent: get(&tally.decisions_sent),
            decisions_received: get(&tally.decisions_received),
            decisions_lost,
            handshakes: self.handshakes.completed(),
            failed_handshakes: self.handshakes.failed(),
            jobs_known,
            jobs_held: tally.held.load(Ordering::Relaxed),
        }
    }
}

/// Counts a job that waits, also if its connection ends meanwhile.
struct HeldJob<'a>(&'a AtomicUsize);

impl<'a> HeldJob<'a> {
    fn new(held: &'a AtomicUsize) -> Self {
        held.fetch_add(1, Ordering::Relaxed);
        Self(held)
    }
}

impl Drop for HeldJob<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
