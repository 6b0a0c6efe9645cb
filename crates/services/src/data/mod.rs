//! Tables with random content: the data that the gateway serves and that drivers query, in
//! `SQLite`, `PostgreSQL` or `MariaDB`.
//!
//! The same configuration writes the same rows to each of these databases. Rows are generated and
//! sent one after the other, so the memory in use does not depend on their number. A table is
//! written completely or not at all. An existing table is replaced.
//!
//! | set | description |
//! |---|---|
//! | [`table`] | one table of random strings, and of other types if configured |
//! | [`cool`] | a conditions database with the layout of COOL: folders, channels, intervals, tags |
//! | [`conddb`] | a conditions database with the layout of CMS and CREST: payloads by hash |
//! | [`catalogue`] | a file catalogue with the layout of LFC: directories, entries, replicas |

pub mod catalogue;
pub mod conddb;
pub mod cool;
pub mod table;

mod columns;
mod out;
mod strings;
mod writer;

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

pub use catalogue::CatalogueConfig;
pub use columns::Type;
pub use conddb::CondDbConfig;
pub use cool::{CoolConfig, Versioning};
pub use table::TableConfig;
pub(crate) use writer::{Client, escape};

use crate::ServiceError;

/// The tables to write to one database.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Path of an `SQLite` file, which is created if it does not exist; or the URL of an existing
    /// database, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` or `mysql://...`. Other tables of
    /// the database are not changed.
    pub database: PathBuf,
    /// The tables, in the order in which they are written.
    pub tables: Vec<DataSet>,
}

impl std::fmt::Debug for DataConfig {
    /// Formats without the database, whose URL may contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataConfig")
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// One table or a group of related tables. The key `kind` selects the variant; the default is
/// `table`.
#[derive(Debug, Clone, PartialEq)]
pub enum DataSet {
    /// `kind: table`: tables of random values.
    Table(TableConfig),
    /// `kind: cool`: the tables of a conditions database.
    Cool(CoolConfig),
    /// `kind: conddb`: the tables of a conditions database with payloads by hash.
    CondDb(CondDbConfig),
    /// `kind: catalogue`: the tables of a file catalogue.
    Catalogue(CatalogueConfig),
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
            Some(Some("conddb")) => serde_json::from_value(value).map(Self::CondDb),
            Some(Some("catalogue")) => serde_json::from_value(value).map(Self::Catalogue),
            Some(_) => {
                return Err(D::Error::custom(
                    "kind: expected \"table\", \"cool\", \"conddb\" or \"catalogue\"",
                ));
            }
        }
        .map_err(D::Error::custom)
    }
}

/// Report on one table that was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableReport {
    /// Name of the table.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Total length in bytes of all strings of its payload.
    pub bytes: u64,
    /// Share of the bytes that zlib level 5 saves in the sample of the calibration, in percent.
    pub saved_percent: f64,
    /// Type of the strings: `text`, `blob`, or `none` without strings.
    pub kind: &'static str,
}

/// Writes all sets, each table in one transaction.
pub fn write(config: &DataConfig) -> Result<Vec<TableReport>, ServiceError> {
    for set in &config.tables {
        match set {
            DataSet::Table(table) => table.check()?,
            DataSet::Cool(cool) => cool.check()?,
            DataSet::CondDb(conditions) => conditions.check()?,
            DataSet::Catalogue(catalogue) => catalogue.check()?,
        }
    }
    let mut writer = writer::open(&config.database)?;
    let mut reports = Vec::new();
    for set in &config.tables {
        match set {
            DataSet::Table(table) => reports.extend(table.write(writer.as_mut())?),
            DataSet::Cool(cool) => reports.extend(cool.write(writer.as_mut())?),
            DataSet::CondDb(conditions) => reports.extend(conditions.write(writer.as_mut())?),
            DataSet::Catalogue(catalogue) => reports.extend(catalogue.write(writer.as_mut())?),
        }
    }
    Ok(reports)
}

/// Whether a name needs no quotation marks: 1 to 64 letters, digits and `_`, without a digit at the
/// beginning.
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
    fn the_key_kind_selects_the_set() {
        let config: DataConfig = serde_json::from_str(
            r#"{"database": "x", "tables": [
                {"name": "t", "rows": 5, "row": 10},
                {"kind": "table", "name": "u", "rows": 5, "row": 10, "columns": 3, "types": ["int", "text"]},
                {"kind": "cool", "prefix": "P", "folders": 1, "channels": 2, "iovs": 3, "payload": 10},
                {"kind": "conddb", "tags": 2, "iovs": 3, "payload": 10},
                {"kind": "catalogue", "entries": 5}]}"#,
        )
        .unwrap();
        assert!(matches!(config.tables[0], DataSet::Table(_)));
        assert!(matches!(config.tables[2], DataSet::Cool(_)));
        assert!(matches!(config.tables[3], DataSet::CondDb(_)));
        assert!(matches!(config.tables[4], DataSet::Catalogue(_)));
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
