//! `delay`: c servers, one queue, drawn service times. With Poisson arrivals and exponential times
//! it is the M/M/c queue, whose mean response time and utilization theory gives.
//!
//! A request arrives when its last byte is read, waits in one first-in-first-out queue of all
//! connections, is served for its drawn time, and then answered. Over HTTP every `GET` is such a
//! request; over TCP every line is, answered by `ok`, `failed` or `full`. `/plimsoll/stats` (the
//! line `plimsoll stats`) returns [`DelayStats`].

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

/// Longest service time, seconds. A drawn one is cut to it.
const MAX_SERVICE_S: f64 = 3600.0;

/// Law of the service times, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// Always the same.
    Fixed {
        /// The time.
        s: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_s: f64,
    },
    /// Uniform between two times.
    Uniform {
        /// Lower end.
        from_s: f64,
        /// Upper end.
        to_s: f64,
    },
    /// Lognormal, by its own mean and standard deviation (not those of the logarithm).
    Lognormal {
        /// Mean.
        mean_s: f64,
        /// Standard deviation.
        sd_s: f64,
    },
}

/// Configuration of `delay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayConfig {
    /// HTTP (the default) or lines over TCP.
    #[serde(default = "yes")]
    pub http: bool,
    /// Number of servers, 1 to 100,000.
    #[serde(default = "one")]
    pub servers: usize,
    /// Service times.
    pub service: Law,
    /// Seed of the service times and failures.
    #[serde(default)]
    pub seed: u64,
    /// A stand-still of all servers.
    #[serde(default)]
    pub stall: Option<Stall>,
    /// Probability of a failure (500, `failed`), 0 to 1. A failing request is served like any
    /// other.
    #[serde(default)]
    pub fail: f64,
    /// Most requests in the system; one more is answered at once with 503, `full`.
    #[serde(default = "ten_thousand")]
    pub capacity: usize,
    /// HTTP: bytes of an answer's body, at most 1 MiB.
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

