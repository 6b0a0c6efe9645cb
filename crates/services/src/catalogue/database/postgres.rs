//! A session with `PostgreSQL`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write as _;
use std::time::Duration;

use plimsoll_wire::sql::Address;

use super::{Copy, DatabaseError, Row, Value};
use crate::ServiceError;
use crate::data::{Client, escape};

/// Maximum time for the server to respond.
const TIMEOUT: Duration = Duration::from_secs(60);
/// SQLSTATE of a row that exists, of a deadlock, and of a lock that a session may not wait for any
/// longer (`lock_timeout`).
const UNIQUE_VIOLATION: &str = "23505";
const DEADLOCK: &str = "40P01";
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// Settings of a session.
///
/// Every statement of the catalogue follows indexes, from a few rows to a few rows. A plan that was
/// made while the tables were small, or before they were analysed, would read whole tables, and
/// stays for the session. So other plans are excluded, and the plan of a statement is made once
/// for all values.
const SETTINGS: [&str; 7] = [
    "standard_conforming_strings = on",
    "client_encoding = 'UTF8'",
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    // The costs of an excluded plan, if there is no other, would request compilation.
    "jit = off",
];

struct Statement {
    name: String,
    /// Number of columns of its result.
    columns: usize,
}

pub(in crate::catalogue) struct Postgres {
    client: Client,
    /// By the addresses and lengths of their texts.
    prepared: HashMap<(usize, usize), Statement>,
    /// The values of a statement as text, and the end of each.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Postgres {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        let mut client = Client::open_within(address, TIMEOUT)?;
        for setting in SETTINGS {
            client.execute(&format!("SET {setting}"))?;
        }
        Ok(Self {
            client,
            prepared: HashMap::new(),
            text: Vec::new(),
            ends: Vec::new(),
        })
    }

    pub(super) fn execute(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.client
            .execute(sql)
            .map_err(|error| failed(&self.client, error))
    }

    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        let number = self.prepared.len();
        let statement = match self.prepared.entry((sql.as_ptr().addr(), sql.len())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let name = format!("s{number}");
                let columns = self.client.prepare(&name, &sql.replace('?', "$"))?;
                new.insert(Statement { name, columns })
            }
        };
        self.text.clear();
        self.ends.clear();
        for value in values {
            match value {
                Value::Int(number) => int(*number, &mut self.text),
                Value::Text(text) => self.text.extend_from_slice(text.as_bytes()),
            }
            self.ends.push(self.text.len());
        }
        let (text, ends) = (&self.text, &self.ends);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let values = starts.zip(ends).map(|(start, end)| &text[start..*end]);
        let mut rows = Vec::new();
        self.client
            .execute_prepared(&statement.name, values, statement.columns, |values| {
                rows.push(Row::of_texts(values));
            })
            .map_err(|error| failed(&self.client, error))?;
        Ok(rows)
    }

    /// Executes a text without placeholders.
    pub(super) fn query_text(&mut self, sql: &str) -> Result<Vec<Row>, DatabaseError> {
        let mut rows = Vec::new();
        self.client
            .rows(sql, |values| rows.push(Row::of_texts(values)))
            .map_err(|error| failed(&self.client, error))?;
        Ok(rows)
    }

    /// Copies rows into tables. False: one of them exists, and none was inserted.
    pub(super) fn copy(&mut self, copies: &[(&Copy, &[Vec<Value<'_>>])]) -> Result<bool, DatabaseError> {
        self.client.execute("SAVEPOINT copied")?;
        for (copy, keys) in copies {
            let Copy { table, columns, .. } = copy;
            self.client
                .copy(&format!("COPY {table} ({columns}) FROM STDIN"))?;
            self.text.clear();
            for key in *keys {
                put(copy, key, &mut self.text);
            }
            let sent = self
                .client
                .copy_data(&self.text)
                .and_then(|()| self.client.copy_done());
            // A large text is not kept.
            self.text = Vec::new();
            match sent {
                Ok(()) => {}
                Err(_) if code(&self.client) == UNIQUE_VIOLATION => {
                    self.client.execute("ROLLBACK TO SAVEPOINT copied")?;
                    self.client.execute("RELEASE SAVEPOINT copied")?;
                    return Ok(false);
                }
                Err(error) => return Err(failed(&self.client, error)),
            }
        }
        self.client.execute("RELEASE SAVEPOINT copied")?;
        Ok(true)
    }
}

/// SQLSTATE of the error that the server reported; empty if there was none.
fn code(client: &Client) -> &str {
    client.refusal().map_or("", |refusal| &refusal.code)
}

fn failed(client: &Client, error: ServiceError) -> DatabaseError {
    match code(client) {
        DEADLOCK => DatabaseError::Deadlock,
        LOCK_NOT_AVAILABLE => DatabaseError::Busy,
        _ => error.into(),
    }
}

fn int(number: i64, text: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(text, "{number}");
}

/// Appends a row in the text format of `COPY`.
fn put(copy: &Copy, key: &[Value<'_>], rows: &mut Vec<u8>) {
    for (index, place) in copy.places.iter().enumerate() {
        if index > 0 {
            rows.push(b'\t');
        }
        match key[*place] {
            Value::Int(number) => int(number, rows),
            Value::Text(text) => escape(rows, text.as_bytes()),
        }
    }
    rows.extend_from_slice(copy.constants.as_bytes());
    rows.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_values_of_its_key_and_the_constants() {
        let copy = Copy {
            table: "t",
            columns: "a, b, c, d",
            places: &[1, 0, 0],
            constants: "\t-",
        };
        let mut rows = Vec::new();
        put(&copy, &[Value::Int(-7), Value::Text("a\tb")], &mut rows);
        assert_eq!(rows, b"a\\tb\t-7\t-7\t-\n");
    }
}
