//! Telling the caches before the gateway that their objects are old, when the tables behind them
//! have changed.
//!
//! A request of queries is registered under the key that caches keep its answer by, with the tables
//! it depends on ([`catalogue`]), before its query starts ([`keys`]). The database tells of changes
//! ([`watch`]); the keys of a changed table are purged from every cache ([`purge`]). Where nothing
//! can be promised - the link to the database is down, a table cannot be watched, the table of keys
//! is full - the answer goes out with an age of zero: an object that caches keep is one that they
//! would be told of. Keys are kept in a file ([`journal`]), from which the next gateway purges.

mod catalogue;
mod config;
mod journal;
mod keys;
mod known;
mod purge;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use config::{CacheConfig, InvalidationConfig, On, Triggers};

use super::config::{is_host, unix_now};
use super::database::Dialect;
use super::modified::Modified;
use super::tally::{add, get};
use crate::ServiceError;
use crate::http::Head;
use catalogue::Depends;
use journal::Journal;
use keys::{Keys, Name, Stale};
use known::CatalogueCache;
use purge::Purger;
use watch::Ask;

/// For the database to say what its tables are, or to get a trigger; a request waits for it.
const TIMEOUT: Duration = Duration::from_secs(8);
/// In place of tables where all keys are purged together.
const EVERYTHING: &str = "*";

#[allow(clippy::print_stderr, reason = "the log of a service is its stderr")]
fn say(text: &str) {
    eprintln!("frontier: invalidation: {text}");
}

/// What those who ask, those who watch and those who purge share.
struct Shared {
    config: InvalidationConfig,
    dialect: Dialect,
    keys: Mutex<Keys>,
    /// None: a gateway after this one knows nothing of its keys.
    journal: Option<Mutex<Journal>>,
    known: Mutex<CatalogueCache>,
    purger: Arc<Purger>,
    modified: Arc<Modified>,
    /// Changes are being told: without this nothing may be kept.
    up: AtomicBool,
    /// The journal could not be written the last time.
    forgets: AtomicBool,
    /// A key is to be purged once more, sooner than was known.
    sooner: Notify,
    changes: AtomicU64,
    purges: AtomicU64,
    unkept: AtomicU64,
}

impl Shared {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, CatalogueCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalogue is the same as before; there is none where everything is purged by the clock.
    fn is_generation(&self, generation: u64) -> bool {
        self.config.on == On::Every || self.known().generation == generation
    }

    fn is_up(&self) -> bool {
        self.up.load(Ordering::SeqCst)
    }

    /// Changes are told from here on. What may have happened before is made up for.
    fn begins(&self) {
        self.up.store(true, Ordering::SeqCst);
        // What an earlier gateway has answered is purged already.
        if self.keys().len() > 0 {
            self.all_changed();
        }
    }

    /// Has the next gateway know of a key, before its answer leaves. False where that cannot be
    /// had.
    fn remember(&self, url: &Name, age: Duration) -> bool {
        let Some(journal) = &self.journal else {
            return true;
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        let now = unix_now();
        let shrunk = if journal.is_full(self.config.most_keys) {
            let owed = self.purger.owed_urls();
            let keys = self.keys();
            journal.shrink(now, |url| owed.contains(url) || keys.has(url))
        } else {
            Ok(())
        };
        let noted = shrunk.and_then(|()| journal.note(url, age.as_secs(), now));
        drop(journal);
        let forgets = noted.is_err();
        if self.forgets.swap(forgets, Ordering::SeqCst) != forgets {
            say(&match noted {
                Err(why) => format!("caches may keep nothing, as keys_file cannot be written: {why}"),
                Ok(()) => "keys_file is written again".to_owned(),
            });
        }
        !forgets
    }

    /// Purges what an earlier gateway has answered, and once more what may have been on its way to
    /// the caches.
    async fn purge_earlier(self: Arc<Self>, earlier: Vec<Stale>) {
        self.purge(earlier.clone());
        tokio::time::sleep(Duration::from_millis(self.config.again_ms)).await;
        self.purge(earlier);
    }

    /// Changes are not told any more.
    fn ends(&self) {
        self.up.store(false, Ordering::SeqCst);
    }

    /// A table has changed. False where the catalogue does not have it.
    fn table_changed(&self, full: &str) -> bool {
        add(&self.changes, 1);
        let units = self.known().catalogue.changed_with(full);
        self.units_changed(&units);
        !units.is_empty()
    }

    fn units_changed<'a>(&self, units: impl IntoIterator<Item = &'a Name>) {
        self.modified.forget();
        let now = Instant::now();
        let mut stale = Vec::new();
        let mut keys = self.keys();
        for unit in units {
            stale.extend(keys.changed(unit, now));
        }
        drop(keys);
        self.purge(stale);
    }

    /// Anything may have changed.
    fn all_changed(&self) {
        self.modified.forget();
        let stale = self.keys().all(Instant::now());
        self.purge(stale);
    }

