//! `ldap`: searches in a directory over LDAP, plain or within TLS (LDAPS, or `StartTLS`), on a kept
//! connection or with one connection per request.
//!
//! Stamps: start immediately before the first system call, which connects, or sends the search on a
//! kept connection; connected when the bind, including TLS, is complete; first byte at the first
//! byte of the response to the search; end immediately after the read that completed it. A
//! connection per request is unbound and closed after the end. That time is not part of the
//! response time, and does not make the next transaction late.
//!
//! Entries are counted and discarded while they arrive, so that an entry of any size needs no
//! memory. With `page_size`, a transaction consists of one request for each page. Items: entries.
//! Payload: bytes of the values of their attributes. Wire bytes: all, including those of the bind
//! and of `StartTLS` (with TLS: before encryption).
//!
//! A kept connection that the server has closed while it was idle is replaced once within the
//! transaction (`attempt` 1): a search changes nothing, so that it can be repeated.
//!
//! A search that ends at a size limit is ok if it returned entries, with the code `size limit
//! exceeded`: these entries are valid. Any other result than success is an error, with the text of
//! the result as its code (`busy`, `unavailable`, `unwilling to perform`, `referral`, `no such
//! object`, ...); of a bind or of `StartTLS`, it is refused. Other codes: `unexpected entries`
//! (wrong: not the expected number); `bad response`, `answer too long` (a result over 1 MiB); those
//! of failed exchanges.
//!
//! Metrics: `ldap_pages`, for a search by pages; `ldap_references`, the number of references to
//! other servers in a response, if there are any. They are not followed.

mod connection;
mod error;
mod settings;

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_model::{Code, NOT_HAPPENED, Outcome};
use plimsoll_wire::ldap::{EncodedFilter, LdapResult, SIZE_LIMIT_EXCEEDED, SUCCESS, Search};

use self::connection::{Connection, SearchCounts};
use self::error::SearchError;
use self::settings::{LdapServer, Operation, Settings, operation};
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::connection::Connection as ConnectionMode;
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::transport::Security;
use crate::setup_error::SetupError;

pub use error::LdapError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["ldap", "ldaps"],
    file_keys: &["ca_file", "cert", "key"],
    ..DriverInfo::new("ldap", "searches in an LDAP directory")
};

/// The driver.
pub struct Ldap {
    keep: bool,
    /// Per endpoint.
    servers: Vec<LdapServer>,
    operations: Vec<Operation>,
    names: Names,
    size_limit: Code,
    unexpected: Code,
    pages: Code,
    references: Code,
}

