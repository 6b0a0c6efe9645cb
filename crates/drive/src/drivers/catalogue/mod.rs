//! `catalogue`: operations of a file catalogue over the protocol of [`plimsoll_wire::catalogue`] in
//! a session or with one connection per call, or over SOAP ([`plimsoll_wire::catalogue::soap`])
//! with kept connections or one per message; plain, or within TLS with a client certificate or
//! grid proxies. Or operations of Rucio ([`plimsoll_wire::catalogue::rucio`]) over HTTP or HTTPS
//! with a token. The scheme of the one endpoint determines the protocol.
//!
//! Stamps: start immediately before the first system call, which connects, or sends the first
//! request on a kept connection; connected when the first connection, including TLS, is
//! established; first byte at the first byte of the first reply; end immediately after the read
//! that completed the last one. Bytes are counted before encryption.
//!
//! Items: entries, or names of a list. Payload: bytes of the bodies of the replies.
//!
//! The driver knows the names and GUIDs of the data set, so that every reply to a query is
//! verified. A tester inserts entries with new names into `/grid/new`, and deletes and changes only
//! entries that it has inserted. Its links are there, too, and lead to entries of the data set. If
//! it has too few of them, it makes some before the start of the transaction. A share of the
//! changes (`verify`) is verified by a query after the end. This time and these bytes are not part
//! of the transaction, and do not make the next one late.
//!
//! `round_trips: lfc` carries out an operation on one entry with the calls of LFC: two for a query,
//! an insertion and a deletion. Without a session, each call has a connection of its own.
//!
//! Rucio: with kept connections, a tester obtains its token at the beginning of its session, before
//! the start of the transaction, and a new one after 30 minutes. With one connection per call, each
//! transaction obtains a token first, as a request of its own.
//!
//! A kept connection that the server has closed while it was idle is replaced once within the
//! transaction (`attempt` 1) if the operation is a query or a list. A change is not repeated,
//! because it may have been carried out: `kept connection closed`.
//!
//! Codes of wrong answers: `missing entry`, `wrong entry`, `wrong ACL`, `deleted entry found`,
//! `not refused`, `unexpected entries` (of a list). Other codes: the text of the catalogue's result
//! (`busy`, `permission denied`, `entry exists`, ...); `bad response`, `answer too long`;
//! `soap fault` (one without a result of the catalogue); `http STATUS` (a response that is no
//! message of SOAP); those of failed exchanges.
//!
//! Metrics: `catalogue_round_trips`, the number of requests of a transaction if it is not 1.

mod connection;
mod error;
mod message;
mod preparation;
mod rucio;
mod settings;
mod steps;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_model::{Code, NOT_HAPPENED, Outcome};
use plimsoll_schedule::{Draws, Values};
use plimsoll_wire::catalogue::rucio::{Answer, Call};
use plimsoll_wire::catalogue::{DataSet, Key, Reply, Request as CatalogueRequest};

use self::connection::{Connection, Part};
use self::error::OperationError;
use self::message::{Answered, Message, Protocol, spoken};
use self::rucio::Token;
use self::settings::{Operation, RoundTripMode, Server, Settings, Work, check_rucio, work};
use self::steps::{Expected, KnownEntry, Step, judge, steps, verification};
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::connection::Connection as ConnectionMode;
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::transport::Security;
use crate::setup_error::SetupError;
use crate::tester::failure::Failure;

pub use error::CatalogueError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["catalogue", "catalogues", "soap", "soaps", "rucio", "rucios"],
    file_keys: &["ca_file", "cert", "key"],
    ..DriverInfo::new("catalogue", "operations of a file catalogue")
};

/// Maximum number of own entries, and of own links, that a tester remembers.
const MAX_OWN: usize = 20_000;
/// Number of entries from which the verification of a reply is counted as the tester's own work.
const LARGE: usize = 16;

/// The driver.
pub struct Catalogue {
    keep: bool,
    /// Subject for the sessions with a catalogue without security.
    subject: String,
    /// Per endpoint.
    servers: Vec<Server>,
    work: Vec<Work>,
    data: DataSet,
    keys: Values,
    mode: RoundTripMode,
    transactions: bool,
    verify_every: Option<u64>,
    seed: u64,
    workload: u64,
    /// Distinguishes the names of this run from those of others.
    token: u64,
    names: Names,
    round_trips: Code,
}