    fn purge(&self, stale: Vec<Stale>) {
        self.sooner.notify_one();
        if !stale.is_empty() {
            add(&self.purges, stale.len() as u64);
            self.purger.push(stale);
        }
    }

    /// Purges once more what was on its way, as long as the service lives.
    async fn purge_again(self: Arc<Self>) {
        loop {
            let next = self.keys().next_due();
            match next {
                None => self.sooner.notified().await,
                Some(at) => tokio::select! {
                    () = self.sooner.notified() => {}
                    () = tokio::time::sleep_until(at.into()) => {
                        let stale = self.keys().due(Instant::now());
                        self.purge(stale);
                    }
                },
            }
        }
    }

    /// Purges everything every so often, as long as the service lives.
    async fn purge_every(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            self.all_changed();
        }
    }
}

/// Keeps caches true; ends with it.
pub(super) struct Invalidation {
    shared: Arc<Shared>,
    asks: mpsc::Sender<Ask>,
    /// What stands before a path where the request has no `Host`.
    address: String,
    _tasks: JoinSet<()>,
}

/// Whether caches may keep an answer; to be held until it has left.
pub(super) struct Keeping {
    /// They may: they will be told when it is old, or it depends on no table.
    pub(super) allowed: bool,
    _key: Option<Registered>,
}

impl Keeping {
    /// They may, and nobody will tell them anything.
    pub(super) fn free() -> Self {
        Self {
            allowed: true,
            _key: None,
        }
    }
}

/// A key of a request that is under way; its drop is the end of the answer.
struct Registered {
    shared: Arc<Shared>,
    url: Name,
    age: Duration,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let stale = self.shared.keys().end(&self.url, self.age, Instant::now());
        if let Some(stale) = stale {
            self.shared.purge(vec![stale]);
        }
    }
}

impl Invalidation {
    /// Begins to watch. `database`: the URL of a server. An error where the server says that it
    /// cannot be watched; one that is not there may come later.
    pub(super) async fn start(
        config: &InvalidationConfig,
        database: &str,
        dialect: Dialect,
        modified: Arc<Modified>,
        address: std::net::SocketAddr,
    ) -> Result<Self, ServiceError> {
        let settle = config.settle_ms.unwrap_or(match dialect {
            Dialect::Mysql => 100,
            Dialect::Postgres | Dialect::Sqlite => 0,
        });
        let again = Duration::from_millis(config.again_ms);
        let (journal, earlier) = match &config.keys_file {
            Some(path) => read_journal(path)?,
            None => (None, Vec::new()),
        };
        let nothing = format!("http://{address}/plimsoll/nothing");
        let caches = config.caches.iter().filter_map(|cache| cache.address());
        let shared = Arc::new(Shared {
            dialect,
            keys: Mutex::new(Keys::new(Duration::from_millis(settle), again, config.most_keys)),
            journal: journal.map(Mutex::new),
            known: Mutex::default(),
            purger: Arc::new(Purger::new(caches.map(str::to_owned), &nothing)),
            modified,
            up: AtomicBool::new(false),
            forgets: AtomicBool::new(false),
            sooner: Notify::new(),
            changes: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            unkept: AtomicU64::new(0),
            config: config.clone(),
        });
        let mut tasks = JoinSet::new();
        for number in 0..shared.purger.caches() {
            tasks.spawn(shared.purger.clone().serve(number));
        }
        tasks.spawn(shared.clone().purge_again());
        if !earlier.is_empty() {
            say(&format!(
                "{} objects that caches may keep from before are purged",
                earlier.len()
            ));
            tasks.spawn(shared.clone().purge_earlier(earlier));
        }
        let (asks, asked) = mpsc::channel(64);
        if let Some(seconds) = config.every_s {
            shared.begins();
            tasks.spawn(shared.clone().purge_every(Duration::from_secs_f64(seconds)));
        } else {
            let (told, first) = oneshot::channel();
            tasks.spawn(watch::watch(shared.clone(), database.to_owned(), asked, told));
            if let Ok(Ok(Err(why))) = timeout(TIMEOUT, first).await {
                let key = "invalidation";
                return Err(ServiceError::Config { key, why });
            }
        }
        Ok(Self {
            shared,
            asks,
            address: format!("http://{address}"),
            _tasks: tasks,
        })
    }

    /// Whether the answer to these queries may be kept, for at most `age` seconds. To be asked
    /// before they start.
    pub(super) async fn keep(&self, head: &Head, queries: &[&str], age: u64) -> Keeping {
        if age == 0 || queries.is_empty() {
            return Keeping::free();
        }
        let (depends, generation) = self.depends(queries).await;
        let key = match depends {
            Depends::Nothing => return Keeping::free(),
            Depends::Unknowable => None,
            Depends::On(_) if !self.shared.purger.can_tell().await => None,
            Depends::On(units) => self.register(head, &units, Duration::from_secs(age)),
        };
        // Had the catalogue become another meanwhile, the key could stand under tables of before.
        let key = key.filter(|_| self.shared.is_generation(generation));
        if key.is_none() {
            add(&self.shared.unkept, 1);
        }
        Keeping {
            allowed: key.is_some(),
            _key: key,
        }
    }

