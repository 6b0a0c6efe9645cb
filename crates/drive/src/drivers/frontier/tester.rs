//! A tester of `frontier`: the requests of one transaction, and the tries after a failure.

use std::borrow::Cow;
use std::sync::Arc;

use plimsoll_model::{Cache, Code, NOT_HAPPENED, Outcome};

use super::Frontier;
use super::ask::{Ask, Head};
use super::failover::{Failover, Fresh, Way};
use super::settings::Version;
use super::verdict::{FailedResponse, GoodResponse, Verifier};
use crate::driver::{AsyncTester, Attempt, Request, Waiting};
use crate::drivers::versions::Versions;
use crate::http1::connection::{Connections, Exchange, Replace};
use crate::lane::reactor::Io;

/// Maximum length of a response, bytes.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;
/// The public client closes its connection after a body of this size or larger, because some caches
/// did not keep it reliably.
const MAX_KEPT_OPEN_BYTES: u64 = 16 * 1024;

/// Largest buffer for a response that a tester keeps, bytes. Larger ones are freed: 1,000 testers
/// that each keep the 30 MB of their last response need 30 GB, and touching fresh memory stalls the
/// lane for seconds.
const MAX_KEPT_BUFFER: usize = 4 << 20;

/// A tester: its connections, its view of proxies and servers, and its buffers.
pub struct Tester {
    driver: Arc<Frontier>,
    io: Io,
    connections: Connections,
    failover: Option<Failover>,
    /// Index of the next query of the chatter, before the division by their number.
    next_chatter: usize,
    request: Vec<u8>,
    body: Vec<u8>,
}

/// State of a transaction in progress.
struct Turn<'a> {
    driver: &'a Frontier,
    begun: bool,
    /// Duration of the failed tries, ns.
    failed_ns: i64,
    /// Descriptions of the failed tries.
    failures: String,
}

impl Tester {
    pub(super) fn new(driver: &Arc<Frontier>, io: &Io, number: u32) -> Self {
        Self {
            driver: Arc::clone(driver),
            io: Io::clone(io),
            connections: Connections::new(io, driver.connections(), driver.trips, None),
            failover: driver.failover(number),
            next_chatter: number as usize,
            request: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Sends a request, on one route after the other, until there is a correct response. If no
    /// route remains, concludes the transaction and returns none.
    async fn send(
        &mut self,
        (ask, path): (&Ask, &str),
        request: &Request<'_>,
        turn: &mut Turn<'_>,
        attempt: &mut Attempt,
    ) -> Option<GoodResponse> {
        let driver = turn.driver;
        let mut way = self.first_way(request, attempt);
        loop {
            self.write(ask, path, way);
            turn.begin_try(attempt);
            let begun = attempt.now();
            if self.failover.is_some() {
                attempt.endpoint = Some(way.server);
            }
            let failed = match self.attempt(ask, way, attempt).await {
                Ok(good) => {
                    if self.failover.is_some() && driver.proxies > 0 && way.proxy.is_none() {
                        set_metric(attempt, driver.metrics.direct, 1.0);
                    }
                    return Some(good);
                }
                Err(failed) => failed,
            };
            let next = self
                .failover
                .as_mut()
                .and_then(|failover| failover.after(failed.failed_try));
            let Some(next) = next else {
                failed.conclude(attempt);
                turn.note_end(way, &failed, attempt);
                return None;
            };
            turn.record_failure(way, &failed, attempt.now() - begun, attempt);
            if driver.connection(next) != driver.connection(way) {
                self.connections.close_way(driver.connection(way));
            }
            way = next;
        }
    }

    /// Called after the transaction is concluded.
    fn end(&mut self, attempt: &mut Attempt) {
        self.connections.ended(attempt);
        attempt.freed();
    }

    fn first_way(&mut self, request: &Request<'_>, attempt: &Attempt) -> Way {
        let driver = &*self.driver;
        let Some(failover) = &mut self.failover else {
            return driver.way(request);
        };
        if failover.reset_expired(attempt.now()) {
            self.connections.close();
        }
        let connections = &self.connections;
        failover.begin(|way| connections.is_open(driver.connection(way)))
    }

    fn write(&mut self, ask: &Ask, path: &str, way: Way) {
        let driver = &*self.driver;
        let fresh = self.failover.as_ref().map_or(Fresh::AsAsked, Failover::fresh);
        let head = Head {
            target: driver.target(way),
            id: &driver.id,
            version: driver.version,
            keep: driver.keep,
            fresh,
        };
        self.request.clear();
        ask.write(path, &head, &mut self.request);
    }

    /// Carries out one try.
    async fn attempt(
        &mut self,
        ask: &Ask,
        way: Way,
        attempt: &mut Attempt,
    ) -> Result<GoodResponse, FailedResponse> {
        let driver = &*self.driver;
        self.body.clear();
        let connection = driver.connection(way);
        let exchange = Exchange {
            route: &driver.target(way).routes[way.proxy.unwrap_or(0)],
            way: connection,
            request: &self.request,
            head_only: false,
            keep: driver.keep,
            body: Some(&mut self.body),
            head: None,
            max_kept: MAX_RESPONSE,
            timeouts: driver.timeouts,
            replace: if self.failover.is_some() {
                Replace::Any
            } else {
                Replace::Kept
            },
        };
        match self.connections.exchange(exchange, attempt).await {
            Ok(response) => {
                attempt.cache = response.cache;
                if driver.version == Version::V1_0 && response.body >= MAX_KEPT_OPEN_BYTES {
                    self.connections.spend(connection, attempt);
                }
                let column = ask.versions().and_then(Versions::column);
                let verified = driver
                    .verifier
                    .verify(response, &self.body, ask.payloads(), column, &self.io)
                    .await;
                if self.body.capacity() > MAX_KEPT_BUFFER {
                    self.body = Vec::new();
                }
                verified
            }
            Err(failure) => Err(Verifier::broken(failure, attempt.waiting)),
        }
    }

    /// The validation queries before the query of the user, each with its path: the paths are
    /// encoded before the start.
    fn chatter<'a>(&mut self, driver: &'a Frontier, request: &Request<'_>) -> Vec<(&'a Ask, Cow<'a, str>)> {
        let asks = &driver.operations[request.operation].chatter;
        let mut next = || {
            let ask = &asks[self.next_chatter % asks.len()];
            self.next_chatter = self.next_chatter.wrapping_add(1);
            (ask, ask.path(&request.fill, None))
        };
        (0..driver.chatter).map(|_| next()).collect()
    }
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let ask = &driver.operations[request.operation].ask;
        let unique = driver.uncached.as_ref().and_then(|(uncached, keys)| {
            let fill = &request.fill;
            uncached.is_chosen(fill.tester, fill.n).then(|| keys.of(fill))
        });
        let path = ask.path(&request.fill, unique.as_deref());
        let mut turn = Turn::new(&driver);
        if driver.chatter > 0 {
            let chatter = self.chatter(&driver, request);
            for (done, (ask, path)) in (1_u32..).zip(&chatter) {
                let response = self.send((ask, path), request, &mut turn, attempt).await;
                set_metric(attempt, driver.metrics.chatter, f64::from(done));
                if response.is_none() {
                    self.end(attempt);
                    return;
                }
            }
        }
        if unique.is_some() {
            set_metric(attempt, driver.metrics.uncached, 1.0);
        }
        if let Some(response) = self.send((ask, &path), request, &mut turn, attempt).await {
            attempt.items = response.rows;
            attempt.payload = response.payload;
            attempt.conclude(Outcome::Ok, Code::NONE);
            if let Some(versions) = ask.versions() {
                versions.note_read(&request.fill, response.newest, attempt);
            }
        }
        self.end(attempt);
    }

