//! Users and groups: a subject and its groups have numbers in the catalogue from its first session
//! on.
//!
//! The groups of a user are those of its subject ([`Subject`]), at each session anew. The first one
//! is its primary group, which new files have. A user without groups has the group 0. Nobody is a
//! member of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use plimsoll_wire::catalogue::Subject;

use super::Store;
use crate::catalogue::database::{DatabaseError, Value};

/// Number of a client that did not state who it is, and of those above the limit of users.
const NOBODY: i64 = 65_534;
/// Group of the files of users without groups, and of groups above the limit.
const NO_GROUP: i64 = 0;
/// Maximum number of users, and of groups: clients without security can state any subject.
const MAX_NAMES: i64 = 10_000;
/// Maximum length of a name, bytes: that of a column.
const MAX_NAME: usize = 255;
/// The numbers up to this one are those of a data set.
const LAST_RESERVED: i64 = 1000;

/// Who carries out a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::catalogue) struct User {
    pub(super) number: i64,
    /// Its groups. The first one is its primary group.
    pub(super) groups: Vec<i64>,
}

impl User {
    /// The group of its new files.
    pub(super) fn group(&self) -> i64 {
        self.groups.first().copied().unwrap_or(NO_GROUP)
    }

    pub(super) fn is_member(&self, group: i64) -> bool {
        self.groups.contains(&group)
    }
}

/// The statements of a table of names.
pub(super) struct NameTable {
    by_name: &'static str,
    by_number: &'static str,
    last: &'static str,
    insert: &'static str,
}

pub(super) const USERS: NameTable = NameTable {
    by_name: "SELECT userid FROM Cns_userinfo WHERE username = ?1",
    by_number: "SELECT username FROM Cns_userinfo WHERE userid = ?1",
    last: "SELECT max(userid), count(*) FROM Cns_userinfo",
    insert: "INSERT INTO Cns_userinfo (userid, username) VALUES (?1, ?2)",
};
pub(super) const GROUPS: NameTable = NameTable {
    by_name: "SELECT gid FROM Cns_groupinfo WHERE groupname = ?1",
    by_number: "SELECT groupname FROM Cns_groupinfo WHERE gid = ?1",
    last: "SELECT max(gid), count(*) FROM Cns_groupinfo",
    insert: "INSERT INTO Cns_groupinfo (gid, groupname) VALUES (?1, ?2)",
};

/// The numbers of names that are known.
pub(super) type Numbers = Mutex<HashMap<String, i64>>;

impl Store<'_> {
    /// The user of a subject. A new subject becomes a user, and its new groups become groups.
    pub(in crate::catalogue) fn user(&mut self, subject: &Subject) -> Result<User, DatabaseError> {
        let tables = self.tables;
        let number = self.number_of(&USERS, &tables.users, &subject.text)?;
        let mut groups = Vec::new();
        for name in &subject.groups {
            groups.extend(self.number_of(&GROUPS, &tables.groups, name)?);
        }
        Ok(User {
            number: number.unwrap_or(NOBODY),
            groups,
        })
    }

    /// The number of a name. A new name has the next one. None: it is no valid name, or there are
    /// too many.
    fn number_of(
        &mut self,
        table: &NameTable,
        numbers: &Numbers,
        name: &str,
    ) -> Result<Option<i64>, DatabaseError> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Ok(None);
        }
        // Held while the database is asked, so that two sessions do not make two rows.
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(name) {
            return Ok(Some(*number));
        }
        let number = match self.known(table, name)? {
            None => self.add_name(table, name)?,
            known => known,
        };
        if let Some(number) = number {
            numbers.insert(name.to_owned(), number);
        }
        Ok(number)
    }

    fn add_name(&mut self, table: &NameTable, name: &str) -> Result<Option<i64>, DatabaseError> {
        self.database.begin()?;
        let rows = self.database.query(table.last, &[])?;
        let (last, count) = rows.first().map_or((0, 0), |row| (row.int(0), row.int(1)));
        if count >= MAX_NAMES {
            self.database.roll_back()?;
            return Ok(None);
        }
        // The numbers of owner and nobody are not given to others.
        let number = last.max(LAST_RESERVED) + 1;
        let number = if number == NOBODY { number + 1 } else { number };
        self.database
            .query(table.insert, &[Value::Int(number), Value::Text(name)])?;
        self.database.commit()?;
        Ok(Some(number))
    }

    /// The number of a name that exists.
    pub(super) fn known(&mut self, table: &NameTable, name: &str) -> Result<Option<i64>, DatabaseError> {
        let rows = self.database.query(table.by_name, &[Value::Text(name)])?;
        Ok(rows.first().map(|row| row.int(0)))
    }

    /// The name of a number. None: it has none.
    pub(super) fn name_of(
        &mut self,
        table: &NameTable,
        number: i64,
    ) -> Result<Option<String>, DatabaseError> {
        let rows = self.database.query(table.by_number, &[Value::Int(number)])?;
        Ok(rows.first().map(|row| row.text(0)))
    }
}
