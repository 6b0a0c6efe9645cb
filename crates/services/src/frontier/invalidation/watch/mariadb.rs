//! Detects changes of `MariaDB` from its binary log, which it reads like a replica, from the
//! current end on.
//!
//! The log is slightly ahead of the data: a transaction is written to it before all sessions can
//! see the transaction. `settle_ms` covers this time. A server without changes sends a heartbeat
//! every second.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, LogEvent};
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::super::database::{Dialect, Link};
use super::super::SharedState;
use super::super::catalogue::{Depends, Kind, Listing, Relation};
use super::super::dependents::Change;
use super::{
    FirstResult, QueryConnection, Row, SessionEnd, Trouble, UnsuitableError, WatchRequest, renew,
    report_first, value,
};

/// Maximum time without a message of the server, including heartbeats.
const SILENCE: Duration = Duration::from_secs(10);
/// Time between two reads of the catalogue. Otherwise the server would close the idle connection.
const CATALOGUE_INTERVAL: Duration = Duration::from_secs(600);

/// Tables and views. The last column is 1 for engines that read data from elsewhere.
const RELATIONS: &str = "
    SELECT table_schema, table_name, table_type,
      coalesce(engine, '') IN ('FEDERATED', 'CONNECT', 'SPIDER', 'SPHINX', 'MRG_MyISAM', 'OQGRAPH', 'S3')
    FROM information_schema.tables
    WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";
const VIEWS: &str = "
    SELECT table_schema, table_name, view_definition FROM information_schema.views
    WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";
const ROUTINES: &str = "
    SELECT concat(routine_schema, '.', routine_name), routine_name FROM information_schema.routines
    WHERE routine_type = 'FUNCTION' AND routine_schema NOT IN ('mysql', 'sys')";
/// Foreign keys by which the server changes a table itself, without an entry in the log.
const CASCADES: &str = "
    SELECT DISTINCT r.unique_constraint_schema, r.referenced_table_name, r.constraint_schema, r.table_name
    FROM information_schema.referential_constraints r
    WHERE r.delete_rule IN ('CASCADE', 'SET NULL') OR r.update_rule IN ('CASCADE', 'SET NULL')";

