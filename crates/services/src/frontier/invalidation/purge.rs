//! Purges keys from the caches, with one task and one persistent connection for each cache.
//!
//! A key is passed to the next cache when this one has responded. If a cache were purged too early,
//! it could load the old object again from a parent that still has it. The next caches do not wait
//! for a cache that cannot be reached. Its keys are pending until it purges them, or until their
//! objects have expired. When it has purged them, the caches after it are purged again.
//!
//! A cache refuses PURGE if it responds with another status than 200, 204 or 404. While it does,
//! caches must not store responses. Each cache is probed once a second until it has responded, and
//! while it refuses.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::tally::add;
use super::keys::{Name, Stale};
use super::log;

/// Maximum number of keys that are sent together, without waiting for the responses in between.
const BATCH: usize = 32;
/// Maximum time for connecting, and for the responses to a batch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum and maximum time before the next attempt after a failure. It doubles with each failure.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Time without a response of a cache after which the next one is purged nevertheless.
const UNREACHABLE: Duration = Duration::from_secs(2);
/// Time between two probes whether a cache accepts PURGE.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time for the response to a probe. The first request waits for it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the head or body of a response, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Counters of the purges.
#[derive(Debug, Default)]
pub(super) struct PurgeTally {
    /// Responses 200 and 204 of all caches.
    pub(super) purged: AtomicU64,
    /// Responses 404 of all caches.
    pub(super) not_cached: AtomicU64,
    /// Failed attempts.
    pub(super) failures: AtomicU64,
    /// Time from the change to the response of the last cache in us: the sum over the keys.
    pub(super) delay_us: AtomicU64,
    /// Maximum of this time, in us.
    pub(super) delay_most_us: AtomicU64,
}

/// A key that a cache must purge.
#[derive(Debug, Clone)]
struct PendingPurge {
    stale: Stale,
    /// Time of the change.
    since: Instant,
    /// Whether the key was passed to the next cache already.
    passed: bool,
}

#[derive(Default)]
struct Queue {
    pending: VecDeque<PendingPurge>,
    urls: HashSet<Name>,
}

impl Queue {
    fn push(&mut self, pending: PendingPurge) {
        if self.urls.insert(pending.stale.url.clone()) {
            self.pending.push_back(pending);
        }
    }
}

/// Whether a cache accepts PURGE, as numbers for an atomic.
const UNKNOWN: u8 = 0;
const ACCEPTS: u8 = 1;
const REFUSES: u8 = 2;

struct Cache {
    address: String,
    queue: Mutex<Queue>,
    wake: Notify,
    /// [`UNKNOWN`], [`ACCEPTS`] or [`REFUSES`].
    acceptance: AtomicU8,
}

impl Cache {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acceptance(&self) -> u8 {
        self.acceptance.load(Ordering::SeqCst)
    }

    /// Registers the status of a response to a PURGE.
    fn answered(&self, status: u16) {
        let acceptance = if is_purged(status) { ACCEPTS } else { REFUSES };
        let before = self.acceptance.swap(acceptance, Ordering::SeqCst);
        let address = &self.address;
        if acceptance == REFUSES && before != REFUSES {
            log(&format!(
                "caches must not store responses, because the cache at {address} answers PURGE with status {status}: \
                 allow PURGE from this gateway in its configuration"
            ));
        } else if acceptance == ACCEPTS && before == REFUSES {
            log(&format!(
                "the cache at {address} accepts PURGE now: caches may store responses"
            ));
        }
    }

    fn push(&self, keys: impl IntoIterator<Item = PendingPurge>) {
        let mut queue = self.queue();
        for pending in keys {
            queue.push(pending);
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Removes and returns the next keys to be purged, without those whose objects have expired.
    fn take(&self) -> Vec<PendingPurge> {
        let now = Instant::now();
        let mut queue = self.queue();
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(pending) = queue.pending.pop_front() else {
                break;
            };
            queue.urls.remove(&pending.stale.url);
            if pending.stale.until > now {
                batch.push(pending);
            }
        }
        batch
    }
}

/// All caches, in the order in which they are purged.
pub(super) struct Purger {
    caches: Vec<Cache>,
    /// A URL without an object, for probes whether a cache accepts PURGE.
    probe_url: Name,
    probed: OnceCell<()>,
    pub(super) tally: PurgeTally,
}

impl Purger {
    /// A purger for the caches at these addresses (HOST:PORT). `probe_url`: a URL without an
    /// object.
    pub(super) fn new(addresses: impl IntoIterator<Item = String>, probe_url: &str) -> Self {
        let cache = |address| Cache {
            address,
            queue: Mutex::default(),
            wake: Notify::new(),
            acceptance: AtomicU8::new(UNKNOWN),
        };
        Self {
            caches: addresses.into_iter().map(cache).collect(),
            probe_url: probe_url.into(),
            probed: OnceCell::new(),
            tally: PurgeTally::default(),
        }
    }

