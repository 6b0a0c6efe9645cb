//! A tester of `frontier`: what it asks in one transaction, and what it does when that fails.

use std::borrow::Cow;
use std::sync::Arc;

use plimsoll_model::{Cache, Code, NOT_HAPPENED, Outcome};

use super::Frontier;
use super::ask::{Ask, Head};
use super::failover::{Failover, Fresh, Way};
use super::settings::Version;
use super::verdict::{Bad, Good, Judge};
use crate::driver::{AsyncTester, Attempt, Request, Waiting};
use crate::drivers::versions::Versions;
use crate::http1::connection::{Connections, Exchange, Replace};
use crate::reactor::Io;

/// Longest answer, bytes.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// The public client closes its connection after a body of this size, as caches did not keep it
/// reliably.
const MAX_KEPT_OPEN_BYTES: u64 = 16 * 1024;

/// A tester: its connections, its view of proxies and servers, and its buffers.
pub struct Tester {
    driver: Arc<Frontier>,
    connections: Connections,
    failover: Option<Failover>,
    /// Which query of the chatter is next.
    chat: usize,
    request: Vec<u8>,
    body: Vec<u8>,
}

/// What happened in a transaction so far.
struct Turn<'a> {
    driver: &'a Frontier,
    begun: bool,
    failed_ns: i64,
    /// Of tries that failed, in words.
    story: String,
}

impl Tester {
    pub(super) fn new(driver: &Arc<Frontier>, io: &Io, number: u32) -> Self {
        Self {
            driver: Arc::clone(driver),
            connections: Connections::new(io, driver.connections(), driver.trips),
            failover: driver.failover(number),
            chat: number as usize,
            request: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Asks until there is a good answer, or nothing is left to try: then the transaction is
    /// concluded.
    async fn put(
        &mut self,
        (ask, path): (&Ask, &str),
        request: &Request<'_>,
        turn: &mut Turn<'_>,
        attempt: &mut Attempt,
    ) -> Option<Good> {
        let driver = turn.driver;
        let mut way = self.first_way(request, attempt);
        loop {
            self.write(ask, path, way);
            turn.next(attempt);
            let from = attempt.now();
            if self.failover.is_some() {
                attempt.endpoint = Some(way.server);
            }
            let bad = match self.attempt(ask, way, attempt).await {
                Ok(good) => {
                    if self.failover.is_some() && driver.proxies > 0 && way.proxy.is_none() {
                        set_metric(attempt, driver.metrics.direct, 1.0);
                    }
                    return Some(good);
                }
                Err(bad) => bad,
            };
            let next = self
                .failover
                .as_mut()
                .and_then(|failover| failover.after(bad.failed));
            let Some(next) = next else {
                bad.conclude(attempt);
                turn.ended(way, &bad, attempt);
                return None;
            };
            turn.failed(way, &bad, attempt.now() - from, attempt);
            if driver.connection(next) != driver.connection(way) {
                self.connections.close_way(driver.connection(way));
            }
            way = next;
        }
    }

    /// The transaction is concluded.
    fn ended(&mut self, attempt: &mut Attempt) {
        self.connections.ended(attempt);
        attempt.freed();
    }

    fn first_way(&mut self, request: &Request<'_>, attempt: &Attempt) -> Way {
        let driver = &*self.driver;
        let Some(failover) = &mut self.failover else {
            return driver.way(request);
        };
        if failover.forget(attempt.now()) {
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

    /// One try.
    async fn attempt(&mut self, ask: &Ask, way: Way, attempt: &mut Attempt) -> Result<Good, Bad> {
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
            max_kept: MAX_ANSWER,
            patience: driver.patience,
            replace: if self.failover.is_some() {
                Replace::Any
            } else {
                Replace::Kept
            },
        };
        match self.connections.exchange(exchange, attempt).await {
            Ok(answer) => {
                attempt.cache = answer.cache;
                if driver.version == Version::V1_0 && answer.body >= MAX_KEPT_OPEN_BYTES {
                    self.connections.spend(connection, attempt);
                }
                let column = ask.versions().and_then(Versions::column);
                driver.judge.answered(answer, &self.body, ask.payloads(), column)
            }
            Err(failure) => Err(Judge::broken(failure, attempt.waiting)),
        }
    }

    /// The queries before the query, each with its path: what has to be packed is packed before the
    /// start.
    fn chatter<'a>(&mut self, driver: &'a Frontier, request: &Request<'_>) -> Vec<(&'a Ask, Cow<'a, str>)> {
        let asks = &driver.operations[request.operation].chatter;
        let mut next = || {
            let ask = &asks[self.chat % asks.len()];
            self.chat = self.chat.wrapping_add(1);
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
            uncached.chosen(fill.tester, fill.n).then(|| keys.of(fill))
        });
        let path = ask.path(&request.fill, unique.as_deref());
        let mut turn = Turn::new(&driver);
        if driver.chatter > 0 {
            let chatter = self.chatter(&driver, request);
            for (done, (ask, path)) in (1_u32..).zip(&chatter) {
                let answered = self.put((ask, path), request, &mut turn, attempt).await;
                set_metric(attempt, driver.metrics.chatter, f64::from(done));
                if answered.is_none() {
                    self.ended(attempt);
                    return;
                }
            }
        }
        if unique.is_some() {
            set_metric(attempt, driver.metrics.uncached, 1.0);
        }
        if let Some(good) = self.put((ask, &path), request, &mut turn, attempt).await {
            attempt.items = good.rows;
            attempt.payload = good.payload;
            attempt.conclude(Outcome::Ok, Code::NONE);
            if let Some(versions) = ask.versions() {
                versions.note_read(&request.fill, good.newest, attempt);
            }
        }
        self.ended(attempt);
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
            story: String::new(),
        }
    }

