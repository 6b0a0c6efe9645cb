//! Users: a subject has a number in the catalogue from its first session on.

use std::sync::PoisonError;

use super::Store;
use crate::catalogue::database::{DatabaseError, Value};

/// Number of a client that did not state who it is, and of those above the limit of users.
const NOBODY: i64 = 65_534;
/// Maximum number of users: clients without security can state any subject.
const MAX_USERS: i64 = 10_000;

impl Store<'_> {
    /// The number of a subject. A new subject becomes a user.
    pub(in crate::catalogue) fn user(&mut self, subject: &str) -> Result<i64, DatabaseError> {
        if subject.is_empty() || subject.len() > 255 {
            return Ok(NOBODY);
        }
        // Held while the database is asked, so that two sessions do not make two users.
        let mut users = self.tables.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = users.get(subject) {
            return Ok(*number);
        }
        let known = "SELECT userid FROM Cns_userinfo WHERE username = ?1";
        let rows = self.database.query(known, &[Value::Text(subject)])?;
        let number = if let Some(row) = rows.first() {
            row.int(0)
        } else {
            self.database.begin()?;
            let rows = self
                .database
                .query("SELECT max(userid), count(*) FROM Cns_userinfo", &[])?;
            let (last, count) = rows.first().map_or((0, 0), |row| (row.int(0), row.int(1)));
            if count >= MAX_USERS {
                self.database.roll_back()?;
                return Ok(NOBODY);
            }
            // The numbers of owner and nobody are not given to others.
            let number = last.max(1000) + 1;
            let number = if number == NOBODY { number + 1 } else { number };
            self.database.query(
                "INSERT INTO Cns_userinfo (userid, username) VALUES (?1, ?2)",
                &[Value::Int(number), Value::Text(subject)],
            )?;
            self.database.commit()?;
            number
        };
        users.insert(subject.to_owned(), number);
        Ok(number)
    }
}
