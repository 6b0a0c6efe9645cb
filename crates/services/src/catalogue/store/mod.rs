//! The operations of the catalogue on its tables.
//!
//! Permissions are those of POSIX, with ACLs ([`acl`]). The root of the catalogue, user 0, has no
//! client. An entry that is looked up by its GUID or by a replica is found without permissions of
//! the directories above it.

mod acl;
mod entries;
mod groups;
mod links;
mod node;
mod paths;
mod permissions;
mod procedures;
mod walk;
mod way;

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use plimsoll_wire::catalogue::{DirectoryEntry, Key, Reply, Request, Status};

use self::groups::Numbers;
use self::node::{Node, READ, node_columns};
use self::way::LastLink;
use super::config::Logic;
use super::database::{Database, DatabaseError, Value, WriteLock};
use super::tally::StoreTally;
use crate::ServiceError;

pub(super) use self::groups::User;
pub(super) use self::procedures::create_functions;

/// Maximum number of times that a change is carried out, if deadlocks undo it.
const MAX_ATTEMPTS: u32 = 5;

/// What all threads share about the tables.
#[derive(Default)]
pub(super) struct Tables {
    lock: WriteLock,
    /// Number of the next entry; 0: not known yet. The service is the only one that numbers
    /// entries, so that no row of the database is a bottleneck.
    next_file: AtomicI64,
    /// Numbers of users, by their subjects.
    users: Numbers,
    /// Numbers of groups, by their names.
    groups: Numbers,
    logic: Logic,
    pub(super) tally: StoreTally,
}

impl Tables {
    pub(super) fn new(logic: Logic) -> Self {
        Self {
            logic,
            ..Self::default()
        }
    }
}

/// A thread's session with the database.
pub(super) struct Store<'a> {
    database: Database,
    tables: &'a Tables,
    root: Node,
    in_transaction: bool,
}

impl<'a> Store<'a> {
    /// Opens a session. The tables must exist.
    pub(super) fn open(database: &Path, tables: &'a Tables) -> Result<Self, DatabaseError> {
        let mut database = Database::open(database, &tables.lock)?;
        let sql = concat!(
            "SELECT ",
            node_columns!("m"),
            " FROM Cns_file_metadata m WHERE m.fileid = ?1"
        );
        let rows = database.query(sql, &[Value::Int(1)])?;
        let root = rows.first().map(Node::of).ok_or_else(|| ServiceError::Server {
            what: "the database has no catalogue".into(),
            why: "load a data set of kind catalogue".into(),
        })?;
        Ok(Self {
            database,
            tables,
            root,
            in_transaction: false,
        })
    }

