//! Logical names: from a path to its entry.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_wire::catalogue::{EntryData, Key, Status};

use super::{Store, node_columns};
use crate::catalogue::database::{DatabaseError, Keyed, Row, Value};
use crate::data::catalogue::DIRECTORY;

/// Permissions of others, as in `st_mode`.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const SEARCH: u32 = 1;
/// Maximum length of a path, bytes, as in LFC.
const MAX_PATH: usize = 1023;
/// Maximum length of a name, bytes.
const MAX_NAME: usize = 255;
/// Bits of the type in `st_mode`.
const TYPE: u32 = 0o170_000;

const CHILDREN: Keyed = Keyed {
    one: concat!(
        "SELECT ",
        node_columns!("m"),
        " FROM Cns_file_metadata m WHERE m.parent_fileid = ?1 AND m.name = ?2"
    ),
    many: [
        concat!("SELECT ", node_columns!("m"), " FROM (VALUES "),
        ") AS k(p, n) JOIN Cns_file_metadata m ON m.parent_fileid = k.p AND m.name = k.n",
    ],
};
const BY_NUMBER: Keyed = Keyed {
    one: concat!(
        "SELECT ",
        node_columns!("m"),
        " FROM Cns_file_metadata m WHERE m.fileid = ?1"
    ),
    many: [
        concat!("SELECT ", node_columns!("m"), " FROM (VALUES "),
        ") AS k(f) JOIN Cns_file_metadata m ON m.fileid = k.f",
    ],
};
const BY_GUID: Keyed = Keyed {
    one: concat!(
        "SELECT ",
        node_columns!("m"),
        " FROM Cns_file_metadata m WHERE m.guid = ?1"
    ),
    many: [
        concat!("SELECT ", node_columns!("m"), " FROM (VALUES "),
        ") AS k(g) JOIN Cns_file_metadata m ON m.guid = k.g",
    ],
};
const BY_REPLICA: Keyed = Keyed {
    one: concat!(
        "SELECT ",
        node_columns!("m"),
        ", r.sfn FROM Cns_file_replica r JOIN Cns_file_metadata m ON m.fileid = r.fileid WHERE r.sfn = ?1"
    ),
    many: [
        concat!("SELECT ", node_columns!("m"), ", r.sfn FROM (VALUES "),
        ") AS k(s) JOIN Cns_file_replica r ON r.sfn = k.s JOIN Cns_file_metadata m ON m.fileid = r.fileid",
    ],
};

/// An entry or a directory.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) file: i64,
    pub(super) parent: i64,
    name: String,
    guid: String,
    mode: u32,
    pub(super) owner: i64,
    size: i64,
}

impl Node {
    pub(super) fn of(row: &Row) -> Self {
        Self {
            file: row.int(0),
            parent: row.int(1),
            name: row.text(2),
            guid: row.text(3),
            mode: row.int(4) as u32,
            owner: row.int(5),
            size: row.int(6),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.mode & TYPE == DIRECTORY
    }

    /// Type bits of the mode.
    pub(super) fn kind(&self) -> u32 {
        self.mode & TYPE
    }

    pub(super) fn permits(&self, user: i64, permission: u32) -> bool {
        let shift = if user == self.owner { 6 } else { 0 };
        (self.mode >> shift) & permission == permission
    }

    pub(super) fn found(self, replicas: Vec<String>) -> EntryData {
        EntryData {
            file: self.file as u64,
            guid: self.guid,
            mode: self.mode,
            size: self.size as u64,
            owner: self.owner as u32,
            replicas,
        }
    }
}

/// Result of the search for an entry.
pub(super) type Resolved = Result<Node, Status>;

/// The names of a path. None: it is not a valid absolute path.
pub(super) fn names(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix('/').filter(|_| path.len() <= MAX_PATH)?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let names: Vec<&str> = rest.split('/').collect();
    let is_valid = |name: &&str| (1..=MAX_NAME).contains(&name.len()) && !matches!(*name, "." | "..");
    names.iter().all(is_valid).then_some(names)
}

impl Store<'_> {
    /// The entries of keys, in their order.
    pub(super) fn nodes(&mut self, user: i64, keys: &[Key]) -> Result<Vec<Resolved>, DatabaseError> {
        let mut paths = Vec::new();
        let mut others: [Vec<Vec<Value<'_>>>; 2] = [Vec::new(), Vec::new()];
        for key in keys {
            match key {
                Key::Path(path) => paths.push(names(path).ok_or(Status::INVALID)),
                Key::Guid(guid) => others[0].push(vec![Value::Text(guid)]),
                Key::Replica(name) => others[1].push(vec![Value::Text(name)]),
            }
        }
        let mut by_path = self.resolve(user, &paths)?.into_iter();
        let mut by_guid = BTreeMap::new();
        for row in self.database.query_keys(&BY_GUID, &others[0])? {
            by_guid.insert(row.text(3), Node::of(&row));
        }
        let mut by_replica = BTreeMap::new();
        for row in self.database.query_keys(&BY_REPLICA, &others[1])? {
            by_replica.insert(row.text(7), Node::of(&row));
        }
        let resolved = keys.iter().map(|key| match key {
            Key::Path(_) => by_path.next().unwrap_or(Err(Status::INVALID)),
            Key::Guid(guid) => by_guid.get(guid).cloned().ok_or(Status::NO_ENTRY),
            Key::Replica(name) => by_replica.get(name).cloned().ok_or(Status::NO_ENTRY),
        });
        Ok(resolved.collect())
    }

    /// The directories with these numbers.
    pub(super) fn directories(&mut self, numbers: &[i64]) -> Result<BTreeMap<i64, Node>, DatabaseError> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let keys: Vec<_> = numbers.iter().map(|number| vec![Value::Int(*number)]).collect();
        let rows = self.database.query_keys(&BY_NUMBER, &keys)?;
        Ok(rows.iter().map(|row| (row.int(0), Node::of(row))).collect())
    }

