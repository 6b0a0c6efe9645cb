//! Telling the caches: one task and one kept connection for each.
//!
//! A key goes to the next cache when this one has answered: a cache that is told too early would
//! fill itself again from a parent that still has the old object. One that cannot be reached is not
//! waited for, but its keys are owed to it until it takes them, or may not have the objects any
//! more by their age; when it has taken them at last, the caches behind it are told once more.
//!
//! A cache that answers a PURGE with anything but 200, 204 or 404 will not be told: as long as it
//! does, nothing may be kept. Each is asked once a second until that is known, and while it
//! refuses.

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
use super::say;

/// Keys told in one go: answers come one after the other, but nobody waits between them.
const BATCH: usize = 32;
/// For connecting, and for the answers to a batch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After a failure; doubled up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Without an answer of a cache, before the next one is told nevertheless.
const UNREACHABLE: Duration = Duration::from_secs(2);
/// Between two questions whether a cache takes PURGE.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// For the answer to such a question, which the first request waits for.
const ASK: Duration = Duration::from_secs(2);
/// Longest head or body of an answer, bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct PurgeTally {
    /// Answers 200 and 404 of all caches, and what failed.
    pub(super) purged: AtomicU64,
    pub(super) not_cached: AtomicU64,
    pub(super) failures: AtomicU64,
    /// From the change to the last cache's answer, microseconds: their sum and the longest.
    pub(super) delay_us: AtomicU64,
    pub(super) delay_most_us: AtomicU64,
}

#[derive(Debug, Clone)]
struct Owed {
    stale: Stale,
    since: Instant,
    /// The next cache has been told already.
    passed: bool,
}

#[derive(Default)]
struct Queue {
    owed: VecDeque<Owed>,
    urls: HashSet<Name>,
}

impl Queue {
    fn push(&mut self, owed: Owed) {
        if self.urls.insert(owed.stale.url.clone()) {
            self.owed.push_back(owed);
        }
    }
}

/// Whether a cache takes PURGE; as numbers, for an atomic.
const UNKNOWN: u8 = 0;
const TAKES: u8 = 1;
const REFUSES: u8 = 2;

struct Cache {
    address: String,
    queue: Mutex<Queue>,
    wake: Notify,
    manner: AtomicU8,
}

impl Cache {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn manner(&self) -> u8 {
        self.manner.load(Ordering::SeqCst)
    }

    /// It has answered a PURGE with this status.
    fn answered(&self, status: u16) {
        let manner = if is_taken(status) { TAKES } else { REFUSES };
        let before = self.manner.swap(manner, Ordering::SeqCst);
        let address = &self.address;
        if manner == REFUSES && before != REFUSES {
            say(&format!(
                "caches may keep nothing, as the cache at {address} answers PURGE with {status}: allow it there"
            ));
        } else if manner == TAKES && before == REFUSES {
            say(&format!("the cache at {address} takes PURGE now"));
        }
    }

    fn push(&self, owed: impl IntoIterator<Item = Owed>) {
        let mut queue = self.queue();
        for one in owed {
            queue.push(one);
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Keys to be told now; those whose objects are too old for every cache are left out.
    fn take(&self) -> Vec<Owed> {
        let now = Instant::now();
        let mut queue = self.queue();
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(owed) = queue.owed.pop_front() else { break };
            queue.urls.remove(&owed.stale.url);
            if owed.stale.until > now {
                batch.push(owed);
            }
        }
        batch
    }
}

/// All caches, in the order in which they are told.
pub(super) struct Purger {
    caches: Vec<Cache>,
    /// The URL of no object, to ask caches with whether they take PURGE.
    nothing: Name,
    asked: OnceCell<()>,
    pub(super) tally: PurgeTally,
}

impl Purger {
    /// `addresses`: HOST:PORT. `nothing`: the URL of no object.
    pub(super) fn new(addresses: impl IntoIterator<Item = String>, nothing: &str) -> Self {
        let cache = |address| Cache {
            address,
            queue: Mutex::default(),
            wake: Notify::new(),
            manner: AtomicU8::new(UNKNOWN),
        };
        Self {
            caches: addresses.into_iter().map(cache).collect(),
            nothing: nothing.into(),
            asked: OnceCell::new(),
            tally: PurgeTally::default(),
        }
    }

    pub(super) fn caches(&self) -> usize {
        self.caches.len()
    }

    /// Caches that refuse PURGE, as far as is known.
    pub(super) fn refusing(&self) -> usize {
        let refusing = self.caches.iter().filter(|cache| cache.manner() == REFUSES);
        refusing.count()
    }

    /// Whether no cache refuses PURGE. The first time, all are asked.
    pub(super) async fn can_tell(self: &Arc<Self>) -> bool {
        let ask_all = async || {
            let mut asking = JoinSet::new();
            for number in 0..self.caches.len() {
                let purger = self.clone();
                asking.spawn(async move { purger.ask(&purger.caches[number]).await });
            }
            asking.join_all().await;
        };
        self.asked.get_or_init(ask_all).await;
        self.refusing() == 0
    }

