//! A row of an entry or a directory, and its permissions.

use plimsoll_wire::catalogue::EntryData;

use crate::catalogue::database::Row;
use crate::data::catalogue::DIRECTORY;

/// Permissions of others, as in `st_mode`.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const SEARCH: u32 = 1;
/// Bits of the type in `st_mode`.
const TYPE: u32 = 0o170_000;

/// The columns of a [`Node`].
macro_rules! node_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".fileid, ",
            $table,
            ".parent_fileid, ",
            $table,
            ".name, ",
            $table,
            ".guid, ",
            $table,
            ".filemode, ",
            $table,
            ".owner_uid, ",
            $table,
            ".filesize"
        )
    };
}
pub(super) use node_columns;

/// An entry or a directory.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) file: i64,
    pub(super) parent: i64,
    pub(super) name: String,
    pub(super) guid: String,
    pub(super) mode: u32,
    pub(super) owner: i64,
    pub(super) size: i64,
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

#[cfg(test)]
mod tests {
    use super::*;

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