    /// A request goes out next: the first of a transaction is its start.
    fn next(&mut self, attempt: &mut Attempt) {
        if std::mem::replace(&mut self.begun, true) {
            attempt.first_byte = NOT_HAPPENED;
            attempt.cache = Cache::None;
            attempt.waiting = Waiting::Connect;
        } else {
            attempt.begin();
        }
    }

    /// A try failed, and there will be another. Metrics are kept up to date, as the time may be up
    /// at any moment.
    fn failed(&mut self, way: Way, bad: &Bad, took_ns: i64, attempt: &mut Attempt) {
        let metrics = &self.driver.metrics;
        attempt.attempt = attempt.attempt.saturating_add(1);
        self.failed_ns += took_ns;
        set_metric(attempt, metrics.tries, f64::from(attempt.attempt) + 1.0);
        set_metric(attempt, metrics.failed_tries, self.failed_ns as f64 / 1e9);
        let told = self.told(way, bad);
        self.story.push_str(&told);
        self.story.push_str("; ");
        attempt.note = Some(format!("frontier: {}and then tried again", self.story));
    }

    /// Nothing is left to try.
    fn ended(&self, way: Way, bad: &Bad, attempt: &mut Attempt) {
        if !self.story.is_empty() {
            let told = self.told(way, bad);
            attempt.note = Some(format!("frontier: {}{told}", self.story));
        } else if let Some(note) = &bad.note {
            attempt.note = Some(format!("frontier: {note}"));
        }
    }

    /// A try that failed, in words.
    fn told(&self, way: Way, bad: &Bad) -> String {
        let place = self.driver.named(way);
        let word = bad.word(self.driver.judge.codes());
        match &bad.note {
            Some(note) => format!("{place}: {word} ({note})"),
            None => format!("{place}: {word}"),
        }
    }
}

/// Sets a metric of the transaction, once.
fn set_metric(attempt: &mut Attempt, name: Code, value: f64) {
    match attempt.metrics.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = value,
        None => attempt.metrics.push((name, value)),
    }
}
