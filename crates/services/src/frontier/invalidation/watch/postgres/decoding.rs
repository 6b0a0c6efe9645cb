//! Detects changes of `PostgreSQL` by logical decoding of its write-ahead log (WAL), without
//! triggers.
//!
//! The replication slot is temporary: the server drops it when its connection ends, however it
//! ends, so that a gateway that is gone does not make the server keep WAL. The next session begins
//! at the current end of the log and purges everything. The same happens if the server ends the
//! session because the slot would keep more WAL than `max_slot_wal_keep_size`.
//!
//! The log is slightly ahead of the data, as that of `MariaDB`: `settle_ms` covers this time.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Refusal, StreamEvent};
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::super::super::super::database::Link;
use super::super::super::config::Scope;
use super::super::super::dependents::Change;
use super::super::super::{SharedState, log};
use super::super::{
    CONNECT_TIMEOUT, FirstResult, QueryConnection, SessionEnd, Trouble, UnsuitableError, WatchRequest, renew,
    report_first, value,
};
use super::decoded::{self, Decoded};
use super::{CATALOGUE_INTERVAL, listing};

/// Maximum time for creating the slot, which waits for all transactions in progress.
const SLOT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two reports of the position, which also request a response of the server.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time without a message of the server.
const SILENCE: Duration = Duration::from_secs(10);

struct Watcher<'a> {
    shared: &'a SharedState,
    connection: QueryConnection,
    stream: Link,
    /// The latest position that the server has sent.
    position: u64,
    /// Changes of the transaction that is being read, for each table.
    changes: BTreeMap<String, Change>,
}

/// Watches the database until a connection fails.
pub(super) async fn session(
    shared: &SharedState,
    address: &Address,
    requests: &mut mpsc::Receiver<WatchRequest>,
    first: &mut FirstResult,
) -> SessionEnd {
    let mut watcher = match Watcher::begin(shared, address).await {
        Ok(watcher) => watcher,
        Err(ended) => return ended,
    };
    shared.set_up();
    report_first(first, Ok(()));
    let result = watcher.work(requests).await;
    watcher.connection.end(result)
}

impl<'a> Watcher<'a> {
    /// Creates the slot before it reads the catalogue, so that changes in between are in the
    /// stream.
    async fn begin(shared: &'a SharedState, address: &Address) -> Result<Self, SessionEnd> {
        let mut connection = QueryConnection::open(address).await?;
        check_settings(&mut connection).await?;
        let mut stream = open_stream(address).await?;
        create_slot(&mut stream).await?;
        let mut watcher = Self {
            shared,
            connection,
            stream,
            position: 0,
            changes: BTreeMap::new(),
        };
        watcher.read_catalogue().await?;
        Ok(watcher)
    }

    async fn work(&mut self, requests: &mut mpsc::Receiver<WatchRequest>) -> Result<(), Trouble> {
        let mut next_read = Instant::now() + CATALOGUE_INTERVAL;
        let mut deadline = Instant::now() + SILENCE;
        let mut reports = interval(REPORT_INTERVAL);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.stream.event() => {
                    match event? {
                        Event::Stream(StreamEvent::Decoded { position, text }) => {
                            self.position = self.position.max(position);
                            self.process(&text).await?;
                        }
                        Event::Stream(StreamEvent::Position(position)) => {
                            self.position = self.position.max(position);
                        }
                        Event::Failed(refusal) => return Err(Trouble::Dead(refusal.message)),
                        _ => {}
                    }
                    deadline = Instant::now() + SILENCE;
                }
                request = requests.recv() => match request {
                    None => return Ok(()),
                    Some(request) => self.answer(request).await?,
                },
                _ = reports.tick() => self.stream.report_position(self.position),
                () = sleep_until(next_read) => {
                    self.read_catalogue().await?;
                    next_read = Instant::now() + CATALOGUE_INTERVAL;
                }
                () = sleep_until(deadline) => return Err(Trouble::Dead(format!(
                    "no message of the server for {} s",
                    SILENCE.as_secs()
                ))),
            }
        }
    }

    async fn answer(&mut self, request: WatchRequest) -> Result<(), Trouble> {
        match request {
            WatchRequest::Look(reply) => {
                if !self.shared.catalogue_cache().is_recent() {
                    self.read_catalogue().await?;
                }
                let _ = reply.send(true);
            }
            // The log contains the changes of all tables.
            WatchRequest::Watch(_, reply) => drop(reply.send(true)),
        }
        Ok(())
    }

    async fn process(&mut self, text: &str) -> Result<(), Trouble> {
        match decoded::read(text) {
            Some(Decoded::Nothing) => Ok(()),
            Some(Decoded::Commit) => self.commit().await,
            Some(Decoded::Tables(tables, row)) => {
                for table in tables {
                    let change = self.change(&table, row);
                    match self.changes.get_mut(&table) {
                        Some(earlier) => earlier.add(change),
                        None => drop(self.changes.insert(table, change)),
                    }
                }
                Ok(())
            }
            None => {
                let start: String = text.chars().take(80).collect();
                Err(Trouble::Doubtful(format!(
                    "unknown text of test_decoding: {start:?}"
                )))
            }
        }
    }

    fn change(&self, table: &str, row: Option<&str>) -> Change {
        if self.shared.config.scope != Scope::Row {
            return Change::Table;
        }
        let key = self.shared.catalogue_cache().catalogue.key_of(table);
        match (row, key) {
            (Some(row), Some(key)) => decoded::change(row, &key),
            _ => Change::Table,
        }
    }

    /// Reports the changes of a transaction. An unknown table was renamed or created.
    async fn commit(&mut self) -> Result<(), Trouble> {
        let mut unknown = false;
        for (table, change) in std::mem::take(&mut self.changes) {
            unknown |= !self.shared.table_changed(&table, change);
        }
        if unknown {
            self.shared.all_changed();
            self.read_catalogue().await?;
        }
        Ok(())
    }

    async fn read_catalogue(&mut self) -> Result<(), Trouble> {
        let listing = listing::read(&mut self.connection, &self.shared.config).await?;
        renew(self.shared, &listing);
        Ok(())
    }
}

