//! A session with `PostgreSQL`. Statements are prepared when they are first used.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll_wire::sql::Address;

use super::{Cell, DatabaseError, Row, Value};
use crate::ServiceError;
use crate::data::Client;

/// Maximum time for the server to respond.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(in crate::catalogue) struct Postgres {
    client: Client,
    /// Numbers of the prepared statements, by their texts.
    prepared: HashMap<&'static str, usize>,
    text: String,
}

impl Postgres {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        let mut client = Client::open_within(address, TIMEOUT)?;
        client.execute("SET standard_conforming_strings = on")?;
        client.execute("SET client_encoding = 'UTF8'")?;
        Ok(Self {
            client,
            prepared: HashMap::new(),
            text: String::new(),
        })
    }

    pub(super) fn execute(&mut self, sql: &str) -> Result<(), DatabaseError> {
        Ok(self.client.execute(sql)?)
    }

    pub(super) fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        let next = self.prepared.len();
        let number = if let Some(number) = self.prepared.get(sql) {
            *number
        } else {
            let text = sql.replace('?', "$");
            self.client.execute(&format!("PREPARE s{next} AS {text}"))?;
            self.prepared.insert(sql, next);
            next
        };
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.push_str("EXECUTE s");
        text.push_str(&number.to_string());
        for (index, value) in values.iter().enumerate() {
            text.push(if index == 0 { '(' } else { ',' });
            value.write(&mut text);
        }
        if !values.is_empty() {
            text.push(')');
        }
        let rows = self.query_text(&text);
        self.text = text;
        rows
    }

    /// Executes a text without placeholders.
    pub(super) fn query_text(&mut self, sql: &str) -> Result<Vec<Row>, DatabaseError> {
        let mut rows = Vec::new();
        self.client.rows(sql, |values| {
            let cells = values.map(|value| match value {
                Some(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                None => Cell::Null,
            });
            rows.push(Row(cells.collect()));
        })?;
        Ok(rows)
    }
}