    pub(super) fn caches(&self) -> usize {
        self.caches.len()
    }

    /// Number of caches that are known to refuse PURGE.
    pub(super) fn refusing(&self) -> usize {
        let refusing = self.caches.iter().filter(|cache| cache.acceptance() == REFUSES);
        refusing.count()
    }

    /// Whether no cache refuses PURGE. The first call probes all caches.
    pub(super) async fn can_purge(self: &Arc<Self>) -> bool {
        let probe_all = async || {
            let mut probes = JoinSet::new();
            for number in 0..self.caches.len() {
                let purger = self.clone();
                probes.spawn(async move { purger.probe(&purger.caches[number]).await });
            }
            probes.join_all().await;
        };
        self.probed.get_or_init(probe_all).await;
        self.refusing() == 0
    }

    /// Probes whether a cache accepts PURGE. If it does not respond, its state is not changed: its
    /// keys are purged when it is back.
    async fn probe(&self, cache: &Cache) {
        let pending = PendingPurge {
            stale: Stale {
                url: self.probe_url.clone(),
                until: Instant::now() + PROBE_TIMEOUT,
            },
            since: Instant::now(),
            passed: false,
        };
        let result = timeout(PROBE_TIMEOUT, send_purges(&mut None, &cache.address, &[pending])).await;
        if let Some(status) = result.ok().and_then(|result| result.answers.first().copied()) {
            cache.answered(status);
        }
    }

    /// Number of keys that a cache has not purged yet: the maximum over the caches.
    pub(super) fn pending(&self) -> usize {
        let pending = self.caches.iter().map(|cache| cache.queue().pending.len());
        pending.max().unwrap_or(0)
    }

    /// The keys that some cache has not purged yet.
    pub(super) fn pending_urls(&self) -> HashSet<Name> {
        let pending = self.caches.iter().map(|cache| cache.queue().urls.clone());
        pending.flatten().collect()
    }

    /// Queues keys to be purged from all caches, one cache after the other.
    pub(super) fn push(&self, stale: Vec<Stale>) {
        let since = Instant::now();
        if let Some(first) = self.caches.first() {
            first.push(stale.into_iter().map(|stale| PendingPurge {
                stale,
                since,
                passed: false,
            }));
        }
    }

