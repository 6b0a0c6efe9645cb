//! `sql` with `PostgreSQL` and `MariaDB` over TCP, plain or within TLS; testers are tasks.
//!
//! Stamps: start right before the first system call, which connects, or sends the query on a kept
//! connection; connected when the login is complete, that of TLS before it; first byte at the first
//! byte of the answer to the query; end right after the read that completed it. A connection per
//! query is closed after the end, with the protocol's good-bye, and that counts neither as response
//! nor as lateness of what follows.
//!
//! The query goes out as it is (`PostgreSQL`'s simple protocol, `COM_QUERY`), and values come as
//! text, as to a plain client. The whole result is fetched and forgotten, one message at a time.
//! Items: rows. Payload: bytes of the values as text, as they are on the wire (a `bytea` in
//! hexadecimal); NULL has none. Wire bytes: all, those of the login included. A statement without a
//! result has neither items nor payload, and is good when the server says that it is complete.
//!
//! Logging in is the tester's own work too: a SCRAM password of `PostgreSQL` takes its client about
//! a millisecond of CPU, in which the other testers of the lane wait.
//!
//! A kept connection that the server has closed while nothing was asked is replaced; once within a
//! transaction if that turns out only after the query was sent (`attempt` 1), as with HTTP, and
//! only for queries that do nothing but read ([`super::read_only`]).
//!
//! A transaction block that a failed query has left behind is rolled back on a kept connection,
//! after the end of the transaction and before the next one; metric `rollback_s`. If that fails,
//! the connection is replaced. A block that a good query leaves open stays open, as the query says
//! so; a note tells about it.
//!
//! A time-out closes the connection. A `PostgreSQL` server would not notice before it has something
//! to send, so that it is asked to cancel the query, as well as that goes ([`super::cancel`]). A
//! `MariaDB` server cannot be told without another login; it notices when it writes, or when it
//! looks at its connection: closing is what a client can do.
//!
//! Codes: `syntax error`, `no such table`, `permission denied`, `admin shutdown`, `query cancelled`
//! and the like ([`super::code`]), else `SQLSTATE xxxxx`; `bad response`, `answer too long` (a
//! message over 1 GiB); those of broken exchanges. What keeps a login from coming about is refused:
//! `login refused`, `too many connections`, `no such database`, `cannot connect now`.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_model::{Code, Endpoint, NOT_HAPPENED, Outcome};
use plimsoll_wire::sql::{Address, CancelKey, Login, Server};
use tokio_rustls::TlsConnector;

use super::broken::Broken;
use super::cancel::Canceller;
use super::connection::Connection;
use super::read_only::is_read_only;
use super::{Query, Settings, queries};
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::versions::Newest;
use crate::failure::Failure;
use crate::net::Host;
use crate::net::tls;
use crate::net::transport::Security;
use crate::reactor::Io;
use crate::round_trips::{Names, RoundTrips};

/// Most characters of a server's message in a note.
const MAX_NOTE: usize = 500;

/// What a person should know of a query that begins a transaction and does not end it.
const LEFT_OPEN: &str = "sql: a query left a transaction open, whose locks are kept until a later query of the same tester \
                         ends it: end the query with COMMIT";

/// A server to ask.
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) server: Server,
    pub(super) login: Login,
    pub(super) tls: Option<Security>,
}

/// The driver.
pub struct Network {
    keep: bool,
    /// Per endpoint.
    places: Vec<Place>,
    /// Per operation.
    queries: Vec<Query>,
    canceller: Canceller,
    names: Names,
    rollback: Code,
}

fn place(
    setup: &Setup<'_>,
    endpoint: &Endpoint,
    settings: &Settings,
    connector: Option<&TlsConnector>,
) -> Result<Place, String> {
    let named = |error: String| format!("endpoint {}: {error}", endpoint.name);
    let mut address = Address::from_url(&endpoint.url).map_err(|error| named(error.to_string()))?;
    let password = &mut address.login.password;
    *password = password.take().or_else(|| settings.password.clone());
    let secure = |connector: &TlsConnector| Ok((connector.clone(), tls::server_name(&address.host)?));
    Ok(Place {
        tls: connector.map(secure).transpose().map_err(named)?,
        host: setup.host(&address.host, address.port).map_err(named)?,
        server: address.server,
        login: address.login,
    })
}

