//! Detects changes of `PostgreSQL` with triggers that notify, and a connection that listens.
//!
//! A notification arrives after the commit of its transaction, when its changes are visible, once
//! per table and transaction. The trigger of a table is created before the first query that depends
//! on it runs. Creating it waits for transactions that write to the table, so no change is missed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use plimsoll_wire::sql::{Address, Event};
use tokio::sync::mpsc;

use super::super::catalogue::{Kind, Listing, Relation, TriggerTable};
use super::super::config::Triggers;
use super::super::keys::Name;
use super::super::{SharedState, log};
use super::{FirstResult, QueryConnection, SessionEnd, Trouble, WatchRequest, renew, report_first, value};

const CHANNEL: &str = "plimsoll_changes";
const TRIGGER: &str = "plimsoll_changed";
/// Time between two reads of the catalogue. They detect DDL, which is not notified, and a broken
/// connection.
const CATALOGUE_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which creating a trigger is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

const FUNCTION: &str = "
    CREATE SCHEMA IF NOT EXISTS plimsoll;
    CREATE OR REPLACE FUNCTION plimsoll.changed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
    BEGIN
      PERFORM pg_notify('plimsoll_changes', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
      RETURN NULL;
    END $$";

/// Tables and views. A table with another file or number of columns, or a view with another rule,
/// was created again.
const RELATIONS: &str = "
    SELECT c.oid, n.nspname || '.' || c.relname, c.relname, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
      c.relkind,
      CASE c.relkind WHEN 'v' THEN (SELECT max(r.xmin::text) FROM pg_rewrite r WHERE r.ev_class = c.oid)
        ELSE c.relnatts || ' ' || c.relfilenode END,
      EXISTS (SELECT FROM pg_trigger t
        WHERE t.tgrelid = c.oid AND t.tgname = 'plimsoll_changed' AND t.tgenabled IN ('O', 'A'))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";
const EDGES: &str = "
    SELECT 'part', inhrelid, inhparent FROM pg_inherits
    UNION SELECT 'use', r.ev_class, d.refobjid FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass)
      AND d.refobjid <> r.ev_class";
/// Functions that may read tables: those of users. Functions of extensions only compute.
const ROUTINES: &str = "
    SELECT p.oid, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'plimsoll') AND n.nspname !~ '^pg_(toast|temp)'
      AND NOT EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')";

struct Watcher<'a> {
    shared: &'a SharedState,
    connection: QueryConnection,
    /// Units whose trigger could not be created, and the time of the attempt.
    failed: HashMap<Name, Instant>,
}

/// Watches the database until the connection fails.
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
    match watcher.work(requests).await {
        Ok(()) => {
            watcher.connection.link.quit();
            SessionEnd::Over
        }
        Err(trouble) => trouble.into(),
    }
}

impl<'a> Watcher<'a> {
    async fn begin(shared: &'a SharedState, address: &Address) -> Result<Self, SessionEnd> {
        let connection = QueryConnection::open(address).await?;
        let mut watcher = Self {
            shared,
            connection,
            failed: HashMap::new(),
        };
        // The timeouts limit the time for which transactions wait behind the creation of a trigger.
        for sql in [
            "SET lock_timeout = '2s'; SET statement_timeout = '9s'",
            &format!("LISTEN {CHANNEL}"),
        ] {
            watcher.connection.rows(sql).await?;
        }
        watcher.read_catalogue().await?;
        Ok(watcher)
    }

    async fn work(&mut self, requests: &mut mpsc::Receiver<WatchRequest>) -> Result<(), Trouble> {
        let mut next_read = tokio::time::Instant::now() + CATALOGUE_INTERVAL;
        loop {
            self.process_notifications().await?;
            tokio::select! {
                event = self.connection.link.event() => match event? {
                    Event::Notified { payload, .. } => drop(self.connection.notified.insert(payload)),
                    Event::Failed(refusal) => return Err(Trouble::Dead(refusal.message)),
                    _ => {}
                },
                request = requests.recv() => match request {
                    None => return Ok(()),
                    Some(request) => self.answer(request).await?,
                },
                () = tokio::time::sleep_until(next_read) => {
                    self.read_catalogue().await?;
                    next_read = tokio::time::Instant::now() + CATALOGUE_INTERVAL;
                }
            }
        }
    }

    /// Reports the changes that were notified. An unknown table was renamed or created.
    async fn process_notifications(&mut self) -> Result<(), Trouble> {
        let mut unknown = false;
        for table in std::mem::take(&mut self.connection.notified) {
            unknown |= !self.shared.table_changed(&table);
        }
        if unknown {
            self.shared.all_changed();
            self.read_catalogue().await?;
        }
        Ok(())
    }

