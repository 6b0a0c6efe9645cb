//! A session with a server of either kind.

use std::collections::VecDeque;
use std::ops::Range;

use super::input::{Input, MAX_MESSAGE_BYTES};
use super::{CancelKey, Event, Login, Refusal, Server, SqlProtocolError, TransactionStatus};
use super::{mysql, postgres};

/// Ranges of a row's values in the message in use; none for NULL.
pub(super) type Ranges = Vec<Option<Range<usize>>>;

/// State that the two protocols share.
#[derive(Default)]
pub(super) struct Common {
    pub(super) input: Input,
    pub(super) outgoing: Vec<u8>,
    pub(super) row: Ranges,
    /// Number of columns of the result in progress, and of values in every row.
    pub(super) columns: usize,
    pub(super) transaction: TransactionStatus,
    /// Events that follow without another message.
    pub(super) queued: VecDeque<Event>,
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
    /// A session without TLS. It logs in by itself.
    pub fn new(server: Server, login: Login) -> Self {
        Self::with(server, login, false, false)
    }

    /// A session without TLS that also accepts commands of replication, such as
    /// `START_REPLICATION`. `PostgreSQL` only: the same as [`Self::new`] for `MariaDB`.
    pub fn replicating(server: Server, login: Login) -> Self {
        Self::with(server, login, false, true)
    }

    /// A session with TLS. A server that does not support TLS is an error.
    pub fn secured(server: Server, login: Login) -> Self {
        Self::with(server, login, true, false)
    }

    fn with(server: Server, login: Login, tls: bool, replicates: bool) -> Self {
        let mut common = Common::default();
        let client = match server {
            Server::Postgres => Client::Postgres(postgres::Client::new(login, tls, replicates, &mut common)),
            Server::Mysql => Client::Mysql(mysql::Client::new(login, tls)),
        };
        Self {
            common,
            client,
            broken: None,
        }
    }

    /// Bytes to send. The caller sends them, and removes those that it has sent.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.common.outgoing
    }

    /// Appends bytes that were read. Call [`Self::next`] until it returns none before the next
    /// read, so that memory is bounded.
    pub fn received(&mut self, bytes: &[u8]) {
        self.common.input.push(bytes);
    }

    /// Returns the next event; none if more bytes are needed. In both cases there can be bytes to
    /// send afterwards.
    ///
    /// After an error, and after a refused login, there are no further events.
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
        if let Some(event) = self.common.queued.pop_front() {
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

    /// Values of the row after [`Event::Row`], as text, one per column; none for NULL. Empty after
    /// any other event.
    pub fn row(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let input = &self.common.input;
        self.common
            .row
            .iter()
            .map(|range| range.clone().map(|range| input.part(range)))
    }

    /// Called after the handshake that [`Event::StartTls`] requested. All bytes received from then
    /// on must come through TLS.
    pub fn tls_started(&mut self) {
        match &mut self.client {
            Client::Postgres(client) => client.tls_started(&mut self.common),
            Client::Mysql(client) => client.tls_started(&mut self.common),
        }
    }

    /// Sends a query, after [`Event::Ready`]. `PostgreSQL` accepts several statements, separated by
    /// semicolons.
    ///
    /// A query that a server cannot accept (1 GiB or longer; for `PostgreSQL` one with a NUL) is
    /// refused here, with the events of a refusal by the server.
    pub fn query(&mut self, sql: &str) {
        let reason = if sql.len() >= MAX_MESSAGE_BYTES - 1 {
            "the query is longer than 1 GiB"
        } else if matches!(self.client, Client::Postgres(_)) && sql.contains('\0') {
            "the query contains a NUL"
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
        self.common.queued.extend([Event::Failed(refusal), Event::Ready]);
    }

    /// Prepares a statement with the placeholders `$1`, `$2`, ..., after [`Event::Ready`].
    /// [`Event::Columns`] follows if the statement has a result, then [`Event::Ready`].
    /// `PostgreSQL` only: does nothing with `MariaDB`.
    pub fn prepare(&mut self, name: &str, sql: &str) {
        if let Client::Postgres(client) = &mut self.client {
            client.prepare(name, sql, &mut self.common);
        }
    }

    /// Executes a prepared statement with values as text, after [`Event::Ready`]. `columns` is the
    /// number of columns of its result, which is not described again: [`Event::Row`] is the first
    /// event. `PostgreSQL` only: does nothing with `MariaDB`.
    pub fn execute<'v>(&mut self, name: &str, values: impl Iterator<Item = &'v [u8]>, columns: usize) {
        if let Client::Postgres(client) = &mut self.client {
            client.execute(name, values, columns, &mut self.common);
        }
    }

    /// Asks for the transaction status, after [`Event::Ready`]; [`Event::Complete`] and
    /// [`Event::Ready`] follow. `MariaDB` only: does nothing with `PostgreSQL`, where the status is
    /// always known.
    pub fn ping(&mut self) {
        if let Client::Mysql(client) = &mut self.client {
            client.ping(&mut self.common);
        }
    }

    /// Transaction status, after [`Event::Ready`].
    pub fn transaction(&self) -> TransactionStatus {
        self.common.transaction
    }

    /// Sends data of a `COPY ... FROM STDIN`, after [`Event::CopyIn`], in any number of pieces of
    /// any length. `PostgreSQL` only: does nothing with `MariaDB`.
    pub fn copy_data(&mut self, bytes: &[u8]) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_data(bytes, &mut self.common);
        }
    }

    /// Ends the data of a `COPY`; [`Event::Complete`] follows.
    pub fn copy_done(&mut self) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_done(&mut self.common);
        }
    }

    /// Cancels a `COPY`; [`Event::Failed`] follows.
    pub fn copy_fail(&mut self) {
        if let Client::Postgres(client) = &mut self.client {
            client.copy_fail(&mut self.common);
        }
    }

    /// Key to cancel a query of this session; none before the login is complete, and for `MariaDB`.
    pub fn cancel_key(&self) -> Option<CancelKey> {
        match &self.client {
            Client::Postgres(client) => client.cancel_key(),
            Client::Mysql(_) => None,
        }
    }

    /// Requests the binary log from a file and position on, after [`Event::Ready`]: an endless
    /// sequence of [`Event::Log`] follows. `replica` is the server id of this client, which no
    /// other replica of the server may have. `MariaDB` only: does nothing with `PostgreSQL`.
    pub fn follow_log(&mut self, replica: u32, file: &str, position: u32) {
        if let Client::Mysql(client) = &mut self.client {
            client.follow_log(replica, file, position, &mut self.common);
        }
    }

    /// Reports to the server that everything up to this position of its log was processed, after
    /// [`StreamEvent::Begins`](super::StreamEvent); [`StreamEvent::Position`](super::StreamEvent)
    /// follows. `PostgreSQL` only: does nothing with `MariaDB`.
    pub fn report_position(&mut self, position: u64) {
        if let Client::Postgres(client) = &mut self.client {
            client.report_position(position, &mut self.common);
        }
    }

    /// Queues the closing message of the protocol, between two queries. The caller sends it and
    /// closes the connection.
    pub fn quit(&mut self) {
        match &mut self.client {
            Client::Postgres(client) => client.quit(&mut self.common),
            Client::Mysql(client) => client.quit(&mut self.common),
        }
    }
}
