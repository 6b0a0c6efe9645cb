//! Notifies the caches in front of the gateway that their objects are outdated, when the tables of
//! these objects have changed.
//!
//! Before the query of a request starts, its key is registered ([`keys`]) with the tables on which
//! it depends ([`catalogue`]). The key is the URL under which caches store the response. The
//! database reports changes ([`watch`]), and the keys of a changed table, or only of its changed
//! rows ([`key_condition`]), are purged from every cache ([`purge`]). If this is not possible, the
//! response has an age of zero: the connection to the database is down, a table cannot be watched,
//! or the maximum number of keys is reached. Caches thus store only objects that can be purged.
//! Keys are also stored in a file ([`journal`]), so that the next gateway can purge them.

mod catalogue;
mod catalogue_cache;
mod config;
mod dependents;
mod journal;
mod key_condition;
mod keys;
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

pub use config::{CacheConfig, Detection, InvalidationConfig, On, Scope, Triggers};

use super::config::{is_host, unix_now};
use super::database::Dialect;
use super::last_modified::LastModifiedCache;
use super::tally::{add, get};
use crate::ServiceError;
use crate::http::Head;
use catalogue::Depends;
use catalogue_cache::CatalogueCache;
use dependents::{Change, Dependency};
use journal::Journal;
use key_condition::Conditions;
use keys::{Keys, Name, Stale};
use purge::Purger;
use watch::WatchRequest;

/// Maximum time for the database to list its tables or to create a trigger. A request waits for it.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Used instead of table names if all keys are purged together.
const EVERYTHING: &str = "*";

#[allow(clippy::print_stderr, reason = "the log of a service is its stderr")]
fn log(text: &str) {
    eprintln!("frontier: invalidation: {text}");
}

/// State that the requests, the watcher and the purger share.
struct SharedState {
    config: InvalidationConfig,
    dialect: Dialect,
    keys: Mutex<Keys>,
    /// None: the keys are not stored for the next gateway.
    journal: Option<Mutex<Journal>>,
    catalogue_cache: Mutex<CatalogueCache>,
    purger: Arc<Purger>,
    last_modified: Arc<LastModifiedCache>,
    /// Whether the database reports changes. Otherwise caches must not store responses.
    up: AtomicBool,
    /// Whether the last write to the journal has failed.
    is_journal_failing: AtomicBool,
    /// Wakes `purge_again` when the next key to be purged again may have changed.
    rescheduled: Notify,
    changes: AtomicU64,
    purges: AtomicU64,
    unkept: AtomicU64,
}

impl SharedState {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogue_cache(&self) -> MutexGuard<'_, CatalogueCache> {
        self.catalogue_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the catalogue has not changed since. With `on: every` there is no catalogue.
    fn is_generation(&self, generation: u64) -> bool {
        self.config.on == On::Every || self.catalogue_cache().generation == generation
    }

    fn is_up(&self) -> bool {
        self.up.load(Ordering::SeqCst)
    }

    /// From now on the database reports changes. All keys are purged, because earlier changes may
    /// have been missed.
    fn set_up(&self) {
        self.up.store(true, Ordering::SeqCst);
        // The keys of an earlier gateway are purged by another task.
        if self.keys().len() > 0 {
            self.all_changed();
        }
    }