    /// Purges the keys of one cache, until the service ends.
    pub(super) async fn serve(self: Arc<Self>, number: usize) {
        let Some(cache) = self.caches.get(number) else {
            return;
        };
        let mut connection = None;
        let mut pause = RETRY_INTERVAL.0;
        let mut failure: Option<(Instant, String)> = None;
        loop {
            let batch = cache.take();
            if batch.is_empty() {
                let woken = cache.wake.notified();
                if cache.acceptance() == ACCEPTS {
                    woken.await;
                } else if timeout(PROBE_INTERVAL, woken).await.is_err() {
                    self.probe(cache).await;
                }
                continue;
            }
            let result = send_purges(&mut connection, &cache.address, &batch).await;
            match self.process_answers(number, batch, &result.answers) {
                None => {
                    pause = RETRY_INTERVAL.0;
                    if failure.take().is_some() {
                        log(&format!("the cache at {} is notified again", cache.address));
                    }
                }
                Some(why) => {
                    connection = None;
                    add(&self.tally.failures, 1);
                    let why = result.trouble.unwrap_or(why);
                    let (since, before) = failure.get_or_insert_with(|| (Instant::now(), String::new()));
                    if *before != why {
                        log(&format!(
                            "the cache at {} cannot be notified, the gateway tries again: {why}",
                            cache.address
                        ));
                        *before = why;
                    }
                    if since.elapsed() > UNREACHABLE {
                        self.pass_to_next(number);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(RETRY_INTERVAL.1);
                }
            }
        }
    }

    /// Passes the keys that a cache has purged to the next one, and queues the others again.
    /// Returns the reason if there are others.
    fn process_answers(&self, number: usize, batch: Vec<PendingPurge>, answers: &[u16]) -> Option<String> {
        let mut failure = None;
        let mut done = Vec::with_capacity(batch.len());
        for (index, pending) in batch.into_iter().enumerate() {
            if let Some(status) = answers.get(index) {
                self.caches[number].answered(*status);
            }
            match answers.get(index) {
                Some(200 | 204) => add(&self.tally.purged, 1),
                Some(404) => add(&self.tally.not_cached, 1),
                other => {
                    failure = Some(other.map_or_else(
                        || "it does not answer".to_owned(),
                        |status| format!("it answers PURGE with status {status}"),
                    ));
                    self.caches[number].push([pending]);
                    continue;
                }
            }
            done.push(PendingPurge {
                passed: false,
                ..pending
            });
        }
        if let Some(next) = self.caches.get(number + 1) {
            next.push(done);
        } else {
            for pending in done {
                let us = pending.since.elapsed().as_micros() as u64;
                add(&self.tally.delay_us, us);
                let maximum = &self.tally.delay_most_us;
                maximum.fetch_max(us, std::sync::atomic::Ordering::Relaxed);
            }
        }
        failure
    }

    /// Passes the keys that a cache has not purged to the next cache, each once.
    fn pass_to_next(&self, number: usize) {
        let Some(next) = self.caches.get(number + 1) else {
            return;
        };
        let mut passed = Vec::new();
        for pending in self.caches[number]
            .queue()
            .pending
            .iter_mut()
            .filter(|pending| !pending.passed)
        {
            pending.passed = true;
            passed.push(PendingPurge {
                passed: false,
                ..pending.clone()
            });
        }
        next.push(passed);
    }
}

/// Whether a cache with this response does not have the object, or no longer.
fn is_purged(status: u16) -> bool {
    matches!(status, 200 | 204 | 404)
}

/// Result of a batch.
struct PurgeAnswers {
    /// Statuses that were received, in the order of the batch.
    answers: Vec<u16>,
    /// Reason why there are fewer statuses than keys.
    trouble: Option<String>,
}

async fn send_purges(
    connection: &mut Option<Connection>,
    address: &str,
    batch: &[PendingPurge],
) -> PurgeAnswers {
    let mut answers = Vec::with_capacity(batch.len());
    // The cache may have closed a persistent connection. This is not a failure: a new connection is
    // tried.
    let mut is_last_attempt = connection.is_none();
    loop {
        let result = timeout(TIMEOUT, attempt(connection, address, batch, &mut answers)).await;
        let trouble = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        if trouble.is_some() {
            *connection = None;
        }
        if trouble.is_none() || is_last_attempt {
            return PurgeAnswers { answers, trouble };
        }
        is_last_attempt = true;
    }
}

async fn attempt(
    connection: &mut Option<Connection>,
    address: &str,
    batch: &[PendingPurge],
    answers: &mut Vec<u16>,
) -> io::Result<()> {
    while answers.len() < batch.len() {
        let open = match connection {
            Some(open) => open,
            None => connection.insert(Connection::open(address).await?),
        };
        let mut requests = String::new();
        for pending in &batch[answers.len()..] {
            let url = &pending.stale.url;
            let host = url.split('/').nth(2).unwrap_or_default();
            for part in ["PURGE ", url, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"] {
                requests.push_str(part);
            }
        }
        open.stream.write_all(requests.as_bytes()).await?;
        while answers.len() < batch.len() {
            let answer = open.answer().await?;
            answers.push(answer.status);
            if answer.closes {
                *connection = None;
                break;
            }
        }
    }
    Ok(())
}

/// The head of a response.
struct Answer {
    status: u16,
    length: usize,
    /// Whether the connection ends after the response.
    closes: bool,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let (head, answer) = loop {
            if let Some(parsed) = parse(&self.buffer)? {
                break parsed;
            }
            self.fill().await?;
        };
        while self.buffer.len() < head + answer.length {
            self.fill().await?;
        }
        self.buffer.drain(..head + answer.length);
        Ok(answer)
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.buffer.len() > MAX_ANSWER_BYTES {
            return Err(io::Error::other("its response is longer than 256 KiB"));
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::other("it has closed the connection")),
            _ => Ok(()),
        }
    }
}

