//! `frontier`: the gateway of the `FroNtier` protocol over an `SQLite` file, compatible on the wire with servlet 3.42.
//!
//! A request is a cacheable GET whose URL holds SQL; the answer streams from the database through zlib, MD5 and base64
//! to the client in pieces of about 64 kB, with bounded memory whatever the size of the result. The servlet's limits are
//! here too: `connections` to the database, queued for first come first served with keepalives while waiting, and
//! `threads`, above which requests are refused with 503.
//!
//! Where it differs from the servlet: text is sent as stored (the servlet mangles what Latin-1 cannot say); a query is
//! stopped after `query_timeout_s` or when its client has gone (the servlet lets it run); the name of a type is
//! the declared one of the column in lower case; `Last-Modified` validation and signatures are not there.

mod answer;
mod pool;
mod query;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_wire::frontier::frame::{self, Quality};
use plimsoll_wire::frontier::request::{Command, Encoding, Ttl, decode_p1, parse_target};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::ServiceError;
use crate::counters::{Counters, Counts, Question};
use crate::http::{Head, HttpConnection, Next};
use crate::listen::serve_connections;
use answer::Answer;
use pool::{Part, Pool};
use query::Query;

/// How long caches may keep answers, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ages {
    /// Answers without `ttl`.
    pub long: u64,
    /// `ttl=short`.
    pub short: u64,
    /// `ttl=forever`.
    pub forever: u64,
    /// Errors; those of a payload, and 503, get `short` where that is less.
    pub error: u64,
}

impl Default for Ages {
    /// The servlet's defaults.
    fn default() -> Self {
        Self {
            long: 604_800,
            short: 0,
            forever: 31_536_000,
            error: 300,
        }
    }
}

/// Configuration of `frontier`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierConfig {
    /// The `SQLite` file; opened read-only.
    pub database: PathBuf,
    /// Connections to the database, 1 to 1000.
    #[serde(default = "ten")]
    pub connections: usize,
    /// Requests in progress, waiting ones included, above which further ones are refused with 503; 1 or more.
    #[serde(default = "hundred")]
    pub threads: usize,
    /// Cache ages.
    #[serde(default)]
    pub ages: Ages,
    /// Said at the start of every error.
    #[serde(default = "server_name")]
    pub server_name: String,
    /// Seconds between keepalives while a client waits, above 0.
    #[serde(default = "five")]
    pub keepalive_s: f64,
    /// Seconds of waiting for a connection after which no more keepalives are sent.
    #[serde(default = "three_hundred")]
    pub max_acquire_s: f64,
    /// Seconds of waiting for a query after which no more keepalives are sent.
    #[serde(default = "ten_s")]
    pub max_execute_s: f64,
    /// Seconds after which a query is stopped, time for sending included, above 0.
    #[serde(default = "three_hundred")]
    pub query_timeout_s: f64,
    /// Answers `max-stale` of a client by `stale-if-error`.
    #[serde(default = "yes")]
    pub stale_if_error: bool,
    /// Answers without rows get the age of errors.
    #[serde(default)]
    pub expire_empty_like_errors: bool,
}

fn ten() -> usize {
    10
}
fn hundred() -> usize {
    100
}
fn five() -> f64 {
    5.0
}
fn ten_s() -> f64 {
    10.0
}
fn three_hundred() -> f64 {
    300.0
}
fn yes() -> bool {
    true
}
fn server_name() -> String {
    "plimsoll".into()
}

impl FrontierConfig {
    /// The defaults of the servlet, for this database.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            connections: ten(),
            threads: hundred(),
            ages: Ages::default(),
            server_name: server_name(),
            keepalive_s: five(),
            max_acquire_s: three_hundred(),
            max_execute_s: ten_s(),
            query_timeout_s: three_hundred(),
            stale_if_error: true,
            expire_empty_like_errors: false,
        }
    }

    fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: &str| Err(ServiceError::Config { key, why: why.into() });
        if !(1..=1000).contains(&self.connections) {
            return wrong("connections", "1 to 1000");
        }
        if self.threads == 0 {
            return wrong("threads", "1 or more");
        }
        for (key, seconds) in [
            ("keepalive_s", self.keepalive_s),
            ("query_timeout_s", self.query_timeout_s),
            ("max_acquire_s", self.max_acquire_s),
            ("max_execute_s", self.max_execute_s),
        ] {
            if !(0.001..=1e6).contains(&seconds) {
                return wrong(key, "0.001 to 1000000 seconds");
            }
        }
        Ok(())
    }

    fn age(&self, commands: &[Command]) -> u64 {
        // As in the servlet, the last ttl in the URL that says anything counts for all payloads.
        match commands
            .iter()
            .rev()
            .map(|command| command.ttl)
            .find(|ttl| *ttl != Ttl::Long)
        {
            Some(Ttl::Short) => self.ages.short,
            Some(Ttl::Forever) => self.ages.forever,
            _ => self.ages.long,
        }
    }

    fn error_age(&self) -> u64 {
        self.ages.error.min(self.ages.short)
    }
}

