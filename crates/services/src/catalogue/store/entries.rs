//! Reads and changes of entries and their replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_wire::catalogue::{Key, NewEntry, Reply, Request, Status};

use super::acl::inherited;
use super::groups::User;
use super::node::{Node, SEARCH, WRITE};
use super::paths::names;
use super::walk::Reading;
use super::way::LastLink;
use super::{Store, result};
use crate::catalogue::database::{Copy, DatabaseError, Keyed, Row, Value};
use crate::data::catalogue::{DIRECTORY, FILE, LINK};

/// Length of a GUID, bytes.
const GUID: usize = 36;
/// Maximum length of the name of a replica, bytes.
pub(super) const MAX_REPLICA: usize = 255;
/// Bits of the permissions in `st_mode`.
pub(super) const PERMISSIONS: u32 = 0o7777;

const REPLICAS: Keyed = Keyed {
    one: "SELECT fileid, sfn FROM Cns_file_replica WHERE fileid = ?1 ORDER BY sfn",
    many: [
        "SELECT r.fileid, r.sfn FROM (VALUES ",
        ") AS k(f) JOIN Cns_file_replica r ON r.fileid = k.f ORDER BY r.fileid, r.sfn",
    ],
};
const DELETE_REPLICAS: Keyed = Keyed {
    one: "DELETE FROM Cns_file_replica WHERE fileid = ?1",
    many: ["DELETE FROM Cns_file_replica WHERE fileid IN (VALUES ", ")"],
};
const DELETE_ENTRIES: Keyed = Keyed {
    one: "DELETE FROM Cns_file_metadata WHERE fileid = ?1 RETURNING fileid",
    many: [
        "DELETE FROM Cns_file_metadata WHERE fileid IN (VALUES ",
        ") RETURNING fileid",
    ],
};
/// Values: number, directory, GUID, name, mode, owner, size, time, group, ACL.
const INSERT_ENTRIES: Keyed = Keyed {
    one: "INSERT INTO Cns_file_metadata (fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, \
          mtime, ctime, gid, acl, nlink, fileclass, status) \
          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8, ?9, nullif(?10, ''), 1, 0, '-') \
          ON CONFLICT DO NOTHING RETURNING fileid",
    many: [
        "INSERT INTO Cns_file_metadata (fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, \
         mtime, ctime, gid, acl, nlink, fileclass, status) \
         SELECT k.f, k.p, k.g, k.n, k.m, k.o, k.s, k.t, k.t, k.t, k.i, nullif(k.a, ''), 1, 0, '-' FROM (VALUES ",
        ") AS k(f, p, g, n, m, o, s, t, i, a) ON CONFLICT DO NOTHING RETURNING fileid",
    ],
};
/// Values: number, time, host, name.
const INSERT_REPLICAS: Keyed = Keyed {
    one: "INSERT INTO Cns_file_replica (fileid, nbaccesses, ctime, atime, ptime, ltime, r_type, status, f_type, \
          poolname, host, fs, sfn) VALUES (?1, 0, ?2, ?2, 0, 0, 'P', '-', 'P', '', ?3, '', ?4) \
          ON CONFLICT DO NOTHING RETURNING fileid",
    many: [
        "INSERT INTO Cns_file_replica (fileid, nbaccesses, ctime, atime, ptime, ltime, r_type, status, f_type, \
         poolname, host, fs, sfn) \
         SELECT k.f, 0, k.t, k.t, 0, 0, 'P', '-', 'P', '', k.h, '', k.s FROM (VALUES ",
        ") AS k(f, t, h, s) ON CONFLICT DO NOTHING RETURNING fileid",
    ],
};

/// The result and the number of each entry, and those that may be inserted.
type NewRows<'e> = (Vec<(Status, i64)>, Vec<NewRow<'e>>);

/// An entry that may be inserted.
struct NewRow<'e> {
    entry: &'e NewEntry,
    name: &'e str,
    file: i64,
    directory: i64,
    mode: u32,
    owner: i64,
    group: i64,
    acl: String,
    time: i64,
}

