//! Responds to one request, in the order of the servlet: parse it, check whether the client has the
//! response already, check the limit of requests in progress, send payload after payload.

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
use super::command::{self, RequestKind, Work};
use super::config::unix_now;
use super::database::{End, Failure, Part, PayloadConnection, Query, Running};
use super::files::{FileError, FileRequest, Files, SendableFile};
use super::invalidation::Keeping;
use super::keepalive::Keepalive;
use super::last_modified::{self, Tables, tables_of};
use super::tally::{Presence, add};
use crate::date::parse_date;
use crate::http::{Head, HttpConnection};

/// A payload that was prepared.
enum Job {
    /// A query, with its tables if they are known and the time of their last change is required.
    Query(Query, Option<Tables>),
    File(FileRequest, SendableFile),
    /// Contains the message of the error.
    Wrong(String),
}

/// Result of a payload.
enum PayloadResult {
    /// The client has closed the connection.
    Gone,
    /// The client has the current response already.
    NotModified,
    /// The data was sent. Contains the number of records or the error, and the seal if data was
    /// packed.
    End(Result<u64, Failure>, Option<Seal>),
}

impl PayloadResult {
    fn failed(failure: Failure) -> Self {
        Self::End(Err(failure), None)
    }
}

/// Time of the last change of the data of a request, for `Last-Modified`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastChange {
    /// The tables of a query are not known, or `Last-Modified` is disabled.
    Unknown,
    /// The database must be queried for it.
    NotYet,
    /// Seconds since 1970.
    At(u64),
}

impl Gateway {
    /// Responds to one request. Returns false if the connection must be closed.
    pub(super) async fn answer(&self, connection: &mut HttpConnection, head: &Head) -> bool {
        let (_in_progress, number) = Presence::enter(&self.tally.in_progress);
        let _request = self.tally.request.time();
        let ages = &self.config.ages;
        let stale = self.config.stale_if_error;
        let mut answer = Answer::new(connection, head, ages.error, stale, &self.tally.sending);
        let request = match command::parse(head, self.signer.is_some()) {
            Ok(RequestKind::Payloads(payloads)) => payloads,
            Ok(RequestKind::Certificate) => return self.certificate(answer).await,
            Err(why) => {
                frame::begin(&mut answer.held);
                let message = format!("Error: Exception: {why}");
                return self.end(answer, head, Some(message)).await;
            }
        };
        let age = ages.of(&request.commands, unix_now());
        answer.set_max_age(age);
        // Kept until the response has been sent. Caches do not have it before.
        let keeping = self.keep(head, &request.works, age).await;
        if !keeping.allowed {
            answer.forbid_caching();
        }
        let (jobs, changed) = match self.prepare(request.works).await {
            Ok(prepared) => prepared,
            Err(why) => {
                answer.set_max_age(ages.of_errors());
                frame::begin(&mut answer.held);
                return self.end(answer, head, Some(format!("Exception: {why}"))).await;
            }
        };
        let since = head.field("if-modified-since").and_then(parse_date);
        // Time 0 marks errors and never matches. If changes are not reported, the remembered time
        // may be outdated.
        let since = since.filter(|since| *since > 0 && keeping.allowed);
        if let LastChange::At(time) = changed
            && since == Some(time)
        {
            return self.not_modified(answer).await;
        }
        if number > self.config.threads {
            return self.busy(answer).await;
        }
        if let LastChange::At(time) = changed {
            answer.set_last_modified(time);
        }
        frame::begin(&mut answer.held);
        frame::transaction(&mut answer.held, request.commands.len());
        let query_change = changed == LastChange::NotYet && jobs.len() == 1;
        let mut global_error = None;
        for (command, job) in request.commands.iter().zip(jobs) {
            frame::payload(
                &mut answer.held,
                &command.object,
                &command.version,
                &command.encoding,
            );
            let (outcome, seal) = match self.payload(&mut answer, job, query_change, since).await {
                PayloadResult::Gone => return false,
                PayloadResult::NotModified => return self.not_modified(answer).await,
                PayloadResult::End(outcome, seal) => (outcome, seal),
            };
            let mut quality = self.record_outcome(&mut answer, outcome, seal, &mut global_error);
            self.sign(&mut quality, &mut global_error).await;
            frame::quality(&mut answer.held, &self.config.server_name, &quality);
            if quality.error.is_some() {
                break; // as in the servlet, the payloads after an error are omitted
            }
        }
        frame::end_transaction(&mut answer.held);
        self.end(answer, head, global_error).await
    }