    /// Asks a cache whether it takes PURGE. One that does not answer stays as it was: it gets its
    /// keys when it is back.
    async fn ask(&self, cache: &Cache) {
        let owed = Owed {
            stale: Stale {
                url: self.nothing.clone(),
                until: Instant::now() + ASK,
            },
            since: Instant::now(),
            passed: false,
        };
        let told = timeout(ASK, tell(&mut None, &cache.address, &[owed])).await;
        if let Some(status) = told.ok().and_then(|told| told.answers.first().copied()) {
            cache.answered(status);
        }
    }

    /// Keys that some cache has not taken yet: of the cache that is owed most.
    pub(super) fn owed(&self) -> usize {
        let owed = self.caches.iter().map(|cache| cache.queue().owed.len());
        owed.max().unwrap_or(0)
    }

    /// Those keys.
    pub(super) fn owed_urls(&self) -> HashSet<Name> {
        let owed = self.caches.iter().map(|cache| cache.queue().urls.clone());
        owed.flatten().collect()
    }

    /// Has all caches told, one after the other.
    pub(super) fn push(&self, stale: Vec<Stale>) {
        let since = Instant::now();
        if let Some(first) = self.caches.first() {
            first.push(stale.into_iter().map(|stale| Owed {
                stale,
                since,
                passed: false,
            }));
        }
    }

    /// Tells one cache, as long as the service lives.
    pub(super) async fn serve(self: Arc<Self>, number: usize) {
        let Some(cache) = self.caches.get(number) else {
            return;
        };
        let mut connection = None;
        let mut pause = PAUSE.0;
        let mut trouble: Option<(Instant, String)> = None;
        loop {
            let batch = cache.take();
            if batch.is_empty() {
                let woken = cache.wake.notified();
                if cache.manner() == TAKES {
                    woken.await;
                } else if timeout(ASK_AGAIN, woken).await.is_err() {
                    self.ask(cache).await;
                }
                continue;
            }
            let told = tell(&mut connection, &cache.address, &batch).await;
            match self.sort(number, batch, &told.answers) {
                None => {
                    pause = PAUSE.0;
                    if trouble.take().is_some() {
                        say(&format!("the cache at {} is notified again", cache.address));
                    }
                }
                Some(why) => {
                    connection = None;
                    add(&self.tally.failures, 1);
                    let why = told.trouble.unwrap_or(why);
                    let (since, before) = trouble.get_or_insert_with(|| (Instant::now(), String::new()));
                    if *before != why {
                        say(&format!("the cache at {} cannot be told: {why}", cache.address));
                        *before = why;
                    }
                    if since.elapsed() > UNREACHABLE {
                        self.pass(number);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSE.1);
                }
            }
        }
    }

    /// Passes on what a cache has taken, and keeps the rest for it; says why there is one.
    fn sort(&self, number: usize, batch: Vec<Owed>, answers: &[u16]) -> Option<String> {
        let mut left = None;
        let mut done = Vec::with_capacity(batch.len());
        for (at, owed) in batch.into_iter().enumerate() {
            if let Some(status) = answers.get(at) {
                self.caches[number].answered(*status);
            }
            match answers.get(at) {
                Some(200 | 204) => add(&self.tally.purged, 1),
                Some(404) => add(&self.tally.not_cached, 1),
                other => {
                    left = Some(other.map_or_else(
                        || "it does not answer".to_owned(),
                        |status| format!("it answers PURGE with {status}"),
                    ));
                    self.caches[number].push([owed]);
                    continue;
                }
            }
            done.push(Owed {
                passed: false,
                ..owed
            });
        }
        if let Some(next) = self.caches.get(number + 1) {
            next.push(done);
        } else {
            for owed in done {
                let us = owed.since.elapsed().as_micros() as u64;
                add(&self.tally.delay_us, us);
                let most = &self.tally.delay_most_us;
                most.fetch_max(us, std::sync::atomic::Ordering::Relaxed);
            }
        }
        left
    }