impl AsyncDriver for Catalogue {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let all = (0..setup.requests.len()).map(|index| work(setup, index));
        let work: Vec<Work> = all.collect::<Result<_, _>>()?;
        let servers = settings.servers(setup)?;
        check_rucio(&servers, &work)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            keep: settings.connection == ConnectionMode::Kept,
            servers,
            work,
            data: settings.data()?,
            keys: settings.keys(),
            mode: settings.round_trips,
            transactions: settings.transactions,
            verify_every: settings.verify_every(),
            subject: settings.subject,
            seed: setup.seed,
            workload: setup.workload,
            token: since.map_or(0, |since| since.as_nanos() as u64),
            names: Names::new(setup.codes),
            round_trips: setup.codes.number("catalogue_round_trips"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        Tester {
            kept: self.servers.iter().map(|_| None).collect(),
            tokens: self.servers.iter().map(|_| None).collect(),
            own: self.servers.iter().map(|_| VecDeque::new()).collect(),
            links: self.servers.iter().map(|_| VecDeque::new()).collect(),
            security: self
                .servers
                .iter()
                .map(|server| server.tls.as_ref().map(|tls| tls.of_tester(number)))
                .collect(),
            trips: RoundTrips::new(self.names, self.servers.len()),
            draws: self.keys.start(self.seed, self.workload, u64::from(number)),
            driver: Arc::clone(self),
            io: Rc::clone(io),
            number,
            sessions: 0,
            inserted: 0,
            changes: 0,
        }
    }
}

/// A tester: its connections, and the entries and links that it has made, per endpoint.
pub struct Tester {
    driver: Arc<Catalogue>,
    io: Io,
    number: u32,
    kept: Vec<Option<Connection>>,
    /// TLS, per endpoint. With `proxy: tester`, the certificates are those of this tester alone.
    security: Vec<Option<Security>>,
    /// Tokens of Rucio, per endpoint.
    tokens: Vec<Option<Token>>,
    own: Vec<VecDeque<KnownEntry>>,
    links: Vec<VecDeque<KnownEntry>>,
    draws: Draws,
    sessions: u32,
    inserted: u64,
    changes: u64,
    trips: RoundTrips,
}

/// What a transaction has done so far.
#[derive(Default)]
struct Progress {
    requests: u64,
    payload: u64,
    items: u64,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let work = self.driver.work[request.operation];
        let endpoint = request.endpoint;
        let entries = match self.entries(work, endpoint, attempt).await {
            Ok(entries) => entries,
            Err(error) => return fail(attempt, error),
        };
        attempt.begin();
        let mut done = Progress::default();
        match self.carry_out(work, endpoint, &entries, &mut done, attempt).await {
            Ok(()) => {
                (attempt.items, attempt.payload) = (done.items, done.payload);
                if done.requests != 1 {
                    let metric = (self.driver.round_trips, done.requests as f64);
                    attempt.metrics.push(metric);
                }
                attempt.conclude(Outcome::Ok, Code::NONE);
                if let Some(connection) = &self.kept[endpoint] {
                    self.trips.ended(endpoint, connection.stream(), attempt);
                }
                if entries.len() >= LARGE {
                    attempt.freed();
                }
                if self.count_change(work.operation) {
                    attempt.freed();
                    self.verify(work.operation, endpoint, &entries, attempt).await;
                }
                self.remember(work.operation, endpoint, entries);
            }
            Err(error) => {
                if self.driver.transactions {
                    // The server undoes the transaction when its connection ends.
                    self.kept[endpoint] = None;
                }
                if error.is_unauthorised() {
                    self.tokens[endpoint] = None;
                }
                fail(attempt, error);
            }
        }
        if !self.driver.keep && self.kept[endpoint].take().is_some() {
            attempt.freed();
        }
    }

    /// The connection of the abandoned transaction was dropped with it, and closed: the server
    /// undoes a change that it has not committed. Entries whose state is unknown are forgotten.
    fn reset(&mut self) {}

    fn end_session(&mut self) {
        self.kept.iter_mut().for_each(|kept| *kept = None);
        self.tokens.iter_mut().for_each(|token| *token = None);
    }
}