    /// The entries of paths. All paths advance together by one name, so that the number of
    /// statements depends on the depth of the paths and not on their number.
    pub(super) fn resolve(
        &mut self,
        user: i64,
        paths: &[Result<Vec<&str>, Status>],
    ) -> Result<Vec<Resolved>, DatabaseError> {
        let root = &self.root;
        let mut nodes: Vec<Resolved> = paths
            .iter()
            .map(|path| match path {
                Ok(_) => Ok(root.clone()),
                Err(status) => Err(*status),
            })
            .collect();
        let depth = paths.iter().flatten().map(Vec::len).max().unwrap_or(0);
        for level in 0..depth {
            let mut wanted = BTreeSet::new();
            for (path, node) in paths.iter().zip(&mut nodes) {
                let (Ok(path), Ok(directory)) = (path, &*node) else {
                    continue;
                };
                let Some(name) = path.get(level) else { continue };
                if !directory.is_directory() {
                    *node = Err(Status::NOT_DIRECTORY);
                } else if directory.permits(user, SEARCH) {
                    wanted.insert((directory.file, *name));
                } else {
                    *node = Err(Status::FORBIDDEN);
                }
            }
            let keys: Vec<_> = wanted
                .iter()
                .map(|(parent, name)| vec![Value::Int(*parent), Value::Text(name)])
                .collect();
            let rows = self.database.query_keys(&CHILDREN, &keys)?;
            let found: Vec<Node> = rows.iter().map(Node::of).collect();
            let children: BTreeMap<(i64, &str), &Node> = found
                .iter()
                .map(|child| ((child.parent, child.name.as_str()), child))
                .collect();
            for (path, node) in paths.iter().zip(&mut nodes) {
                if let (Ok(path), Ok(directory)) = (path, &*node)
                    && let Some(name) = path.get(level)
                {
                    let child = children.get(&(directory.file, *name));
                    *node = child.map(|child| (*child).clone()).ok_or(Status::NO_ENTRY);
                }
            }
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_without_dots_are_valid() {
        assert_eq!(names("/"), Some(Vec::new()));
        assert_eq!(names("/a/b"), Some(vec!["a", "b"]));
        let long = format!("/{}", "a".repeat(256));
        for wrong in ["", "a", "//", "/a/", "/a//b", "/a/../b", "/.", &long] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_owner_has_permissions_of_its_own() {
        let node = Node {
            file: 1,
            parent: 0,
            name: String::new(),
            guid: String::new(),
            mode: DIRECTORY | 0o705,
            owner: 101,
            size: 0,
        };
        assert!(node.permits(101, WRITE) && !node.permits(102, WRITE));
        assert!(node.permits(102, READ | SEARCH));
    }
}
