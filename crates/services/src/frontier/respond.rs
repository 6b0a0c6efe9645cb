//! The way of one request, in the servlet's order: what is asked for, what the client has already,
//! whether there is room, then payload after payload.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use plimsoll_wire::frontier::armor::{Digest, Seal};
use plimsoll_wire::frontier::frame::{self, Quality};
use plimsoll_wire::frontier::request::split_binds;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Gateway;
use super::answer::Answer;
use super::command::{RequestKind, Work, understand};
use super::config::unix_now;
use super::database::{End, Failure, Part, PayloadConnection, Query, Running};
use super::files::{FileRequest, Files, SendableFile};
use super::invalidation::Keeping;
use super::keepalive::Keepalive;
use super::modified::{self, Tables, tables_of};
use super::tally::{Presence, add};
use crate::date::parse_date;
use crate::http::{Head, HttpConnection};

/// A payload to make.
enum Job {
    /// With the tables, where the time of their last change is asked for and they are known.
    Query(Query, Option<Tables>),
    File(FileRequest, SendableFile),
    Wrong(String),
}

/// What came of a payload.
enum PayloadResult {
    /// The client has gone.
    Gone,
    /// The client has the answer already.
    NotModified,
    /// Text has been handed on; this is left to be said. The seal is absent where nothing was
    /// packed.
    End(Result<u64, Failure>, Option<Seal>),
}

impl PayloadResult {
    fn failed(failure: Failure) -> Self {
        Self::End(Err(failure), None)
    }
}

/// What `Last-Modified` can say of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    /// Nothing: a query's tables are not known, or nobody asked.
    Unknown,
    /// The database would have to be asked.
    NotYet,
    /// Seconds since 1970.
    At(u64),
}

impl Gateway {
    /// One request to its end. False when the connection cannot be used further.
    pub(super) async fn answer(&self, connection: &mut HttpConnection, head: &Head) -> bool {
        let (_in_progress, number) = Presence::enter(&self.tally.in_progress);
        let ages = &self.config.ages;
        let mut answer = Answer::new(connection, head, ages.error, self.config.stale_if_error);
        let asked = match understand(head, self.signer.is_some()) {
            Ok(RequestKind::Payloads(payloads)) => payloads,
            Ok(RequestKind::Certificate) => return self.certificate(answer).await,
            Err(why) => {
                frame::begin(&mut answer.held);
                let message = format!("Error: Exception: {why}");
                return self.end(answer, head, Some(message)).await;
            }
        };
        let age = ages.of(&asked.commands, unix_now());
        answer.set_max_age(age);
        // Held to the end of the answer, before which caches do not have it.
        let keeping = self.keep(head, &asked.works, age).await;
        if !keeping.allowed {
            answer.keep_nowhere();
        }
        let (jobs, changed) = match self.prepare(asked.works).await {
            Ok(prepared) => prepared,
            Err(why) => {
                answer.set_max_age(ages.of_errors());
                frame::begin(&mut answer.held);
                return self.end(answer, head, Some(format!("Exception: {why}"))).await;
            }
        };
        // A time of zero never matches: it marks errors.
        let since = head.field("if-modified-since").and_then(parse_date);
        // And where nobody can tell of changes, what was remembered may be old.
        let since = since.filter(|since| *since > 0 && keeping.allowed);
        if let Changed::At(time) = changed
            && since == Some(time)
        {
            return self.not_modified(answer).await;
        }
        if number > self.config.threads {
            return self.busy(answer).await;
        }
        if let Changed::At(time) = changed {
            answer.set_last_modified(time);
        }
        frame::begin(&mut answer.held);
        frame::transaction(&mut answer.held, asked.commands.len());
        let look = changed == Changed::NotYet && jobs.len() == 1;
        let mut global_error = None;
        for (command, job) in asked.commands.iter().zip(jobs) {
            frame::payload(
                &mut answer.held,
                &command.object,
                &command.version,
                &command.encoding,
            );
            let (outcome, seal) = match self.payload(&mut answer, job, look, since).await {
                PayloadResult::Gone => return false,
                PayloadResult::NotModified => return self.not_modified(answer).await,
                PayloadResult::End(outcome, seal) => (outcome, seal),
            };
            let mut quality = self.judge(&mut answer, outcome, seal, &mut global_error);
            self.sign(&mut quality, &mut global_error).await;
            frame::quality(&mut answer.held, &self.config.server_name, &quality);
            if quality.error.is_some() {
                break; // as in the servlet, the payloads after an error are left out
            }
        }
        frame::end_transaction(&mut answer.held);
        self.end(answer, head, global_error).await
    }