    /// Prepares the payloads without waiting for the database: opens files, and determines the time
    /// of the last change. The error becomes a global error.
    ///
    /// In the servlet, one payload with a known time is sufficient. Here the times of all payloads
    /// must be known.
    async fn prepare(&self, works: Vec<Work>) -> Result<(Vec<Job>, LastChange), FileError> {
        let mut jobs = Vec::with_capacity(works.len());
        let mut times = Vec::with_capacity(works.len());
        for work in works {
            let (job, time) = match work {
                Work::Wrong(why) => (Job::Wrong(why), None),
                Work::File(request) => {
                    let file = self.files.find(&request.path).await?;
                    let changed = file.changed;
                    (Job::File(request, file), Some(changed))
                }
                Work::Query(query) => {
                    let is_enabled = self.last_modified.is_enabled();
                    let tables = if is_enabled { tables_of(&query.sql) } else { None };
                    let time = tables
                        .as_ref()
                        .map(|tables| self.last_modified.of(tables).unwrap_or(0));
                    (Job::Query(query, tables), time)
                }
            };
            jobs.push(job);
            times.push(time);
        }
        let times: Option<Vec<u64>> = times.into_iter().collect();
        let changed = match times {
            None => LastChange::Unknown,
            Some(times) if times.contains(&0) => LastChange::NotYet,
            Some(times) => LastChange::At(times.into_iter().max().unwrap_or(0)),
        };
        Ok((jobs, changed))
    }

    /// Whether caches may store the response. They always may if invalidation is not configured.
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

    /// Responds with the server's certificate as text. As in the servlet, it has the age of errors.
    async fn certificate(&self, mut answer: Answer<'_>) -> bool {
        answer.set_max_age(self.config.ages.of_errors());
        self.counters.answered(1);
        let certificate = self.signer.as_ref().map_or(&[][..], |signer| &signer.certificate);
        answer.plain(certificate).await
    }

    /// Adds the signature if the client requires it.
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

    /// Refuses a request because too many requests are in progress.
    async fn busy(&self, mut answer: Answer<'_>) -> bool {
        answer.set_max_age(self.config.ages.of_errors());
        frame::end(&mut answer.held);
        self.counters.answered(1);
        answer.finish(503, false).await;
        false
    }

    /// Ends a document. The client may require that no cache stores a document with a global error.
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

