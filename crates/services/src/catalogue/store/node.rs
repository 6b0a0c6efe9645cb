//! A row of an entry, a directory or a link, and its permissions.

use plimsoll_wire::catalogue::EntryData;

use super::acl::Protection;
use super::groups::User;
use crate::catalogue::database::Row;
use crate::data::catalogue::{DIRECTORY, LINK};

/// Permissions of others, as in `st_mode`.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const SEARCH: u32 = 1;
/// Bits of the type in `st_mode`.
const TYPE: u32 = 0o170_000;
/// The set-group bit: new entries of a directory have its group.
pub(super) const SET_GROUP: u32 = 0o2000;

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
            ".filesize, ",
            $table,
            ".gid, ",
            $table,
            ".acl"
        )
    };
}
pub(super) use node_columns;
/// Number of these columns.
pub(super) const NODE_COLUMNS: usize = 9;

/// An entry, a directory or a link.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) file: i64,
    pub(super) parent: i64,
    pub(super) name: String,
    pub(super) guid: String,
    pub(super) mode: u32,
    pub(super) owner: i64,
    pub(super) size: i64,
    pub(super) group: i64,
    /// The column `acl`, see [`super::acl`].
    pub(super) acl: String,
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
            group: row.int(7),
            acl: row.text(8),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.mode & TYPE == DIRECTORY
    }

    pub(super) fn is_link(&self) -> bool {
        self.mode & TYPE == LINK
    }

    /// Type bits of the mode.
    pub(super) fn kind(&self) -> u32 {
        self.mode & TYPE
    }

    pub(super) fn protection(&self) -> Protection<'_> {
        Protection {
            owner: self.owner,
            group: self.group,
            mode: self.mode,
            acl: &self.acl,
        }
    }

    pub(super) fn permits(&self, user: &User, permission: u32) -> bool {
        self.protection().permits(user, permission)
    }

    /// The group of a new entry of this directory, and the bits that its mode has besides those of
    /// the request.
    pub(super) fn group_of_new(&self, user: &User, kind: u32) -> (i64, u32) {
        match (self.mode & SET_GROUP, kind) {
            (0, _) => (user.group(), 0),
            (_, DIRECTORY) => (self.group, SET_GROUP),
            _ => (self.group, 0),
        }
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
