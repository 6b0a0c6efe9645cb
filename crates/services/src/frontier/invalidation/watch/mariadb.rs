//! Changes of `MariaDB`: its binary log, read as a replica reads it, from the end of now.
//!
//! The log is a little ahead of the data: a transaction is written there before everybody can see
//! it, which is why keys have a time to settle. A server that has nothing to say sends a sign of
//! life each second.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, LogEvent};
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::super::database::{Dialect, Link};
use super::super::Shared;
use super::super::catalogue::{Depends, Kind, Listing, Relation};
use super::{Ask, Desk, First, Row, SessionEnd, Trouble, renew, tell, value};

/// Without anything from the server, signs of life included.
const SILENCE: Duration = Duration::from_secs(10);
/// Nothing is asked on the other connection for so long that the server would close it.
const LOOK: Duration = Duration::from_secs(600);

/// Engines whose tables change elsewhere.
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
/// The server changes these tables by itself, and does not write that into its log.
const CASCADES: &str = "
    SELECT DISTINCT r.unique_constraint_schema, r.referenced_table_name, r.constraint_schema, r.table_name
    FROM information_schema.referential_constraints r
    WHERE r.delete_rule IN ('CASCADE', 'SET NULL') OR r.update_rule IN ('CASCADE', 'SET NULL')";

struct Watcher<'a> {
    shared: &'a Shared,
    desk: Desk,
    log: Link,
    /// The database of the gateway's sessions.
    home: String,
    /// Tables of the transaction that is being told.
    tables: BTreeSet<String>,
}

/// One life of the two connections.
pub(super) async fn session(
    shared: &Shared,
    address: &Address,
    asks: &mut mpsc::Receiver<Ask>,
    first: &mut First,
) -> SessionEnd {
    let mut watcher = match Watcher::begin(shared, address).await {
        Ok(watcher) => watcher,
        Err(ended) => return ended,
    };
    shared.begins();
    tell(first, Ok(()));
    match watcher.work(asks).await {
        Ok(()) => {
            watcher.desk.link.quit();
            SessionEnd::Over
        }
        Err(trouble) => trouble.into(),
    }
}

