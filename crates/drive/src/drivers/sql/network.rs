//! `sql` with `PostgreSQL` and `MariaDB` over TCP, plain or within TLS; testers are tasks.
//!
//! Stamps: start immediately before the first system call, which connects, or sends the query on a
//! kept connection; connected when the login, including the TLS handshake, is complete; first byte
//! at the first byte of the response to the query; end immediately after the read that completed
//! it. A connection per query is closed after the end, with the closing message of the protocol.
//! That time is not part of the response time, and does not make the next transaction late.
//!
//! The query is sent as it is (`PostgreSQL`'s simple protocol, `COM_QUERY`), and values are
//! received as text, as by a simple client. The whole result is read and discarded, one message at
//! a time. Items: rows. Payload: bytes of the values as text, as on the wire (a `bytea` in
//! hexadecimal); NULL has none. Wire bytes: all, including those of the login. A statement without
//! a result has neither items nor payload, and is ok if the server reports that it is complete.
//!
//! The login also costs CPU time of the tester: a SCRAM password of `PostgreSQL` takes about a
//! millisecond, during which the other testers of the lane wait.
//!
//! A kept connection that the server has closed while it was idle is replaced. If this is detected
//! only after the query was sent, the connection is replaced once within the transaction
//! (`attempt` 1), as with HTTP, and only for queries that only read ([`super::read_only`]).
//!
//! A transaction block that a failed query has left open is rolled back on a kept connection, after
//! the end of the transaction and before the next one; metric `rollback_s`. If that fails, the
//! connection is replaced. A block that a successful query leaves open remains open, because the
//! query began it; a note reports it.
//!
//! A timeout closes the connection. A `PostgreSQL` server would detect this only when it sends
//! something, so that a cancel request is sent, without a guarantee ([`super::cancel`]). A
//! `MariaDB` server can only be asked with another login; it detects the close when it writes or
//! checks its connection.
//!
//! Codes: `syntax error`, `no such table`, `permission denied`, `admin shutdown`, `query cancelled`
//! and others ([`super::code`]), otherwise `SQLSTATE xxxxx`; `bad response`, `answer too long` (a
//! message over 1 GiB); those of failed exchanges. If a login fails, the outcome is refused: `login
//! refused`, `too many connections`, `no such database`, `cannot connect now`.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_model::{Code, Endpoint, NOT_HAPPENED, Outcome};
use plimsoll_wire::sql::{Address, CancelKey, Login, Server};
use tokio_rustls::TlsConnector;

use super::cancel::Canceller;
use super::connection::Connection;
use super::database_error::DatabaseError;
use super::read_only::is_read_only;
use super::{Query, Settings, queries};
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::versions::Newest;
use crate::lane::reactor::Io;
use crate::net::Host;
use crate::net::identity::Identity;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::tls;
use crate::net::transport::Security;
use crate::setup_error::{EndpointError, SetupError, UrlError};
use crate::tester::failure::Failure;

/// Note for a query that begins a transaction block and does not end it.
const LEFT_OPEN: &str = "sql: a query left a transaction open; its locks are kept until a later query of the \
                         same tester ends it: end the query with COMMIT";

/// A database server: addresses, login and TLS.
pub(super) struct DatabaseServer {
    pub(super) host: Host,
    pub(super) server: Server,
    pub(super) login: Login,
    pub(super) tls: Option<Security>,
}

/// The driver.
pub struct Network {
    keep: bool,
    /// Of the connections with TLS.
    identity: Option<Identity>,
    /// Per endpoint.
    servers: Vec<DatabaseServer>,
    /// Per operation.
    queries: Vec<Query>,
    canceller: Canceller,
    names: Names,
    rollback: Code,
}

fn database_server(
    setup: &Setup<'_>,
    endpoint: &Endpoint,
    settings: &Settings,
    connector: Option<&TlsConnector>,
) -> Result<DatabaseServer, UrlError> {
    let mut address = Address::from_url(&endpoint.url)?;
    let password = &mut address.login.password;
    *password = password.take().or_else(|| settings.password.clone());
    let tls = match connector {
        Some(connector) => Some((connector.clone(), tls::server_name(&address.host)?)),
        None => None,
    };
    Ok(DatabaseServer {
        tls,
        host: setup.host(&address.host, address.port)?,
        server: address.server,
        login: address.login,
    })
}