    /// Finds out what can be known before anything is waited for. The message of an error is that
    /// of the whole document.
    ///
    /// The servlet lets one payload whose time is known speak for others whose time is not; here
    /// all must be known.
    async fn prepare(&self, works: Vec<Work>) -> Result<(Vec<Job>, Changed), String> {
        let mut jobs = Vec::with_capacity(works.len());
        let mut times = Vec::with_capacity(works.len());
        for work in works {
            let (job, time) = match work {
                Work::Wrong(why) => (Job::Wrong(why), None),
                Work::File(wanted) => {
                    let found = self.files.find(&wanted.path).await?;
                    let changed = found.changed;
                    (Job::File(wanted, found), Some(changed))
                }
                Work::Query(query) => {
                    let wanted = self.modified.wanted();
                    let tables = if wanted { tables_of(&query.sql) } else { None };
                    let time = tables
                        .as_ref()
                        .map(|tables| self.modified.of(tables).unwrap_or(0));
                    (Job::Query(query, tables), time)
                }
            };
            jobs.push(job);
            times.push(time);
        }
        let times: Option<Vec<u64>> = times.into_iter().collect();
        let changed = match times {
            None => Changed::Unknown,
            Some(times) if times.contains(&0) => Changed::NotYet,
            Some(times) => Changed::At(times.into_iter().max().unwrap_or(0)),
        };
        Ok((jobs, changed))
    }

    /// Whether caches may keep the answer; they may where nobody is to tell them.
    async fn keep(&self, head: &Head, works: &[Work], age: u64) -> Keeping {
        let Some(invalidation) = &self.invalidation else {
            return Keeping::free();
        };
        let queries: Vec<&str> = works
            .iter()
            .filter_map(|work| match work {
                Work::Query(query) => Some(split_binds(&query.sql).0),
                Work::File(_) | Work::Wrong(_) => None,
            })
            .collect();
        invalidation
            .keep(head, &queries, age.max(self.config.ages.of_errors()))
            .await
    }

    async fn not_modified(&self, answer: Answer<'_>) -> bool {
        add(&self.tally.not_modified, 1);
        self.counters.answered(1);
        answer.not_modified().await
    }

    /// The server's certificate, plain, with the age of errors as in the servlet.
    async fn certificate(&self, mut answer: Answer<'_>) -> bool {
        answer.set_max_age(self.config.ages.of_errors());
        self.counters.answered(1);
        let certificate = self.signer.as_ref().map_or(&[][..], |signer| &signer.certificate);
        answer.plain(certificate).await
    }

    /// Adds the signature where the payload is to be signed.
    async fn sign(&self, quality: &mut Quality, global_error: &mut Option<String>) {
        if let (
            Some(signer),
            Some(Seal {
                digest: Digest::Sha256(digest),
                ..
            }),
        ) = (&self.signer, quality.seal)
        {
            match signer.sign(digest).await {
                Ok(signature) => quality.signature = Some(signature),
                Err(why) => *global_error = Some(format!("Exception: {why}")),
            }
        }
    }

