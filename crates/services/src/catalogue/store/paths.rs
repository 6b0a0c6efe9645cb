//! Many keys: from paths, GUIDs and replicas to their entries.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_wire::catalogue::{Key, Status};

use super::Store;
use super::groups::User;
use super::node::{NODE_COLUMNS, Node, SEARCH, node_columns};
use super::walk::Reading;
use super::way::LastLink;
use crate::catalogue::database::{DatabaseError, Keyed, Value};

/// Maximum length of a path, bytes, as in LFC.
const MAX_PATH: usize = 1023;
/// Maximum length of a name, bytes.
const MAX_NAME: usize = 255;

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
    pub(super) fn nodes(
        &mut self,
        user: &User,
        keys: &[Key],
        last_link: LastLink,
    ) -> Result<Vec<Resolved>, DatabaseError> {
        if let [key] = keys {
            let found = self.find(user, key, (Reading::Entry, last_link))?;
            return Ok(vec![found.map(|found| found.node)]);
        }
        let mut paths = Vec::new();
        let mut others: [Vec<Vec<Value<'_>>>; 2] = [Vec::new(), Vec::new()];
        for key in keys {
            match key {
                Key::Path(path) => paths.push(names(path).ok_or(Status::INVALID)),
                Key::Guid(guid) => others[0].push(vec![Value::Text(guid)]),
                Key::Replica(name) => others[1].push(vec![Value::Text(name)]),
            }
        }
        let mut by_path = self.resolve(user, &paths, last_link)?.into_iter();
        let mut by_guid = BTreeMap::new();
        for row in self.database.query_keys(&BY_GUID, &others[0])? {
            by_guid.insert(row.text(3), Node::of(&row));
        }
        let mut by_replica = BTreeMap::new();
        for row in self.database.query_keys(&BY_REPLICA, &others[1])? {
            by_replica.insert(row.text(NODE_COLUMNS), Node::of(&row));
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

    /// The entries of paths. Different paths advance together by one name, so that the number of
    /// statements depends on the depth of the paths and not on their number. Each different path
    /// with a link is walked on its own.
    pub(super) fn resolve(
        &mut self,
        user: &User,
        paths: &[Result<Vec<&str>, Status>],
        last_link: LastLink,
    ) -> Result<Vec<Resolved>, DatabaseError> {
        let mut different: Vec<&Vec<&str>> = paths.iter().flatten().collect();
        different.dedup();
        if let [path] = different[..] {
            let found = self.walk(user, path, (Reading::Entry, last_link))?;
            let found = found.map(|found| found.node);
            return Ok(paths
                .iter()
                .map(|path| {
                    path.as_ref()
                        .map_err(|status| *status)
                        .and_then(|_| found.clone())
                })
                .collect());
        }
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
                if directory.is_link() {
                    // It stays where it is.
                } else if !directory.is_directory() {
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
                    && !directory.is_link()
                {
                    let child = children.get(&(directory.file, *name));
                    *node = child.map(|child| (*child).clone()).ok_or(Status::NO_ENTRY);
                }
            }
        }
        self.follow_links(user, paths, &mut nodes, last_link)?;
        Ok(nodes)
    }

    /// Walks the paths on which a link was found.
    fn follow_links<'p>(
        &mut self,
        user: &User,
        paths: &[Result<Vec<&'p str>, Status>],
        nodes: &mut [Resolved],
        last_link: LastLink,
    ) -> Result<(), DatabaseError> {
        let mut walked: BTreeMap<&[&'p str], Resolved> = BTreeMap::new();
        for (path, node) in paths.iter().zip(nodes) {
            let Ok(path) = path else { continue };
            if !node.as_ref().is_ok_and(Node::is_link) {
                continue;
            }
            if !walked.contains_key(path.as_slice()) {
                let found = self.walk(user, path, (Reading::Entry, last_link))?;
                walked.insert(path, found.map(|found| found.node));
            }
            node.clone_from(&walked[path.as_slice()]);
        }
        Ok(())
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
}
