//! One key: from a path, a GUID or a replica to its entry, in one statement.
//!
//! The statement of a path joins the table with itself, once per name, and returns the permissions
//! of all directories on the way. A statement per name would take as many round trips to the
//! database. A path without links needs no further statement; each link needs one for its content,
//! and one for the names after it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use plimsoll_wire::catalogue::{Key, Status};

use super::Store;
use super::groups::User;
use super::node::{NODE_COLUMNS, Node, node_columns};
use super::paths::names;
use super::way::{LastLink, Passed, Way};
use crate::catalogue::database::{DatabaseError, Row, Value};

/// Maximum number of names of a statement. A longer path has several.
const MAX_NAMES: usize = 8;
/// Number of columns of each name: number, mode, owner, group, ACL.
const COLUMNS: usize = 5;
/// Number of columns of the last name besides these: GUID, size.
const LAST_COLUMNS: usize = 2;

/// What is read of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Entry,
    /// The entry and the names of its replicas, with one row for each of them.
    Replicas,
}

/// An entry that was found.
pub(super) struct FoundEntry {
    pub(super) node: Node,
    /// Names of its replicas, in their order; none if they were not read.
    pub(super) replicas: Vec<String>,
}

/// The statements for paths of 1 to [`MAX_NAMES`] names below a directory: without and with
/// replicas.
static BY_PATH: LazyLock<[Vec<String>; 2]> = LazyLock::new(|| {
    [false, true].map(|replicas| (1..=MAX_NAMES).map(|names| by_path(names, replicas)).collect())
});

/// By GUID, and by replica: with all replicas.
const BY_GUID: [&str; 2] = [
    concat!(
        "SELECT ",
        node_columns!("m"),
        " FROM Cns_file_metadata m WHERE m.guid = ?1"
    ),
    concat!(
        "SELECT ",
        node_columns!("m"),
        ", r.sfn FROM Cns_file_metadata m LEFT JOIN Cns_file_replica r ON r.fileid = m.fileid WHERE m.guid = ?1"
    ),
];
const BY_REPLICA: [&str; 2] = [
    concat!(
        "SELECT ",
        node_columns!("m"),
        " FROM Cns_file_replica k JOIN Cns_file_metadata m ON m.fileid = k.fileid WHERE k.sfn = ?1"
    ),
    concat!(
        "SELECT ",
        node_columns!("m"),
        ", r.sfn FROM Cns_file_replica k JOIN Cns_file_metadata m ON m.fileid = k.fileid \
         LEFT JOIN Cns_file_replica r ON r.fileid = k.fileid WHERE k.sfn = ?1"
    ),
];
/// Column of the replica's name in the statements above.
const REPLICA: usize = NODE_COLUMNS;

/// The statement for a path of this number of names. Values: number of the directory, the names.
fn by_path(names: usize, replicas: bool) -> String {
    let mut sql = String::from("SELECT ");
    // Writing to a String cannot fail.
    for name in 1..=names {
        let _ = write!(
            sql,
            "m{name}.fileid, m{name}.filemode, m{name}.owner_uid, m{name}.gid, m{name}.acl, "
        );
    }
    let _ = write!(sql, "m{names}.guid, m{names}.filesize");
    if replicas {
        sql.push_str(", r.sfn");
    }
    sql.push_str(" FROM Cns_file_metadata m1");
    for name in 2..=names {
        let (above, value) = (name - 1, name + 1);
        let _ = write!(
            sql,
            " LEFT JOIN Cns_file_metadata m{name} ON m{name}.parent_fileid = m{above}.fileid AND m{name}.name = ?{value}"
        );
    }
    if replicas {
        let _ = write!(sql, " LEFT JOIN Cns_file_replica r ON r.fileid = m{names}.fileid");
    }
    sql.push_str(" WHERE m1.parent_fileid = ?1 AND m1.name = ?2");
    sql
}