struct Watcher<'a> {
    shared: &'a SharedState,
    connection: QueryConnection,
    log: Link,
    /// The database of the gateway's sessions.
    home: String,
    /// Tables of the transaction that is being read.
    tables: BTreeSet<String>,
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
    /// Reads the end of the log before the catalogue, so that changes in between are in the log.
    async fn begin(shared: &'a SharedState, address: &Address) -> Result<Self, SessionEnd> {
        let mut connection = QueryConnection::open(address).await?;
        let (file, position) = end_of_log(&mut connection).await?;
        let mut log = match QueryConnection::open(address).await {
            Ok(connection) => connection,
            Err(ended) => return Err(ended),
        };
        for sql in [
            "SET @master_heartbeat_period = 1000000000",
            "SET @master_binlog_checksum = 'NONE'",
            "SET @mariadb_slave_capability = 4",
        ] {
            log.rows(sql).await?;
        }
        let mut log = log.link;
        // No other replica may have this number. Configured numbers are usually small.
        let replica = rand::rng().random_range(1 << 31..u32::MAX);
        log.follow_log(replica, &file, position);
        let mut watcher = Self {
            shared,
            connection,
            log,
            home: address.login.database.clone(),
            tables: BTreeSet::new(),
        };
        watcher.read_catalogue().await?;
        match timeout(SILENCE, watcher.log.event()).await {
            Ok(Ok(Event::Log(event))) => watcher.process(event).await?,
            Ok(Ok(Event::Failed(refusal))) => {
                return Err(UnsuitableError::LogRefused(refusal.message).into());
            }
            Ok(Ok(_)) => {
                return Err(SessionEnd::Trouble(
                    "the server does not send its binary log".to_owned(),
                ));
            }
            Ok(Err(trouble)) => return Err(trouble.into()),
            Err(_) => return Err(no_heartbeat().into()),
        }
        Ok(watcher)
    }

    async fn work(&mut self, requests: &mut mpsc::Receiver<WatchRequest>) -> Result<(), Trouble> {
        let mut next_read = tokio::time::Instant::now() + CATALOGUE_INTERVAL;
        let mut deadline = tokio::time::Instant::now() + SILENCE;
        loop {
            tokio::select! {
                event = self.log.event() => {
                    match event? {
                        Event::Log(event) => self.process(event).await?,
                        Event::Failed(refusal) => return Err(Trouble::Dead(refusal.message)),
                        _ => {}
                    }
                    deadline = tokio::time::Instant::now() + SILENCE;
                }
                request = requests.recv() => match request {
                    None => return Ok(()),
                    Some(request) => self.answer(request).await?,
                },
                () = tokio::time::sleep_until(next_read) => {
                    self.read_catalogue().await?;
                    next_read = tokio::time::Instant::now() + CATALOGUE_INTERVAL;
                }
                () = tokio::time::sleep_until(deadline) => return Err(no_heartbeat()),
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

    async fn process(&mut self, event: LogEvent) -> Result<(), Trouble> {
        match event {
            LogEvent::Table { schema, name } => {
                self.tables.insert(format!("{schema}.{name}"));
            }
            LogEvent::Commit => self.commit(),
            LogEvent::Statement { schema, text } => {
                self.commit();
                self.statement(&schema, text.as_deref()).await?;
            }
            LogEvent::Unknown(_) => self.shared.all_changed(),
            LogEvent::Nothing => {}
        }
        Ok(())
    }

    /// Reports the changes of a transaction. A table that is not in the catalogue is not used by a
    /// query, because the log also contains every change of the catalogue.
    fn commit(&mut self) {
        for table in std::mem::take(&mut self.tables) {
            self.shared.table_changed(&table, Change::Table);
        }
    }

    async fn statement(&mut self, schema: &str, text: Option<&str>) -> Result<(), Trouble> {
        let words = text.and_then(|text| Dialect::Mysql.names(text));
        let first = words.as_ref().and_then(|words| words.first()).cloned();
        match first.as_deref() {
            Some("begin" | "commit" | "rollback" | "savepoint") => {}
            // `XA COMMIT` contains no table. The effect of a text that cannot be parsed is unknown.
            None | Some("xa") => {
                self.shared.all_changed();
                self.read_catalogue().await?;
            }
            Some(first) => {
                let words = words.unwrap_or_default();
                self.changed(schema, &words);
                if !["insert", "update", "delete", "replace", "load", "truncate"].contains(&first) {
                    self.read_catalogue().await?;
                    self.changed(schema, &words);
                }
            }
        }
        Ok(())
    }

    /// Reports a change of every table that one of these words may mean.
    fn changed(&self, schema: &str, words: &[String]) {
        let schema = schema.to_lowercase();
        let depends = self.shared.catalogue_cache().catalogue.depends_in(words, &schema);
        match depends {
            Depends::Nothing => {}
            Depends::On(units) => {
                for unit in units.iter() {
                    self.shared.table_changed(unit, Change::Table);
                }
            }
            Depends::Unknowable => self.shared.all_changed(),
        }
    }

    async fn read_catalogue(&mut self) -> Result<(), Trouble> {
        let listing = self.listing().await?;
        renew(self.shared, &listing);
        Ok(())
    }

    async fn listing(&mut self) -> Result<Listing, Trouble> {
        let mut listing = Listing {
            home: self.home.clone(),
            ..Listing::default()
        };
        for row in self.connection.rows(RELATIONS).await? {
            let is_external = value(&row, 3) == "1";
            let full = full_name(&row, 0);
            listing.relations.push(Relation {
                id: full.clone(),
                full,
                name: value(&row, 1),
                schema: Some(value(&row, 0)),
                quoted: String::new(),
                kind: match value(&row, 2).as_str() {
                    "BASE TABLE" | "SYSTEM VERSIONED" if !is_external => Kind::Table,
                    "VIEW" => Kind::View,
                    _ => Kind::Unknowable,
                },
                key: None,
                version: String::new(),
                watched: true,
            });
        }
        for row in self.connection.rows(ROUTINES).await? {
            listing.routines.push((value(&row, 0), value(&row, 1)));
        }
        for row in self.connection.rows(CASCADES).await? {
            listing.cascades.push((full_name(&row, 0), full_name(&row, 2)));
        }
        let views = self.connection.rows(VIEWS).await?;
        add_views(&views, &mut listing);
        Ok(listing)
    }
}

/// Adds the tables that each view reads, from its definition. A user without the right to read the
/// definition receives an empty one.
fn add_views(views: &[Row], listing: &mut Listing) {
    for row in views {
        let (view, definition) = (full_name(row, 0), value(row, 2));
        let words = Dialect::Mysql.names(&definition).unwrap_or_default();
        let contains = |name: &str| words.contains(&name.to_lowercase());
        // A definition contains the schema of every table.
        let is_used =
            |relation: &Relation| relation.schema.as_deref().is_none_or(contains) && contains(&relation.name);
        let relations = listing
            .relations
            .iter()
            .filter(|relation| is_used(relation) && relation.full != view);
        let routines = listing.routines.iter().filter(|(_, name)| contains(name));
        let used: Vec<String> = relations
            .map(|relation| relation.id.clone())
            .chain(routines.map(|(id, _)| id.clone()))
            .collect();
        let is_hidden = used.is_empty();
        listing
            .uses
            .extend(used.into_iter().map(|used| (view.clone(), used)));
        if let Some(relation) = listing
            .relations
            .iter_mut()
            .find(|relation| relation.full == view)
        {
            relation.version = definition;
            if is_hidden {
                relation.kind = Kind::Unknowable;
            }
        }
    }
}

/// `SCHEMA.NAME` from the columns `index` and `index + 1`.
fn full_name(row: &Row, index: usize) -> String {
    format!("{}.{}", value(row, index), value(row, index + 1))
}

fn no_heartbeat() -> Trouble {
    Trouble::Dead(format!(
        "no message or heartbeat of the server for {} s",
        SILENCE.as_secs()
    ))
}

/// File and position of the current end of the log.
async fn end_of_log(connection: &mut QueryConnection) -> Result<(String, u32), SessionEnd> {
    let rows = connection
        .rows("SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    if value(&row, 0) != "1" {
        return Err(UnsuitableError::NoLog.into());
    }
    if !value(&row, 1).eq_ignore_ascii_case("row") {
        return Err(UnsuitableError::Statements.into());
    }
    // The second statement is the name in MySQL from 8.4 on.
    let mut rows = connection.rows("SHOW MASTER STATUS").await;
    if matches!(&rows, Err(Trouble::Refused(refusal)) if refusal.number == 1064) {
        rows = connection.rows("SHOW BINARY LOG STATUS").await;
    }
    let rows = match rows {
        Err(Trouble::Refused(refusal)) => {
            return Err(UnsuitableError::EndRefused(refusal.message).into());
        }
        other => other?,
    };
    let row = rows.first().cloned().unwrap_or_default();
    let position = value(&row, 1).parse().map_err(|_| {
        SessionEnd::Trouble("the server does not report the end of its binary log".to_owned())
    })?;
    Ok((value(&row, 0), position))
}