    fn reset(&mut self) {
        self.connections.close();
    }
}

impl<'a> Turn<'a> {
    fn new(driver: &'a Frontier) -> Self {
        Self {
            driver,
            begun: false,
            failed_ns: 0,
            failures: String::new(),
        }
    }

    /// Called before each request. The first one is the start of the transaction.
    fn begin_try(&mut self, attempt: &mut Attempt) {
        if std::mem::replace(&mut self.begun, true) {
            attempt.first_byte = NOT_HAPPENED;
            attempt.cache = Cache::None;
            attempt.waiting = Waiting::Connect;
        } else {
            attempt.begin();
        }
    }

    /// Records a failed try that is followed by another one. The metrics are updated at once,
    /// because the timeout of the transaction can expire at any time.
    fn record_failure(&mut self, way: Way, failed: &FailedResponse, took_ns: i64, attempt: &mut Attempt) {
        let metrics = &self.driver.metrics;
        attempt.attempt = attempt.attempt.saturating_add(1);
        self.failed_ns += took_ns;
        set_metric(attempt, metrics.tries, f64::from(attempt.attempt) + 1.0);
        set_metric(attempt, metrics.failed_tries, self.failed_ns as f64 / 1e9);
        let failure = self.describe(way, failed);
        self.failures.push_str(&failure);
        self.failures.push_str("; ");
        attempt.note = Some(format!("frontier: {}then tried again", self.failures));
    }

    /// Sets the note of a transaction that has failed, because no route remains.
    fn note_end(&self, way: Way, failed: &FailedResponse, attempt: &mut Attempt) {
        if !self.failures.is_empty() {
            let failure = self.describe(way, failed);
            attempt.note = Some(format!("frontier: {}{failure}", self.failures));
        } else if let Some(note) = &failed.note {
            attempt.note = Some(format!("frontier: {note}"));
        }
    }

    /// Description of a failed try.
    fn describe(&self, way: Way, failed: &FailedResponse) -> String {
        let route = self.driver.describe(way);
        let code = failed.code_text(self.driver.verifier.codes());
        match &failed.note {
            Some(note) => format!("{route}: {code} ({note})"),
            None => format!("{route}: {code}"),
        }
    }
}

/// Sets a metric of the transaction, and replaces its previous value.
fn set_metric(attempt: &mut Attempt, name: Code, value: f64) {
    match attempt.metrics.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = value,
        None => attempt.metrics.push((name, value)),
    }
}