    /// Counts the outcome of a payload, and reports it to the client: in the head of the response,
    /// or in the payload if the head was sent.
    fn record_outcome(
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
                    // With Last-Modified, a later response 304 has the long age. The payload then
                    // contains the short one too.
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

    /// Sends the data of one payload. `query_change`: query the database for the time of the last
    /// change first.
    async fn payload(
        &self,
        answer: &mut Answer<'_>,
        job: Job,
        query_change: bool,
        since: Option<u64>,
    ) -> PayloadResult {
        match job {
            Job::Wrong(why) => PayloadResult::failed(Failure::refused(&why)),
            Job::File(request, file) => self.file(answer, request, file).await,
            Job::Query(query, tables) => {
                self.query(answer, query, tables.as_ref(), query_change, since)
                    .await
            }
        }
    }

    async fn file(&self, answer: &mut Answer<'_>, request: FileRequest, file: SendableFile) -> PayloadResult {
        let config = &self.config;
        let mut keepalive = Keepalive::new(config.keepalive_s, config.max_acquire_s);
        let permit = match self.wait(answer, &mut keepalive, self.files.acquire()).await {
            None => return PayloadResult::Gone,
            Some(Err(failure)) => return PayloadResult::failed(failure),
            Some(Ok(permit)) => permit,
        };
        keepalive.next_phase(config.max_execute_s);
        let mut parts = Files::start(file, request, permit);
        self.send(answer, &mut keepalive, &mut parts).await
    }

    async fn query(
        &self,
        answer: &mut Answer<'_>,
        query: Query,
        tables: Option<&Tables>,
        query_change: bool,
        since: Option<u64>,
    ) -> PayloadResult {
        let config = &self.config;
        let mut keepalive = Keepalive::new(config.keepalive_s, config.max_acquire_s);
        let acquired = {
            let _waiting = Presence::enter(&self.tally.waiting);
            let _pool = self.tally.pool.time();
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
        // The headers with Last-Modified are sent with the first keepalive.
        if let Some(tables) = tables.filter(|_| query_change && !answer.is_committed()) {
            held = match self
                .query_last_change(answer, &mut keepalive, held, tables, since)
                .await
            {
                Ok(held) => held,
                Err(result) => return result,
            };
        }
        add(&self.tally.queries, 1);
        let mut running = held.start(query);
        let result = self.send(answer, &mut keepalive, &mut running).await;
        match (result, tables) {
            (PayloadResult::End(Err(Failure::Database(why)), seal), Some(tables)) => {
                let why = format!("While querying {}: {}", last_modified::names(tables), bare(&why));
                PayloadResult::End(Err(Failure::Database(format!("Exception: {why}"))), seal)
            }
            (result, _) => result,
        }
    }

    /// Queries the database for the time of the last change of the tables, and remembers it.
    async fn query_last_change(
        &self,
        answer: &mut Answer<'_>,
        keepalive: &mut Keepalive,
        held: PayloadConnection,
        tables: &Tables,
        since: Option<u64>,
    ) -> Result<PayloadConnection, PayloadResult> {
        let change_table = self.config.last_modified_table.as_deref();
        let source = change_table.unwrap_or("information_schema.tables");
        let failed = |why: String| PayloadResult::failed(Failure::Database(format!("Exception: {why}")));
        // Another request may have stored the time while this one waited for its connection.
        let (time, held) = if let Some(time) = self.last_modified.of(tables) {
            (Some(time), held)
        } else {
            let sql = self.database.dialect().changed(tables, change_table);
            let query = self.tally.query.time();
            let value = self.wait(answer, keepalive, held.value(&sql)).await;
            drop(query);
            match value {
                None => return Err(PayloadResult::Gone),
                Some(Err(Failure::Refused(why) | Failure::Database(why))) => {
                    let names = last_modified::names(tables);
                    return Err(failed(format!(
                        "Error querying for {names} in {source}: {}",
                        bare(&why)
                    )));
                }
                Some(Ok((value, held))) => (value.and_then(|text| whole(&text)), held),
            }
        };
        let time =
            time.ok_or_else(|| failed(format!("{} not found in {source}", last_modified::names(tables))))?;
        self.last_modified.remember(tables, time);
        if !answer.is_committed() {
            if since == Some(time) {
                return Err(PayloadResult::NotModified);
            }
            answer.set_last_modified(time);
        }
        Ok(held)
    }

    /// Waits for a future, and sends keepalives to the client. `None`: the client has closed the
    /// connection.
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

    /// Sends the text of a payload as it arrives. Keepalives are sent before the first part.
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
                Some(Part::End(End {
                    text,
                    seal,
                    outcome,
                    query,
                    compression,
                })) => {
                    if let Some(query) = query {
                        self.tally.query.add(query);
                    }
                    self.tally.compression.add(compression);
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

/// A message without the prefix `SQLException: `.
fn bare(why: &str) -> &str {
    why.strip_prefix("SQLException: ").unwrap_or(why)
}

/// The integer part of a number. `MariaDB` may send a fraction.
fn whole(text: &str) -> Option<u64> {
    text.split('.').next()?.parse().ok()
}

/// Source of the text of a payload.
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
