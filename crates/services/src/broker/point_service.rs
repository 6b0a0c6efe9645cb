//! The service `broker`: a decision point behind HTTP, and its exchange with other points.

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::client::{CallError, Client};
use super::config::BrokerConfig;
use super::grid::JobRequest;
use super::grid_service::{Placement, Submission};
use super::point::{ExchangeRequest, ExchangeResponse, PeerState, Point};
use super::{ErrorBody, MAX_BODY, elapsed_ns, respond};
use crate::ServiceError;
use crate::counters::{Counters, Counts, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;

/// Interval at which a job that is held looks for a site again.
const HOLD_INTERVAL: Duration = Duration::from_millis(20);
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
struct PointStats {
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
    /// Jobs in the view that have not ended.
    jobs_known: usize,
    /// Jobs that wait at this point for a site with capacity.
    jobs_held: usize,
}

struct Service {
    point: Mutex<Point>,
    config: BrokerConfig,
    origin: Instant,
    counters: Counters,
    tally: Tally,
    /// Held during `decision_ms` of each decision.
    container: tokio::sync::Mutex<()>,
}

/// Response to `POST /decide`.
#[derive(Serialize)]
struct DecisionBody {
    job: u64,
    site: u32,
    accuracy: f64,
    misplaced: bool,
}

/// A response that is not 200: its status, its header fields and its text. It has a quality if the
/// grid has assessed the decision.
struct Refusal {
    status: u16,
    fields: String,
    error: ErrorBody,
}

impl Refusal {
    fn new(status: u16, error: impl std::fmt::Display) -> Self {
        Self {
            status,
            fields: String::new(),
            error: ErrorBody::new(error),
        }
    }

    fn of_decision(placement: &Placement, error: impl std::fmt::Display) -> Self {
        Self {
            fields: quality_fields(placement.accuracy, placement.misplaced, placement.queue_full),
            ..Self::new(503, error)
        }
    }
}

/// Serves until `shutdown` completes.
pub async fn serve_point(
    listener: TcpListener,
    config: BrokerConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    config.check()?;
    let id = rand::rng().random_range(1..=u64::MAX);
    let service = Arc::new(Service {
        point: Mutex::new(Point::new(&config, id)?),
        origin: Instant::now(),
        counters: Counters::default(),
        tally: Tally::default(),
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
        async move { service.connection(HttpConnection::new(stream, MAX_BODY)).await }
    })
    .await
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Service {
    fn point(&self) -> MutexGuard<'_, Point> {
        self.point.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self, mut connection: HttpConnection) {
        let mut head = Head::default();
        let mut body = Vec::new();
        // One connection to the grid for each client, as its requests follow each other.
        let mut grid = Client::new(self.config.grid_address.clone());
        loop {
            match connection.next(&mut head, &mut body).await {
                Next::Request => {}
                Next::Refused => return self.counters.refused(),
                Next::Closed => return,
            }
            let request = (head.method(), head.target());
            let sent = if let Some(question) = Question::of_target(head.target()) {
                let text = question.answer(&self.counters, || self.stats());
                let response = Response::text(200);
                connection.respond(&head, &response, text.as_bytes()).await
            } else if request == ("POST", "/exchange") {
                self.answer_exchange(&mut connection, &head, &body).await
            } else {
                self.counters.received(1);
                let result = if request == ("POST", "/decide") {
                    self.decide(&mut grid, &body).await
                } else {
                    Err(Refusal::new(404, "expected POST /decide"))
                };
                self.counters.answered(1);
                send(&mut connection, &head, result).await
            };
            if !sent {
                return;
            }
        }
    }

    async fn decide(&self, grid: &mut Client, body: &[u8]) -> Result<DecisionBody, Refusal> {
        let job: JobRequest = serde_json::from_slice(body).map_err(|error| Refusal::new(400, error))?;
        if let Err(error) = self.point().sites().check(&job) {
            return Err(Refusal::new(400, error));
        }
        if !self.config.decision().is_zero() {
            let _turn = self.container.lock().await;
            sleep(self.config.decision()).await;
        }
        let site = self.choose(&job).await;
        let placement = self.submit(grid, site, job).await?;
        if let Some(error) = &placement.error {
            add(&self.tally.queue_full, usize::from(placement.queue_full));
            let text = format!("the grid refused the job: {error}");
            return Err(Refusal::of_decision(&placement, text));
        }
        let (Some(site), Some(job)) = (site, placement.job) else {
            self.tally.refused.fetch_add(1, Ordering::Relaxed);
            let text = "no site has capacity for this job under its policies";
            return Err(Refusal::of_decision(&placement, text));
        };
        self.tally.decisions.fetch_add(1, Ordering::Relaxed);
        Ok(DecisionBody {
            job,
            site,
            accuracy: placement.accuracy,
            misplaced: placement.misplaced,
        })
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
    /// also if the grid has no place for the job.
    async fn submit(
        &self,
        grid: &mut Client,
        site: Option<u32>,
        job: JobRequest,
    ) -> Result<Placement, Refusal> {
        let body = serde_json::to_vec(&Submission { site, job }).unwrap_or_default();
        match grid.post("/jobs", &body).await {
            Ok((status, body)) => {
                self.tally.submitted.fetch_add(1, Ordering::Relaxed);
                match serde_json::from_slice(&body) {
                    Ok(placement) if status == 200 || status == 503 => Ok(placement),
                    _ => {
                        let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                        Err(Refusal::new(
                            503,
                            format!("the grid refused the job: {}", text.trim_end()),
                        ))
                    }
                }
            }
            Err(error) => {
                self.tally.grid_failures.fetch_add(1, Ordering::Relaxed);
                Err(Refusal::new(503, format!("the grid does not answer: {error}")))
            }
        }
    }

    async fn answer_exchange(&self, connection: &mut HttpConnection, head: &Head, body: &[u8]) -> bool {
        let request: ExchangeRequest = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return respond(connection, head, 400, String::new(), &ErrorBody::new(error)).await,
        };
        let result = {
            let mut point = self.point();
            point.answer(elapsed_ns(self.origin), &request)
        };
        match result {
            Ok(response) => {
                let text = serde_json::to_vec(&response).unwrap_or_default();
                self.count(&response.decisions, &request.decisions, body.len() + text.len());
                let head_of = Response {
                    content_type: "application/json",
                    ..Response::text(200)
                };
                connection.respond(head, &head_of, &text).await
            }
            Err(error) => respond(connection, head, 400, String::new(), &ErrorBody::new(error)).await,
        }
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

    fn stats(&self) -> PointStats {
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
            jobs_known,
            jobs_held: tally.held.load(Ordering::Relaxed),
        }
    }
}

async fn send(connection: &mut HttpConnection, head: &Head, result: Result<DecisionBody, Refusal>) -> bool {
    match result {
        Ok(decided) => {
            let fields = quality_fields(decided.accuracy, decided.misplaced, false);
            respond(connection, head, 200, fields, &decided).await
        }
        Err(refusal) => respond(connection, head, refusal.status, refusal.fields, &refusal.error).await,
    }
}

/// The header fields with the quality of a decision.
fn quality_fields(accuracy: f64, misplaced: bool, queue_full: bool) -> String {
    format!(
        "Plimsoll-Accuracy: {accuracy:.6}\r\nPlimsoll-Misplaced: {}\r\nPlimsoll-Queue-Full: {}\r\n",
        u8::from(misplaced),
        u8::from(queue_full)
    )
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
