//! `delay`: c servers, one queue, random service times. With Poisson arrivals and exponential times
//! it is the M/M/c queue, whose mean response time and utilization are known from theory.
//!
//! A request arrives when its last byte has been read. It waits in one first-in-first-out queue of
//! all connections, is served for its drawn time, and is then answered. Over HTTP every request is
//! such a request. Over TCP every line is; the response is `ok`, `failed` or `full`.
//! `/plimsoll/stats` (the line `plimsoll stats`) returns [`DelayStats`].

mod queue;
mod timer;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::ServiceError;
use crate::counters::{Counters, Counts, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::lines::LineConnection;
use crate::listen::serve_connections;
use queue::Queue;
pub use queue::Stall;
use timer::Timer;

/// Maximum service time in seconds. A greater drawn time is set to it.
const MAX_SERVICE_S: f64 = 3600.0;

/// Distribution of the service times. Its parameters are in seconds, from 0 to 3,600.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// All service times are equal.
    Fixed {
        /// The service time, s.
        s: f64,
    },
    /// The exponential distribution.
    Exponential {
        /// Mean, s.
        mean_s: f64,
    },
    /// The uniform distribution between two times.
    Uniform {
        /// Lower end, s.
        from_s: f64,
        /// Upper end, s. At least `from_s`.
        to_s: f64,
    },
    /// The lognormal distribution. Its parameters are those of the time, not of its logarithm.
    Lognormal {
        /// Mean, s. Greater than 0.
        mean_s: f64,
        /// Standard deviation, s.
        sd_s: f64,
    },
}

/// Configuration of `delay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayConfig {
    /// True (the default): HTTP. False: lines over TCP.
    #[serde(default = "yes")]
    pub http: bool,
    /// Number of servers, 1 to 100,000.
    #[serde(default = "one")]
    pub servers: usize,
    /// Distribution of the service times.
    pub service: Law,
    /// Seed of the service times and failures.
    #[serde(default)]
    pub seed: u64,
    /// A stop of all servers. None: the servers do not stop.
    #[serde(default)]
    pub stall: Option<Stall>,
    /// Probability of a failure (500, `failed`), 0 to 1. A request that fails is served like any
    /// other request.
    #[serde(default)]
    pub fail: f64,
    /// Maximum number of requests that wait or are in service. The response to a further request is
    /// immediate: 503, `full`.
    #[serde(default = "ten_thousand")]
    pub capacity: usize,
    /// HTTP: length of the body of a response in bytes, at most 1 MiB.
    #[serde(default)]
    pub body: usize,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn ten_thousand() -> usize {
    10_000
}

/// Statistics of the service. The utilization between two readings is the increase of `busy_s`
/// divided by `servers` times the increase of `elapsed_s`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DelayStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Requests for which a failure was drawn.
    pub failed: u64,
    /// Requests that were rejected because the capacity was reached.
    pub full: u64,
    /// Number of servers.
    pub servers: usize,
    /// Time since the first request in seconds; 0 before it.
    pub elapsed_s: f64,
    /// Total time for which the servers were busy, in seconds.
    pub busy_s: f64,
    /// Requests that wait or are in service now.
    pub in_system: usize,
    /// Mean of the drawn service times, in seconds.
    pub mean_service_s: f64,
    /// Mean lateness of the responses in seconds: the error of the service itself.
    pub mean_late_s: f64,
    /// Maximum lateness of a response, in seconds.
    pub max_late_s: f64,
}

/// Draws service times in ns.
#[derive(Debug)]
pub(crate) enum Sampler {
    Fixed(f64),
    Exponential(Exp<f64>),
    Uniform(f64, f64),
    Lognormal(LogNormal<f64>),
}

impl Sampler {
    pub(crate) fn new(law: Law) -> Result<Self, ServiceError> {
        let wrong = |why: String| ServiceError::Config { key: "service", why };
        let checked = |name: &str, value: f64| {
            let valid = value.is_finite() && (0.0..=MAX_SERVICE_S).contains(&value);
            if valid {
                Ok(value)
            } else {
                Err(wrong(format!("{name}: expected 0 to 3,600 s, got {value}")))
            }
        };
        Ok(match law {
            Law::Fixed { s } => Self::Fixed(checked("s", s)?),
            Law::Exponential { mean_s } => {
                let rate = 1.0 / checked("mean_s", mean_s)?;
                Self::Exponential(Exp::new(rate).map_err(|error| wrong(error.to_string()))?)
            }
            Law::Uniform { from_s, to_s } => {
                let (from, to) = (checked("from_s", from_s)?, checked("to_s", to_s)?);
                if from > to {
                    return Err(wrong(format!(
                        "expected from_s to be at most to_s, got from_s {from}, to_s {to}"
                    )));
                }
                Self::Uniform(from, to)
            }
            Law::Lognormal { mean_s, sd_s } => {
                let (mean, sd) = (checked("mean_s", mean_s)?, checked("sd_s", sd_s)?);
                if mean == 0.0 {
                    return Err(wrong(
                        "mean_s of a lognormal law: expected more than 0, got 0".into(),
                    ));
                }
                // For a lognormal variable, variance / mean^2 = exp(sigma^2) - 1 and mean = exp(mu
                // + sigma^2 / 2).
                let variance = (1.0 + (sd / mean).powi(2)).ln();
                let law = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
                Self::Lognormal(law.map_err(|error| wrong(error.to_string()))?)
            }
        })
    }

