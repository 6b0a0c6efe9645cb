//! Changes of `PostgreSQL`: triggers that notify, and a connection that listens.
//!
//! A notification comes after its transaction has committed and its changes can be seen, once for a
//! table and transaction. A table gets its trigger before the first query that depends on it runs:
//! making it waits for those who are writing, so that no change falls in between.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use plimsoll_wire::sql::{Address, Event};
use tokio::sync::mpsc;

use super::super::catalogue::{Kind, Listing, Relation, TriggerTable};
use super::super::config::Triggers;
use super::super::keys::Name;
use super::super::{Shared, say};
use super::{Ask, Desk, First, SessionEnd, Trouble, renew, tell, value};

const CHANNEL: &str = "plimsoll_changes";
const TRIGGER: &str = "plimsoll_changed";
/// Between two looks at what DDL has done, of which nobody tells; they also show that the
/// connection is alive.
const LOOK: Duration = Duration::from_secs(10);
/// After a table could not get its trigger.
const TRY_AGAIN: Duration = Duration::from_secs(10);

const FUNCTION: &str = "
    CREATE SCHEMA IF NOT EXISTS plimsoll;
    CREATE OR REPLACE FUNCTION plimsoll.changed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
    BEGIN
      PERFORM pg_notify('plimsoll_changes', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
      RETURN NULL;
    END $$";

/// Another file or number of columns is a table made anew, another rule a view made anew.
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
/// Functions of extensions compute; those of the database's own users may read tables.
const ROUTINES: &str = "
    SELECT p.oid, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'plimsoll') AND n.nspname !~ '^pg_(toast|temp)'
      AND NOT EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')";

struct Watcher<'a> {
    shared: &'a Shared,
    desk: Desk,
    /// Units that could not be watched, and when.
    failed: HashMap<Name, Instant>,
}