    async fn answer(&mut self, request: WatchRequest) -> Result<(), Trouble> {
        match request {
            WatchRequest::Look(reply) => {
                if !self.shared.catalogue_cache().is_recent() {
                    self.read_catalogue().await?;
                }
                let _ = reply.send(true);
            }
            WatchRequest::Watch(units, reply) => {
                let mut all = true;
                for unit in units {
                    all &= self.watch(&unit).await?;
                }
                let _ = reply.send(all);
            }
        }
        Ok(())
    }

    async fn read_catalogue(&mut self) -> Result<(), Trouble> {
        let mut listing = Listing::default();
        for row in self.connection.rows(RELATIONS).await? {
            listing.relations.push(Relation {
                id: value(&row, 0),
                full: value(&row, 1),
                name: value(&row, 2),
                schema: None, // the search path may contain several schemas
                quoted: value(&row, 3),
                kind: match value(&row, 4).as_str() {
                    "r" | "p" => Kind::Table,
                    "v" => Kind::View,
                    _ => Kind::Unknowable,
                },
                version: value(&row, 5),
                watched: value(&row, 6) == "t",
            });
        }
        for row in self.connection.rows(EDGES).await? {
            let pair = (value(&row, 1), value(&row, 2));
            match value(&row, 0).as_str() {
                "part" => listing.parts.push(pair),
                _ => listing.uses.push(pair),
            }
        }
        for row in self.connection.rows(ROUTINES).await? {
            listing.routines.push((value(&row, 0), value(&row, 1)));
        }
        renew(self.shared, &listing);
        Ok(())
    }

    /// Watches a unit. Returns false if that is not possible.
    async fn watch(&mut self, unit: &Name) -> Result<bool, Trouble> {
        if self.shared.catalogue_cache().catalogue.is_watched(unit) {
            return Ok(true);
        }
        if self
            .failed
            .get(unit)
            .is_some_and(|at| at.elapsed() < RETRY_INTERVAL)
        {
            return Ok(false);
        }
        let members = self.shared.catalogue_cache().catalogue.members(unit).to_vec();
        match self.install(&members).await {
            Ok(()) => {
                self.failed.remove(unit);
                self.shared.catalogue_cache().catalogue.set_watched(unit);
                Ok(true)
            }
            Err(Trouble::Refused(refusal)) => {
                let is_first = self.failed.insert(unit.clone(), Instant::now()).is_none();
                if is_first {
                    log(&format!(
                        "caches must not store responses from {unit}, because its changes cannot be detected: {}",
                        refusal.message
                    ));
                }
                // The table may have been replaced by another one.
                self.read_catalogue().await?;
                Ok(false)
            }
            Err(broken) => Err(broken),
        }
    }

    async fn install(&mut self, members: &[TriggerTable]) -> Result<(), Trouble> {
        let unwatched: Vec<&TriggerTable> = members.iter().filter(|member| !member.watched).collect();
        if let (Triggers::Present, Some(member)) = (self.shared.config.triggers, unwatched.first()) {
            let why = format!(
                "{} has no trigger {TRIGGER}: create it, or set triggers to install",
                member.quoted
            );
            return Err(refused(why));
        }
        if members.is_empty() {
            return Err(refused("it no longer exists".to_owned()));
        }
        let function_exists = "SELECT to_regprocedure('plimsoll.changed()') IS NOT NULL";
        if self
            .connection
            .rows(function_exists)
            .await?
            .first()
            .is_none_or(|row| value(row, 0) != "t")
        {
            self.connection.rows(FUNCTION).await?;
        }
        for TriggerTable { quoted, .. } in unwatched {
            let create = format!(
                "CREATE TRIGGER {TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {quoted} FOR EACH STATEMENT \
                 EXECUTE FUNCTION plimsoll.changed()"
            );
            // Another gateway may have created the trigger. If an administrator has disabled it, it
            // is not enabled.
            match self.connection.rows(&create).await {
                Err(Trouble::Refused(refusal)) if refusal.code == "42710" => {
                    let enabled = format!(
                        "SELECT FROM pg_trigger WHERE tgrelid = '{}'::regclass AND tgname = '{TRIGGER}' AND tgenabled IN \
                         ('O', 'A')",
                        quoted.replace('\'', "''")
                    );
                    if self.connection.rows(&enabled).await?.is_empty() {
                        return Err(refused(format!(
                            "the trigger {TRIGGER} of {quoted} is disabled: enable it"
                        )));
                    }
                }
                other => drop(other?),
            }
            // The trigger then also fires for changes by logical replication. Only the owner of the
            // table may set this.
            let always = format!("ALTER TABLE {quoted} ENABLE ALWAYS TRIGGER {TRIGGER}");
            match self.connection.rows(&always).await {
                Ok(_) | Err(Trouble::Refused(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }
}

/// An error of the watcher, in the form of an error of the server.
fn refused(message: String) -> Trouble {
    Trouble::Refused(plimsoll_wire::sql::Refusal {
        code: String::new(),
        number: 0,
        message,
    })
}