impl Tester {
    async fn carry_out(
        &mut self,
        work: Work,
        endpoint: usize,
        entries: &[KnownEntry],
        done: &mut Progress,
        attempt: &mut Attempt,
    ) -> Result<(), OperationError> {
        if !self.driver.keep && self.is_rucio(endpoint) {
            self.log_in(endpoint, Part::Transaction, attempt).await?;
            done.requests += 1;
        }
        if work.operation == Operation::List {
            return self.list(work, endpoint, done, attempt).await;
        }
        let all = self.spoken(endpoint, steps(work, self.driver.mode, entries));
        let is_change = work.operation.is_change();
        let transaction = [
            CatalogueRequest::StartTransaction,
            CatalogueRequest::EndTransaction,
        ]
        .map(|request| Step::new(request, Expected::Done));
        let [before, after] = if self.driver.transactions && is_change {
            transaction.map(Some)
        } else {
            [None, None]
        };
        for step in before.into_iter().chain(all).chain(after) {
            done.payload += self
                .exchange(endpoint, &step, entries, Part::Transaction, attempt)
                .await?;
            done.requests += 1;
        }
        done.items = entries.len() as u64;
        Ok(())
    }

    /// Lists the directory of an entry, page by page.
    async fn list(
        &mut self,
        work: Work,
        endpoint: usize,
        done: &mut Progress,
        attempt: &mut Attempt,
    ) -> Result<(), OperationError> {
        let directory = self.draw() / self.driver.data.directory;
        let path = DataSet::directory_path(directory);
        if self.driver.mode == RoundTripMode::Lfc {
            // LFC opens a directory before it reads it.
            let stat = CatalogueRequest::Stat(Key::Path(path.clone()));
            let stat = Message::Stateful(stat);
            let (reply, payload) = self.call(endpoint, &stat, Part::Transaction, attempt).await?;
            if let Answered::Catalogue(Reply::Result(status, message)) = reply {
                return Err(OperationError::status(status, message));
            }
            (done.requests, done.payload) = (1, payload);
        }
        let mut after = String::new();
        loop {
            let request = CatalogueRequest::List {
                path: path.clone(),
                after,
                max: work.page,
            };
            let message = Message::of(request, &self.driver.servers[endpoint].protocol);
            let (reply, payload) = self.call(endpoint, &message, Part::Transaction, attempt).await?;
            done.requests += 1;
            done.payload += payload;
            let (count, last) = page_of(reply)?;
            done.items += count;
            match last {
                // A server that repeats names would never end.
                Some(last) if done.items <= self.driver.data.entries => after = last,
                _ => break,
            }
        }
        if done.items == self.driver.data.entries_of(directory) {
            Ok(())
        } else {
            Err(OperationError::wrong("unexpected entries"))
        }
    }

    /// Counts a change. Returns whether it is verified.
    fn count_change(&mut self, operation: Operation) -> bool {
        let verify_every = self.driver.verify_every.filter(|_| operation.is_verifiable());
        let Some(every) = verify_every else {
            return false;
        };
        self.changes += 1;
        self.changes.is_multiple_of(every)
    }

    /// Verifies a change. The outcome of the transaction is wrong if it was not carried out.
    async fn verify(
        &mut self,
        operation: Operation,
        endpoint: usize,
        entries: &[KnownEntry],
        attempt: &mut Attempt,
    ) {
        let (metrics, connected) = (attempt.metrics.len(), attempt.connected);
        let mut result = Ok(0);
        for (step, entries) in verification(operation, entries) {
            for step in self.spoken(endpoint, vec![step]) {
                result = self.exchange(endpoint, &step, entries, Part::Own, attempt).await;
            }
            if result.is_err() {
                break;
            }
        }
        attempt.metrics.truncate(metrics);
        attempt.connected = connected;
        if let Err(OperationError::Answer {
            outcome: Outcome::Wrong,
            code,
            ..
        }) = result
        {
            let code = attempt.code_of(&code);
            attempt.conclude(Outcome::Wrong, code);
            attempt.items = 0;
        }
        attempt.freed();
    }

    /// Remembers own entries and links after a successful change.
    fn remember(&mut self, operation: Operation, endpoint: usize, entries: Vec<KnownEntry>) {
        let known = match operation {
            Operation::Insert | Operation::Chmod | Operation::SetAcl => &mut self.own[endpoint],
            Operation::Link => &mut self.links[endpoint],
            _ => return,
        };
        known.extend(entries);
        let surplus = known.len().saturating_sub(MAX_OWN);
        known.drain(..surplus);
    }

    /// Steps in the protocol of the endpoint.
    fn spoken(&self, endpoint: usize, steps: Vec<Step>) -> Vec<Step> {
        spoken(steps, &self.driver.servers[endpoint].protocol)
    }

    fn is_rucio(&self, endpoint: usize) -> bool {
        matches!(self.driver.servers[endpoint].protocol, Protocol::Rucio(_))
    }