    /// Undoes the transaction of a session that has ended.
    pub(super) fn end_session(&mut self) -> Result<(), DatabaseError> {
        if std::mem::take(&mut self.in_transaction) {
            self.database.roll_back()?;
        }
        Ok(())
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Carries out a request of a user. Requests for sessions are those of the connection.
    ///
    /// # Errors
    /// The database failed: this session with it cannot be used any more.
    pub(super) fn answer(&mut self, user: &User, request: &Request) -> Result<Reply, DatabaseError> {
        if self.tables.logic == Logic::Database
            && let Some(reply) = self.call_function(user, request)?
        {
            return Ok(reply);
        }
        match request {
            Request::StartSession { .. } | Request::EndSession => Ok(result(Status::OK)),
            Request::StartTransaction if self.in_transaction => Ok(result(Status::INVALID)),
            Request::StartTransaction => {
                self.database.begin()?;
                self.in_transaction = true;
                Ok(result(Status::OK))
            }
            Request::EndTransaction | Request::AbortTransaction if !self.in_transaction => {
                Ok(result(Status::INVALID))
            }
            Request::EndTransaction => {
                self.in_transaction = false;
                self.database.commit()?;
                Ok(result(Status::OK))
            }
            Request::AbortTransaction => {
                self.in_transaction = false;
                self.database.roll_back()?;
                Ok(result(Status::OK))
            }
            Request::Stat(key) => {
                let nodes = self.nodes(user, std::slice::from_ref(key), LastLink::Follow)?;
                Ok(match nodes.into_iter().next() {
                    Some(Ok(node)) => Reply::Entries(vec![Some(node.found(Vec::new()))]),
                    Some(Err(status)) => result(status),
                    None => result(Status::NO_ENTRY),
                })
            }
            Request::ListReplicas(key) => self.list_replicas(user, key),
            Request::Lookup(keys) => self.lookup(user, keys),
            Request::List { path, after, max } => self.list(user, path, after, *max),
            Request::ReadLink { path } => self.read_link(user, path),
            Request::GetAcl { path } => self.get_acl(user, path),
            Request::Create { .. }
            | Request::MakeDirectory { .. }
            | Request::SetMode { .. }
            | Request::SetAcl { .. }
            | Request::MakeLink { .. }
            | Request::AddReplica { .. }
            | Request::DeleteReplica { .. }
            | Request::Register(_)
            | Request::Delete(_) => self.change(user, request),
        }
    }

    /// Carries out a request that changes the catalogue: in the transaction of the session, or in
    /// one of its own.
    fn change(&mut self, user: &User, request: &Request) -> Result<Reply, DatabaseError> {
        self.repeat(|store| {
            if store.in_transaction {
                return store.write(user, request);
            }
            store.database.begin()?;
            let reply = store.write(user, request)?;
            match &reply {
                Reply::Result(status, _) if *status != Status::OK => store.database.roll_back()?,
                _ => store.database.commit()?,
            }
            Ok(reply)
        })
    }

    /// Carries out a transaction, and again if a deadlock has undone it. The requests of a
    /// transaction of the client are not repeated: those before have been undone, too.
    fn repeat<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let mut attempts = 0;
        loop {
            let done = work(self);
            if !matches!(done, Err(DatabaseError::Deadlock)) {
                return done;
            }
            self.tables.tally.deadlocks.fetch_add(1, Ordering::Relaxed);
            attempts += 1;
            if self.in_transaction || attempts == MAX_ATTEMPTS {
                return done;
            }
            self.database.roll_back()?;
        }
    }

    /// The list of the names of a directory after a name.
    fn list(&mut self, user: &User, path: &str, after: &str, max: u16) -> Result<Reply, DatabaseError> {
        let key = Key::Path(path.to_owned());
        let node = match self.nodes(user, &[key], LastLink::Follow)?.into_iter().next() {
            Some(Ok(node)) => node,
            Some(Err(status)) => return Ok(result(status)),
            None => return Ok(result(Status::NO_ENTRY)),
        };
        if !node.is_directory() {
            return Ok(result(Status::NOT_DIRECTORY));
        }
        if !node.permits(user, READ) {
            return Ok(result(Status::FORBIDDEN));
        }
        // One more shows whether this is the last page.
        let rows = self.database.query(
            "SELECT name, guid, filemode, filesize FROM Cns_file_metadata \
             WHERE parent_fileid = ?1 AND name > ?2 ORDER BY name LIMIT ?3",
            &[
                Value::Int(node.file),
                Value::Text(after),
                Value::Int(i64::from(max) + 1),
            ],
        )?;
        let entries = rows.iter().take(usize::from(max)).map(|row| DirectoryEntry {
            name: row.text(0),
            guid: row.text(1),
            mode: row.int(2) as u32,
            size: row.int(3) as u64,
        });
        Ok(Reply::Directory {
            entries: entries.collect(),
            is_last: rows.len() <= usize::from(max),
        })
    }

    /// Reserves numbers for `count` entries, and returns the first.
    fn new_files(&mut self, count: usize) -> Result<i64, DatabaseError> {
        if self.tables.next_file.load(Ordering::Relaxed) == 0 {
            let rows = self
                .database
                .query("SELECT max(fileid) FROM Cns_file_metadata", &[])?;
            let next = rows.first().map_or(0, |row| row.int(0)) + 1;
            // Another thread may have set it meanwhile, and used numbers.
            let _ = self
                .tables
                .next_file
                .compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(self.tables.next_file.fetch_add(count as i64, Ordering::Relaxed))
    }
}

pub(super) fn result(status: Status) -> Reply {
    Reply::Result(status, status.text().to_owned())
}