/// What the gateway knows of itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FrontierStats {
    /// Requests and connections.
    #[serde(flatten)]
    pub counts: Counts,
    /// Requests in progress now.
    pub in_progress: usize,
    /// The configured limits.
    pub connections_limit: usize,
    /// See [`FrontierConfig::threads`].
    pub threads_limit: usize,
}

struct Gateway {
    config: FrontierConfig,
    pool: Arc<Pool>,
    counters: Counters,
    in_progress: AtomicUsize,
}

/// Counts a request as in progress while it lives, also when its connection is ended from outside.
struct InProgress<'a>(&'a AtomicUsize);

impl<'a> InProgress<'a> {
    /// With the number in progress, this one included.
    fn enter(counter: &'a AtomicUsize) -> (Self, usize) {
        let now = counter.fetch_add(1, Ordering::Relaxed) + 1;
        (Self(counter), now)
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    config: FrontierConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    config.check()?;
    let pool = Pool::open(
        &config.database,
        config.connections,
        Duration::from_secs_f64(config.query_timeout_s),
    )?;
    let gateway = Arc::new(Gateway {
        config,
        pool,
        counters: Counters::default(),
        in_progress: AtomicUsize::new(0),
    });
    serve_connections(listener, shutdown, move |stream| {
        gateway.counters.connection();
        let gateway = gateway.clone();
        async move { gateway.connection(HttpConnection::new(stream, 64 * 1024)).await }
    })
    .await
}

impl Gateway {
    async fn connection(&self, mut connection: HttpConnection) {
        let mut head = Head::default();
        let mut body = Vec::new();
        loop {
            match connection.next(&mut head, &mut body).await {
                Next::Request => {}
                Next::Refused => return self.counters.refused(),
                Next::Closed => return,
            }
            if let Some(question) = Question::of_target(head.target()) {
                let text = question.answer(&self.counters, || self.stats());
                let response = crate::http::Response::text(200);
                if !connection.respond(&head, &response, text.as_bytes()).await {
                    return;
                }
            } else {
                self.counters.received(1);
                if !self.answer(&mut connection, &head).await {
                    return;
                }
            }
        }
    }

    fn stats(&self) -> FrontierStats {
        FrontierStats {
            counts: self.counters.counts(),
            in_progress: self.in_progress.load(Ordering::Relaxed),
            connections_limit: self.config.connections,
            threads_limit: self.config.threads,
        }
    }

    /// One request to its end. False when the connection cannot be used further.
    async fn answer(&self, connection: &mut HttpConnection, head: &Head) -> bool {
        let (_in_progress, number) = InProgress::enter(&self.in_progress);
        let mut answer = Answer::new(
            connection,
            head,
            self.config.ages.error,
            self.config.stale_if_error,
        );
        let (commands, queries) = match understand(head) {
            Ok(understood) => understood,
            Err(message) => {
                frame::begin(&mut answer.held);
                return self
                    .end(answer, head, Some(format!("Error: Exception: {message}")))
                    .await;
            }
        };
        if number > self.config.threads {
            answer.set_max_age(self.config.error_age());
            frame::end(&mut answer.held);
            self.counters.answered(1);
            answer.finish(503, false).await;
            return false;
        }
        answer.set_max_age(self.config.age(&commands));
        frame::begin(&mut answer.held);
        frame::transaction(&mut answer.held, commands.len());
        let mut global_error = None;
        for (command, query) in commands.iter().zip(queries) {
            frame::payload(
                &mut answer.held,
                &command.object,
                &command.version,
                &command.encoding,
            );
            let Some(mut quality) = self.payload(&mut answer, query).await else {
                return false;
            };
            if let Some(message) = &quality.error {
                if answer.is_committed() {
                    quality.max_age = self.config.error_age();
                    global_error = Some(message.clone());
                } else {
                    answer.set_error_age(self.config.error_age());
                }
            } else if quality.records == Some(0) && self.config.expire_empty_like_errors {
                if answer.is_committed() {
                    quality.max_age = self.config.error_age();
                } else {
                    answer.set_max_age(self.config.error_age());
                }
            }
            frame::quality(&mut answer.held, &self.config.server_name, &quality);
            if quality.error.is_some() {
                break; // as in the servlet, the payloads after an error are left out
            }
        }
        frame::end_transaction(&mut answer.held);
        self.end(answer, head, global_error).await
    }