    /// Obtains a token from Rucio.
    async fn log_in(
        &mut self,
        endpoint: usize,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(), OperationError> {
        let Protocol::Rucio(settings) = &self.driver.servers[endpoint].protocol else {
            return Ok(());
        };
        let message = Message::Rucio(Call::Token(settings.login.clone()));
        let (Answered::Token(token), _) = self.call(endpoint, &message, part, attempt).await? else {
            return Err(OperationError::unexpected());
        };
        self.tokens[endpoint] = Some(Token::new(token));
        Ok(())
    }

    /// Carries out a step. Returns the number of bytes of the reply's body.
    async fn exchange(
        &mut self,
        endpoint: usize,
        step: &Step,
        entries: &[KnownEntry],
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<u64, OperationError> {
        let (reply, payload) = self.call(endpoint, &step.message, part, attempt).await?;
        judge(step.expected, reply, entries)?;
        Ok(payload)
    }

    /// Sends a request on the kept connection or a new one, and reads the reply.
    async fn call(
        &mut self,
        endpoint: usize,
        message: &Message,
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Answered, u64), OperationError> {
        let (io, driver) = (Rc::clone(&self.io), Arc::clone(&self.driver));
        let mut kept = self.kept[endpoint].take();
        let is_usable = |connection: &mut Connection| self.driver.keep && connection.check_alive(&io);
        if !kept.as_mut().is_some_and(is_usable) {
            // Without a session, each call has a connection of its own.
            kept = None;
        }
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed, because the state of a TLS handshake would make every task larger, and
                // connections are rarely opened if they are kept.
                None => Box::pin(self.open(endpoint, attempt)).await?,
            };
            if part == Part::Transaction {
                attempt.session = if self.driver.keep { connection.number } else { 0 };
            }
            let server = &driver.servers[endpoint];
            let token = self.tokens[endpoint].as_ref().map_or("", Token::text);
            let sent = connection.send_message(&io, server, (message, token), part, attempt);
            match sent.await {
                Ok(reply) => {
                    self.kept[endpoint] = Some(connection);
                    return Ok(reply);
                }
                Err(OperationError::Stale) if message.is_repeatable() => attempt.attempt = 1,
                Err(OperationError::Stale) => return Err(Failure::not_repeated().into()),
                Err(error) => return Err(error),
            }
        }
    }

    async fn open(&mut self, endpoint: usize, attempt: &mut Attempt) -> Result<Connection, OperationError> {
        let driver = Arc::clone(&self.driver);
        let (io, number) = (Rc::clone(&self.io), self.sessions + 1);
        let server = &driver.servers[endpoint];
        let security = self.security[endpoint].as_ref();
        // A catalogue without security learns the subject from the session.
        let is_stateful = matches!(server.protocol, Protocol::Stateful);
        let states_subject = security.is_none() && !driver.subject.is_empty();
        let has_session = is_stateful && (driver.keep || states_subject);
        let subject = has_session.then_some(driver.subject.as_str());
        let way = (&server.host, security);
        let connection = Connection::open(&io, way, (number, driver.names), subject, attempt).await?;
        self.sessions = number;
        Ok(connection)
    }
}

/// The number of names of a page, and the last one if there are further pages.
fn page_of(answered: Answered) -> Result<(u64, Option<String>), OperationError> {
    match answered {
        Answered::Catalogue(Reply::Directory { entries, is_last }) => {
            let count = entries.len() as u64;
            let last = entries.into_iter().next_back().filter(|_| !is_last);
            Ok((count, last.map(|entry| entry.name)))
        }
        Answered::Catalogue(Reply::Result(status, message)) => Err(OperationError::status(status, message)),
        Answered::Rucio(Answer::Names(names)) => Ok((names.len() as u64, None)),
        _ => Err(OperationError::unexpected()),
    }
}

/// Ends the attempt with a failure.
fn fail(attempt: &mut Attempt, error: OperationError) {
    match error {
        // Only a used connection can be stale, and `call` handles that.
        OperationError::Stale => attempt.finish_text(Outcome::Error, "closed early"),
        OperationError::Failure(failure) => attempt.fail(&failure),
        OperationError::Answer {
            outcome,
            code,
            message,
        } => {
            let code = attempt.code_of(&code);
            if attempt.end == NOT_HAPPENED {
                attempt.end = attempt.now();
            }
            attempt.conclude(outcome, code);
            if !message.is_empty() {
                attempt.quote("catalogue", &message);
            }
        }
    }
}