    pub(crate) fn draw(&self, rng: &mut Pcg64) -> u64 {
        let seconds = match self {
            Self::Fixed(seconds) => *seconds,
            Self::Exponential(law) => law.sample(rng),
            Self::Uniform(from, to) => from + (to - from) * rng.random::<f64>(),
            Self::Lognormal(law) => law.sample(rng),
        };
        (seconds.min(MAX_SERVICE_S) * 1e9).round() as u64
    }
}

/// Result of the arrival of a request.
enum Admission {
    /// The capacity is reached.
    Full,
    /// Departure time, and whether the response is a failure.
    Admitted { departure: Instant, failed: bool },
}

struct State {
    queue: Queue,
    rng: Pcg64,
    /// A separate generator, so that `fail` does not change the service times.
    fail_rng: Pcg64,
    /// Time of the first request: time zero of the queue.
    origin: Option<Instant>,
    drawn: u64,
    drawn_ns: u64,
    failed: u64,
    full: u64,
    late: u64,
    late_ns: u64,
    max_late_ns: u64,
}

struct Service {
    sampler: Sampler,
    config: DelayConfig,
    state: Mutex<State>,
    timer: Timer,
    counters: Counters,
    body: Vec<u8>,
}

impl Service {
    fn new(config: DelayConfig) -> Result<Self, ServiceError> {
        let wrong = |key, why: String| ServiceError::Config { key, why };
        if !(1..=100_000).contains(&config.servers) {
            let why = format!("expected 1 to 100,000, got {}", config.servers);
            return Err(wrong("servers", why));
        }
        if !(0.0..=1.0).contains(&config.fail) {
            let why = format!("expected a probability from 0 to 1, got {}", config.fail);
            return Err(wrong("fail", why));
        }
        if config.body > 1 << 20 {
            let why = format!(
                "expected at most 1,048,576 bytes (1 MiB), got {} bytes",
                config.body
            );
            return Err(wrong("body", why));
        }
        let is_valid = |s: f64| s.is_finite() && (0.0..=1e6).contains(&s);
        if let Some(Stall { at_s, for_s }) = config.stall
            && !(is_valid(at_s) && is_valid(for_s))
        {
            let why =
                format!("expected at_s and for_s from 0 to 1,000,000 s, got at_s {at_s}, for_s {for_s}");
            return Err(wrong("stall", why));
        }
        let state = State {
            queue: Queue::new(config.servers, config.stall),
            rng: Pcg64::seed_from_u64(config.seed),
            fail_rng: Pcg64::seed_from_u64(config.seed ^ 0x6661_696c),
            origin: None,
            drawn: 0,
            drawn_ns: 0,
            failed: 0,
            full: 0,
            late: 0,
            late_ns: 0,
            max_late_ns: 0,
        };
        Ok(Self {
            sampler: Sampler::new(config.service)?,
            body: vec![b'x'; config.body],
            config,
            state: Mutex::new(state),
            timer: Timer::new().map_err(ServiceError::io("cannot create a timer"))?,
            counters: Counters::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self) -> Admission {
        let mut state = self.state();
        // Read while the lock is held, because the time of the queue must not decrease.
        let now = Instant::now();
        let origin = *state.origin.get_or_insert(now);
        let elapsed = (now - origin).as_nanos() as u64;
        if state.queue.in_system(elapsed) >= self.config.capacity {
            state.full += 1;
            return Admission::Full;
        }
        let service = self.sampler.draw(&mut state.rng);
        state.drawn += 1;
        state.drawn_ns += service;
        let failed = self.config.fail > 0.0 && state.fail_rng.random::<f64>() < self.config.fail;
        state.failed += u64::from(failed);
        let departure_ns = state.queue.enqueue(elapsed, service);
        Admission::Admitted {
            departure: origin + Duration::from_nanos(departure_ns),
            failed,
        }
    }

    /// Queues a request, waits until it has been served, and returns its outcome.
    async fn serve(&self) -> Outcome {
        self.counters.received(1);
        let outcome = match self.admit() {
            Admission::Full => Outcome::Full,
            Admission::Admitted { departure, failed } => {
                self.timer.wait_until(departure).await;
                let late = departure.elapsed().as_nanos() as u64;
                let mut state = self.state();
                state.late += 1;
                state.late_ns += late;
                state.max_late_ns = state.max_late_ns.max(late);
                if failed { Outcome::Failed } else { Outcome::Served }
            }
        };
        self.counters.answered(1);
        outcome
    }

    fn stats(&self) -> DelayStats {
        let mut state = self.state();
        let elapsed = state
            .origin
            .map_or(0, |origin| origin.elapsed().as_nanos() as u64);
        let mean = |sum: u64, n: u64| if n == 0 { 0.0 } else { sum as f64 / n as f64 / 1e9 };
        DelayStats {
            counts: self.counters.counts(),
            failed: state.failed,
            full: state.full,
            servers: self.config.servers,
            elapsed_s: elapsed as f64 / 1e9,
            busy_s: state.queue.busy(elapsed) as f64 / 1e9,
            in_system: state.queue.in_system(elapsed),
            mean_service_s: mean(state.drawn_ns, state.drawn),
            mean_late_s: mean(state.late_ns, state.late),
            max_late_s: state.max_late_ns as f64 / 1e9,
        }
    }
}

#[derive(Clone, Copy)]
enum Outcome {
    Served,
    Failed,
    Full,
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    config: DelayConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let is_http = config.http;
    let service = Arc::new(Service::new(config)?);
    // The timer is a separate task. If it were polled with the accept loop, each deadline would
    // cost an attempt to accept.
    let mut timer = JoinSet::new();
    let timer_service = service.clone();
    timer.spawn(async move { timer_service.timer.run().await });
    let connections = serve_connections(listener, shutdown, move |stream| {
        service.counters.connection();
        let service = service.clone();
        async move {
            if is_http {
                answer_http(HttpConnection::new(stream, 1 << 20), &service).await;
            } else {
                answer_lines(LineConnection::new(stream), &service).await;
            }
        }
    });
    tokio::select! {
        ended = connections => ended,
        Some(Ok(error)) = timer.join_next() => Err(ServiceError::io("the timer failed")(error)),
    }
}

async fn answer_http(mut connection: HttpConnection, service: &Service) {
    let mut head = Head::default();
    let mut body = Vec::new();
    loop {
        match connection.next(&mut head, &mut body).await {
            Next::Request => {}
            Next::Refused => return service.counters.refused(),
            Next::Closed => return,
        }
        let sent = if let Some(question) = Question::of_target(head.target()) {
            let text = question.answer(&service.counters, || service.stats());
            connection
                .respond(&head, &Response::text(200), text.as_bytes())
                .await
        } else {
            let (status, body) = match service.serve().await {
                Outcome::Served => (200, service.body.as_slice()),
                Outcome::Failed => (500, b"failed as configured\n".as_slice()),
                Outcome::Full => (503, b"the queue is full\n".as_slice()),
            };
            connection.respond(&head, &Response::text(status), body).await
        };
        if !sent {
            return;
        }
    }
}

async fn answer_lines(mut connection: LineConnection, service: &Service) {
    loop {
        let Some(question) = connection.buffered().map(Question::of_line) else {
            if connection.fill().await {
                continue;
            }
            return;
        };
        let sent = if let Some(question) = question {
            let text = question.answer(&service.counters, || service.stats());
            connection.write(text.as_bytes()).await
        } else {
            let text: &[u8] = match service.serve().await {
                Outcome::Served => b"ok\n",
                Outcome::Failed => b"failed\n",
                Outcome::Full => b"full\n",
            };
            connection.write(text).await
        };
        if !sent {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_sd(law: Law) -> (f64, f64) {
        let sampler = Sampler::new(law).unwrap();
        let mut rng = Pcg64::seed_from_u64(5);
        let draws: Vec<f64> = (0..200_000)
            .map(|_| sampler.draw(&mut rng) as f64 / 1e9)
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn drawn_times_have_the_mean_and_standard_deviation_of_their_law() {
        let assert_close = |drawn: (f64, f64), expected: (f64, f64)| {
            assert!((drawn.0 - expected.0).abs() < 0.0002, "{drawn:?} {expected:?}");
            assert!((drawn.1 - expected.1).abs() < 0.0004, "{drawn:?} {expected:?}");
        };
        assert_close(mean_and_sd(Law::Fixed { s: 0.01 }), (0.01, 0.0));
        assert_close(mean_and_sd(Law::Exponential { mean_s: 0.01 }), (0.01, 0.01));
        assert_close(
            mean_and_sd(Law::Uniform {
                from_s: 0.0,
                to_s: 0.02,
            }),
            (0.01, 0.02 / 12_f64.sqrt()),
        );
        assert_close(
            mean_and_sd(Law::Lognormal {
                mean_s: 0.01,
                sd_s: 0.005,
            }),
            (0.01, 0.005),
        );
    }

    #[test]
    fn invalid_laws_are_rejected() {
        for law in [
            Law::Fixed { s: -1.0 },
            Law::Exponential { mean_s: f64::NAN },
            Law::Uniform {
                from_s: 2.0,
                to_s: 1.0,
            },
            Law::Lognormal {
                mean_s: 0.0,
                sd_s: 1.0,
            },
            Law::Fixed { s: 1e9 },
        ] {
            assert!(Sampler::new(law).is_err(), "{law:?}");
        }
    }

    #[test]
    fn configuration_reads_from_json() {
        let config: DelayConfig =
            serde_json::from_str(r#"{"servers": 2, "service": {"law": "exponential", "mean_s": 0.001}}"#)
                .unwrap();
        assert_eq!((config.servers, config.http, config.capacity), (2, true, 10_000));
        assert!(serde_json::from_str::<DelayConfig>(r#"{"service": {"law": "fixed", "ms": 1}}"#).is_err());
    }
}
