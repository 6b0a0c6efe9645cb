//! Symbolic links: entries without a GUID, whose content is in a table of its own.

use plimsoll_wire::catalogue::{Key, NewEntry, Reply, Status};

use super::groups::User;
use super::node::Node;
use super::way::LastLink;
use super::{Store, result};
use crate::catalogue::database::{DatabaseError, Keyed, Value};
use crate::data::catalogue::LINK;

/// Maximum length of the content, bytes: that of the column.
const MAX_TARGET: usize = 255;
/// Permissions of a link, which nobody evaluates.
const MODE: u32 = 0o777;

const DELETE_LINKS: Keyed = Keyed {
    one: "DELETE FROM Cns_symlinks WHERE fileid = ?1",
    many: ["DELETE FROM Cns_symlinks WHERE fileid IN (VALUES ", ")"],
};

impl Store<'_> {
    /// The content of a link with this number.
    pub(super) fn link(&mut self, file: i64) -> Result<Result<String, Status>, DatabaseError> {
        let rows = self.database.query(
            "SELECT linkname FROM Cns_symlinks WHERE fileid = ?1",
            &[Value::Int(file)],
        )?;
        Ok(rows.first().map(|row| row.text(0)).ok_or(Status::NO_ENTRY))
    }

    pub(super) fn read_link(&mut self, user: &User, path: &str) -> Result<Reply, DatabaseError> {
        let key = Key::Path(path.to_owned());
        let found = match self.one(user, key, LastLink::Keep)? {
            Ok(node) if node.is_link() => self.link(node.file)?,
            Ok(_) => Err(Status::INVALID),
            Err(status) => Err(status),
        };
        Ok(found.map_or_else(result, Reply::Link))
    }

    pub(super) fn make_link(
        &mut self,
        user: &User,
        path: &str,
        target: &str,
    ) -> Result<Reply, DatabaseError> {
        if !(1..=MAX_TARGET).contains(&target.len()) {
            return Ok(result(Status::INVALID));
        }
        let entry = NewEntry {
            path: path.to_owned(),
            guid: String::new(),
            size: target.len() as u64,
            mode: MODE,
            replica: String::new(),
        };
        let (status, file) = self.insert(user, &entry, LINK)?;
        if status == Status::OK {
            self.database.query(
                "INSERT INTO Cns_symlinks (fileid, linkname) VALUES (?1, ?2)",
                &[Value::Int(file), Value::Text(target)],
            )?;
        }
        Ok(result(status))
    }

    /// Deletes the content of those entries that are links.
    pub(super) fn delete_links<'n>(
        &mut self,
        nodes: impl Iterator<Item = &'n Node>,
    ) -> Result<(), DatabaseError> {
        let links = nodes.filter(|node| node.is_link());
        let keys: Vec<_> = links.map(|node| vec![Value::Int(node.file)]).collect();
        self.database.query_keys(&DELETE_LINKS, &keys).map(drop)
    }
}