    /// Too many requests are in progress.
    async fn busy(&self, mut answer: Answer<'_>) -> bool {
        answer.set_max_age(self.config.ages.of_errors());
        frame::end(&mut answer.held);
        self.counters.answered(1);
        answer.finish(503, false).await;
        false
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

    /// Counts how a payload went, and says so: in the head of the answer if it has not left, else
    /// in the payload.
    fn judge(
        &self,
        answer: &mut Answer<'_>,
        outcome: Result<u64, Failure>,
        seal: Option<Seal>,
        global_error: &mut Option<String>,
    ) -> Quality {
        let error_age = self.config.ages.of_errors();
        let mut quality = Quality {
            seal,
            ..Quality::default()
        };
        match outcome {
            Ok(records) => {
                add(&self.tally.rows, records);
                add(&self.tally.payload_bytes, seal.map_or(0, |seal| seal.full_size));
                if records == 0 && self.config.expire_empty_like_errors {
                    // With Last-Modified, a later "not modified" would get the long age: then the
                    // payload says it too.
                    if answer.is_committed() || answer.has_last_modified() {
                        quality.max_age = error_age;
                    }
                    answer.set_max_age(error_age);
                }
                quality.records = Some(records);
            }
            Err(failure) => {
                let message = match failure {
                    Failure::Refused(message) => message,
                    Failure::Database(message) => {
                        add(&self.tally.database_errors, 1);
                        message
                    }
                };
                if answer.is_committed() {
                    quality.max_age = error_age;
                    *global_error = Some(message.clone());
                } else {
                    answer.set_error_age(error_age);
                }
                quality.error = Some(message);
            }
        }
        quality
    }

    /// The data of one payload.
    async fn payload(
        &self,
        answer: &mut Answer<'_>,
        job: Job,
        look: bool,
        since: Option<u64>,
    ) -> PayloadResult {
        match job {
            Job::Wrong(why) => PayloadResult::failed(Failure::refused(&why)),
            Job::File(wanted, found) => self.file(answer, wanted, found).await,
            Job::Query(query, tables) => self.query(answer, query, tables.as_ref(), look, since).await,
        }
    }

    async fn file(&self, answer: &mut Answer<'_>, wanted: FileRequest, found: SendableFile) -> PayloadResult {
        let config = &self.config;
        let mut keepalive = Keepalive::new(config.keepalive_s, config.max_acquire_s);
        let permit = match self.wait(answer, &mut keepalive, self.files.acquire()).await {
            None => return PayloadResult::Gone,
            Some(Err(failure)) => return PayloadResult::failed(failure),
            Some(Ok(permit)) => permit,
        };
        keepalive.next_phase(config.max_execute_s);
        let mut parts = Files::start(found, wanted, permit);
        self.send(answer, &mut keepalive, &mut parts).await
    }

    async fn query(
        &self,
        answer: &mut Answer<'_>,
        query: Query,
        tables: Option<&Tables>,
        look: bool,
        since: Option<u64>,
    ) -> PayloadResult {
        let config = &self.config;
        let mut keepalive = Keepalive::new(config.keepalive_s, config.max_acquire_s);
        let acquired = {
            let _waiting = Presence::enter(&self.tally.waiting);
            let limit = Duration::from_secs_f64(config.max_acquire_s);
            let acquire = timeout(limit, self.database.acquire());
            self.wait(answer, &mut keepalive, acquire).await
        };
        let mut held = match acquired {
            None => return PayloadResult::Gone,
            Some(Err(_)) => {
                let why = "Timed out waiting to acquire DB connection";
                return PayloadResult::failed(Failure::Database(format!("Exception: {why}")));
            }
            Some(Ok(Err(failure))) => return PayloadResult::failed(failure),
            Some(Ok(Ok(held))) => held,
        };
        keepalive.next_phase(config.max_execute_s);
        // Once a keepalive has left, it is too late to say when the tables changed.
        if let Some(tables) = tables.filter(|_| look && !answer.is_committed()) {
            held = match self.look(answer, &mut keepalive, held, tables, since).await {
                Ok(held) => held,
                Err(made) => return made,
            };
        }
        add(&self.tally.queries, 1);
        let mut running = held.start(query);
        let made = self.send(answer, &mut keepalive, &mut running).await;
        match (made, tables) {
            (PayloadResult::End(Err(Failure::Database(why)), seal), Some(tables)) => {
                let why = format!("While querying {}: {}", modified::names(tables), bare(&why));
                PayloadResult::End(Err(Failure::Database(format!("Exception: {why}"))), seal)
            }
            (made, _) => made,
        }
    }

    /// Asks the database when the tables changed, and remembers it.
    async fn look(
        &self,
        answer: &mut Answer<'_>,
        keepalive: &mut Keepalive,
        held: PayloadConnection,
        tables: &Tables,
        since: Option<u64>,
    ) -> Result<PayloadConnection, PayloadResult> {
        let book = self.config.last_modified_table.as_deref();
        let said = book.unwrap_or("information_schema.tables");
        let failed = |why: String| PayloadResult::failed(Failure::Database(format!("Exception: {why}")));
        // Another request may have asked while this one waited for its connection.
        let (time, held) = if let Some(time) = self.modified.of(tables) {
            (Some(time), held)
        } else {
            let sql = self.database.dialect().changed(tables, book);
            match self.wait(answer, keepalive, held.value(&sql)).await {
                None => return Err(PayloadResult::Gone),
                Some(Err(Failure::Refused(why) | Failure::Database(why))) => {
                    let names = modified::names(tables);
                    return Err(failed(format!(
                        "Error querying for {names} in {said}: {}",
                        bare(&why)
                    )));
                }
                Some(Ok((value, held))) => (value.and_then(|text| whole(&text)), held),
            }
        };
        let time = time.ok_or_else(|| failed(format!("{} not found in {said}", modified::names(tables))))?;
        self.modified.remember(tables, time);
        if !answer.is_committed() {
            if since == Some(time) {
                return Err(PayloadResult::NotModified);
            }
            answer.set_last_modified(time);
        }
        Ok(held)
    }

    /// Waits for something, and keeps the client waiting with it. `None`: the client has gone.
    async fn wait<T>(
        &self,
        answer: &mut Answer<'_>,
        keepalive: &mut Keepalive,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = answer.client_left() => return None,
                () = keepalive.due() => {
                    add(&self.tally.keepalives, 1);
                    if !answer.send(frame::KEEPALIVE).await {
                        return None;
                    }
                }
            }
        }
    }

    /// Hands the text of a payload on as it comes. There are keepalives until the first of it.
    async fn send(
        &self,
        answer: &mut Answer<'_>,
        keepalive: &mut Keepalive,
        parts: &mut impl Parts,
    ) -> PayloadResult {
        let mut part = self.wait(answer, keepalive, parts.part()).await;
        loop {
            match part {
                None => return PayloadResult::Gone,
                Some(Part::Piece(text)) => {
                    if !answer.data(&text).await {
                        return PayloadResult::Gone;
                    }
                }
                Some(Part::End(End { text, seal, outcome })) => {
                    if !answer.last(&text).await {
                        return PayloadResult::Gone;
                    }
                    return PayloadResult::End(outcome, Some(seal));
                }
            }
            part = tokio::select! {
                biased;
                part = parts.part() => Some(part),
                () = answer.client_left() => None,
            };
        }
    }
}

/// A message without the name of its kind.
fn bare(why: &str) -> &str {
    why.strip_prefix("SQLException: ").unwrap_or(why)
}

/// A number without its fraction; `MariaDB` may add one.
fn whole(text: &str) -> Option<u64> {
    text.split('.').next()?.parse().ok()
}

/// Where the text of a payload comes from.
trait Parts {
    async fn part(&mut self) -> Part;
}

impl Parts for Running {
    async fn part(&mut self) -> Part {
        self.next().await
    }
}

impl Parts for mpsc::Receiver<Part> {
    async fn part(&mut self) -> Part {
        match self.recv().await {
            Some(part) => part,
            None => Part::End(End::lost("the file could not be read")),
        }
    }
}
