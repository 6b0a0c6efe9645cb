//! Seeded tables: the data that the gateway serves and that drivers query, in `SQLite`,
//! `PostgreSQL` or `MariaDB`.
//!
//! The same configuration writes the same rows into each of them. Rows are made and sent one after
//! the other: memory does not depend on their number. A table is there completely or not at all,
//! and one that exists is replaced.
//!
//! | set | what it is |
//! |---|---|
//! | [`table`] | one table of random strings, and of other types where asked for |
//! | [`cool`] | a conditions database as COOL lays it out: folders, channels, intervals of validity, tags |

pub mod cool;
pub mod table;

mod strings;
mod writer;

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

pub use cool::{CoolConfig, Versioning};
pub use table::{TableConfig, Type};

use crate::ServiceError;

/// What to write into one database.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// An `SQLite` file, made if absent; or a URL, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
    /// or `mysql://...`, of a database that exists. Its other tables stay.
    pub database: PathBuf,
    /// Written in order.
    pub tables: Vec<DataSet>,
}

impl std::fmt::Debug for DataConfig {
    /// Without the database, whose URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataConfig")
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// One table, or several that belong together: by `kind`, `table` where absent.
#[derive(Debug, Clone, PartialEq)]
pub enum DataSet {
    /// `table`
    Table(TableConfig),
    /// `cool`
    Cool(CoolConfig),
}

impl From<TableConfig> for DataSet {
    fn from(table: TableConfig) -> Self {
        Self::Table(table)
    }
}

impl<'de> Deserialize<'de> for DataSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = serde_json::Value::deserialize(deserializer)?;
        let kind = value.as_object_mut().and_then(|set| set.remove("kind"));
        match kind.as_ref().map(|kind| kind.as_str()) {
            None | Some(Some("table")) => serde_json::from_value(value).map(Self::Table),
            Some(Some("cool")) => serde_json::from_value(value).map(Self::Cool),
            Some(_) => return Err(D::Error::custom("kind: table or cool")),
        }
        .map_err(D::Error::custom)
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableReport {
    /// Name of the table.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// Bytes of all strings of its payload.
    pub bytes: u64,
    /// Percent saved by zlib level 5 on the calibration's sample of them.
    pub saved_percent: f64,
    /// `text` or `blob`: the type of the strings.
    pub kind: &'static str,
}

/// Writes all sets, each table in one transaction.
pub fn write(config: &DataConfig) -> Result<Vec<TableReport>, ServiceError> {
    for set in &config.tables {
        match set {
            DataSet::Table(table) => table.check()?,
            DataSet::Cool(cool) => cool.check()?,
        }
    }
    let mut writer = writer::open(&config.database)?;
    let mut reports = Vec::new();
    for set in &config.tables {
        match set {
            DataSet::Table(table) => reports.extend(table.write(writer.as_mut())?),
            DataSet::Cool(cool) => reports.extend(cool.write(writer.as_mut())?),
        }
    }
    Ok(reports)
}

/// Letters, digits and `_`, not beginning with a digit, at most 64: a name that needs no quotation
/// marks.
fn is_name(name: &str) -> bool {
    let name = name.as_bytes();
    name.len() <= 64
        && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && !name.first().is_none_or(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_told_apart_by_kind() {
        let config: DataConfig = serde_json::from_str(
            r#"{"database": "x", "tables": [
                {"name": "t", "rows": 5, "row": 10},
                {"kind": "table", "name": "u", "rows": 5, "row": 10, "columns": 3, "types": ["int", "text"]},
                {"kind": "cool", "prefix": "P", "folders": 1, "channels": 2, "iovs": 3, "payload": 10}]}"#,
        )
        .unwrap();
        assert!(matches!(config.tables[0], DataSet::Table(_)));
        assert!(matches!(config.tables[2], DataSet::Cool(_)));
        for wrong in [
            r#"{"kind": "other"}"#,
            r#"{"kind": 7}"#,
            r#"{"name": "t", "rows": 5, "row": 10, "colums": 3}"#,
            r#"{"kind": "cool", "prefix": "P", "rows": 1}"#,
            "5",
        ] {
            assert!(serde_json::from_str::<DataSet>(wrong).is_err(), "{wrong}");
        }
    }
}