    /// Has the next cache told of what this one does not take.
    fn pass(&self, number: usize) {
        let Some(next) = self.caches.get(number + 1) else {
            return;
        };
        let mut passed = Vec::new();
        for owed in self.caches[number]
            .queue()
            .owed
            .iter_mut()
            .filter(|owed| !owed.passed)
        {
            owed.passed = true;
            passed.push(Owed {
                passed: false,
                ..owed.clone()
            });
        }
        next.push(passed);
    }
}

/// Whether a cache that answers with this has not, or no longer, what a PURGE named.
fn is_taken(status: u16) -> bool {
    matches!(status, 200 | 204 | 404)
}

/// Statuses in the order of the batch, as far as they came, and why there are no more.
struct PurgeAnswers {
    answers: Vec<u16>,
    trouble: Option<String>,
}

async fn tell(connection: &mut Option<Connection>, address: &str, batch: &[Owed]) -> PurgeAnswers {
    let mut answers = Vec::with_capacity(batch.len());
    // A kept connection may have been closed meanwhile: that is no failure yet.
    let mut second = connection.is_none();
    loop {
        let told = timeout(TIMEOUT, attempt(connection, address, batch, &mut answers)).await;
        let trouble = match told {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        if trouble.is_some() {
            *connection = None;
        }
        if trouble.is_none() || second {
            return PurgeAnswers { answers, trouble };
        }
        second = true;
    }
}

async fn attempt(
    connection: &mut Option<Connection>,
    address: &str,
    batch: &[Owed],
    answers: &mut Vec<u16>,
) -> io::Result<()> {
    while answers.len() < batch.len() {
        let open = match connection {
            Some(open) => open,
            None => connection.insert(Connection::open(address).await?),
        };
        let mut requests = String::new();
        for owed in &batch[answers.len()..] {
            let url = &owed.stale.url;
            let host = url.split('/').nth(2).unwrap_or_default();
            for part in ["PURGE ", url, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"] {
                requests.push_str(part);
            }
        }
        open.stream.write_all(requests.as_bytes()).await?;
        while answers.len() < batch.len() {
            let answer = open.answer().await?;
            answers.push(answer.status);
            if answer.last {
                *connection = None;
                break;
            }
        }
    }
    Ok(())
}

/// The head of an answer.
struct Answer {
    status: u16,
    length: usize,
    /// The cache closes behind it.
    last: bool,
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
            return Err(io::Error::other("its answer is too long"));
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::other("it closed the connection")),
            _ => Ok(()),
        }
    }
}

/// A head and its length, once it is whole. A body without a length is not waited for: the
/// connection ends with it.
fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Answer)>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response
        .parse(bytes)
        .map_err(|_| io::Error::other("it does not speak HTTP"))?;
    let httparse::Status::Complete(head) = parsed else {
        return Ok(None);
    };
    let field = |name: &str| {
        let found = response
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name));
        found.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let status = response.code.unwrap_or_default();
    let length = field("content-length").and_then(|text| text.trim().parse().ok());
    let closes = field("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    let empty = matches!(status, 204 | 304);
    let answer = Answer {
        status,
        length: if empty { 0 } else { length.unwrap_or(0) },
        last: closes || response.version == Some(0) || (length.is_none() && !empty),
    };
    Ok(Some((head, answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_answers() {
        let read = |text: &str| {
            parse(text.as_bytes())
                .unwrap()
                .map(|(head, answer)| (head, answer.status, answer.length, answer.last))
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

    fn owed(url: &str) -> Stale {
        Stale {
            url: url.into(),
            until: Instant::now() + Duration::from_secs(100),
        }
    }

    #[test]
    fn the_next_cache_is_told_when_this_one_has_answered() {
        let purger = Purger::new(["a:1".to_owned(), "b:1".to_owned()], "http://h/");
        purger.push(vec![owed("/1"), owed("/2"), owed("/1")]);
        assert_eq!(purger.owed(), 2);
        let batch = purger.caches[0].take();
        assert_eq!((batch.len(), purger.owed()), (2, 0));
        assert!(
            purger
                .sort(0, batch, &[200])
                .is_some_and(|why| why.contains("does not answer"))
        );
        assert_eq!(purger.caches[0].queue().owed[0].stale.url.as_ref(), "/2");
        assert_eq!(purger.caches[1].queue().owed[0].stale.url.as_ref(), "/1");
        let batch = purger.caches[0].take();
        assert_eq!(
            purger.sort(0, batch, &[403]),
            Some("it answers PURGE with 403".into())
        );
        assert_eq!(purger.refusing(), 1);
        let batch = purger.caches[0].take();
        assert_eq!(purger.sort(0, batch, &[404]), None);
        assert_eq!(purger.refusing(), 0, "it takes them now");
    }

    #[test]
    fn a_cache_that_does_not_answer_is_passed_over_and_told_later() {
        let purger = Purger::new(["a:1".to_owned(), "b:1".to_owned()], "http://h/");
        purger.push(vec![owed("/1")]);
        purger.pass(0);
        purger.pass(0);
        assert_eq!(purger.caches[1].take().len(), 1);
        assert_eq!(purger.caches[1].take().len(), 0, "once is enough");
        let batch = purger.caches[0].take();
        assert_eq!(purger.sort(0, batch, &[404]), None);
        assert_eq!(
            purger.caches[1].take().len(),
            1,
            "the parent has been told only now"
        );
    }

    #[test]
    fn what_no_cache_may_have_any_more_is_not_owed() {
        let purger = Purger::new(["a:1".to_owned()], "http://h/");
        purger.push(vec![Stale {
            until: Instant::now(),
            ..owed("/1")
        }]);
        assert!(purger.caches[0].take().is_empty());
    }
}