impl NewRow<'_> {
    fn values(&self) -> Vec<Value<'_>> {
        vec![
            Value::Int(self.file),
            Value::Int(self.directory),
            Value::Text(&self.entry.guid),
            Value::Text(self.name),
            Value::Int(i64::from(self.mode)),
            Value::Int(self.owner),
            Value::Int(i64::try_from(self.entry.size).unwrap_or(i64::MAX)),
            Value::Int(self.time),
            Value::Int(self.group),
            Value::Text(&self.acl),
        ]
    }
}

/// The same rows without the check that they are new: without an ACL, and with one each. Values: as
/// above.
const COPY_ENTRIES: [Copy; 2] = [
    Copy {
        table: "Cns_file_metadata",
        columns: "fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, mtime, ctime, gid, nlink, \
                  fileclass, status",
        places: &[0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8],
        constants: "\t1\t0\t-",
    },
    Copy {
        table: "Cns_file_metadata",
        columns: "fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, mtime, ctime, gid, acl, \
                  nlink, fileclass, status",
        places: &[0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 9],
        constants: "\t1\t0\t-",
    },
];
const COPY_REPLICAS: Copy = Copy {
    table: "Cns_file_replica",
    columns: "fileid, ctime, atime, host, sfn, nbaccesses, ptime, ltime, r_type, status, f_type, poolname, fs",
    places: &[0, 1, 1, 2, 3],
    constants: "\t0\t0\t0\tP\t-\tP\t\t",
};

