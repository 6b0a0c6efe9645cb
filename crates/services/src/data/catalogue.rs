//! A file catalogue with the layout of LFC, and synthetic entries.
//!
//! | table | rows |
//! |---|---|
//! | `Cns_file_metadata` | five directories, the directories of the entries, the entries |
//! | `Cns_file_replica` | entries x replicas |
//! | `Cns_symlinks`, `Cns_user_metadata` | none |
//! | `Cns_userinfo`, `Cns_groupinfo` | the owner of the entries, and its group |
//! | `schema_version` | 3.2.1 |
//!
//! Names, GUIDs and replicas are those of [`DataSet`]: they follow from the seed. Sizes and check
//! sums follow from the numbers of the entries.
//!
//! Differences from LFC: a replica's name has at most 255 characters (1,103 there); the number of
//! links of a directory is not that of its entries, because LFC's updates of it make all who insert
//! into a directory wait for each other.

use plimsoll_wire::catalogue::{DataSet as Names, ROOT_DIRECTORIES};
use serde::{Deserialize, Serialize};

use super::TableReport;
use super::out::{Out, ints, names};
use super::writer::{Column, Sql, Value, Writer};
use crate::ServiceError;

/// Number of the owner of all entries.
pub(crate) const OWNER: i64 = 101;
/// Number of its group.
const GROUP: i64 = 101;
/// Type of directories in `st_mode`.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// Type of files in `st_mode`.
pub(crate) const FILE: u32 = 0o100_000;
/// Type of symbolic links in `st_mode`.
pub(crate) const LINK: u32 = 0o120_000;
/// Time of all rows, in seconds since 1970: 2005-06-01.
const TIME: i64 = 1_117_584_000;
/// Maximum number of entries.
const MAX_ENTRIES: u64 = 100_000_000;

/// Configuration of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueConfig {
    /// Number of entries, 1 to 100,000,000.
    pub entries: u64,
    /// Number of entries of a directory, 1 to 1,000,000.
    #[serde(default = "thousand")]
    pub directory: u64,
    /// Number of replicas of each entry, 1 to 20.
    #[serde(default = "one")]
    pub replicas: u32,
    /// Seed of names and GUIDs.
    #[serde(default)]
    pub seed: u64,
    /// Subject of the owner of all entries, 1 to 255 characters of ASCII.
    #[serde(default = "owner")]
    pub owner: String,
}

fn thousand() -> u64 {
    1000
}
fn one() -> u32 {
    1
}
fn owner() -> String {
    "/O=Plimsoll/CN=owner".into()
}

