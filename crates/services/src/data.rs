//! Seeded tables for `SQLite`: the data that the gateway serves and that drivers query.
//!
//! A table is `CREATE TABLE name (id INTEGER PRIMARY KEY, string TEXT NOT NULL)`. Every `string` has exactly `row` bytes:
//! random bytes, then a filler. How many are random is calibrated, so that zlib at level 5 saves the share asked for on
//! the strings put one after the other. (Base64 and the framing of a protocol come on top, and are not counted.)
//!
//! Printable text cannot save less than about 18 %: its 95 characters hold 6.6 bits in each byte. Below 20 % the strings
//! are therefore random bytes of all values, stored as blobs; from 20 % on they are text.

use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, params};
use serde::{Deserialize, Serialize};

use crate::ServiceError;

/// Bytes that the calibration looks at: eight windows of zlib.
const SAMPLE: usize = 256 * 1024;
/// Greatest length of a string, bytes.
const MAX_ROW: usize = 16_000_000;
/// Below this many percent, strings are bytes and not text.
const TEXT_FROM: f64 = 20.0;

/// What to write into one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The `SQLite` file; made if absent. Its other tables stay.
    pub database: PathBuf,
    /// Written in order; one that exists is replaced.
    pub tables: Vec<TableConfig>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// Letters, digits and `_`, not beginning with a digit, at most 64.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of each string, 1 to 16,000,000.
    pub row: usize,
    /// Percent of the bytes that zlib level 5 saves, 0 to 95; hit within 3.
    #[serde(default)]
    pub compressibility: f64,
    /// The same seed makes the same table.
    #[serde(default)]
    pub seed: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableReport {
    /// Name of the table.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// Bytes of all strings.
    pub bytes: u64,
    /// Percent saved by zlib level 5 on the calibration's sample.
    pub saved_percent: f64,
    /// `text` or `blob`.
    pub kind: &'static str,
}