    /// The end of a document. A client may ask that no cache keeps one with a global error.
    async fn end(&self, mut answer: Answer<'_>, head: &Head, global_error: Option<String>) -> bool {
        let mut cut = false;
        if let Some(message) = global_error {
            frame::global_error(&mut answer.held, &self.config.server_name, &message);
            cut = head
                .field("x-frontier-opts")
                .is_some_and(|options| options.contains("DontCacheErrors"));
        }
        frame::end(&mut answer.held);
        self.counters.answered(1);
        answer.finish(200, cut).await
    }

    /// The data of one payload. `None` when the client has gone.
    async fn payload(&self, answer: &mut Answer<'_>, query: Result<Query, String>) -> Option<Quality> {
        let failed = |message: String| {
            Some(Quality {
                error: Some(message),
                ..Quality::default()
            })
        };
        let query = match query {
            Ok(query) => query,
            Err(message) => return failed(format!("Exception: {message}")),
        };
        let mut keepalive = Keepalive::new(self.config.keepalive_s, self.config.max_acquire_s);
        let mut waiting = std::pin::pin!(self.pool.acquire());
        let acquired = loop {
            tokio::select! {
                biased;
                acquired = &mut waiting => break acquired,
                () = answer.client_left() => return None,
                () = keepalive.due() => {
                    if !answer.send(frame::KEEPALIVE).await {
                        return None;
                    }
                }
            }
        };
        let Some(acquired) = acquired else {
            return failed("Exception: No database connection available".into());
        };
        let mut running = acquired.start(query);
        let mut keepalive = Keepalive::new(self.config.keepalive_s, self.config.max_execute_s);
        let mut begun = false;
        loop {
            let part = tokio::select! {
                biased;
                part = running.next() => part,
                () = answer.client_left() => return None,
                () = keepalive.due(), if !begun => {
                    if !answer.send(frame::KEEPALIVE).await {
                        return None;
                    }
                    continue;
                }
            };
            begun = true;
            let (text, end) = match part {
                Some(Part::Piece(text)) => (text, None),
                Some(Part::End(end)) => (end.text, Some(end.quality)),
                None => return failed("Exception: the database connection was lost".into()),
            };
            if !answer.data(&text).await {
                return None;
            }
            if end.is_some() {
                return end;
            }
        }
    }
}

/// When to say that the answer is still coming.
struct Keepalive {
    ticks: Interval,
    until: Instant,
}

impl Keepalive {
    fn new(every_s: f64, for_s: f64) -> Self {
        let now = Instant::now();
        let every = Duration::from_secs_f64(every_s);
        let mut ticks = interval_at(now + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            ticks,
            until: now + Duration::from_secs_f64(for_s),
        }
    }

    /// Returns when one is due; never, once the time for them is over.
    async fn due(&mut self) {
        if self.ticks.tick().await > self.until {
            std::future::pending::<()>().await;
        }
    }
}

/// Commands and their queries, or the text of a global error. An encoding that does not exist is an error of its payload.
type Understood = (Vec<Command>, Vec<Result<Query, String>>);

fn understand(head: &Head) -> Result<Understood, String> {
    if head.field("x-frontier-id").is_none() {
        return Err("X-frontier-id header missing".into());
    }
    match head.method() {
        "GET" => {}
        "POST" => return Err("POST is not implemented yet!".into()),
        other => return Err(format!("Unsupported method [{other}]")),
    }
    let commands = parse_target(head.target()).map_err(|error| error.to_string())?;
    let mut queries = Vec::with_capacity(commands.len());
    for command in &commands {
        if command.object != "frontier_request" || command.version != "1" {
            return Err(format!("Unsupported command: {}", command.object));
        }
        if command.signed {
            return Err("No private key available for signing".into());
        }
        let p1 = command.p1.as_deref().ok_or("parameter p1 is missing")?;
        let sql = decode_p1(p1).map_err(|error| error.to_string())?;
        queries.push(match Encoding::parse(&command.encoding) {
            Some(encoding) => Ok(Query {
                method: command.method.clone(),
                sql,
                encoding,
                ttl: command.ttl,
            }),
            None => Err(format!("Unsupported encoder: {}", command.encoding)),
        });
    }
    Ok((commands, queries))
}