/// What the service knows of itself. Utilization between two moments is the growth of `busy_s`
/// divided by `servers` times the growth of `elapsed_s`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DelayStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Answers that were drawn to fail.
    pub failed: u64,
    /// Requests that found the system full.
    pub full: u64,
    /// Number of servers.
    pub servers: usize,
    /// Seconds since the first request; 0 before it.
    pub elapsed_s: f64,
    /// Server seconds spent.
    pub busy_s: f64,
    /// Requests queued and in service now.
    pub in_system: usize,
    /// Mean of the drawn service times, seconds.
    pub mean_service_s: f64,
    /// Mean time from the planned to the actual answer, seconds: the service's own error.
    pub mean_late_s: f64,
    /// The largest of these.
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
                Err(wrong(format!("{name} must be 0 to {MAX_SERVICE_S}, not {value}")))
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
                    return Err(wrong(format!("from_s {from} is above to_s {to}")));
                }
                Self::Uniform(from, to)
            }
            Law::Lognormal { mean_s, sd_s } => {
                let (mean, sd) = (checked("mean_s", mean_s)?, checked("sd_s", sd_s)?);
                if mean == 0.0 {
                    return Err(wrong("mean_s of a lognormal law must be above 0".into()));
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

/// What a request is told at its arrival.
enum Verdict {
    Full,
    Leaves { at: Instant, failed: bool },
}

struct State {
    queue: Queue,
    rng: Pcg64,
    /// Of its own, so that `fail` changes no service time.
    fail_rng: Pcg64,
    /// The first request: time zero of the queue.
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
        let wrong = |key, why: &str| ServiceError::Config { key, why: why.into() };
        if !(1..=100_000).contains(&config.servers) {
            return Err(wrong("servers", "1 to 100000"));
        }
        if !(0.0..=1.0).contains(&config.fail) {
            return Err(wrong("fail", "a probability, 0 to 1"));
        }
        if config.body > 1 << 20 {
            return Err(wrong("body", "at most 1 MiB"));
        }
        let days = |s: f64| s.is_finite() && (0.0..=1e6).contains(&s);
        if config
            .stall
            .is_some_and(|stall| !(days(stall.at_s) && days(stall.for_s)))
        {
            return Err(wrong("stall", "at_s and for_s of 0 to 1000000 seconds"));
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
            timer: Timer::new().map_err(ServiceError::io("cannot make a timer"))?,
            counters: Counters::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self) -> Verdict {
        let mut state = self.state();
        // Read under the lock: the queue's time must not go back.
        let now = Instant::now();
        let origin = *state.origin.get_or_insert(now);
        let elapsed = (now - origin).as_nanos() as u64;
        if state.queue.in_system(elapsed) >= self.config.capacity {
            state.full += 1;
            return Verdict::Full;
        }
        let service = self.sampler.draw(&mut state.rng);
        state.drawn += 1;
        state.drawn_ns += service;
        let failed = self.config.fail > 0.0 && state.fail_rng.random::<f64>() < self.config.fail;
        state.failed += u64::from(failed);
        let leaves = state.queue.enqueue(elapsed, service);
        Verdict::Leaves {
            at: origin + Duration::from_nanos(leaves),
            failed,
        }
    }

    /// Queues a request, waits for its end, and tells how it ended: ok, failed, full.
    async fn serve(&self) -> Ending {
        self.counters.received(1);
        let ending = match self.arrive() {
            Verdict::Full => Ending::Full,
            Verdict::Leaves { at, failed } => {
                self.timer.wait_until(at).await;
                let late = at.elapsed().as_nanos() as u64;
                let mut state = self.state();
                state.late += 1;
                state.late_ns += late;
                state.max_late_ns = state.max_late_ns.max(late);
                if failed { Ending::Failed } else { Ending::Served }
            }
        };
        self.counters.answered(1);
        ending
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
enum Ending {
    Served,
    Failed,
    Full,
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    config: DelayConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let is_http = config.http;
    let service = Arc::new(Service::new(config)?);
    // In a task of its own: polled with the accepting loop, each deadline would cost an attempt to
    // accept.
    let mut timer = JoinSet::new();
    let driven = service.clone();
    timer.spawn(async move { driven.timer.run().await });
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
        let taken = if let Some(question) = Question::of_target(head.target()) {
            let text = question.answer(&service.counters, || service.stats());
            connection
                .respond(&head, &Response::text(200), text.as_bytes())
                .await
        } else {
            let (status, body) = match service.serve().await {
                Ending::Served => (200, service.body.as_slice()),
                Ending::Failed => (500, b"failed as configured\n".as_slice()),
                Ending::Full => (503, b"the queue is full\n".as_slice()),
            };
            connection.respond(&head, &Response::text(status), body).await
        };
        if !taken {
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
        let taken = if let Some(question) = question {
            let text = question.answer(&service.counters, || service.stats());
            connection.write(text.as_bytes()).await
        } else {
            let text: &[u8] = match service.serve().await {
                Ending::Served => b"ok\n",
                Ending::Failed => b"failed\n",
                Ending::Full => b"full\n",
            };
            connection.write(text).await
        };
        if !taken {
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
    fn laws_have_their_moments() {
        let close = |found: (f64, f64), expected: (f64, f64)| {
            assert!((found.0 - expected.0).abs() < 0.0002, "{found:?} {expected:?}");
            assert!((found.1 - expected.1).abs() < 0.0004, "{found:?} {expected:?}");
        };
        close(mean_and_sd(Law::Fixed { s: 0.01 }), (0.01, 0.0));
        close(mean_and_sd(Law::Exponential { mean_s: 0.01 }), (0.01, 0.01));
        close(
            mean_and_sd(Law::Uniform {
                from_s: 0.0,
                to_s: 0.02,
            }),
            (0.01, 0.02 / 12_f64.sqrt()),
        );
        close(
            mean_and_sd(Law::Lognormal {
                mean_s: 0.01,
                sd_s: 0.005,
            }),
            (0.01, 0.005),
        );
    }

    #[test]
    fn wrong_laws_are_refused() {
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