impl Store<'_> {
    pub(super) fn lookup(&mut self, user: &User, keys: &[Key]) -> Result<Reply, DatabaseError> {
        if let [key] = keys {
            let found = self.find(user, key, (Reading::Replicas, LastLink::Follow))?;
            let entry = found.ok().map(|found| found.node.found(found.replicas));
            return Ok(Reply::Entries(vec![entry]));
        }
        let nodes = self.nodes(user, keys, LastLink::Follow)?;
        let mut replicas = self.replicas(nodes.iter().flatten())?;
        // A key may occur twice, so that replicas are not moved.
        let entries = nodes.into_iter().map(|node| {
            let node = node.ok()?;
            let names = replicas.get_mut(&node.file).cloned().unwrap_or_default();
            Some(node.found(names))
        });
        Ok(Reply::Entries(entries.collect()))
    }

    pub(super) fn list_replicas(&mut self, user: &User, key: &Key) -> Result<Reply, DatabaseError> {
        Ok(
            match self.find(user, key, (Reading::Replicas, LastLink::Follow))? {
                Ok(found) => Reply::Replicas(found.replicas),
                Err(status) => result(status),
            },
        )
    }

    fn replicas<'n>(
        &mut self,
        nodes: impl Iterator<Item = &'n Node>,
    ) -> Result<BTreeMap<i64, Vec<String>>, DatabaseError> {
        let files: BTreeSet<i64> = nodes.map(|node| node.file).collect();
        let keys: Vec<_> = files.into_iter().map(|file| vec![Value::Int(file)]).collect();
        let mut replicas: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for row in self.database.query_keys(&REPLICAS, &keys)? {
            replicas.entry(row.int(0)).or_default().push(row.text(1));
        }
        Ok(replicas)
    }

    /// Carries out a change, within a transaction.
    pub(super) fn write(&mut self, user: &User, request: &Request) -> Result<Reply, DatabaseError> {
        match request {
            Request::Register(entries) => self.register(user, entries).map(Reply::Results),
            Request::Create {
                path,
                guid,
                mode,
                size,
            } => {
                let entry = NewEntry {
                    path: path.clone(),
                    guid: guid.clone(),
                    size: *size,
                    mode: *mode,
                    replica: String::new(),
                };
                self.insert(user, &entry, FILE).map(|(status, _)| result(status))
            }
            Request::MakeDirectory { path, mode } => {
                let entry = NewEntry {
                    path: path.clone(),
                    guid: String::new(),
                    size: 0,
                    mode: *mode,
                    replica: String::new(),
                };
                self.insert(user, &entry, DIRECTORY)
                    .map(|(status, _)| result(status))
            }
            Request::SetMode { path, mode } => self.set_mode(user, path, *mode),
            Request::SetAcl { path, acl } => self.set_acl(user, path, acl),
            Request::MakeLink { path, target } => self.make_link(user, path, target),
            Request::AddReplica { guid, replica } => self.add_replica(user, guid, replica),
            Request::DeleteReplica { replica } => self.delete_replica(user, replica),
            Request::Delete(keys) => self.delete(user, keys).map(Reply::Results),
            _ => Ok(result(Status::INVALID)),
        }
    }

    /// Registers entries with their replicas.
    fn register(&mut self, user: &User, entries: &[NewEntry]) -> Result<Vec<Status>, DatabaseError> {
        let is_valid = |entry: &NewEntry| (1..=MAX_REPLICA).contains(&entry.replica.len());
        let valid: Vec<&NewEntry> = entries.iter().filter(|entry| is_valid(entry)).collect();
        let split: Vec<_> = valid.iter().map(|entry| split(entry, FILE)).collect();
        let (mut inserted, new) = self.new_rows(user, &valid, &split, FILE)?;
        let keys: Vec<_> = new.iter().map(NewRow::values).collect();
        let now = now();
        let rows = |inserted: &[(Status, i64)]| -> Vec<_> {
            let done = |((status, _), _): &((Status, i64), &&NewEntry)| *status == Status::OK;
            let pairs = inserted.iter().copied().zip(&valid).filter(done);
            pairs
                .map(|((_, file), entry)| replica_row(file, now, &entry.replica))
                .collect()
        };
        // In most requests, all entries are new.
        let replicas = rows(&inserted);
        if !self.copy_rows(&new, &keys, &replicas)? {
            let new = self.database.query_keys(&INSERT_ENTRIES, &keys)?;
            note_existing(&mut inserted, &new);
            let replicas = rows(&inserted);
            let new = self.database.query_keys(&INSERT_REPLICAS, &replicas)?;
            if new.len() < replicas.len() {
                // The entries of replicas that exist are removed again.
                let before = inserted.clone();
                note_existing(&mut inserted, &new);
                let removed: Vec<_> = before
                    .iter()
                    .zip(&inserted)
                    .filter(|(before, after)| before.0 != after.0)
                    .map(|((_, file), _)| vec![Value::Int(*file)])
                    .collect();
                self.database.query_keys(&DELETE_ENTRIES, &removed)?;
            }
        }
        let mut statuses = inserted.into_iter().map(|(status, _)| status);
        let status = |entry: &NewEntry| {
            if is_valid(entry) {
                statuses.next().unwrap_or(Status::INTERNAL)
            } else {
                Status::INVALID
            }
        };
        Ok(entries.iter().map(status).collect())
    }

    /// Inserts several rows by `COPY`, if all or none of them have an ACL. False: none was
    /// inserted.
    fn copy_rows(
        &mut self,
        new: &[NewRow<'_>],
        keys: &[Vec<Value<'_>>],
        replicas: &[Vec<Value<'_>>],
    ) -> Result<bool, DatabaseError> {
        let with_acl = new.iter().filter(|row| !row.acl.is_empty()).count();
        if new.len() < 2 || with_acl > 0 && with_acl < new.len() {
            return Ok(false);
        }
        let entries = &COPY_ENTRIES[usize::from(with_acl > 0)];
        self.database.copy(&[(entries, keys), (&COPY_REPLICAS, replicas)])
    }

    /// Inserts one entry, directory or link, and returns its number.
    pub(super) fn insert(
        &mut self,
        user: &User,
        entry: &NewEntry,
        kind: u32,
    ) -> Result<(Status, i64), DatabaseError> {
        let split = [split(entry, kind)];
        let (mut inserted, new) = self.new_rows(user, &[entry], &split, kind)?;
        let keys: Vec<_> = new.iter().map(NewRow::values).collect();
        let rows = if kind == FILE {
            self.database.query_keys(&INSERT_ENTRIES, &keys)?
        } else {
            self.insert_without_guid(&keys)?
        };
        note_existing(&mut inserted, &rows);
        Ok(inserted.first().copied().unwrap_or((Status::INTERNAL, 0)))
    }

    /// The result and the number of each entry, directory or link, and the rows of those that may
    /// be inserted. `split`: their paths.
    fn new_rows<'e>(
        &mut self,
        user: &User,
        entries: &[&'e NewEntry],
        split: &[Result<(Vec<&'e str>, &'e str), Status>],
        kind: u32,
    ) -> Result<NewRows<'e>, DatabaseError> {
        let above: Vec<_> = split
            .iter()
            .map(|parts| {
                parts
                    .as_ref()
                    .map(|(above, _)| above.clone())
                    .map_err(|status| *status)
            })
            .collect();
        let parents = self.resolve(user, &above, LastLink::Follow)?;
        let first = self.new_files(entries.len())?;
        let time = now();
        let mut results = Vec::with_capacity(entries.len());
        let mut new = Vec::new();
        for (((parent, parts), &entry), file) in parents.iter().zip(split).zip(entries).zip(first..) {
            let status = match (parent, parts) {
                (Err(status), _) | (_, Err(status)) => *status,
                (Ok(parent), _) if !parent.is_directory() => Status::NOT_DIRECTORY,
                (Ok(parent), _) if !parent.permits(user, WRITE | SEARCH) => Status::FORBIDDEN,
                (Ok(parent), Ok((_, name))) => {
                    let (group, bits) = parent.group_of_new(user, kind);
                    let mode = kind | (entry.mode & PERMISSIONS) | bits;
                    let (mode, acl) = match kind {
                        LINK => (mode, String::new()),
                        _ => inherited(&parent.acl, mode, kind == DIRECTORY, user.number, group),
                    };
                    new.push(NewRow {
                        entry,
                        name,
                        file,
                        directory: parent.file,
                        mode,
                        owner: user.number,
                        group,
                        acl,
                        time,
                    });
                    Status::OK
                }
            };
            results.push((status, file));
        }
        Ok((results, new))
    }

    /// Directories and links have no GUID.
    fn insert_without_guid(&mut self, keys: &[Vec<Value<'_>>]) -> Result<Vec<Row>, DatabaseError> {
        let Some(key) = keys.first() else {
            return Ok(Vec::new());
        };
        let values = [
            key[0], key[1], key[3], key[4], key[5], key[6], key[7], key[8], key[9],
        ];
        self.database.query(
            "INSERT INTO Cns_file_metadata (fileid, parent_fileid, name, filemode, owner_uid, filesize, atime, mtime, \
             ctime, gid, acl, nlink, fileclass, status) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7, ?8, nullif(?9, ''), 1, 0, '-') \
             ON CONFLICT DO NOTHING RETURNING fileid",
            &values,
        )
    }

    fn add_replica(&mut self, user: &User, guid: &str, replica: &str) -> Result<Reply, DatabaseError> {
        if !(1..=MAX_REPLICA).contains(&replica.len()) {
            return Ok(result(Status::INVALID));
        }
        let node = match self.one(user, Key::Guid(guid.to_owned()), LastLink::Follow)? {
            Ok(node) if node.permits(user, WRITE) => node,
            Ok(_) => return Ok(result(Status::FORBIDDEN)),
            Err(status) => return Ok(result(status)),
        };
        let key = replica_row(node.file, now(), replica);
        let rows = self.database.query_keys(&INSERT_REPLICAS, &[key])?;
        Ok(result(if rows.is_empty() {
            Status::EXISTS
        } else {
            Status::OK
        }))
    }

    fn delete_replica(&mut self, user: &User, replica: &str) -> Result<Reply, DatabaseError> {
        match self.one(user, Key::Replica(replica.to_owned()), LastLink::Follow)? {
            Ok(node) if node.permits(user, WRITE) => {
                self.database.query(
                    "DELETE FROM Cns_file_replica WHERE sfn = ?1",
                    &[Value::Text(replica)],
                )?;
                Ok(result(Status::OK))
            }
            Ok(_) => Ok(result(Status::FORBIDDEN)),
            Err(status) => Ok(result(status)),
        }
    }

    pub(super) fn one(
        &mut self,
        user: &User,
        key: Key,
        last_link: LastLink,
    ) -> Result<Result<Node, Status>, DatabaseError> {
        let nodes = self.nodes(user, &[key], last_link)?;
        Ok(nodes.into_iter().next().unwrap_or(Err(Status::NO_ENTRY)))
    }

    /// Deletes entries with their replicas, and links. A directory is not deleted.
    fn delete(&mut self, user: &User, keys: &[Key]) -> Result<Vec<Status>, DatabaseError> {
        let nodes = self.nodes(user, keys, LastLink::Keep)?;
        let parents: Vec<i64> = nodes.iter().flatten().map(|node| node.parent).collect();
        let parents = self.directories(&parents)?;
        let mut removed = BTreeSet::new();
        let status = |node: &Result<Node, Status>| match node {
            Err(status) => *status,
            Ok(node) if node.is_directory() => Status::IS_DIRECTORY,
            Ok(node) => match parents.get(&node.parent) {
                Some(parent) if parent.permits(user, WRITE | SEARCH) => {
                    // The second of two equal keys finds nothing to delete.
                    if removed.insert(node.file) {
                        Status::OK
                    } else {
                        Status::NO_ENTRY
                    }
                }
                _ => Status::FORBIDDEN,
            },
        };
        let mut statuses: Vec<Status> = nodes.iter().map(status).collect();
        let keys: Vec<_> = removed.iter().map(|file| vec![Value::Int(*file)]).collect();
        self.database.query_keys(&DELETE_REPLICAS, &keys)?;
        let deleted = nodes.iter().flatten().filter(|node| removed.contains(&node.file));
        self.delete_links(deleted)?;
        let rows = self.database.query_keys(&DELETE_ENTRIES, &keys)?;
        let deleted: BTreeSet<i64> = rows.iter().map(|row| row.int(0)).collect();
        for (status, node) in statuses.iter_mut().zip(&nodes) {
            if let Ok(node) = node
                && *status == Status::OK
                && !deleted.contains(&node.file)
            {
                // Another session has deleted it meanwhile.
                *status = Status::NO_ENTRY;
            }
        }
        Ok(statuses)
    }
}

/// The names above an entry, and its own.
pub(super) fn split(entry: &NewEntry, kind: u32) -> Result<(Vec<&str>, &str), Status> {
    let mut names = names(&entry.path).ok_or(Status::INVALID)?;
    let has_guid = entry.guid.len() == GUID && entry.guid.is_ascii();
    if kind == FILE && !has_guid {
        return Err(Status::INVALID);
    }
    let name = names.pop().ok_or(Status::EXISTS)?;
    Ok((names, name))
}

fn replica_row(file: i64, now: i64, replica: &str) -> Vec<Value<'_>> {
    vec![
        Value::Int(file),
        Value::Int(now),
        Value::Text(host(replica)),
        Value::Text(replica),
    ]
}

/// The host in the name of a replica, such as `srm://HOST/PATH`; empty if there is none.
pub(super) fn host(replica: &str) -> &str {
    let rest = replica.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}

/// Notes that the entries without a new row exist already.
fn note_existing(inserted: &mut [(Status, i64)], rows: &[Row]) {
    let new: BTreeSet<i64> = rows.iter().map(|row| row.int(0)).collect();
    for (status, file) in inserted {
        if *status == Status::OK && !new.contains(file) {
            *status = Status::EXISTS;
        }
    }
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs() as i64)
}