    /// Writes a key to the journal before its response is sent. Returns false if that fails.
    fn write_to_journal(&self, url: &Name, age: Duration) -> bool {
        let Some(journal) = &self.journal else {
            return true;
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        let now = unix_now();
        let shrunk = if journal.is_full(self.config.most_keys) {
            let pending = self.purger.pending_urls();
            let keys = self.keys();
            journal.shrink(now, |url| pending.contains(url) || keys.has(url))
        } else {
            Ok(())
        };
        let result = shrunk.and_then(|()| journal.add(url, age.as_secs(), now));
        drop(journal);
        let has_failed = result.is_err();
        if self.is_journal_failing.swap(has_failed, Ordering::SeqCst) != has_failed {
            log(&match result {
                Err(why) => {
                    format!("caches must not store responses, because keys_file cannot be written: {why}")
                }
                Ok(()) => "keys_file can be written again: caches may store responses".to_owned(),
            });
        }
        !has_failed
    }

    /// Purges the keys of an earlier gateway, and again after the time that a response may be in
    /// transit.
    async fn purge_earlier(self: Arc<Self>, earlier: Vec<Stale>) {
        self.purge(earlier.clone());
        tokio::time::sleep(Duration::from_millis(self.config.again_ms)).await;
        self.purge(earlier);
    }

    /// From now on changes are not reported.
    fn set_down(&self) {
        self.up.store(false, Ordering::SeqCst);
    }

    /// Purges the keys of a table that has changed. Returns false if the catalogue does not contain
    /// the table.
    fn table_changed(&self, full: &str, change: Change) -> bool {
        add(&self.changes, 1);
        let units = self.catalogue_cache().catalogue.changed_with(full, change);
        if self.config.scope == Scope::Everything {
            self.all_changed();
        } else {
            self.units_changed(&units);
        }
        !units.is_empty()
    }

    fn units_changed<'a>(&self, units: impl IntoIterator<Item = (&'a Name, &'a Change)>) {
        self.last_modified.forget();
        let now = Instant::now();
        let mut stale = Vec::new();
        let mut keys = self.keys();
        for (unit, change) in units {
            stale.extend(keys.changed(unit, change, now));
        }
        drop(keys);
        self.purge(stale);
    }

    /// Purges all keys, because any table may have changed.
    fn all_changed(&self) {
        self.last_modified.forget();
        let stale = self.keys().all(Instant::now());
        self.purge(stale);
    }

    fn purge(&self, stale: Vec<Stale>) {
        self.rescheduled.notify_one();
        if !stale.is_empty() {
            add(&self.purges, stale.len() as u64);
            self.purger.push(stale);
        }
    }

    /// Purges keys again whose response was in transit, until the service ends.
    async fn purge_again(self: Arc<Self>) {
        loop {
            let next = self.keys().next_due();
            match next {
                None => self.rescheduled.notified().await,
                Some(at) => tokio::select! {
                    () = self.rescheduled.notified() => {}
                    () = tokio::time::sleep_until(at.into()) => {
                        let stale = self.keys().due(Instant::now());
                        self.purge(stale);
                    }
                },
            }
        }
    }

    /// Purges all keys at this interval, until the service ends.
    async fn purge_every(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            self.all_changed();
        }
    }
}

/// Notifies caches of changes until it is dropped.
pub(super) struct Invalidation {
    shared: Arc<SharedState>,
    requests: mpsc::Sender<WatchRequest>,
    /// Prefix of the path in the key of a request without `Host`.
    address: String,
    _tasks: JoinSet<()>,
}

/// What the queries of a request read.
enum Reads {
    /// No table.
    Nothing,
    From(Arc<[Dependency]>),
    /// Unknown, or a table whose changes are not reported.
    Unknowable,
}

/// Whether caches may store a response. It must be kept until the response has been sent.
pub(super) struct Keeping {
    /// Caches may store the response: they will be notified when it is outdated, or it depends on
    /// no table.
    pub(super) allowed: bool,
    _key: Option<KeyRegistration>,
}

impl Keeping {
    /// Caches may store the response, and are not notified.
    pub(super) fn free() -> Self {
        Self {
            allowed: true,
            _key: None,
        }
    }
}

/// The key of a request in progress. It is dropped at the end of the response.
struct KeyRegistration {
    shared: Arc<SharedState>,
    url: Name,
    age: Duration,
}

impl Drop for KeyRegistration {
    fn drop(&mut self) {
        let stale = self.shared.keys().end(&self.url, self.age, Instant::now());
        if let Some(stale) = stale {
            self.shared.purge(vec![stale]);
        }
    }
}