    fn register(&self, head: &Head, units: &Arc<[Name]>, age: Duration) -> Option<Registered> {
        let shared = &self.shared;
        let url: Name = self.url(head).into();
        let owed = shared.purger.owed();
        let room = shared.keys().begin(&url, units, age, owed, Instant::now());
        let key = room.then(|| Registered {
            shared: shared.clone(),
            url: url.clone(),
            age,
        });
        key.filter(|_| shared.remember(&url, age))
    }

    /// What caches keep the answer under.
    fn url(&self, head: &Head) -> String {
        let target = head.target();
        if target.starts_with("http://") {
            return target.to_owned();
        }
        match (&self.shared.config.base, head.field("host").map(str::trim)) {
            (Some(base), _) => format!("{base}{target}"),
            (None, Some(host)) if is_host(host) => format!("http://{host}{target}"),
            (None, _) => format!("{}{target}", self.address),
        }
    }

    /// The units that these queries read, all of them watched, and the generation of the catalogue
    /// that says so.
    async fn depends(&self, queries: &[&str]) -> (Depends, u64) {
        let shared = &self.shared;
        if shared.config.on == On::Every {
            return (Depends::On([EVERYTHING.into()].into()), 0);
        }
        let unknowable = (Depends::Unknowable, 0);
        if !shared.is_up() {
            return unknowable;
        }
        let mut names = Vec::new();
        for query in queries {
            match shared.dialect.names(query) {
                Some(found) => names.extend(found),
                None => return unknowable,
            }
        }
        if shared.known().needs_look(&names) && !self.ask(Ask::look).await {
            return unknowable;
        }
        let (depends, generation, unwatched) = shared.known().judge(&names);
        if unwatched.is_empty() || self.ask(|told| Ask::Watch(unwatched, told)).await {
            (depends, generation)
        } else {
            unknowable
        }
    }

    /// Has the watcher do something; false where it cannot.
    async fn ask(&self, ask: impl FnOnce(oneshot::Sender<bool>) -> Ask) -> bool {
        let (told, done) = oneshot::channel();
        let asked = async {
            self.asks.send(ask(told)).await.ok()?;
            done.await.ok()
        };
        timeout(TIMEOUT, asked).await.ok().flatten() == Some(true)
    }

    pub(super) fn stats(&self) -> InvalidationStats {
        let shared = &self.shared;
        let purged = &shared.purger.tally;
        let ms = |us: &AtomicU64| get(us) as f64 / 1000.0;
        InvalidationStats {
            keys: shared.keys().len(),
            owed: shared.purger.owed(),
            watching: u8::from(shared.is_up()),
            refusing: shared.purger.refusing(),
            changes: get(&shared.changes),
            purges: get(&shared.purges),
            purged: get(&purged.purged),
            not_cached: get(&purged.not_cached),
            purge_failures: get(&purged.failures),
            unkept: get(&shared.unkept),
            purge_delay_ms: ms(&purged.delay_us),
            purge_delay_most_ms: ms(&purged.delay_most_us),
        }
    }
}

/// The keys of an earlier gateway, each until when a cache may keep its object.
fn read_journal(path: &std::path::Path) -> Result<(Option<Journal>, Vec<Stale>), ServiceError> {
    let (unix, now) = (unix_now(), Instant::now());
    let (journal, earlier) = Journal::open(path, unix).map_err(|error| ServiceError::Config {
        key: "invalidation",
        why: format!("keys_file: cannot use {}: {error}", path.display()),
    })?;
    // No cache keeps anything for longer than the longest age, whatever a clock said.
    let longest = Duration::from_secs(10 * 365 * 86_400);
    let stale = earlier.into_iter().map(|(url, until)| Stale {
        url,
        until: now + Duration::from_secs(until - unix).min(longest),
    });
    Ok((Some(journal), stale.collect()))
}

/// What the gateway counts of it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct InvalidationStats {
    /// Keys remembered now.
    pub keys: usize,
    /// Keys that a cache has not taken yet.
    pub owed: usize,
    /// 1 while changes are told.
    pub watching: u8,
    /// Caches that refuse PURGE now.
    pub refusing: usize,
    /// Changes told by the database.
    pub changes: u64,
    /// Keys purged.
    pub purges: u64,
    /// Answers of caches that had the object.
    pub purged: u64,
    /// Answers of caches that did not have it.
    pub not_cached: u64,
    /// Attempts to tell a cache that failed.
    pub purge_failures: u64,
    /// Answers that caches might have kept, had it been possible to tell them.
    pub unkept: u64,
    /// From a change to the last cache's answer, milliseconds: the sum over all keys.
    pub purge_delay_ms: f64,
    /// The longest of these since the start.
    pub purge_delay_most_ms: f64,
}