impl<'a> Watcher<'a> {
    /// The place in the log first, then the catalogue: what happens in between is told.
    async fn begin(shared: &'a Shared, address: &Address) -> Result<Self, SessionEnd> {
        let mut desk = Desk::open(address).await?;
        let (file, position) = place(&mut desk).await?;
        let mut log = match Desk::open(address).await {
            Ok(desk) => desk,
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
        // No other replica may have this number; those that people give are small.
        let replica = rand::rng().random_range(1 << 31..u32::MAX);
        log.follow_log(replica, &file, position);
        let mut watcher = Self {
            shared,
            desk,
            log,
            home: address.login.database.clone(),
            tables: BTreeSet::new(),
        };
        watcher.look().await?;
        match timeout(SILENCE, watcher.log.event()).await {
            Ok(Ok(Event::Log(event))) => watcher.take(event).await?,
            Ok(Ok(Event::Failed(refusal))) => {
                return Err(SessionEnd::Unfit(format!(
                    "the server does not send its binary log (the user needs the right REPLICATION SLAVE): {}",
                    refusal.message
                )));
            }
            Ok(Ok(_)) => return Err(SessionEnd::Trouble("the binary log does not begin".to_owned())),
            Ok(Err(trouble)) => return Err(trouble.into()),
            Err(_) => return Err(silent().into()),
        }
        Ok(watcher)
    }

    async fn work(&mut self, asks: &mut mpsc::Receiver<Ask>) -> Result<(), Trouble> {
        let mut next_look = tokio::time::Instant::now() + LOOK;
        let mut deadline = tokio::time::Instant::now() + SILENCE;
        loop {
            tokio::select! {
                event = self.log.event() => {
                    match event? {
                        Event::Log(event) => self.take(event).await?,
                        Event::Failed(refusal) => return Err(Trouble::Dead(refusal.message)),
                        _ => {}
                    }
                    deadline = tokio::time::Instant::now() + SILENCE;
                }
                ask = asks.recv() => match ask {
                    None => return Ok(()),
                    Some(ask) => self.answer(ask).await?,
                },
                () = tokio::time::sleep_until(next_look) => {
                    self.look().await?;
                    next_look = tokio::time::Instant::now() + LOOK;
                }
                () = tokio::time::sleep_until(deadline) => return Err(silent()),
            }
        }
    }

    async fn answer(&mut self, ask: Ask) -> Result<(), Trouble> {
        match ask {
            Ask::Look(told) => {
                if !self.shared.known().is_recent() {
                    self.look().await?;
                }
                let _ = told.send(true);
            }
            // All tables are in the log.
            Ask::Watch(_, told) => drop(told.send(true)),
        }
        Ok(())
    }

    async fn take(&mut self, event: LogEvent) -> Result<(), Trouble> {
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

    /// What is not in the catalogue is read by no query: the log has every change of the catalogue
    /// too.
    fn commit(&mut self) {
        for table in std::mem::take(&mut self.tables) {
            self.shared.table_changed(&table);
        }
    }

    async fn statement(&mut self, schema: &str, text: Option<&str>) -> Result<(), Trouble> {
        let words = text.and_then(|text| Dialect::Mysql.names(text));
        let first = words.as_ref().and_then(|words| words.first()).cloned();
        match first.as_deref() {
            Some("begin" | "commit" | "rollback" | "savepoint") => {}
            // `XA COMMIT` names no table; and there is nothing to know of a text that cannot be
            // read.
            None | Some("xa") => {
                self.shared.all_changed();
                self.look().await?;
            }
            Some(first) => {
                let words = words.unwrap_or_default();
                self.changed(schema, &words);
                if !["insert", "update", "delete", "replace", "load", "truncate"].contains(&first) {
                    self.look().await?;
                    self.changed(schema, &words);
                }
            }
        }
        Ok(())
    }

    /// Everything that these words could mean has changed.
    fn changed(&self, schema: &str, words: &[String]) {
        let schema = schema.to_lowercase();
        let depends = self.shared.known().catalogue.depends_in(words, &schema);
        match depends {
            Depends::Nothing => {}
            Depends::On(units) => {
                for unit in units.iter() {
                    self.shared.table_changed(unit);
                }
            }
            Depends::Unknowable => self.shared.all_changed(),
        }
    }

    async fn look(&mut self) -> Result<(), Trouble> {
        let listing = self.listing().await?;
        renew(self.shared, &listing);
        Ok(())
    }

    async fn listing(&mut self) -> Result<Listing, Trouble> {
        let mut listing = Listing {
            home: self.home.clone(),
            ..Listing::default()
        };
        for row in self.desk.rows(RELATIONS).await? {
            let far = value(&row, 3) == "1";
            let full = full(&row, 0);
            listing.relations.push(Relation {
                id: full.clone(),
                full,
                name: value(&row, 1),
                schema: Some(value(&row, 0)),
                quoted: String::new(),
                kind: match value(&row, 2).as_str() {
                    "BASE TABLE" | "SYSTEM VERSIONED" if !far => Kind::Table,
                    "VIEW" => Kind::View,
                    _ => Kind::Unknowable,
                },
                version: String::new(),
                watched: true,
            });
        }
        for row in self.desk.rows(ROUTINES).await? {
            listing.routines.push((value(&row, 0), value(&row, 1)));
        }
        for row in self.desk.rows(CASCADES).await? {
            listing.cascades.push((full(&row, 0), full(&row, 2)));
        }
        let views = self.desk.rows(VIEWS).await?;
        add_views(&views, &mut listing);
        Ok(listing)
    }
}

/// What a view reads is in its definition, which not everybody may see.
fn add_views(views: &[Row], listing: &mut Listing) {
    for row in views {
        let (view, definition) = (full(row, 0), value(row, 2));
        let words = Dialect::Mysql.names(&definition).unwrap_or_default();
        let means = |name: &str| words.contains(&name.to_lowercase());
        // A definition names every schema.
        let in_it = |one: &Relation| one.schema.as_deref().is_none_or(means) && means(&one.name);
        let used = listing
            .relations
            .iter()
            .filter(|one| in_it(one) && one.full != view);
        let called = listing.routines.iter().filter(|(_, name)| means(name));
        let used: Vec<String> = used
            .map(|one| one.id.clone())
            .chain(called.map(|(id, _)| id.clone()))
            .collect();
        let hidden = used.is_empty();
        listing
            .uses
            .extend(used.into_iter().map(|used| (view.clone(), used)));
        if let Some(relation) = listing.relations.iter_mut().find(|one| one.full == view) {
            relation.version = definition;
            if hidden {
                relation.kind = Kind::Unknowable;
            }
        }
    }
}

fn full(row: &Row, at: usize) -> String {
    format!("{}.{}", value(row, at), value(row, at + 1))
}

fn silent() -> Trouble {
    Trouble::Dead(format!("no sign of life for {} s", SILENCE.as_secs()))
}

/// Where the log ends now.
async fn place(desk: &mut Desk) -> Result<(String, u32), SessionEnd> {
    let rows = desk
        .rows("SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    if value(&row, 0) != "1" {
        return Err(SessionEnd::Unfit(
            "the server writes no binary log: start it with --log-bin --binlog-format=ROW --server-id=1"
                .to_owned(),
        ));
    }
    if !value(&row, 1).eq_ignore_ascii_case("row") {
        return Err(SessionEnd::Unfit(
            "the server's binary log has statements, which do not name every table they change: start it with \
             --binlog-format=ROW"
                .to_owned(),
        ));
    }
    // The second is its name in MySQL from 8.4 on.
    let mut rows = desk.rows("SHOW MASTER STATUS").await;
    if matches!(&rows, Err(Trouble::Refused(refusal)) if refusal.number == 1064) {
        rows = desk.rows("SHOW BINARY LOG STATUS").await;
    }
    let rows = match rows {
        Err(Trouble::Refused(refusal)) => {
            return Err(SessionEnd::Unfit(format!(
                "the server does not say where its binary log ends (the user needs the right BINLOG MONITOR, or REPLICATION \
                 CLIENT): {}",
                refusal.message
            )));
        }
        other => other?,
    };
    let row = rows.first().cloned().unwrap_or_default();
    let position = value(&row, 1)
        .parse()
        .map_err(|_| SessionEnd::Trouble("the server does not say where its binary log ends".to_owned()))?;
    Ok((value(&row, 0), position))
}
