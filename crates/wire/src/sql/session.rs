//! One connection, whichever server speaks.

use std::collections::VecDeque;
use std::ops::Range;

use super::input::{Input, MAX_MESSAGE_BYTES};
use super::{CancelKey, Event, Login, Refusal, Server, SqlProtocolError, TransactionStatus};
use super::{mysql, postgres};

/// Places of a row's values in the message in use; none for NULL.
pub(super) type Places = Vec<Option<Range<usize>>>;

/// What the two protocols share.
#[derive(Default)]
pub(super) struct Common {
    pub(super) input: Input,
    pub(super) outgoing: Vec<u8>,
    pub(super) row: Places,
    /// Columns of the result in progress: every row has as many values.
    pub(super) columns: usize,
    pub(super) transaction: TransactionStatus,
    /// What follows without another message.
    pub(super) then: VecDeque<Event>,
}

enum Client {
    Postgres(postgres::Client),
    Mysql(mysql::Client),
}

/// One connection to a server. See the [module](super) for its use.
pub struct Session {
    common: Common,
    client: Client,
    broken: Option<SqlProtocolError>,
}

impl Session {
    /// A session that will log in by itself, without TLS.
    pub fn new(server: Server, login: Login) -> Self {
        Self::with(server, login, false)
    }

    /// The same with TLS: a server that does not take it is an error.
    pub fn secured(server: Server, login: Login) -> Self {
        Self::with(server, login, true)
    }

    fn with(server: Server, login: Login, tls: bool) -> Self {
        let mut common = Common::default();
        let client = match server {
            Server::Postgres => Client::Postgres(postgres::Client::new(login, tls, &mut common)),
            Server::Mysql => Client::Mysql(mysql::Client::new(login, tls)),
        };
        Self {
            common,
            client,
            broken: None,
        }
    }

    /// Bytes to be sent: the caller sends them, and clears (or drains) what it has sent.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.common.outgoing
    }

    /// Takes what was read. Call [`Self::next`] until it gives none before reading on: that bounds
    /// the memory.
    pub fn received(&mut self, bytes: &[u8]) {
        self.common.input.push(bytes);
    }

    /// What has arrived; none if more bytes are wanted. There may be something to send after it in
    /// any case.
    ///
    /// After an error, and after a refused login, nothing comes any more.
    #[allow(
        clippy::should_implement_trait,
        reason = "not an iterator: none is not the end"
    )]
    pub fn next(&mut self) -> Result<Option<Event>, SqlProtocolError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.common.row.clear();
        self.common.input.release();
        if let Some(event) = self.common.then.pop_front() {
            return Ok(Some(event));
        }
        let result = match &mut self.client {
            Client::Postgres(client) => client.next(&mut self.common),
            Client::Mysql(client) => client.next(&mut self.common),
        };
        match &result {
            Ok(Some(_)) => {}
            Ok(None) => self.common.input.settle(),
            Err(error) => self.broken = Some(error.clone()),
        }
        result
    }

    /// Values of the row that [`Event::Row`] announced, as text; none for NULL. As many as there
    /// are columns. Empty after any other event.
    pub fn row(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let input = &self.common.input;
        self.common
            .row
            .iter()
            .map(|place| place.clone().map(|place| input.part(place)))
    }

    /// The handshake that [`Event::StartTls`] asked for is done: what was received from then on
    /// came through it.
    pub fn tls_started(&mut self) {
        match &mut self.client {
            Client::Postgres(client) => client.tls_started(&mut self.common),
            Client::Mysql(client) => client.tls_started(&mut self.common),
        }
    }

    /// Asks a query, after [`Event::Ready`]. `PostgreSQL` takes several statements, separated by
    /// semicolons.
    ///
    /// A query that no server could take (1 GiB; for `PostgreSQL` one with a NUL) is refused here,
    /// with the same events.
    pub fn query(&mut self, sql: &str) {
        let reason = if sql.len() >= MAX_MESSAGE_BYTES - 1 {
            "the query is too long"
        } else if matches!(self.client, Client::Postgres(_)) && sql.contains('\0') {
            "there is a NUL in the query"
        } else {
            return match &mut self.client {
                Client::Postgres(client) => client.query(sql, &mut self.common),
                Client::Mysql(client) => client.query(sql, &mut self.common),
            };
        };
        let refusal = Refusal {
            code: "54000".to_owned(),
            number: 0,
            message: reason.to_owned(),
        };
        self.common.then.extend([Event::Failed(refusal), Event::Ready]);
    }

    /// Asks for nothing but the state of the session, after [`Event::Ready`]; [`Event::Complete`]
    /// and [`Event::Ready`] follow. `MariaDB` only: does nothing elsewhere, where the state is
    /// always known.
    pub fn ping(&mut self) {
        if let Client::Mysql(client) = &mut self.client {
            client.ping(&mut self.common);
        }
    }

    /// Whether it is within a transaction block, after [`Event::Ready`].
    pub fn transaction(&self) -> TransactionStatus {
        self.common.transaction
    }

    /// Data of a `COPY ... FROM STDIN`, after [`Event::CopyIn`]; any number of times, cut anywhere.
    /// `PostgreSQL` only: does nothing elsewhere.
    pub fn copy_data(&mut self, bytes: &[u8]) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_data(bytes, &mut self.common);
        }
    }

    /// The data of a `COPY` is complete; [`Event::Complete`] follows.
    pub fn copy_done(&mut self) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_done(&mut self.common);
        }
    }

    /// Gives up a `COPY`; [`Event::Failed`] follows.
    pub fn copy_fail(&mut self) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_fail(&mut self.common);
        }
    }

    /// What it takes to cancel this session's query; none before the login is complete, and for
    /// `MariaDB`.
    pub fn cancel_key(&self) -> Option<CancelKey> {
        match &self.client {
            Client::Postgres(client) => client.cancel_key(),
            Client::Mysql(_) => None,
        }
    }

    /// Asks for the binary log from this place on, after [`Event::Ready`]: [`Event::Log`] follows
    /// without end. `replica` is the number of the one who asks, which no other replica of the
    /// server may have. `MariaDB` only: does nothing elsewhere.
    pub fn follow_log(&mut self, replica: u32, file: &str, position: u32) {
        if let Client::Mysql(client) = &mut self.client {
            client.follow_log(replica, file, position, &mut self.common);
        }
    }

    /// Says good-bye, between two queries: to be sent, and the connection closed.
    pub fn quit(&mut self) {
        match &mut self.client {
            Client::Postgres(client) => client.quit(&mut self.common),
            Client::Mysql(client) => client.quit(&mut self.common),
        }
    }
}