impl Store<'_> {
    /// The entry of a key.
    pub(super) fn find(
        &mut self,
        user: &User,
        key: &Key,
        (reading, last_link): (Reading, LastLink),
    ) -> Result<Result<FoundEntry, Status>, DatabaseError> {
        let (statements, value) = match key {
            Key::Path(path) => {
                return match names(path) {
                    Some(names) => self.walk(user, &names, (reading, last_link)),
                    None => Ok(Err(Status::INVALID)),
                };
            }
            Key::Guid(guid) => (BY_GUID, guid),
            Key::Replica(name) => (BY_REPLICA, name),
        };
        let rows = self
            .database
            .query(statements[reading as usize], &[Value::Text(value)])?;
        let Some(row) = rows.first() else {
            return Ok(Err(Status::NO_ENTRY));
        };
        Ok(Ok(FoundEntry {
            node: Node::of(row),
            replicas: replicas(&rows, REPLICA),
        }))
    }

    /// The entry of a path.
    pub(super) fn walk(
        &mut self,
        user: &User,
        path: &[&str],
        (reading, last_link): (Reading, LastLink),
    ) -> Result<Result<FoundEntry, Status>, DatabaseError> {
        let mut way = Way::new(&self.root, path, last_link);
        let mut found = Vec::new();
        loop {
            if let Err(status) = way.pass_dots(user) {
                return Ok(Err(status));
            }
            if way.is_at_end() {
                let node = way.into_end();
                return Ok(Ok(FoundEntry {
                    node,
                    replicas: found,
                }));
            }
            found = match self.step(user, &mut way, reading)? {
                Ok(Step::Passed(replicas)) => replicas,
                Ok(Step::Link(file)) => {
                    let target = self.link(file)?;
                    if let Err(status) = target.and_then(|target| way.follow(&target)) {
                        return Ok(Err(status));
                    }
                    Vec::new()
                }
                Err(status) => return Ok(Err(status)),
            };
        }
    }

    /// Passes the next names, up to a link, in one statement.
    fn step(
        &mut self,
        user: &User,
        way: &mut Way<'_>,
        reading: Reading,
    ) -> Result<Result<Step, Status>, DatabaseError> {
        if let Err(status) = way.enter(user) {
            return Ok(Err(status));
        }
        let names = way.next_names(MAX_NAMES);
        let count = names.len();
        let reading = if way.is_end_after(count) {
            reading
        } else {
            Reading::Entry
        };
        let statement: &'static str = &BY_PATH[reading as usize][count - 1];
        let values: Vec<_> = std::iter::once(Value::Int(way.here().file))
            .chain(names.map(Value::Text))
            .collect();
        let rows = self.database.query(statement, &values)?;
        let Some(row) = rows.first() else {
            return Ok(Err(Status::NO_ENTRY));
        };
        let last = count * COLUMNS;
        for level in 0..count {
            if let Err(status) = way.enter(user) {
                return Ok(Err(status));
            }
            let at = level * COLUMNS;
            let is_last = level + 1 == count;
            let (file, parent) = (row.int(at), way.here().file);
            if file == 0 {
                return Ok(Err(Status::NO_ENTRY));
            }
            let passed = way.pass(|name| Node {
                file,
                parent,
                name,
                guid: if is_last { row.text(last) } else { String::new() },
                mode: row.int(at + 1) as u32,
                owner: row.int(at + 2),
                size: if is_last { row.int(last + 1) } else { 0 },
                group: row.int(at + 3),
                acl: row.text(at + 4),
            });
            if let Passed::Link(file) = passed {
                return Ok(Ok(Step::Link(file)));
            }
        }
        Ok(Ok(Step::Passed(replicas(&rows, last + LAST_COLUMNS))))
    }
}

/// The result of a statement for names.
enum Step {
    /// All names were passed. The last one has these replicas, if they were read.
    Passed(Vec<String>),
    /// A link with this number was found, which is to be followed.
    Link(i64),
}

/// The names of replicas in a column.
fn replicas(rows: &[Row], column: usize) -> Vec<String> {
    let mut replicas: Vec<String> = rows.iter().map(|row| row.text(column)).collect();
    replicas.retain(|name| !name.is_empty());
    replicas.sort_unstable();
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_of_a_path_joins_its_names() {
        assert_eq!(
            by_path(2, true),
            "SELECT m1.fileid, m1.filemode, m1.owner_uid, m1.gid, m1.acl, \
             m2.fileid, m2.filemode, m2.owner_uid, m2.gid, m2.acl, m2.guid, m2.filesize, r.sfn FROM Cns_file_metadata m1 \
             LEFT JOIN Cns_file_metadata m2 ON m2.parent_fileid = m1.fileid AND m2.name = ?3 \
             LEFT JOIN Cns_file_replica r ON r.fileid = m2.fileid \
             WHERE m1.parent_fileid = ?1 AND m1.name = ?2"
        );
    }
}