impl AsyncDriver for Network {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let settings: Settings = setup.settings()?;
        let connector = match &settings.tls {
            Some(tls) => Some(TlsConnector::from(tls::client(Some(tls))?)),
            None => None,
        };
        let place = |endpoint| place(setup, endpoint, &settings, connector.as_ref());
        Ok(Self {
            keep: settings.keeps(),
            places: setup.endpoints.iter().map(place).collect::<Result<_, _>>()?,
            queries: queries(setup)?,
            canceller: Canceller::default(),
            names: Names::new(setup.codes),
            rollback: setup.codes.number("rollback_s"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, _: u32) -> Tester {
        Tester {
            kept: self.places.iter().map(|_| None).collect(),
            trips: RoundTrips::new(self.names, self.places.len()),
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
        // Values are numbers and texts, so that what is filled in is text as well.
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
            Err(broken) => failed(attempt, broken),
        }
        if let (Some(versions), Some(newest), Outcome::Ok) = (&query.versions, newest, attempt.outcome) {
            versions.note_read(&request.fill, newest.found(), attempt);
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

    /// The connection of what was abandoned has gone with it; the others are as they were.
    fn reset(&mut self) {
        if let Some((endpoint, key)) = self.running.take() {
            let address = self.driver.places[endpoint].host.address();
            self.driver.canceller.cancel(address, key);
        }
    }
}

impl Tester {
    /// Asks a query, on a kept connection or a new one. A connection that takes another query is
    /// kept in any case.
    async fn exchange(
        &mut self,
        endpoint: usize,
        sql: &str,
        newest: &mut Option<Newest<'_>>,
        attempt: &mut Attempt,
    ) -> Result<(), Broken> {
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
                // Boxed: a login is rare where it matters, and its state would make every task
                // larger.
                None => Box::pin(self.open(endpoint, attempt)).await?,
            };
            attempt.session = if self.driver.keep { connection.number } else { 0 };
            self.running = connection.cancel_key().map(|key| (endpoint, key));
            let was_open = connection.has_open_transaction();
            let result = connection.ask(&io, sql, reused, newest, attempt).await;
            match result {
                Ok(refusal) => {
                    if refusal.is_none() && connection.has_open_transaction() && !was_open && self.driver.keep
                    {
                        attempt.note = Some(LEFT_OPEN.to_owned());
                    }
                    self.trips.ended(endpoint, connection.stream(), attempt);
                    self.kept[endpoint] = Some(connection);
                    return refusal.map_or(Ok(()), |refusal| Err(Broken::query(refusal)));
                }
                // The server may have carried it out before it closed.
                Err(Broken::Stale) if !is_read_only(sql) => return Err(Failure::not_repeated().into()),
                Err(Broken::Stale) => attempt.attempt = 1,
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Leaves no transaction block of a failed query behind. The connection is kept if that can be
    /// had.
    async fn roll_back(&mut self, endpoint: usize, attempt: &mut Attempt) {
        let Some(mut connection) = self.kept[endpoint].take() else {
            return;
        };
        attempt.freed();
        let begun = attempt.free;
        // One whose rollback fails is closed, and that rolls back, too.
        if let Ok(rolled_back) = connection.roll_back(&self.io, attempt).await {
            self.kept[endpoint] = Some(connection);
            attempt.freed();
            if rolled_back {
                let seconds = (attempt.free - begun) as f64 * 1e-9;
                attempt.metrics.push((self.driver.rollback, seconds));
            }
        }
    }

    async fn open(&mut self, endpoint: usize, attempt: &mut Attempt) -> Result<Connection, Broken> {
        let driver = Arc::clone(&self.driver);
        let place = &driver.places[endpoint];
        let (io, number) = (Rc::clone(&self.io), self.sessions + 1);
        let connection = Connection::open(&io, place, (number, driver.names), attempt).await?;
        self.sessions = number;
        Ok(connection)
    }
}

/// Ends the attempt. What was fetched before it failed is no answer, and does not count.
fn failed(attempt: &mut Attempt, broken: Broken) {
    (attempt.items, attempt.payload) = (0, 0);
    match broken {
        // Only a reused connection is stale, and the loop above has then opened another.
        Broken::Stale => attempt.finish_text(Outcome::Error, "closed early"),
        Broken::Failure(failure) => attempt.fail(&failure),
        Broken::Refused {
            outcome,
            code,
            message,
        } => {
            let code = attempt.code_of(&code);
            if attempt.end == NOT_HAPPENED {
                attempt.end = attempt.now();
            }
            attempt.conclude(outcome, code);
            let message: String = message.chars().take(MAX_NOTE).collect();
            attempt.note = Some(format!("sql: {message}"));
        }
    }
}
