//! A running query on a connection to a server. Its rows are packed until a piece is full.

use std::time::Duration;

use plimsoll_wire::frontier::request::{Ttl, split_binds};
use plimsoll_wire::sql::Event;
use tokio::time::{Instant, timeout_at};

use super::server::Lease;
use super::{End, Failure, Packer, Part, Query};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No column has arrived.
    Begun,
    /// The columns have arrived.
    Columns,
    /// A row is being packed.
    Row,
}

/// A running query.
pub(crate) struct Running {
    lease: Lease,
    /// The text to be sent, or why it is refused.
    text: Option<Result<String, Failure>>,
    packer: Option<Packer>,
    ttl: Ttl,
    deadline: Instant,
    state: State,
    /// Column and byte up to which the row is packed: a piece may be full in the middle of a value.
    column: usize,
    byte: usize,
    failed: Option<Failure>,
    /// Time in `next` so far, without compression.
    time: Duration,
}

impl Running {
    /// Starts a query on a connection. A query that is refused is detected here, and reported at
    /// its end.
    pub(super) fn start(lease: Lease, query: &Query) -> Self {
        let (sql, values) = split_binds(&query.sql);
        let dialect = lease.pool.dialect();
        let text = query
            .check()
            .and_then(|()| dialect.statement(sql, &values))
            .map(|text| dialect.read_only(text));
        Self {
            deadline: Instant::now() + lease.pool.query_timeout,
            lease,
            text: Some(text),
            packer: Some(Packer::new(query.encoding, query.signed.as_deref())),
            ttl: query.ttl,
            state: State::Begun,
            column: 0,
            byte: 0,
            failed: None,
            time: Duration::ZERO,
        }
    }

    pub(super) async fn next(&mut self) -> Part {
        let Some(mut packer) = self.packer.take() else {
            return Part::End(End::lost("the query has ended"));
        };
        let (begin, compression) = (Instant::now(), packer.compression());
        let stopped = Err(Failure::stopped(self.lease.pool.query_timeout));
        // If the client reads slowly, the deadline may have passed since the last piece.
        let outcome = if begin >= self.deadline {
            stopped
        } else {
            let filled = timeout_at(self.deadline, self.fill(&mut packer)).await;
            self.time += begin
                .elapsed()
                .saturating_sub(packer.compression().saturating_sub(compression));
            match filled {
                Ok(Ok(More::Piece)) => {
                    let piece = packer.take();
                    self.packer = Some(packer);
                    return Part::Piece(piece);
                }
                Ok(Ok(More::End)) => Ok(()),
                Ok(Err(failure)) => Err(failure),
                Err(_) => stopped,
            }
        };
        // The connection returns to the pool before the end is reported, so that a client finds one
        // for its next request.
        self.lease.release();
        Part::End(End::new(packer, outcome, self.ttl, Some(self.time)))
    }

    /// Packs rows as they arrive until a piece is full.
    async fn fill(&mut self, packer: &mut Packer) -> Result<More, Failure> {
        let mut event = match self.text.take() {
            Some(text) => Some(self.lease.query(&text?).await?),
            None => None,
        };
        loop {
            if self.state == State::Row && !self.pack_row(packer) {
                return Ok(More::Piece);
            }
            let arrived = event
                .take()
                .map_or_else(|| self.lease.arrived(), |event| Ok(Some(event)));
            let now = match arrived {
                Ok(Some(event)) => Ok(event),
                Ok(None) => self.lease.event().await,
                Err(lost) => Err(lost),
            };
            // If the server sent an error before it closed the connection, that is the reason.
            let now = now.map_err(|lost| self.failed.take().unwrap_or(lost))?;
            match now {
                Event::Row => self.state = State::Row,
                Event::Columns(columns) if self.state == State::Begun => {
                    for column in columns {
                        packer.column(&column.name, &column.type_name);
                    }
                    packer.end_columns();
                    self.state = State::Columns;
                }
                Event::Columns(_) | Event::CopyIn | Event::CopyRow(_) => {
                    return Err(Failure::refused("Query cancelled: it has several results"));
                }
                Event::Failed(refusal) => {
                    self.failed = Some(Failure::database(refusal.message));
                }
                Event::Complete
                | Event::StartTls
                | Event::Notified { .. }
                | Event::Stream(_)
                | Event::Log(_) => {}
                Event::Ready => {
                    return match self.failed.take() {
                        Some(failure) => Err(failure),
                        None if self.state == State::Begun => {
                            Err(Failure::database("No results were returned by the query."))
                        }
                        None => Ok(More::End),
                    };
                }
            }
        }
    }

    /// Packs the current row. Returns false if a piece is full.
    fn pack_row(&mut self, packer: &mut Packer) -> bool {
        let Some(link) = &self.lease.link else { return true };
        for value in link.row().skip(self.column) {
            if let Some(byte) = packer.value(value, self.byte) {
                self.byte = byte;
                return false;
            }
            self.column += 1;
            self.byte = 0;
            if packer.is_full() {
                return false;
            }
        }
        packer.end_row();
        (self.column, self.state) = (0, State::Columns);
        true
    }
}

enum More {
    Piece,
    End,
}
