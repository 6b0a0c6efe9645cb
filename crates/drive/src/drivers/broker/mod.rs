//! `broker`: asks a decision point for the site of a job ([`plimsoll_wire::broker`]). The scheme of
//! an endpoint determines the protocol: `broker://` the binary one, `http://` JSON over HTTP;
//! `brokers://` and `https://` the same within TLS. All other things are the same for both, so that
//! a factor can vary the protocol alone.
//!
//! Stamps: start before the first system call (connect, or write on a kept connection); connected
//! on a new connection, with TLS after the handshake; first byte and end immediately after the
//! reads that returned them. Wire bytes: all, over HTTP with heads, without those of TLS. Payload:
//! the body of the reply. Items: 1 for each placed job.
//!
//! A request is not repeated, because the point may have placed its job: `kept connection closed`.
//!
//! Outcomes: a job that was placed is ok. `wrong` is a job that the point or the grid refused, with
//! the status as its code: `no capacity`, `queue full`, `grid full`. Errors: the other statuses
//! (`grid failure`, `invalid job`, `invalid message`, `unsupported version`); `bad request`: a
//! value of the job is not a number; `bad response`, `answer too long` (over HTTP `answer too long
//! to keep`), `http STATUS`: no reply of a broker; those of failed exchanges.
//!
//! Metrics of every decision that the grid has assessed: `accuracy`, `misplaced` and `queue_full`.

mod binary;
mod error;
mod settings;

use std::io::Write;
use std::sync::Arc;

use plimsoll_model::{Code, NOT_HAPPENED, Outcome};
use plimsoll_wire::broker::{JobRequest, Reply};

use self::binary::BinaryConnections;
use self::error::{DecisionError, outcome_of};
use self::settings::{JobTemplate, PointAddress, Settings, job};
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::connection::Connection as ConnectionMode;
use crate::http1::connection::{Connections, Exchange, Replace, Route};
use crate::http1::timeouts::Timeouts;
use crate::lane::reactor::Io;
use crate::net::round_trips::Names;
use crate::setup_error::SetupError;

pub use error::BrokerError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["broker", "brokers", "http", "https"],
    file_keys: &["ca_file", "cert", "key"],
    ..DriverInfo::new("broker", "asks a broker for the sites of jobs")
};

/// Maximum length of a body over HTTP, bytes: a refusal with a long text.
const MAX_BODY: usize = 64 * 1024;
/// Maximum capacity of the buffer for bodies that a tester keeps between transactions, bytes.
const KEPT_CAPACITY: usize = 4 * 1024;

/// The driver.
pub struct Broker {
    keep: bool,
    /// Per endpoint.
    points: Vec<PointAddress>,
    /// Per operation.
    jobs: Vec<JobTemplate>,
    names: Names,
    accuracy: Code,
    misplaced: Code,
    queue_full: Code,
}

impl AsyncDriver for Broker {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let jobs = (0..setup.requests.len()).map(|index| job(setup, index));
        Ok(Self {
            keep: settings.connection == ConnectionMode::Kept,
            points: settings.points(setup)?,
            jobs: jobs.collect::<Result<_, _>>()?,
            names: Names::new(setup.codes),
            accuracy: setup.codes.number("accuracy"),
            misplaced: setup.codes.number("misplaced"),
            queue_full: setup.codes.number("queue_full"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        Tester {
            routes: self.points.iter().map(|point| point.route(number)).collect(),
            http: Connections::new(io, self.points.len(), self.names, None),
            binary: BinaryConnections::new(io, self.points.len(), self.keep, self.names),
            driver: Arc::clone(self),
            request: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl Broker {
    /// Ends the attempt with a reply.
    fn end(&self, reply: &Reply, attempt: &mut Attempt) {
        if let Some(quality) = reply.quality() {
            attempt.metrics.extend([
                (self.accuracy, quality.accuracy),
                (self.misplaced, f64::from(u8::from(quality.misplaced))),
                (self.queue_full, f64::from(u8::from(reply.is_queue_full()))),
            ]);
        }
        match reply {
            Reply::Placed { .. } => {
                attempt.items = 1;
                attempt.conclude(Outcome::Ok, Code::NONE);
            }
            Reply::Refused { status, text, .. } => {
                let (outcome, code) = (outcome_of(*status), attempt.code_of(status.text()));
                attempt.conclude(outcome, code);
                if outcome == Outcome::Error {
                    attempt.quote("broker", text);
                }
            }
        }
    }
}

/// A tester: its connections and buffers.
pub struct Tester {
    driver: Arc<Broker>,
    /// Per endpoint. With `proxy: tester`, the certificates are those of this tester alone.
    routes: Vec<Route>,
    http: Connections,
    binary: BinaryConnections,
    request: Vec<u8>,
    body: Vec<u8>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let job = driver.jobs[request.operation].fill(&request.fill, &mut self.body);
        let reply = match job {
            Ok(job) => self.decide(request.endpoint, &job, attempt).await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => driver.end(&reply, attempt),
            Err(error) => fail(attempt, error),
        }
        self.body.clear();
        self.body.shrink_to(KEPT_CAPACITY);
        self.http.ended(attempt);
    }

    fn reset(&mut self) {
        self.http.close();
        self.binary.close();
    }
}

impl Tester {
    async fn decide(
        &mut self,
        endpoint: usize,
        job: &JobRequest,
        attempt: &mut Attempt,
    ) -> Result<Reply, DecisionError> {
        let driver = Arc::clone(&self.driver);
        let route = &self.routes[endpoint];
        self.request.clear();
        let Some(head) = &driver.points[endpoint].http_head else {
            job.encode(&mut self.request);
            attempt.begin();
            let binary = &mut self.binary;
            return binary.exchange(endpoint, route, &self.request, attempt).await;
        };
        render(head, job, &mut self.request);
        attempt.begin();
        self.body.clear();
        let exchange = Exchange {
            route,
            way: endpoint,
            request: &self.request,
            head_only: false,
            keep: driver.keep,
            body: Some(&mut self.body),
            head: None,
            max_kept: MAX_BODY,
            timeouts: Timeouts::NONE,
            replace: Replace::Never,
        };
        let response = self.http.exchange(exchange, attempt).await?;
        attempt.payload = response.body;
        let reply = Reply::from_json(response.status, &self.body)?;
        Ok(reply)
    }
}

/// Appends the request with a job over HTTP.
fn render(head: &str, job: &JobRequest, out: &mut Vec<u8>) {
    // A struct of numbers can always be converted, and writing to a vector cannot fail.
    let body = serde_json::to_vec(job).unwrap_or_default();
    let _ = write!(out, "{head}{}\r\n\r\n", body.len());
    out.extend_from_slice(&body);
}

/// Ends the attempt with a failure.
fn fail(attempt: &mut Attempt, error: DecisionError) {
    let (code, message) = match error {
        DecisionError::Failure(failure) => return attempt.fail(&failure),
        DecisionError::Value { key, found } => {
            let why = format!("{key}: expected a number that fits into a request, got \"{found}\"");
            ("bad request".to_owned(), why)
        }
        DecisionError::Response { code, why } => (code, why),
    };
    // The end was stamped after the last read, if anything was read.
    if attempt.end == NOT_HAPPENED {
        attempt.end = attempt.now();
    }
    let code = attempt.code_of(&code);
    attempt.conclude(Outcome::Error, code);
    attempt.quote("broker", &message);
}