impl CatalogueConfig {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        if !(1..=MAX_ENTRIES).contains(&self.entries) {
            return wrong(
                "entries",
                format!("expected 1 to 100,000,000, got {}", self.entries),
            );
        }
        if !(1..=1_000_000).contains(&self.directory) {
            return wrong(
                "directory",
                format!("expected 1 to 1,000,000, got {}", self.directory),
            );
        }
        if !(1..=20).contains(&self.replicas) {
            return wrong("replicas", format!("expected 1 to 20, got {}", self.replicas));
        }
        let is_subject = self.owner.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_subject || !(1..=255).contains(&self.owner.len()) {
            let why = format!(
                "expected 1 to 255 printable characters of ASCII, got {:?}",
                self.owner
            );
            return wrong("owner", why);
        }
        Ok(())
    }

    fn names(&self) -> Names {
        Names {
            entries: self.entries,
            directory: self.directory,
            replicas: self.replicas,
            seed: self.seed,
        }
    }

    pub(super) fn write(&self, writer: &mut dyn Writer) -> Result<Vec<TableReport>, ServiceError> {
        let mut out = Out::new(writer).bytewise();
        self.metadata(&mut out)?;
        self.replicas(&mut out)?;
        self.users(&mut out)?;
        Ok(out.into_reports())
    }

    fn metadata(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["fileid", "parent_fileid"]),
            names(&["guid", "name"]),
            ints(&[
                "filemode",
                "nlink",
                "owner_uid",
                "gid",
                "filesize",
                "atime",
                "mtime",
                "ctime",
                "fileclass",
            ]),
            names(&["status", "csumtype", "csumvalue"]),
            vec![Column::new("acl", Sql::Long)],
        ];
        let unique: (&[&[usize]], &[&[usize]]) = (&[], &[&[1, 3], &[2]]);
        out.begin_unique("Cns_file_metadata".into(), columns.concat(), &[0], unique)?;
        let set = self.names();
        let first = |path: &str| {
            let index = ROOT_DIRECTORIES.iter().position(|(known, _)| *known == path);
            index.map_or(0, |index| index as i64 + 1)
        };
        for (path, mode) in ROOT_DIRECTORIES {
            let (parent, name) = match path.rsplit_once('/') {
                Some(("", "")) => (0, "/"),
                Some(("", name)) => (first("/"), name),
                Some((parent, name)) => (first(parent), name),
                None => (0, path),
            };
            let owner = if path == "/grid/private" { 0 } else { OWNER };
            directory(out, (first(path), parent), name, mode, owner)?;
        }
        let (above, count) = (first("/grid/data"), ROOT_DIRECTORIES.len() as i64);
        for number in 0..set.directories() {
            let file = count + 1 + number as i64;
            directory(out, (file, above), &Names::directory_name(number), 0o777, OWNER)?;
        }
        let first_entry = first_entry(&set);
        for entry in 0..self.entries {
            let guid = set.guid(entry);
            out.row(&[
                Value::Int(first_entry + entry as i64),
                Value::Int(count + 1 + (entry / self.directory) as i64),
                Value::Text(guid.as_bytes()),
                Value::Text(Names::name(entry, &guid).as_bytes()),
                Value::Int(i64::from(FILE | 0o644)),
                Value::Int(1),
                Value::Int(OWNER),
                Value::Int(GROUP),
                Value::Int(1_000_000 + (entry % 1000) as i64),
                Value::Int(TIME),
                Value::Int(TIME),
                Value::Int(TIME),
                Value::Int(0),
                Value::Text(b"-"),
                Value::Text(b"AD"),
                Value::Text(&guid.as_bytes()[..8]),
                Value::Null,
            ])?;
        }
        out.end()
    }

    fn replicas(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["fileid", "nbaccesses", "ctime", "atime", "ptime", "ltime"]),
            names(&[
                "r_type", "status", "f_type", "setname", "poolname", "host", "fs", "sfn", "xattr",
            ]),
        ];
        let keys: (&[&[usize]], &[&[usize]]) = (&[&[0]], &[&[13]]);
        out.begin_unique("Cns_file_replica".into(), columns.concat(), &[], keys)?;
        let set = self.names();
        let first_entry = first_entry(&set);
        let hosts: Vec<String> = (0..self.replicas).map(Names::host).collect();
        for entry in 0..self.entries {
            let guid = set.guid(entry);
            for (host, replica) in hosts.iter().zip(0..) {
                out.row(&[
                    Value::Int(first_entry + entry as i64),
                    Value::Int(0),
                    Value::Int(TIME),
                    Value::Int(TIME),
                    Value::Int(0),
                    Value::Int(0),
                    Value::Text(if replica == 0 { b"P" } else { b"S" }),
                    Value::Text(b"-"),
                    Value::Text(b"P"),
                    Value::Null,
                    Value::Text(b""),
                    Value::Text(host.as_bytes()),
                    Value::Text(b""),
                    Value::Text(Names::replica(&guid, replica).as_bytes()),
                    Value::Null,
                ])?;
            }
        }
        out.end()
    }

    /// Writes the small tables.
    fn users(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let symlinks = [ints(&["fileid"]), names(&["linkname"])].concat();
        out.begin("Cns_symlinks".into(), symlinks, &[0], &[])?;
        out.end()?;
        let comments = [ints(&["u_fileid"]), names(&["comments"])].concat();
        out.begin("Cns_user_metadata".into(), comments, &[0], &[])?;
        out.end()?;
        let users = [ints(&["userid"]), names(&["username"])].concat();
        out.begin_unique("Cns_userinfo".into(), users, &[0], (&[], &[&[1]]))?;
        out.row(&[Value::Int(OWNER), Value::Text(self.owner.as_bytes())])?;
        out.end()?;
        let groups = [ints(&["gid"]), names(&["groupname"])].concat();
        out.begin_unique("Cns_groupinfo".into(), groups, &[0], (&[], &[&[1]]))?;
        out.row(&[Value::Int(GROUP), Value::Text(b"plimsoll")])?;
        out.end()?;
        let version = ints(&["major", "minor", "patch"]);
        out.begin("schema_version".into(), version, &[], &[])?;
        out.row(&[Value::Int(3), Value::Int(2), Value::Int(1)])?;
        out.end()
    }
}

/// Number of the first entry in `fileid`: the directories are before it.
fn first_entry(set: &Names) -> i64 {
    (ROOT_DIRECTORIES.len() as u64 + set.directories() + 1) as i64
}

fn directory(
    out: &mut Out<'_>,
    (file, parent): (i64, i64),
    name: &str,
    mode: u32,
    owner: i64,
) -> Result<(), ServiceError> {
    let numbers = [
        i64::from(DIRECTORY | mode),
        1,
        owner,
        GROUP,
        0,
        TIME,
        TIME,
        TIME,
        0,
    ];
    let mut row = vec![
        Value::Int(file),
        Value::Int(parent),
        Value::Null,
        Value::Text(name.as_bytes()),
    ];
    row.extend(numbers.map(Value::Int));
    row.extend([Value::Text(b"-"), Value::Null, Value::Null, Value::Null]);
    out.row(&row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_catalogues_are_rejected() {
        let valid = || CatalogueConfig {
            entries: 10,
            directory: 1000,
            replicas: 1,
            seed: 1,
            owner: owner(),
        };
        assert!(valid().check().is_ok());
        for wrong in [
            CatalogueConfig {
                entries: 0,
                ..valid()
            },
            CatalogueConfig {
                directory: 0,
                ..valid()
            },
            CatalogueConfig {
                replicas: 21,
                ..valid()
            },
            CatalogueConfig {
                owner: "a\nb".into(),
                ..valid()
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