/// Writes all tables, each in one transaction.
pub fn write(config: &DataConfig) -> Result<Vec<TableReport>, ServiceError> {
    for table in &config.tables {
        check(table)?;
    }
    let database = |source| ServiceError::Database {
        what: format!("cannot write the database {}", config.database.display()),
        source,
    };
    let mut connection = Connection::open_with_flags(
        &config.database,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(database)?;
    config
        .tables
        .iter()
        .map(|table| write_table(&mut connection, table).map_err(database))
        .collect()
}

fn check(table: &TableConfig) -> Result<(), ServiceError> {
    let wrong = |key, why: String| Err(ServiceError::Config { key, why });
    let name = table.name.as_bytes();
    let letters = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if !letters || name.len() > 64 || name.first().is_none_or(u8::is_ascii_digit) {
        return wrong(
            "name",
            format!("letters, digits and _, at most 64, not {:?}", table.name),
        );
    }
    if !(1..=MAX_ROW).contains(&table.row) {
        return wrong("row", format!("1 to {MAX_ROW} bytes, not {}", table.row));
    }
    if !(0.0..=95.0).contains(&table.compressibility) {
        return wrong(
            "compressibility",
            format!("0 to 95 percent, not {}", table.compressibility),
        );
    }
    Ok(())
}

fn write_table(connection: &mut Connection, table: &TableConfig) -> rusqlite::Result<TableReport> {
    let (mut strings, saved_percent) = calibrate(table);
    let transaction = connection.transaction()?;
    transaction.execute_batch(&format!(
        "DROP TABLE IF EXISTS \"{0}\"; CREATE TABLE \"{0}\" (id INTEGER PRIMARY KEY, string TEXT NOT NULL)",
        table.name
    ))?;
    let mut string = vec![0; table.row];
    {
        let mut insert = transaction.prepare(&format!("INSERT INTO \"{}\" VALUES (?1, ?2)", table.name))?;
        for id in 1..=table.rows {
            strings.fill(&mut string);
            let value = if strings.text {
                ValueRef::Text(&string)
            } else {
                ValueRef::Blob(&string)
            };
            insert.execute(params![id as i64, ToSqlOutput::Borrowed(value)])?;
        }
    }
    transaction.commit()?;
    Ok(TableReport {
        name: table.name.clone(),
        rows: table.rows,
        bytes: table.rows * table.row as u64,
        saved_percent,
        kind: if strings.text { "text" } else { "blob" },
    })
}

/// Makes strings: `random` bytes on average, then filler.
#[derive(Debug, Clone)]
struct Strings {
    rng: Pcg64,
    random: f64,
    text: bool,
}

impl Strings {
    fn fill(&mut self, string: &mut [u8]) {
        // A fraction of a byte is a byte in that fraction of the rows.
        let more = self.rng.random::<f64>() < self.random.fract();
        let random = (self.random as usize + usize::from(more)).min(string.len());
        let (head, filler) = string.split_at_mut(random);
        if self.text {
            head.fill_with(|| self.rng.random_range(b' '..=b'~'));
        } else {
            self.rng.fill(head);
        }
        filler.fill(b'x');
    }
}

/// Finds, by bisection, how many bytes of a row must be random; returns the generator at its start and what was saved.
fn calibrate(table: &TableConfig) -> (Strings, f64) {
    let text = table.compressibility >= TEXT_FROM;
    let start = Strings {
        rng: Pcg64::seed_from_u64(table.seed),
        random: 0.0,
        text,
    };
    let rows = (SAMPLE / table.row).clamp(1, usize::try_from(table.rows).unwrap_or(usize::MAX).max(1));
    let mut sample = vec![0; rows * table.row];
    let mut saved = |random: f64| {
        let mut strings = Strings {
            random,
            ..start.clone()
        };
        sample
            .chunks_exact_mut(table.row)
            .for_each(|string| strings.fill(string));
        saved_percent(&sample)
    };
    let (mut low, mut high) = (0.0, table.row as f64);
    let mut best = (high, saved(high));
    // 16 halvings settle a row of 100 bytes to 0.002 of a byte; a row of megabytes to well below a point.
    for _ in 0..16 {
        let middle = f64::midpoint(low, high);
        let found = saved(middle);
        if (found - table.compressibility).abs() < (best.1 - table.compressibility).abs() {
            best = (middle, found);
        }
        if (best.1 - table.compressibility).abs() < 0.2 {
            break;
        }
        if found > table.compressibility {
            low = middle;
        } else {
            high = middle;
        }
    }
    (
        Strings {
            random: best.0,
            ..start
        },
        best.1,
    )
}

/// Percent of the bytes that zlib level 5 saves; negative where it adds some.
fn saved_percent(bytes: &[u8]) -> f64 {
    let mut zlib = ZlibEncoder::new(Vec::with_capacity(bytes.len()), Compression::new(5));
    // Writing to a Vec cannot fail.
    let packed = zlib
        .write_all(bytes)
        .and_then(|()| zlib.finish())
        .unwrap_or_default();
    100.0 * (1.0 - packed.len() as f64 / bytes.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: u64, row: usize, compressibility: f64) -> TableConfig {
        TableConfig {
            name: "t_string".into(),
            rows,
            row,
            compressibility,
            seed: 1,
        }
    }

    #[test]
    fn every_compressibility_is_hit_within_three_points() {
        for row in [10, 100, 1000, 300_000] {
            for percent in [0.0, 5.0, 10.0, 19.0, 20.0, 30.0, 50.0, 70.0, 90.0, 95.0] {
                let table = table(1 << 20, row, percent);
                let (mut strings, _) = calibrate(&table);
                let mut rows = vec![0; (1 << 20) / row * row];
                strings.rng = Pcg64::seed_from_u64(99); // other rows than the calibration saw
                rows.chunks_exact_mut(row).for_each(|string| strings.fill(string));
                let saved = saved_percent(&rows);
                assert!(
                    (saved - percent).abs() < 3.0,
                    "row {row}: {percent} asked, {saved} saved"
                );
                assert_eq!(strings.text, percent >= 20.0);
                assert!(!strings.text || rows.iter().all(|b| (b' '..=b'~').contains(b)));
            }
        }
    }

    #[test]
    fn wrong_tables_are_refused() {
        for wrong in [
            TableConfig {
                name: "1t".into(),
                ..table(1, 1, 0.0)
            },
            TableConfig {
                name: "t; DROP".into(),
                ..table(1, 1, 0.0)
            },
            TableConfig {
                name: String::new(),
                ..table(1, 1, 0.0)
            },
            table(1, 0, 0.0),
            table(1, 1, 96.0),
            table(1, 1, f64::NAN),
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
