//! The service `grid`: the simulated grid behind HTTP.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plimsoll_wire::broker::JobRequest;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::config::GridConfig;
use super::grid::{Grid, JobError, JobState, Outcome, Totals};
use super::{ErrorBody, MAX_BODY, elapsed_ns, respond};
use crate::ServiceError;
use crate::counters::{Counters, Counts, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;

/// Body of `POST /jobs`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submission {
    /// None: the decision point refuses the job.
    pub(super) site: Option<u32>,
    pub(super) job: JobRequest,
}

/// Response to `POST /jobs`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Placement {
    /// None: the decision point or the grid refused the job.
    pub(super) job: Option<u64>,
    pub(super) accuracy: f64,
    pub(super) misplaced: bool,
    pub(super) possible: bool,
    /// The queue of the site has no place.
    pub(super) queue_full: bool,
    /// Why the grid refused the job. The status is 503 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Response to `GET /jobs/ID`.
#[derive(Serialize)]
struct JobBody {
    job: u64,
    state: JobState,
    site: Option<u32>,
}

#[derive(Serialize)]
struct GridStats {
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    totals: Totals,
    jobs_submitted: usize,
    jobs_queued: usize,
    jobs_running: usize,
    cpus: u64,
    cpus_busy: u64,
}

struct Service {
    grid: Mutex<Grid>,
    origin: Instant,
    counters: Counters,
}

/// Serves until `shutdown` completes.
pub async fn serve_grid(
    listener: TcpListener,
    config: GridConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let sites = Arc::new(config.sites()?);
    let service = Arc::new(Service {
        grid: Mutex::new(Grid::new(&config, sites)),
        origin: Instant::now(),
        counters: Counters::default(),
    });
    serve_connections(listener, shutdown, move |stream| {
        service.counters.connection();
        let service = service.clone();
        async move { service.connection(HttpConnection::new(stream, MAX_BODY)).await }
    })
    .await
}

impl Service {
    fn grid(&self) -> MutexGuard<'_, Grid> {
        self.grid.lock().unwrap_or_else(PoisonError::into_inner)
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
            let sent = if let Some(question) = Question::of_target(head.target()) {
                let text = question.answer(&self.counters, || self.stats());
                let response = Response::text(200);
                connection.respond(&head, &response, text.as_bytes()).await
            } else {
                self.counters.received(1);
                self.answer(&mut connection, &head, &body).await
            };
            if !sent {
                return;
            }
        }
    }

    async fn answer(&self, connection: &mut HttpConnection, head: &Head, body: &[u8]) -> bool {
        let (status, error) = match (head.method(), head.target()) {
            ("POST", "/jobs") => match self.submit(body) {
                Ok(placement) => {
                    self.counters.answered(1);
                    let status = if placement.error.is_some() { 503 } else { 200 };
                    return respond(connection, head, status, String::new(), &placement).await;
                }
                Err(error) => (400, error),
            },
            ("GET", target) => match self.state(target) {
                Some(found) => {
                    self.counters.answered(1);
                    return respond(connection, head, 200, String::new(), &found).await;
                }
                None => (
                    404,
                    ErrorBody::new("expected /jobs/NUMBER with the number of a job"),
                ),
            },
            _ => (404, ErrorBody::new("expected POST /jobs or GET /jobs/NUMBER")),
        };
        self.counters.answered(1);
        respond(connection, head, status, String::new(), &error).await
    }

    fn submit(&self, body: &[u8]) -> Result<Placement, ErrorBody> {
        let request: Submission = serde_json::from_slice(body).map_err(ErrorBody::new)?;
        let mut grid = self.grid();
        // Read while the lock is held, because the time of the grid must not decrease.
        let now = elapsed_ns(self.origin);
        let submitted = grid.submit(now, request.site, &request.job);
        let (outcome, quality) = submitted.map_err(ErrorBody::new)?;
        let (job, error) = match outcome {
            Outcome::Accepted(job) => (Some(job), None),
            Outcome::Refused => (None, None),
            Outcome::NoPlace(error) => (None, Some(error)),
        };
        Ok(Placement {
            job,
            queue_full: matches!(error, Some(JobError::QueueFull(_))),
            error: error.map(|error| error.to_string()),
            accuracy: quality.accuracy,
            misplaced: quality.misplaced,
            possible: quality.possible,
        })
    }

    fn state(&self, target: &str) -> Option<JobBody> {
        let job = target.strip_prefix("/jobs/")?.parse().ok()?;
        let mut grid = self.grid();
        grid.advance(elapsed_ns(self.origin));
        let (state, site) = grid.state(job)?;
        Some(JobBody { job, state, site })
    }

    fn stats(&self) -> GridStats {
        let mut grid = self.grid();
        grid.advance(elapsed_ns(self.origin));
        let [jobs_submitted, jobs_queued, jobs_running] = grid.numbers();
        GridStats {
            counts: self.counters.counts(),
            totals: grid.totals(),
            jobs_submitted,
            jobs_queued,
            jobs_running,
            cpus: grid.sites().cpus.iter().copied().map(u64::from).sum(),
            cpus_busy: grid.busy(),
        }
    }
}