/// Checks the settings of the server that logical decoding needs.
async fn check_settings(connection: &mut QueryConnection) -> Result<(), SessionEnd> {
    let rows = connection
        .rows("SELECT current_setting('wal_level'), current_setting('max_slot_wal_keep_size', true)")
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    if value(&row, 0) != "logical" {
        return Err(UnsuitableError::WalLevel(value(&row, 0)).into());
    }
    if value(&row, 1) == "-1" {
        log(
            "the server keeps any amount of WAL for a gateway that does not read it: set max_slot_wal_keep_size, such as \
             1GB",
        );
    }
    Ok(())
}

async fn open_stream(address: &Address) -> Result<Link, SessionEnd> {
    match timeout(CONNECT_TIMEOUT, Link::open_replication(address)).await {
        Ok(Err(Trouble::Refused(refusal))) => Err(refused(refusal)),
        Ok(link) => Ok(link?),
        Err(_) => Err(SessionEnd::Trouble(format!(
            "no answer within {} s",
            CONNECT_TIMEOUT.as_secs()
        ))),
    }
}

/// Creates the slot, and starts its stream.
async fn create_slot(stream: &mut Link) -> Result<(), SessionEnd> {
    // Other gateways may use the same server.
    let slot = format!("plimsoll_{:016x}", rand::rng().random::<u64>());
    stream.query(&format!(
        "CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL test_decoding NOEXPORT_SNAPSHOT"
    ));
    let Ok(created) = timeout(SLOT_TIMEOUT, until(stream, &Event::Ready)).await else {
        return Err(SessionEnd::Trouble(format!(
            "the replication slot was not created within {} s: it waits for transactions that are in progress",
            SLOT_TIMEOUT.as_secs()
        )));
    };
    created?;
    stream.query(&format!(
        "START_REPLICATION SLOT {slot} LOGICAL 0/0 (\"include-xids\" 'off', \"skip-empty-xacts\" 'on')"
    ));
    match timeout(SILENCE, until(stream, &Event::Stream(StreamEvent::Begins))).await {
        Ok(begun) => begun,
        Err(_) => Err(SessionEnd::Trouble("the server does not send its log".to_owned())),
    }
}

/// Reads events up to this one. Returns an error if the server refuses the command.
async fn until(stream: &mut Link, last: &Event) -> Result<(), SessionEnd> {
    loop {
        match stream.event().await? {
            Event::Failed(refusal) => return Err(refused(refusal)),
            event if event == *last => return Ok(()),
            _ => {}
        }
    }
}

/// The reason for a refused command. The codes are SQLSTATEs.
fn refused(refusal: Refusal) -> SessionEnd {
    match refusal.code.as_str() {
        "42501" => UnsuitableError::ReplicationRefused(refusal.message).into(),
        "58P01" => UnsuitableError::NoPlugin(refusal.message).into(),
        "53300" | "53400" => SessionEnd::Trouble(format!(
            "{}: increase max_wal_senders and max_replication_slots",
            refusal.message
        )),
        _ => SessionEnd::Trouble(refusal.message),
    }
}
