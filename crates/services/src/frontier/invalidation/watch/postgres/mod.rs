//! Detects changes of `PostgreSQL` with triggers that notify, and a connection that listens; or by
//! logical decoding ([`decoding`]).
//!
//! A notification arrives after the commit of its transaction, when its changes are visible, once
//! per table and transaction. The trigger of a table is created before the first query that depends
//! on it runs. Creating it waits for transactions that write to the table, so no change is missed.

mod decoded;
mod decoding;
mod listing;
mod triggers;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use plimsoll_wire::sql::{Address, Event};
use tokio::sync::mpsc;

use super::super::catalogue::TriggerTable;
use super::super::config::{Detection, Triggers};
use super::super::dependents::Change;
use super::super::keys::Name;
use super::super::{SharedState, log};
use super::{FirstResult, QueryConnection, SessionEnd, Trouble, WatchRequest, renew, report_first, value};
use triggers::Trigger;

/// Time between two reads of the catalogue. They detect DDL, which is not notified, and a broken
/// connection.
const CATALOGUE_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which creating a trigger is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

struct Watcher<'a> {
    shared: &'a SharedState,
    connection: QueryConnection,
    /// Units whose trigger could not be created, and the time of the attempt.
    failed: HashMap<Name, Instant>,
}

/// Watches the database until a connection fails.
pub(super) async fn session(
    shared: &SharedState,
    address: &Address,
    requests: &mut mpsc::Receiver<WatchRequest>,
    first: &mut FirstResult,
) -> SessionEnd {
    match shared.config.detection {
        Detection::Triggers => listen(shared, address, requests, first).await,
        Detection::LogicalDecoding => decoding::session(shared, address, requests, first).await,
    }
}

/// Watches the database with triggers until the connection fails.
async fn listen(
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
            &format!("LISTEN {}", triggers::channel(shared.config.scope)),
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
        let mut changes: BTreeMap<String, Change> = BTreeMap::new();
        for payload in std::mem::take(&mut self.connection.notified) {
            let (table, change) = triggers::read(self.shared.config.scope, &payload);
            match changes.get_mut(table) {
                Some(earlier) => earlier.add(change),
                None => drop(changes.insert(table.to_owned(), change)),
            }
        }
        let mut unknown = false;
        for (table, change) in changes {
            unknown |= !self.shared.table_changed(&table, change);
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
        let listing = listing::read(&mut self.connection, &self.shared.config).await?;
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
        let scope = self.shared.config.scope;
        let unwatched: Vec<&TriggerTable> = members.iter().filter(|member| !member.watched).collect();
        if let (Triggers::Present, Some(member)) = (self.shared.config.triggers, unwatched.first()) {
            let names: Vec<String> = triggers::triggers(scope, member)
                .into_iter()
                .map(|trigger| trigger.name)
                .collect();
            let why = format!(
                "{} has no trigger {}: create it, or set triggers to install",
                member.quoted,
                names.join(", ")
            );
            return Err(refused(why));
        }
        if members.is_empty() {
            return Err(refused("it no longer exists".to_owned()));
        }
        let (signature, create) = triggers::function(scope);
        let exists = format!("SELECT to_regprocedure('{signature}') IS NOT NULL");
        let rows = self.connection.rows(&exists).await?;
        if rows.first().is_none_or(|row| value(row, 0) != "t") {
            self.connection.rows(create).await?;
        }
        for member in unwatched {
            for trigger in triggers::triggers(scope, member) {
                self.create(&member.quoted, &trigger).await?;
            }
        }
        Ok(())
    }

    /// Creates a trigger of a table. Another gateway may have created it. If an administrator has
    /// disabled it, it is not enabled.
    async fn create(&mut self, quoted: &str, Trigger { name, create }: &Trigger) -> Result<(), Trouble> {
        match self.connection.rows(create).await {
            Err(Trouble::Refused(refusal)) if refusal.code == "42710" => {
                let enabled = format!(
                    "SELECT FROM pg_trigger WHERE tgrelid = '{}'::regclass AND tgname = '{name}' AND tgenabled IN \
                     ('O', 'A')",
                    quoted.replace('\'', "''")
                );
                if self.connection.rows(&enabled).await?.is_empty() {
                    return Err(refused(format!(
                        "the trigger {name} of {quoted} is disabled: enable it"
                    )));
                }
            }
            other => drop(other?),
        }
        // The trigger then also fires with `session_replication_role = replica`, and for TRUNCATE
        // and the initial copy of logical replication. For other replicated changes, PostgreSQL
        // executes no triggers of statements. Only the owner of the table may set this.
        let always = format!("ALTER TABLE {quoted} ENABLE ALWAYS TRIGGER {name}");
        match self.connection.rows(&always).await {
            Ok(_) | Err(Trouble::Refused(_)) => Ok(()),
            Err(broken) => Err(broken),
        }
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