impl AsyncDriver for Network {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let identity = match &settings.tls {
            Some(tls) => Some(Identity::new(Some(tls))?),
            None => None,
        };
        let connector = identity.as_ref().map(Identity::shared);
        let server = |endpoint| {
            database_server(setup, endpoint, &settings, connector)
                .map_err(|error| EndpointError::new(endpoint, error))
        };
        Ok(Self {
            keep: settings.keeps_connections(),
            servers: setup.endpoints.iter().map(server).collect::<Result<_, _>>()?,
            identity,
            queries: queries(setup)?,
            canceller: Canceller::default(),
            names: Names::new(setup.codes),
            rollback: setup.codes.number("rollback_s"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        Tester {
            own_tls: self
                .identity
                .as_ref()
                .and_then(|identity| identity.of_tester(number)),
            kept: self.servers.iter().map(|_| None).collect(),
            trips: RoundTrips::new(self.names, self.servers.len()),
            driver: Arc::clone(self),
            io: Rc::clone(io),
            sessions: 0,
            text: Vec::new(),
            running: None,
        }
    }
}

/// A tester: its connections, one per endpoint.
pub struct Tester {
    driver: Arc<Network>,
    io: Io,
    /// TLS of this tester alone; none: that of all.
    own_tls: Option<TlsConnector>,
    kept: Vec<Option<Connection>>,
    sessions: u32,
    trips: RoundTrips,
    text: Vec<u8>,
    /// Endpoint of the query in progress, and how to cancel it.
    running: Option<(usize, CancelKey)>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let query = &driver.queries[request.operation];
        let template = &query.text;
        let mut text = std::mem::take(&mut self.text);
        if template.constant().is_none() {
            text.clear();
            template.fill(&request.fill, &mut text);
        }
        // Values are numbers and texts, so that the filled template is valid UTF-8.
        let sql = match template.constant() {
            Some(text) => text,
            None => std::str::from_utf8(&text).unwrap_or_default(),
        };
        if let Some(versions) = &query.versions {
            versions.note_written(&request.fill, attempt);
        }
        let mut newest = query.column().map(Newest::of);
        attempt.begin();
        let result = self.exchange(request.endpoint, sql, &mut newest, attempt).await;
        self.running = None;
        match result {
            Ok(()) => attempt.conclude(Outcome::Ok, Code::NONE),
            Err(error) => fail(attempt, error),
        }
        if let (Some(versions), Some(newest), Outcome::Ok) = (&query.versions, newest, attempt.outcome) {
            versions.note_read(&request.fill, newest.version(), attempt);
        }
        if !driver.keep
            && let Some(connection) = self.kept[request.endpoint].take()
        {
            connection.close(attempt);
            attempt.freed();
        } else if attempt.outcome != Outcome::Ok {
            self.roll_back(request.endpoint, attempt).await;
        }
        self.text = text;
    }

    /// The connection of the abandoned query was dropped with it; the others are not affected.
    fn reset(&mut self) {
        if let Some((endpoint, key)) = self.running.take() {
            let address = self.driver.servers[endpoint].host.address();
            self.driver.canceller.cancel(address, key);
        }
    }

    fn end_session(&mut self) {
        self.kept
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Connection::leave);
    }
}

impl Tester {
    /// Sends a query on a kept connection or a new one, and reads the result. The connection is
    /// kept if it can be used for another query.
    async fn exchange(
        &mut self,
        endpoint: usize,
        sql: &str,
        newest: &mut Option<Newest<'_>>,
        attempt: &mut Attempt,
    ) -> Result<(), DatabaseError> {
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
                // Boxed, because the state of a login would make every task larger, and logins are
                // rare with kept connections.
                None => Box::pin(self.open(endpoint, attempt)).await?,
            };
            attempt.session = if self.driver.keep { connection.number } else { 0 };
            self.running = connection.cancel_key().map(|key| (endpoint, key));
            let was_open = connection.has_open_transaction();
            let result = connection.query(&io, sql, reused, newest, attempt).await;
            match result {
                Ok(refusal) => {
                    if refusal.is_none() && connection.has_open_transaction() && !was_open && self.driver.keep
                    {
                        attempt.note = Some(LEFT_OPEN.to_owned());
                    }
                    self.trips.ended(endpoint, connection.stream(), attempt);
                    self.kept[endpoint] = Some(connection);
                    return refusal.map_or(Ok(()), |refusal| Err(DatabaseError::query(refusal)));
                }
                // The server may have executed the query before it closed.
                Err(DatabaseError::Stale) if !is_read_only(sql) => return Err(Failure::not_repeated().into()),
                Err(DatabaseError::Stale) => attempt.attempt = 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Rolls back the transaction block of a failed query, if there is one. The connection is kept
    /// if the rollback succeeds.
    async fn roll_back(&mut self, endpoint: usize, attempt: &mut Attempt) {
        let Some(mut connection) = self.kept[endpoint].take() else {
            return;
        };
        attempt.freed();
        let begun = attempt.free;
        // If the rollback fails, the connection is closed, and the server rolls back, too.
        if let Ok(rolled_back) = connection.roll_back(&self.io, attempt).await {
            self.kept[endpoint] = Some(connection);
            attempt.freed();
            if rolled_back {
                let seconds = (attempt.free - begun) as f64 * 1e-9;
                attempt.metrics.push((self.driver.rollback, seconds));
            }
        }
    }

    async fn open(&mut self, endpoint: usize, attempt: &mut Attempt) -> Result<Connection, DatabaseError> {
        let driver = Arc::clone(&self.driver);
        let server = &driver.servers[endpoint];
        let (io, number) = (Rc::clone(&self.io), self.sessions + 1);
        let own_tls = self.own_tls.as_ref();
        let connection = Connection::open(&io, (server, own_tls), (number, driver.names), attempt).await?;
        self.sessions = number;
        Ok(connection)
    }
}

/// Ends the attempt with a failure. Rows that were read before the failure do not count.
fn fail(attempt: &mut Attempt, error: DatabaseError) {
    (attempt.items, attempt.payload) = (0, 0);
    match error {
        // Only a reused connection can be stale, and `exchange` then opens another.
        DatabaseError::Stale => attempt.finish_text(Outcome::Error, "closed early"),
        DatabaseError::Failure(failure) => attempt.fail(&failure),
        DatabaseError::Refused {
            outcome,
            code,
            message,
        } => {
            let code = attempt.code_of(&code);
            if attempt.end == NOT_HAPPENED {
                attempt.end = attempt.now();
            }
            attempt.conclude(outcome, code);
            attempt.quote("sql", &message);
        }
    }
}