impl Invalidation {
    /// Starts to watch the database with the URL `database`. Returns an error if the server is
    /// unsuitable. A server that cannot be reached is tried again later.
    pub(super) async fn start(
        config: &InvalidationConfig,
        database: &str,
        dialect: Dialect,
        last_modified: Arc<LastModifiedCache>,
        address: std::net::SocketAddr,
    ) -> Result<Self, ServiceError> {
        let settle = config.settle_ms.unwrap_or(match dialect {
            Dialect::Mysql => 100,
            Dialect::Postgres if config.detection == Detection::LogicalDecoding => 100,
            Dialect::Postgres | Dialect::Sqlite => 0,
        });
        let again = Duration::from_millis(config.again_ms);
        let (journal, earlier) = match &config.keys_file {
            Some(path) => read_journal(path)?,
            None => (None, Vec::new()),
        };
        let probe_url = format!("http://{address}/plimsoll/nothing");
        let caches = config.caches.iter().filter_map(|cache| cache.address());
        let shared = Arc::new(SharedState {
            dialect,
            keys: Mutex::new(Keys::new(Duration::from_millis(settle), again, config.most_keys)),
            journal: journal.map(Mutex::new),
            catalogue_cache: Mutex::default(),
            purger: Arc::new(Purger::new(caches.map(str::to_owned), &probe_url)),
            last_modified,
            up: AtomicBool::new(false),
            is_journal_failing: AtomicBool::new(false),
            rescheduled: Notify::new(),
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
            log(&format!(
                "objects of an earlier gateway to be purged: {}",
                earlier.len()
            ));
            tasks.spawn(shared.clone().purge_earlier(earlier));
        }
        let (requests, received) = mpsc::channel(64);
        if let Some(seconds) = config.every_s {
            shared.set_up();
            tasks.spawn(shared.clone().purge_every(Duration::from_secs_f64(seconds)));
        } else {
            let (reply, first) = oneshot::channel();
            tasks.spawn(watch::watch(shared.clone(), database.to_owned(), received, reply));
            if let Ok(Ok(Err(error))) = timeout(TIMEOUT, first).await {
                return Err(ServiceError::Config {
                    key: "invalidation",
                    why: error.to_string(),
                });
            }
        }
        Ok(Self {
            shared,
            requests,
            address: format!("http://{address}"),
            _tasks: tasks,
        })
    }

    /// Whether caches may store the response to these queries, for at most `age` seconds. Must be
    /// called before the queries start.
    pub(super) async fn keep(&self, head: &Head, queries: &[&str], age: u64) -> Keeping {
        if age == 0 || queries.is_empty() {
            return Keeping::free();
        }
        let (depends, generation) = self.depends(queries).await;
        let key = match depends {
            Reads::Nothing => return Keeping::free(),
            Reads::Unknowable => None,
            Reads::From(_) if !self.shared.purger.can_purge().await => None,
            Reads::From(depends) => self.register(head, &depends, Duration::from_secs(age)),
        };
        // If the catalogue has changed since, the key may be registered with outdated tables.
        let key = key.filter(|_| self.shared.is_generation(generation));
        if key.is_none() {
            add(&self.shared.unkept, 1);
        }
        Keeping {
            allowed: key.is_some(),
            _key: key,
        }
    }

    fn register(&self, head: &Head, depends: &Arc<[Dependency]>, age: Duration) -> Option<KeyRegistration> {
        let shared = &self.shared;
        let url: Name = self.url(head).into();
        let pending = shared.purger.pending();
        let is_registered = shared.keys().begin(&url, depends, age, pending, Instant::now());
        let key = is_registered.then(|| KeyRegistration {
            shared: shared.clone(),
            url: url.clone(),
            age,
        });
        key.filter(|_| shared.write_to_journal(&url, age))
    }

    /// The key under which caches store the response.
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

    /// What these queries read, and the generation of the catalogue. All tables are watched
    /// afterwards.
    async fn depends(&self, queries: &[&str]) -> (Reads, u64) {
        let shared = &self.shared;
        if shared.config.on == On::Every {
            return (Reads::From([Dependency::on_table(&EVERYTHING.into())].into()), 0);
        }
        let unknowable = (Reads::Unknowable, 0);
        if !shared.is_up() {
            return unknowable;
        }
        let mut names = Vec::new();
        for query in queries {
            match shared.dialect.names(query) {
                Some(query_names) => names.extend(query_names),
                None => return unknowable,
            }
        }
        if shared.catalogue_cache().needs_read(&names) && !self.request(WatchRequest::Look).await {
            return unknowable;
        }
        let (depends, generation, unwatched) = shared.catalogue_cache().judge(&names);
        let is_watched =
            unwatched.is_empty() || self.request(|reply| WatchRequest::Watch(unwatched, reply)).await;
        let reads = match depends {
            Depends::Nothing => Reads::Nothing,
            Depends::On(units) if is_watched => Reads::From(self.dependencies(queries, &names, &units)),
            Depends::On(_) | Depends::Unknowable => Reads::Unknowable,
        };
        (reads, generation)
    }

    /// The dependencies of queries on units: on rows if there is one query and one unit, and the
    /// conditions of the query are on its key.
    fn dependencies(&self, queries: &[&str], names: &[String], units: &[Name]) -> Arc<[Dependency]> {
        let shared = &self.shared;
        if let ([query], [unit], Scope::Row) = (queries, units, shared.config.scope)
            && let Some(tokens) = shared.dialect.tokens(query)
            && let Some(conditions) = Conditions::read(&tokens)
        {
            let cache = shared.catalogue_cache();
            return [cache.catalogue.dependency(unit, names, &conditions)].into();
        }
        units.iter().map(Dependency::on_table).collect()
    }

    /// Sends a request to the watcher. Returns false if the watcher cannot execute it.
    async fn request(&self, request: impl FnOnce(oneshot::Sender<bool>) -> WatchRequest) -> bool {
        let (reply, done) = oneshot::channel();
        let exchange = async {
            self.requests.send(request(reply)).await.ok()?;
            done.await.ok()
        };
        timeout(TIMEOUT, exchange).await.ok().flatten() == Some(true)
    }

    pub(super) fn stats(&self) -> InvalidationStats {
        let shared = &self.shared;
        let purged = &shared.purger.tally;
        let ms = |us: &AtomicU64| get(us) as f64 / 1000.0;
        InvalidationStats {
            keys: shared.keys().len(),
            owed: shared.purger.pending(),
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

/// Reads the keys of an earlier gateway, each with the time until which a cache may store its
/// object.
fn read_journal(path: &std::path::Path) -> Result<(Option<Journal>, Vec<Stale>), ServiceError> {
    let (unix, now) = (unix_now(), Instant::now());
    let (journal, earlier) = Journal::open(path, unix).map_err(|error| ServiceError::Config {
        key: "invalidation",
        why: format!("keys_file: cannot use {}: {error}", path.display()),
    })?;
    // The limit applies if the wall clock was wrong when the key was written.
    let longest = Duration::from_secs(10 * 365 * 86_400);
    let stale = earlier.into_iter().map(|(url, until)| Stale {
        url,
        until: now + Duration::from_secs(until - unix).min(longest),
    });
    Ok((Some(journal), stale.collect()))
}

/// Counters of the invalidation.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct InvalidationStats {
    /// Number of keys that are remembered now.
    pub keys: usize,
    /// Number of keys that a cache has not purged yet: the maximum over the caches.
    pub owed: usize,
    /// 1 while the database reports changes, otherwise 0.
    pub watching: u8,
    /// Number of caches that refuse PURGE now.
    pub refusing: usize,
    /// Changes reported by the database.
    pub changes: u64,
    /// Keys purged.
    pub purges: u64,
    /// Responses of caches that had the object (200, 204).
    pub purged: u64,
    /// Responses of caches that did not have the object (404).
    pub not_cached: u64,
    /// Failed attempts to purge keys from a cache.
    pub purge_failures: u64,
    /// Responses that were sent with an age of zero because caches could not have been notified.
    pub unkept: u64,
    /// Time from a change to the response of the last cache in ms: the sum over all keys.
    pub purge_delay_ms: f64,
    /// Maximum of this time since the start, in ms.
    pub purge_delay_most_ms: f64,
}