/// Parses a head. Returns its length and its content, or None if it is incomplete. A body without a
/// length is not read: the connection ends with it.
fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Answer)>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response
        .parse(bytes)
        .map_err(|_| io::Error::other("its response is not valid HTTP"))?;
    let httparse::Status::Complete(head) = parsed else {
        return Ok(None);
    };
    let field = |name: &str| {
        let header = response
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name));
        header.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let status = response.code.unwrap_or_default();
    let length = field("content-length").and_then(|text| text.trim().parse().ok());
    let has_close = field("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    let is_empty = matches!(status, 204 | 304);
    let answer = Answer {
        status,
        length: if is_empty { 0 } else { length.unwrap_or(0) },
        closes: has_close || response.version == Some(0) || (length.is_none() && !is_empty),
    };
    Ok(Some((head, answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_responses_are_parsed() {
        let read = |text: &str| {
            parse(text.as_bytes())
                .unwrap()
                .map(|(head, answer)| (head, answer.status, answer.length, answer.closes))
        };
        assert_eq!(
            read("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            Some((38, 200, 0, false))
        );
        assert_eq!(
            read("HTTP/1.1 404 x\r\ncontent-length: 7\r\nConnection: close\r\n\r\nab"),
            Some((56, 404, 7, true))
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\n"), Some((19, 200, 0, true)));
        assert_eq!(
            read("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
            Some((38, 200, 0, true))
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\nConte"), None);
        assert!(parse(b"220 smtp").is_err());
    }

    fn stale(url: &str) -> Stale {
        Stale {
            url: url.into(),
            until: Instant::now() + Duration::from_secs(100),
        }
    }

    #[test]
    fn the_next_cache_is_purged_when_this_one_has_answered() {
        let purger = Purger::new(["a:1".to_owned(), "b:1".to_owned()], "http://h/");
        purger.push(vec![stale("/1"), stale("/2"), stale("/1")]);
        assert_eq!(purger.pending(), 2);
        let batch = purger.caches[0].take();
        assert_eq!((batch.len(), purger.pending()), (2, 0));
        assert!(
            purger
                .process_answers(0, batch, &[200])
                .is_some_and(|why| why.contains("does not answer"))
        );
        assert_eq!(purger.caches[0].queue().pending[0].stale.url.as_ref(), "/2");
        assert_eq!(purger.caches[1].queue().pending[0].stale.url.as_ref(), "/1");
        let batch = purger.caches[0].take();
        assert_eq!(
            purger.process_answers(0, batch, &[403]),
            Some("it answers PURGE with status 403".into())
        );
        assert_eq!(purger.refusing(), 1);
        let batch = purger.caches[0].take();
        assert_eq!(purger.process_answers(0, batch, &[404]), None);
        assert_eq!(purger.refusing(), 0, "it accepts them now");
    }

    #[test]
    fn a_cache_that_does_not_answer_is_skipped_and_purged_later() {
        let purger = Purger::new(["a:1".to_owned(), "b:1".to_owned()], "http://h/");
        purger.push(vec![stale("/1")]);
        purger.pass_to_next(0);
        purger.pass_to_next(0);
        assert_eq!(purger.caches[1].take().len(), 1);
        assert_eq!(purger.caches[1].take().len(), 0, "each key is passed once");
        let batch = purger.caches[0].take();
        assert_eq!(purger.process_answers(0, batch, &[404]), None);
        assert_eq!(purger.caches[1].take().len(), 1, "the parent was purged only now");
    }

    #[test]
    fn an_expired_key_is_not_pending() {
        let purger = Purger::new(["a:1".to_owned()], "http://h/");
        purger.push(vec![Stale {
            until: Instant::now(),
            ..stale("/1")
        }]);
        assert!(purger.caches[0].take().is_empty());
    }
}