impl AsyncDriver for Ldap {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let operations = (0..setup.requests.len()).map(|index| operation(setup, index));
        Ok(Self {
            keep: settings.connection == ConnectionMode::Kept,
            servers: settings.servers(setup)?,
            operations: operations.collect::<Result<_, _>>()?,
            names: Names::new(setup.codes),
            size_limit: setup.codes.number("size limit exceeded"),
            unexpected: setup.codes.number("unexpected entries"),
            pages: setup.codes.number("ldap_pages"),
            references: setup.codes.number("ldap_references"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        Tester {
            security: self
                .servers
                .iter()
                .map(|server| server.tls.as_ref().map(|tls| tls.of_tester(number)))
                .collect(),
            kept: self.servers.iter().map(|_| None).collect(),
            trips: RoundTrips::new(self.names, self.servers.len()),
            driver: Arc::clone(self),
            io: Rc::clone(io),
            sessions: 0,
            base: Vec::new(),
        }
    }
}

impl Ldap {
    /// Outcome and code of a search that the server has completed; none if it reported an error.
    fn judge(&self, result: &LdapResult, entries: u64, expected: Option<u64>) -> Option<(Outcome, Code)> {
        let code = match result.code {
            SUCCESS => Code::NONE,
            SIZE_LIMIT_EXCEEDED if entries > 0 => self.size_limit,
            _ => return None,
        };
        Some(match expected {
            Some(expected) if expected != entries => (Outcome::Wrong, self.unexpected),
            _ => (Outcome::Ok, code),
        })
    }

    /// Ends the attempt with the result that the server has sent.
    fn end(&self, operation: &Operation, result: LdapResult, counts: SearchCounts, attempt: &mut Attempt) {
        let Some((outcome, code)) = self.judge(&result, counts.entries, operation.expected) else {
            return fail(attempt, SearchError::refused(Outcome::Error, result));
        };
        (attempt.items, attempt.payload) = (counts.entries, counts.payload);
        if operation.page_size.is_some() {
            attempt.metrics.push((self.pages, counts.pages as f64));
        }
        if counts.references > 0 {
            attempt.metrics.push((self.references, counts.references as f64));
        }
        attempt.conclude(outcome, code);
    }
}

/// A tester: its connections, one per endpoint.
pub struct Tester {
    driver: Arc<Ldap>,
    io: Io,
    /// TLS, per endpoint. With `proxy: tester`, the certificates are those of this tester alone.
    security: Vec<Option<Security>>,
    kept: Vec<Option<Connection>>,
    sessions: u32,
    trips: RoundTrips,
    base: Vec<u8>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let operation = &driver.operations[request.operation];
        let mut base = std::mem::take(&mut self.base);
        base.clear();
        let filled = operation.fill(&request.fill, &mut base);
        // An operation without a constant filter fills one.
        if let Some(filter) = filled.as_ref().or(operation.ready()) {
            let search = (&operation.search(&base), filter, operation.page_size);
            attempt.begin();
            let mut counts = SearchCounts::default();
            let result = self
                .exchange(request.endpoint, search, &mut counts, attempt)
                .await;
            match result {
                Ok(result) => driver.end(operation, result, counts, attempt),
                Err(error) => fail(attempt, error),
            }
        }
        if !driver.keep
            && let Some(connection) = self.kept[request.endpoint].take()
        {
            connection.close(attempt);
            attempt.freed();
        }
        self.base = base;
    }

    /// The connection of the abandoned search was dropped with it, and closed: the server ends the
    /// search. The others are not affected.
    fn reset(&mut self) {}

    fn end_session(&mut self) {
        self.kept
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Connection::leave);
    }
}

impl Tester {
    /// Sends a search on a kept connection or a new one, and reads the response. The connection is
    /// kept if it can be used for another search.
    async fn exchange(
        &mut self,
        endpoint: usize,
        search: (&Search<'_>, &EncodedFilter, Option<u32>),
        counts: &mut SearchCounts,
        attempt: &mut Attempt,
    ) -> Result<LdapResult, SearchError> {
        let io = Rc::clone(&self.io);
        let mut kept = self.kept[endpoint].take();
        if kept
            .as_mut()
            .is_some_and(|connection| !connection.check_alive(&io))
        {
            kept = None;
        }
        loop {
            let reused = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed, because the state of a TLS handshake would make every task larger, and
                // connections are rarely opened if they are kept.
                None => Box::pin(self.open(endpoint, attempt)).await?,
            };
            attempt.session = if self.driver.keep { connection.number } else { 0 };
            match connection.search(&io, search, reused, counts, attempt).await {
                Ok(result) => {
                    self.trips.ended(endpoint, connection.stream(), attempt);
                    if connection.is_usable() {
                        self.kept[endpoint] = Some(connection);
                    }
                    return Ok(result);
                }
                Err(SearchError::Stale) => {
                    attempt.attempt = 1;
                    *counts = SearchCounts::default();
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn open(&mut self, endpoint: usize, attempt: &mut Attempt) -> Result<Connection, SearchError> {
        let driver = Arc::clone(&self.driver);
        let (io, number) = (Rc::clone(&self.io), self.sessions + 1);
        let server = &driver.servers[endpoint];
        let security = self.security[endpoint].as_ref();
        let connection = Connection::open(&io, (server, security), (number, driver.names), attempt).await?;
        self.sessions = number;
        Ok(connection)
    }
}

/// Ends the attempt with a failure. Entries that were read before the failure do not count.
fn fail(attempt: &mut Attempt, error: SearchError) {
    match error {
        // Only a reused connection can be stale, and `exchange` then opens another.
        SearchError::Stale => attempt.finish_text(Outcome::Error, "closed early"),
        SearchError::Failure(failure) => attempt.fail(&failure),
        SearchError::Refused {
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
                attempt.quote("ldap", &message);
            }
        }
    }
}