/// One connection's life.
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
    async fn begin(shared: &'a Shared, address: &Address) -> Result<Self, SessionEnd> {
        let desk = Desk::open(address).await?;
        let mut watcher = Self {
            shared,
            desk,
            failed: HashMap::new(),
        };
        // Whoever waits to write behind our own wait for a table does so for a moment only.
        for sql in [
            "SET lock_timeout = '2s'; SET statement_timeout = '9s'",
            &format!("LISTEN {CHANNEL}"),
        ] {
            watcher.desk.rows(sql).await?;
        }
        watcher.look().await?;
        Ok(watcher)
    }

    async fn work(&mut self, asks: &mut mpsc::Receiver<Ask>) -> Result<(), Trouble> {
        let mut next_look = tokio::time::Instant::now() + LOOK;
        loop {
            self.tell_changes().await?;
            tokio::select! {
                event = self.desk.link.event() => match event? {
                    Event::Notified { payload, .. } => drop(self.desk.notified.insert(payload)),
                    Event::Failed(refusal) => return Err(Trouble::Dead(refusal.message)),
                    _ => {}
                },
                ask = asks.recv() => match ask {
                    None => return Ok(()),
                    Some(ask) => self.answer(ask).await?,
                },
                () = tokio::time::sleep_until(next_look) => {
                    self.look().await?;
                    next_look = tokio::time::Instant::now() + LOOK;
                }
            }
        }
    }

    /// A table that is not known has been renamed, or is new.
    async fn tell_changes(&mut self) -> Result<(), Trouble> {
        let mut unknown = false;
        for table in std::mem::take(&mut self.desk.notified) {
            unknown |= !self.shared.table_changed(&table);
        }
        if unknown {
            self.shared.all_changed();
            self.look().await?;
        }
        Ok(())
    }

    async fn answer(&mut self, ask: Ask) -> Result<(), Trouble> {
        match ask {
            Ask::Look(told) => {
                if !self.shared.known().is_recent() {
                    self.look().await?;
                }
                let _ = told.send(true);
            }
            Ask::Watch(units, told) => {
                let mut all = true;
                for unit in units {
                    all &= self.watch(&unit).await?;
                }
                let _ = told.send(all);
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), Trouble> {
        let mut listing = Listing::default();
        for row in self.desk.rows(RELATIONS).await? {
            listing.relations.push(Relation {
                id: value(&row, 0),
                full: value(&row, 1),
                name: value(&row, 2),
                schema: None, // there is a path of several to look in
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
        for row in self.desk.rows(EDGES).await? {
            let pair = (value(&row, 1), value(&row, 2));
            match value(&row, 0).as_str() {
                "part" => listing.parts.push(pair),
                _ => listing.uses.push(pair),
            }
        }
        for row in self.desk.rows(ROUTINES).await? {
            listing.routines.push((value(&row, 0), value(&row, 1)));
        }
        renew(self.shared, &listing);
        Ok(())
    }

    /// Has the changes of a unit told; false where that cannot be had.
    async fn watch(&mut self, unit: &Name) -> Result<bool, Trouble> {
        if self.shared.known().catalogue.is_watched(unit) {
            return Ok(true);
        }
        if self.failed.get(unit).is_some_and(|at| at.elapsed() < TRY_AGAIN) {
            return Ok(false);
        }
        let members = self.shared.known().catalogue.members(unit).to_vec();
        match self.install(&members).await {
            Ok(()) => {
                self.failed.remove(unit);
                self.shared.known().catalogue.watched(unit);
                Ok(true)
            }
            Err(Trouble::Refused(refusal)) => {
                let first = self.failed.insert(unit.clone(), Instant::now()).is_none();
                if first {
                    say(&format!(
                        "answers from {unit} may not be kept, as its changes cannot be seen: {}",
                        refusal.message
                    ));
                }
                // It may be another table by now.
                self.look().await?;
                Ok(false)
            }
            Err(broken) => Err(broken),
        }
    }

    async fn install(&mut self, members: &[TriggerTable]) -> Result<(), Trouble> {
        let unwatched: Vec<&TriggerTable> = members.iter().filter(|member| !member.watched).collect();
        if let (Triggers::Present, Some(member)) = (self.shared.config.triggers, unwatched.first()) {
            let why = format!("{} has no trigger {TRIGGER} (triggers: present)", member.quoted);
            return Err(refused(why));
        }
        if members.is_empty() {
            return Err(refused("it is not there any more".to_owned()));
        }
        let there = "SELECT to_regprocedure('plimsoll.changed()') IS NOT NULL";
        if self
            .desk
            .rows(there)
            .await?
            .first()
            .is_none_or(|row| value(row, 0) != "t")
        {
            self.desk.rows(FUNCTION).await?;
        }
        for TriggerTable { quoted, .. } in unwatched {
            let create = format!(
                "CREATE TRIGGER {TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {quoted} FOR EACH STATEMENT \
                 EXECUTE FUNCTION plimsoll.changed()"
            );
            // Another gateway may have been faster; a trigger that somebody has switched off is his
            // wish.
            match self.desk.rows(&create).await {
                Err(Trouble::Refused(refusal)) if refusal.code == "42710" => {
                    let on = format!(
                        "SELECT FROM pg_trigger WHERE tgrelid = '{}'::regclass AND tgname = '{TRIGGER}' AND tgenabled IN \
                         ('O', 'A')",
                        quoted.replace('\'', "''")
                    );
                    if self.desk.rows(&on).await?.is_empty() {
                        return Err(refused(format!(
                            "the trigger {TRIGGER} of {quoted} is switched off"
                        )));
                    }
                }
                other => drop(other?),
            }
            // Also for changes that come by logical replication. Only its owner may say so.
            let always = format!("ALTER TABLE {quoted} ENABLE ALWAYS TRIGGER {TRIGGER}");
            match self.desk.rows(&always).await {
                Ok(_) | Err(Trouble::Refused(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }
}

/// Our own no, as the server would say it.
fn refused(message: String) -> Trouble {
    Trouble::Refused(plimsoll_wire::sql::Refusal {
        code: String::new(),
        number: 0,
        message,
    })
}
