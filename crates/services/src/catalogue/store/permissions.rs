//! Reads and changes of modes and ACLs.

use plimsoll_wire::catalogue::{AclEntry, AclTag, Key, Reply, Status, acl_text, parse_acl};

use super::acl::{Entry, column, is_valid, mode_of};
use super::entries::{PERMISSIONS, now};
use super::groups::{GROUPS, NameTable, USERS, User};
use super::node::Node;
use super::way::LastLink;
use super::{Store, result};
use crate::catalogue::database::{DatabaseError, Value};

impl Store<'_> {
    pub(super) fn set_mode(&mut self, user: &User, path: &str, mode: u32) -> Result<Reply, DatabaseError> {
        let node = match self.own(user, path)? {
            Ok(node) => node,
            Err(status) => return Ok(result(status)),
        };
        let acl = node.protection().with_mode(mode);
        self.protect(&node, node.kind() | (mode & PERMISSIONS), &acl)
    }

    /// Replaces the ACL of an entry. Its users and groups must have a number: somebody was in a
    /// session as such.
    pub(super) fn set_acl(&mut self, user: &User, path: &str, text: &str) -> Result<Reply, DatabaseError> {
        let invalid = |why: String| Ok(Reply::Result(Status::INVALID, why));
        let named = match parse_acl(text) {
            Ok(named) => named,
            Err(error) => return invalid(error.to_string()),
        };
        let node = match self.own(user, path)? {
            Ok(node) => node,
            Err(status) => return Ok(result(status)),
        };
        let mut entries = Vec::with_capacity(named.len());
        for entry in named {
            match self.numbered(entry)? {
                Ok(entry) => entries.push(entry),
                Err(name) => return invalid(format!("no user or group has the name {name:?}")),
            }
        }
        if !is_valid(&entries, node.is_directory()) {
            let why = "expected each of user::, group:: and other:: once, mask:: with names, and default: entries \
                       for directories only";
            return invalid(why.into());
        }
        let acl = column(&entries, node.owner, node.group);
        self.protect(&node, mode_of(node.mode, &entries), &acl)
    }

    pub(super) fn get_acl(&mut self, user: &User, path: &str) -> Result<Reply, DatabaseError> {
        let node = match self.one(user, Key::Path(path.to_owned()), LastLink::Follow)? {
            Ok(node) => node,
            Err(status) => return Ok(result(status)),
        };
        let Some(entries) = node.protection().entries() else {
            return Ok(result(Status::INTERNAL));
        };
        let mut named = Vec::with_capacity(entries.len());
        for entry in entries {
            named.push(self.named(&entry)?);
        }
        Ok(Reply::Acl {
            owner: self.name_of(&USERS, node.owner)?.unwrap_or_default(),
            group: self.name_of(&GROUPS, node.group)?.unwrap_or_default(),
            acl: acl_text(&named),
        })
    }

    /// The entry of a path, if it belongs to the user.
    fn own(&mut self, user: &User, path: &str) -> Result<Result<Node, Status>, DatabaseError> {
        let found = self.one(user, Key::Path(path.to_owned()), LastLink::Follow)?;
        Ok(found.and_then(|node| {
            if node.owner == user.number {
                Ok(node)
            } else {
                Err(Status::FORBIDDEN)
            }
        }))
    }

    fn protect(&mut self, node: &Node, mode: u32, acl: &str) -> Result<Reply, DatabaseError> {
        self.database.query(
            "UPDATE Cns_file_metadata SET filemode = ?1, acl = nullif(?2, ''), ctime = ?3 WHERE fileid = ?4",
            &[
                Value::Int(i64::from(mode)),
                Value::Text(acl),
                Value::Int(now()),
                Value::Int(node.file),
            ],
        )?;
        Ok(result(Status::OK))
    }

    /// An entry with the number of its name; the name, if it has none.
    fn numbered(&mut self, entry: AclEntry<String>) -> Result<Result<Entry, String>, DatabaseError> {
        let mut number = |table: &NameTable, name: String| -> Result<_, DatabaseError> {
            Ok(self.known(table, &name)?.ok_or(name))
        };
        let tag = match entry.tag {
            AclTag::User(name) => number(&USERS, name)?.map(AclTag::User),
            AclTag::Group(name) => number(&GROUPS, name)?.map(AclTag::Group),
            AclTag::Owner => Ok(AclTag::Owner),
            AclTag::OwningGroup => Ok(AclTag::OwningGroup),
            AclTag::Mask => Ok(AclTag::Mask),
            AclTag::Other => Ok(AclTag::Other),
        };
        Ok(tag.map(|tag| Entry {
            is_default: entry.is_default,
            tag,
            permissions: entry.permissions,
        }))
    }

    /// An entry with the name of its number; the number, if it has none.
    fn named(&mut self, entry: &Entry) -> Result<AclEntry<String>, DatabaseError> {
        let mut name = |table: &NameTable, number: i64| -> Result<_, DatabaseError> {
            Ok(self.name_of(table, number)?.unwrap_or_else(|| number.to_string()))
        };
        let tag = match entry.tag {
            AclTag::User(number) => AclTag::User(name(&USERS, number)?),
            AclTag::Group(number) => AclTag::Group(name(&GROUPS, number)?),
            AclTag::Owner => AclTag::Owner,
            AclTag::OwningGroup => AclTag::OwningGroup,
            AclTag::Mask => AclTag::Mask,
            AclTag::Other => AclTag::Other,
        };
        Ok(AclEntry {
            is_default: entry.is_default,
            tag,
            permissions: entry.permissions,
        })
    }
}
